//! Subscribers that do not keep up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mizzle::{Engine, Lag, Query, QueryHandle, SharedSource, Status, WhenFull, source};

use super::{GUARD, Gate, at, completed, engine, eventually, over};

const EVENTS: i64 = 5_000;
const LIMIT: usize = 100;

fn limited(engine: &Engine) -> SharedSource<i64> {
    let numbers = source::from_iter(0..EVENTS, |&n| at(n));
    engine.shared_source("numbers", numbers).lag_limit(LIMIT).open().unwrap()
}

/// As `limited`, but after the first events the source waits until `arrived` is open.
fn limited_until(engine: &Engine, arrived: &Gate) -> SharedSource<i64> {
    let arrived = arrived.clone();
    let numbers = (0..EVENTS).inspect(move |&n| {
        if n == 20 {
            arrived.pass();
        }
    });
    let numbers = source::from_iter(numbers, |&n| at(n));
    engine.shared_source("numbers", numbers).lag_limit(LIMIT).open().unwrap()
}

/// A query on everything or on the one key there is, whose function opens one gate and waits at
/// another.
fn held_up(
    engine: &Engine,
    numbers: &SharedSource<i64>,
    arrived: &Gate,
    on_key: bool,
    lag: Lag,
) -> (QueryHandle, super::Seen, Gate) {
    let (query, gate, seen) = (Query::new("held up"), Gate::default(), super::Seen::default());
    let (arrived, passed, notes) = (arrived.clone(), gate.clone(), seen.clone());
    let look = move |event: mizzle::Event<i64>| {
        arrived.open();
        passed.pass();
        notes.lock().unwrap().push(event.value);
    };
    if on_key {
        query.subscribe(&numbers.key_by(|_| ()).at(())).when_lagging(lag).for_each(look);
    } else {
        query.subscribe(numbers).when_lagging(lag).for_each(look);
    }
    (engine.submit(query).unwrap(), seen, gate)
}

/// A query that keeps up, since the source waits for it.
fn counting(engine: &Engine, numbers: &SharedSource<i64>) -> (QueryHandle, Arc<AtomicUsize>) {
    let (query, seen) = (Query::new("counting"), Arc::new(AtomicUsize::new(0)));
    let counter = seen.clone();
    query.subscribe(numbers).when_lagging(Lag::Wait).for_each(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    (engine.submit(query).unwrap(), seen)
}

#[test]
fn who_lags_behind_fails_alone_and_says_why() {
    for on_key in [false, true] {
        let engine = engine(3, 16);
        let arrived = Gate::default();
        let numbers = limited_until(&engine, &arrived);
        let (query, _, gate) = held_up(&engine, &numbers, &arrived, on_key, Lag::Fail);
        let (other, seen) = counting(&engine, &numbers);
        numbers.start();
        // To the end, while the one is held up in its function.
        completed(&other);
        assert_eq!(seen.load(Ordering::Relaxed) as i64, EVENTS);
        assert_eq!(numbers.wait(), Status::Completed);
        assert_eq!(numbers.stats().held, 0);
        assert_eq!(query.status(), Status::Cancelling);
        gate.open();
        let Status::Failed(failure) = over(&query) else { panic!("{:?}", query.status()) };
        assert_eq!(failure.operator, "numbers");
        assert!(failure.location.contains("lag.rs"), "{failure}");
        let message = format!(
            "query \"held up\" ({}) is 100 events behind the shared source \"numbers\", which is its \
             lag limit",
            query.id()
        );
        assert_eq!(failure.message, message);
    }
}

#[test]
fn who_skips_counts_what_it_lost() {
    for on_key in [false, true] {
        let engine = engine(3, 16);
        let arrived = Gate::default();
        let numbers = limited_until(&engine, &arrived);
        let (query, seen, gate) = held_up(&engine, &numbers, &arrived, on_key, Lag::Drop);
        let (other, all) = counting(&engine, &numbers);
        numbers.start();
        completed(&other);
        assert_eq!(all.load(Ordering::Relaxed) as i64, EVENTS);
        let [stuck] = numbers.subscribers().try_into().unwrap();
        assert_eq!((stuck.query, stuck.policy, stuck.on_key), (query.id(), Lag::Drop, on_key));
        assert!(stuck.lag <= LIMIT + 16, "{stuck:?}");
        assert_eq!(stuck.seen + stuck.lost + stuck.lag as u64, EVENTS as u64, "{stuck:?}");
        assert!(stuck.state.starts_with("running"), "{stuck:?}");
        gate.open();
        completed(&query);
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted() && seen.last() == Some(&(EVENTS - 1)));
        assert_eq!(seen.len() as u64 + stuck.lost, EVENTS as u64);
        assert_eq!(query.chains()[0].stats.lost, stuck.lost);
        assert_eq!(numbers.stats().lost, stuck.lost);
    }
}

