//! Many subscribers, which come and go.

use mizzle::{Query, Status, source};

use super::{at, completed, engine, eventually, noting, numbers, over};
use crate::faults::{alone, budget, resident};

#[test]
fn everybody_sees_everything_in_order() {
    for (workers, batch) in [(1, 1_024), (2, 7), (3, 100), (4, 1)] {
        let engine = engine(workers, batch);
        let numbers = numbers(&engine, 2_000);
        let subscribers: Vec<_> = (0..40).map(|_| noting(&engine, &numbers)).collect();
        numbers.start();
        for (query, seen) in subscribers {
            completed(&query);
            assert!(seen.lock().unwrap().iter().copied().eq(0..2_000));
        }
        assert_eq!(numbers.wait(), Status::Completed);
        let stats = numbers.stats();
        assert_eq!((stats.events, stats.held, stats.lost), (2_000, 0, 0));
        assert!(numbers.subscribers().is_empty());
    }
}

#[test]
fn nothing_is_read_before_the_start() {
    let engine = engine(2, 16);
    let (push, pushed) = engine.shared_push_source("pushed", |&n: &i64| at(n));
    let pushed = pushed.open().unwrap();
    (0..10).for_each(|n| push.push(n).unwrap());
    let (query, seen) = noting(&engine, &pushed);
    assert_eq!(pushed.stats().events, 0);
    pushed.start();
    drop(push);
    completed(&query);
    assert!(seen.lock().unwrap().iter().copied().eq(0..10));
}

#[test]
fn a_source_that_was_never_started_can_be_ended() {
    let engine = engine(2, 16);
    for (end, expected) in [
        (super::SharedSource::drain as fn(&_), Status::Completed),
        (super::SharedSource::stop, Status::Stopped),
        (super::SharedSource::cancel, Status::Cancelled),
    ] {
        let numbers = numbers(&engine, 10);
        let (query, seen) = noting(&engine, &numbers);
        end(&numbers);
        completed(&query);
        assert_eq!(numbers.wait(), expected);
        assert!(seen.lock().unwrap().is_empty());
    }
}

#[test]
fn who_joins_late_sees_all_from_then_on() {
    for workers in 1..=4 {
        let engine = engine(workers, 16);
        let (push, pushed) = engine.shared_push_source("pushed", |&n: &i64| at(n));
        let pushed = pushed.open().unwrap();
        pushed.start();
        let (whole, all) = noting(&engine, &pushed);
        let mut joined = Vec::new();
        for n in 0..3_000 {
            push.push(n).unwrap();
            if n % 100 == 99 {
                joined.push((n + 1, noting(&engine, &pushed)));
            }
            if n % 250 == 0
                && let Some((_, (query, _))) = joined.get(n as usize / 250)
            {
                query.cancel();
            }
        }
        drop(push);
        completed(&whole);
        assert!(all.lock().unwrap().iter().copied().eq(0..3_000));
        for (from, (query, seen)) in joined {
            let (status, seen) = (over(&query), seen.lock().unwrap());
            // It may have joined ahead of what was still in the source's inbox.
            let first = seen.first().copied().unwrap_or(from);
            assert!(first <= from, "joined at {from}, saw {first} first");
            assert!(seen.iter().copied().eq(first..first + seen.len() as i64));
            if status == Status::Completed {
                assert_eq!(first + seen.len() as i64, 3_000);
            }
        }
        assert_eq!(pushed.stats().held, 0);
    }
}

#[test]
fn subscribers_are_listed_with_what_they_have_seen() {
    let engine = engine(2, 16);
    let (push, pushed) = engine.shared_push_source("pushed", |&n: &i64| at(n));
    let pushed = pushed.open().unwrap();
    pushed.start();
    let (whole, _) = noting(&engine, &pushed);
    let even = Query::new("even");
    even.subscribe(&pushed.key_by(|n| n % 2).at(0)).for_each(|_| ());
    let even = engine.submit(even).unwrap();
    (0..100).for_each(|n| push.push(n).unwrap());
    eventually("the last event", || {
        pushed.subscribers().iter().map(|subscriber| subscriber.seen).sum::<u64>() == 150
    });
    let listed = pushed.subscribers();
    let of =
        |n: usize| (listed[n].query, listed[n].name.as_str(), listed[n].on_key, listed[n].seen);
    assert_eq!(of(0), (whole.id(), "noting", false, 100));
    assert_eq!(of(1), (even.id(), "even", true, 50));
    assert!(listed.iter().all(|it| (it.lost, it.lag) == (0, 0)));
    even.cancel();
    over(&even);
    assert_eq!(pushed.subscribers().len(), 1);
}