#[test]
fn a_source_can_wait_for_its_subscriber() {
    for on_key in [false, true] {
        let engine = engine(3, 16);
        let arrived = Gate::default();
        let numbers = limited_until(&engine, &arrived);
        let (query, seen, gate) = held_up(&engine, &numbers, &arrived, on_key, Lag::Wait);
        numbers.start();
        eventually("a full log", || numbers.subscribers()[0].lag >= LIMIT);
        eventually("a source that waits", || {
            numbers.query().chains()[0].state == "waiting for room"
        });
        let published = numbers.stats().events as usize;
        assert!(published <= LIMIT + 3 * 16, "{published}");
        gate.open();
        completed(&query);
        assert!(seen.lock().unwrap().iter().copied().eq(0..EVENTS));
    }
}

#[test]
fn a_slow_chain_behind_the_first_lags_too() {
    let builder = Engine::builder().workers(2).batch(16).inbox_capacity(64);
    let engine = builder.build().unwrap();
    let numbers = limited(&engine);
    let query = Query::new("full");
    let stuck = query.subscribe(&numbers).map(|n| n).channel(1, WhenFull::Wait);
    let query = engine.submit(query).unwrap();
    let (other, _) = counting(&engine, &numbers);
    numbers.start();
    completed(&other);
    assert!(matches!(over(&query), Status::Failed(_)));
    drop(stuck);
}

/// EN-02: a stuck sink on a shared source, by policy.
#[test]
fn en_02_stuck_sink_on_a_shared_source_stops_its_own_query_only() {
    for lag in [Lag::Fail, Lag::Drop] {
        let engine = engine(2, 64);
        let numbers = limited(&engine);
        let query = Query::new("stuck");
        let stuck = query.subscribe(&numbers).when_lagging(lag).channel(1, WhenFull::Wait);
        let query = engine.submit(query).unwrap();
        let (other, seen) = counting(&engine, &numbers);
        numbers.start();
        completed(&other);
        assert_eq!(seen.load(Ordering::Relaxed) as i64, EVENTS);
        if lag == Lag::Drop {
            assert!(numbers.stats().lost > 0 && numbers.stats().held <= LIMIT + 64);
            assert_eq!(query.status(), Status::Running);
        } else {
            assert!(matches!(over(&query), Status::Failed(_)));
            assert_eq!(numbers.stats().held, 0);
        }
        drop(stuck);
    }
}

/// EN-02, with a source that waits: the stall shows who it is.
#[test]
fn en_02_source_that_waits_shows_for_whom() {
    let engine = engine(2, 64);
    let numbers = limited(&engine);
    let query = Query::new("stuck");
    let stuck = query.subscribe(&numbers).when_lagging(Lag::Wait).channel(1, WhenFull::Wait);
    let query = engine.submit(query).unwrap();
    let (other, seen) = counting(&engine, &numbers);
    numbers.start();
    eventually("a source that waits", || numbers.query().chains()[0].state == "waiting for room");
    // For a moment it may be the other that lags.
    eventually("the one that lags for good", || {
        let listed = numbers.subscribers();
        let slowest = listed.iter().max_by_key(|subscriber| subscriber.lag).unwrap();
        (slowest.name.as_str(), slowest.state) == ("stuck", "waiting for room")
            && seen.load(Ordering::Relaxed) as u64 == numbers.stats().events
    });
    // Cancelling it lets the source go on.
    query.cancel();
    completed(&other);
    assert_eq!(seen.load(Ordering::Relaxed) as i64, EVENTS);
    drop(stuck);
}

/// EN-03: a query whose function is stuck is removed, and another comes, while the rest goes on.
#[test]
fn en_03_removing_a_stuck_subscriber_holds_nobody_up() {
    for on_key in [false, true] {
        for lag in [Lag::Wait, Lag::Fail] {
            let engine = engine(3, 16);
            let arrived = Gate::default();
            let numbers = limited_until(&engine, &arrived);
            let (stuck, _, gate) = held_up(&engine, &numbers, &arrived, on_key, lag);
            let (other, seen) = counting(&engine, &numbers);
            numbers.start();
            eventually("a stuck query", || match numbers.subscribers().first() {
                Some(first) => first.query != stuck.id() || first.lag >= LIMIT,
                None => true,
            });
            // At once, though its function has not returned.
            stuck.cancel();
            assert!(numbers.subscribers().iter().all(|it| it.query != stuck.id()));
            completed(&other);
            assert_eq!(seen.load(Ordering::Relaxed) as i64, EVENTS);
            assert_eq!(numbers.stats().held, 0);
            assert_eq!(stuck.status(), Status::Cancelling);
            gate.open();
            assert!(stuck.wait_timeout(GUARD).is_over());
        }
    }
}