/// EN-01: thousands of small queries on one source; none misses an event.
#[test]
fn en_01_many_small_queries_on_one_source_see_every_event() {
    let (queries, events) = (budget(1_000, 3_000), budget(2_000, 6_000) as i64);
    let engine = engine(4, 100);
    let numbers = numbers(&engine, events);
    let running: Vec<_> = (0..queries)
        .map(|_| {
            let query = Query::new("small");
            let even =
                query.subscribe(&numbers).filter(|n| n % 2 == 0).apply_stateful(0, |n, _| {
                    *n += 1;
                    *n
                });
            (even.collect(), engine.submit(query).unwrap())
        })
        .collect();
    numbers.start();
    for (counts, query) in running {
        completed(&query);
        assert!(counts.values().into_iter().eq(1..=events / 2));
    }
}

/// LC-01: what comes and goes leaves nothing behind, neither in a log that runs nor in an index.
#[test]
fn lc_01_subscribing_and_leaving_leaves_no_memory_behind() {
    alone("shared_sources::many::lc_01_subscribing_and_leaving_leaves_no_memory_behind", || {
        let engine = engine(2, 64);
        let (push, pushed) = engine.shared_push_source("pushed", |&n: &i64| at(n));
        let pushed = pushed.open().unwrap();
        pushed.start();
        let by_rest = pushed.key_by(|n| n % 8);
        let mut cycle = |number: i64| {
            let query = Query::new(format!("query {number}"));
            if number % 2 == 0 {
                query.subscribe(&pushed).reduce(|a, _| a).for_each(|_| ());
            } else {
                let key = by_rest.at(number % 8);
                let windows = mizzle::Windows::tumbling(std::time::Duration::from_secs(3_600));
                let counts = query.subscribe(&key).key_by(|n| n % 3).window(windows);
                counts.aggregate(mizzle::aggregate::count()).for_each(|_| ());
            }
            let query = engine.submit(query).unwrap();
            (0..10).for_each(|n| push.push(number * 10 + n).unwrap());
            query.cancel();
            assert_eq!(over(&query), Status::Cancelled);
        };
        (0..5_000).for_each(&mut cycle);
        let before = resident();
        (5_000..25_000).for_each(&mut cycle);
        if let (Some(before), Some(after)) = (before, resident()) {
            let grown = after.saturating_sub(before);
            assert!(grown < 3 << 20, "20,000 cycles left {grown} bytes behind");
        }
        assert!(pushed.subscribers().is_empty());
        assert_eq!(engine.queries().len(), 1);
    });
}

#[test]
fn queries_of_the_same_lines_share_a_plan() {
    let engine = engine(4, 64);
    let numbers = numbers(&engine, 10);
    let by_rest = numbers.key_by(|n| n % 8);
    let plans: Vec<_> = (0..3)
        .map(|key| {
            let query = Query::new("on a key");
            query.subscribe(&by_rest.at(key)).map(|n| n + 1).for_each(|_| ());
            engine.submit(query).unwrap()
        })
        .collect();
    assert!(plans.iter().all(|query| std::ptr::eq(query.plan(), plans[0].plan())));
    assert_eq!(plans[0].plan().pieces().len(), 1, "{}", plans[0].plan().explain());
    let other = Query::new("another");
    other.source("n", source::from_iter(0..1i64, |&n| at(n))).for_each(|_| ());
    assert!(!std::ptr::eq(engine.submit(other).unwrap().plan(), plans[0].plan()));
}
