//! Queries on one key.

use std::time::Duration;

use mizzle::aggregate::{count, sum};
use mizzle::sink::Collected;
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{
    Build, Engine, ProcessCx, ProcessOp, Query, QueryHandle, SharedSource, Stream, Subscribe,
    Windows, source,
};

use super::{Gate, at, completed, engine, eventually, over};

const KEYS: i64 = 7;

/// A time in milliseconds, and a number whose rest is the key.
type Reading = (i64, i64);

/// Times that go on by about one, each up to 20 earlier than it should be, some far earlier.
fn readings(count: i64, disorder: bool) -> Vec<Reading> {
    let mut random = 12_345u64;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as i64
    };
    let reading = |n: i64| {
        let back = if disorder { next() % 20 + if next() % 50 == 0 { 60 } else { 0 } } else { 0 };
        (n - back, next() % 1_000)
    };
    (0..count).map(reading).collect()
}

fn shared(engine: &Engine, readings: Vec<Reading>, disorder: bool) -> SharedSource<Reading> {
    let watermarks = if disorder {
        Watermarks::bounded(Duration::from_millis(20))
    } else {
        Watermarks::ascending()
    };
    let source = source::from_iter(readings, |&(time, _)| at(time));
    engine.shared_source("readings", source).watermarks(watermarks).open().unwrap()
}

/// Alerts when nothing has come for 5 ms, with how many had.
struct Quiet;

impl ProcessOp<(), Reading> for Quiet {
    type State = (i64, Option<Timestamp>);
    type Out = (i64, i64);
    type Side = ();

    fn event(
        &self,
        cx: &mut ProcessCx<'_, (), (i64, i64), ()>,
        state: &mut Self::State,
        _: Reading,
    ) {
        state.0 += 1;
        if let Some(due) = state.1.take() {
            cx.cancel_timer(due);
        }
        let due = cx.time() + Duration::from_millis(5);
        cx.set_timer(due);
        state.1 = Some(due);
    }

    fn timer(
        &self,
        cx: &mut ProcessCx<'_, (), (i64, i64), ()>,
        state: &mut Self::State,
        _: Timestamp,
    ) {
        cx.emit((cx.time().as_millis(), std::mem::take(&mut state.0)));
    }
}

fn windows<B: Build<Out = Reading>>(stream: Stream<B>, in_order: bool) -> Collected<String> {
    stream
        .window(Windows::tumbling(Duration::from_millis(16)))
        .aggregate((count(), sum(|&(_, value): &Reading| value)))
        .in_order_if(in_order)
        .map(|window| format!("{} {:?}", window.start.as_millis(), window.value))
        .collect()
}

fn quiet<B: Build<Out = Reading>>(stream: Stream<B>) -> Collected<String> {
    let (alerts, _) = stream.key_by(|_| ()).process(Quiet);
    alerts.in_order().map(|alert| format!("{alert:?}")).collect()
}

fn averages<B: Build<Out = Reading>>(stream: Stream<B>, in_order: bool) -> Collected<String> {
    stream
        .apply_stateful((0, 0), |(n, sum), (time, value)| {
            (*n, *sum) = (*n + 1, *sum + value);
            format!("{time} {n} {sum}")
        })
        .in_order_if(in_order)
        .collect()
}

/// All questions about `stream`, asked of every key by `subscribe`; what each answers.
fn answers<S: Subscribe<Item = Reading>>(
    engine: &Engine,
    readings: &SharedSource<Reading>,
    disorder: bool,
    of_key: impl Fn(i64) -> S,
) -> Vec<(QueryHandle, Collected<String>)>
where
    S::Head: 'static,
{
    let mut all = Vec::new();
    for key in 0..KEYS {
        let source = of_key(key);
        let mut ask = |question: &dyn Fn(&Query) -> Collected<String>| {
            let query = Query::new(format!("on key {key} of {}", readings.name()));
            let answer = question(&query);
            all.push((engine.submit(query).unwrap(), answer));
        };
        let mine = move |&(_, value): &Reading| value % KEYS == key;
        ask(&|query| windows(query.subscribe(&source).filter(mine), true));
        ask(&|query| quiet(query.subscribe(&source).filter(mine)));
        ask(&|query| averages(query.subscribe(&source).filter(mine), true));
        // In several chains.
        ask(&|query| windows(query.subscribe(&source).filter(mine).boxed(), true));
        if !disorder {
            // Without a flag lateness may count as it comes, but there is none.
            ask(&|query| windows(query.subscribe(&source).filter(mine), false));
            ask(&|query| averages(query.subscribe(&source).filter(mine), false));
        }
    }
    all
}

#[test]
fn a_query_on_a_key_answers_as_one_that_filters() {
    for disorder in [false, true] {
        let data = readings(2_000, disorder);
        for (workers, batch) in [(1, 1_024), (2, 50), (3, 1), (4, 7)] {
            let engine = engine(workers, batch);
            let readings = shared(&engine, data.clone(), disorder);
            let keyed = readings.key_by(|&(_, value)| value % KEYS);
            let whole = answers(&engine, &readings, disorder, |_| readings.clone());
            let on_key = answers(&engine, &readings, disorder, |key| keyed.at(key));
            readings.start();
            for ((filters, expected), (query, answer)) in whole.iter().zip(&on_key) {
                completed(filters);
                completed(query);
                let plan = query.plan().explain();
                assert!(expected.len() > 10, "{plan}");
                assert_eq!(answer.values(), expected.values(), "{workers} workers\n{plan}");
            }
            assert!(!disorder || readings.query().chains()[0].stats.late > 10);
        }
    }
}

/// Without a flag an event finds the watermark that stood before it, however late its chain runs.
#[test]
fn an_event_finds_the_watermark_before_it() {
    let engine = engine(2, 1);
    let readings = [(0, 1), (50, 2), (60, 1), (70, 2), (71, 1)].to_vec();
    let readings = shared(&engine, readings, false);
    let (query, gate) = (Query::new("alerts"), Gate::default());
    let passed = gate.clone();
    let stream = query.subscribe(&readings.key_by(|&(_, key)| key).at(1));
    let stream = stream.inspect(move |_, _| passed.pass());
    let (alerts, _) = stream.key_by(|_| ()).process(Quiet);
    let alerts = alerts.collect();
    let query = engine.submit(query).unwrap();
    readings.start();
    assert_eq!(readings.wait(), mizzle::Status::Completed);
    gate.open();
    completed(&query);
    assert_eq!(alerts.values(), [(5, 1), (65, 1), (76, 1)]);
}

/// A watermark wakes those that have something due, and nobody else.
#[test]
fn a_watermark_wakes_only_those_with_a_timer_due() {
    let engine = engine(2, 16);
    let (push, pushed) = engine.shared_push_source("pushed", |&(time, _): &Reading| at(time));
    let pushed = pushed.open().unwrap();
    pushed.start();
    let keyed = pushed.key_by(|&(_, key)| key);
    let submit = |key| {
        let query = Query::new("windows");
        let out = windows(query.subscribe(&keyed.at(key)), false);
        (engine.submit(query).unwrap(), out)
    };
    let (open, idle) = (submit(1), submit(2));
    push.push((0, 1)).unwrap();
    for n in 1..=1_000 {
        push.push((n, 0)).unwrap();
        push.advance(at(n));
    }
    eventually("the window", || open.1.len() == 1);
    eventually("the last watermark", || pushed.stats().watermark == at(1_000));
    let looks = |query: &QueryHandle| query.chains()[0].stats.batches;
    assert!(looks(&open.0) <= 4, "{:#?}", open.0.chains());
    assert!(looks(&idle.0) <= 1, "{:#?}", idle.0.chains());
    drop(push);
    completed(&open.0);
    completed(&idle.0);
    assert_eq!(open.1.values(), ["0 (1, 1)"]);
}

#[test]
fn several_chains_on_keys_get_every_watermark() {
    let engine = engine(3, 16);
    let (push, pushed) = engine.shared_push_source("pushed", |&(time, _): &Reading| at(time));
    let pushed = pushed.open().unwrap();
    pushed.start();
    let keyed = pushed.key_by(|&(_, key)| key);
    let query = Query::new("two keys");
    let both = query.subscribe(&keyed.at(1)).union(query.subscribe(&keyed.at(2)));
    let out = windows(both, true);
    let query = engine.submit(query).unwrap();
    (0..4).for_each(|n| push.push((n, n)).unwrap());
    push.advance(at(100));
    eventually("the window", || out.len() == 1);
    assert_eq!(out.values(), ["0 (2, 3)"]);
    drop(push);
    completed(&query);
}

#[test]
fn a_panic_of_the_key_function_is_a_failed_event() {
    let engine = engine(2, 16);
    let numbers = super::numbers(&engine, 100);
    let keyed = numbers.key_by(|&n| {
        assert_ne!(n % 10, 3, "three");
        n % 10
    });
    let running: Vec<_> = (0..10)
        .map(|key| {
            let query = Query::new("on a key");
            let out = query.subscribe(&keyed.at(key)).collect();
            (key, engine.submit(query).unwrap(), out)
        })
        .collect();
    let (whole, all) = super::noting(&engine, &numbers);
    numbers.start();
    for (key, query, out) in running {
        completed(&query);
        assert_eq!(out.len(), if key == 3 { 0 } else { 10 });
    }
    completed(&whole);
    assert_eq!(all.lock().unwrap().len(), 100);
    assert_eq!(numbers.query().chains()[0].stats.failed, 10);
}

#[test]
fn several_queries_on_one_key_come_and_go() {
    let engine = engine(2, 16);
    let (push, pushed) = engine.shared_push_source("pushed", |&n: &i64| at(n));
    let pushed = pushed.open().unwrap();
    pushed.start();
    let keyed = pushed.key_by(|n| n % 2);
    let submit = || {
        let query = Query::new("on a key");
        let out = query.subscribe(&keyed.at(1)).collect();
        (engine.submit(query).unwrap(), out)
    };
    let stay = submit();
    for round in 0..50 {
        let others: Vec<_> = (0..round % 4).map(|_| submit()).collect();
        push.push(2 * round).unwrap();
        push.push(2 * round + 1).unwrap();
        for (query, out) in others {
            eventually("its event", || out.values().contains(&(2 * round + 1)));
            query.cancel();
            over(&query);
        }
    }
    drop(push);
    completed(&stay.0);
    assert!(stay.1.values().into_iter().eq((0..50).map(|n| 2 * n + 1)));
}

/// So many and so far out of order that the stage sorts only the part that is due next.
#[test]
fn what_a_stage_behind_a_key_holds_comes_as_soon_as_the_watermark_reaches_it() {
    const EVENTS: i64 = 60_000;
    let engine = engine(2, 1024);
    let (push, pushed) = engine.shared_push_source("pushed", |&n: &i64| at(n));
    let pushed = pushed.watermarks(Watermarks::bounded(Duration::from_secs(1_000))).open().unwrap();
    pushed.start();
    let query = Query::new("sorted");
    let seen = query
        .subscribe(&pushed.key_by(|_| ()).at(()))
        .apply_stateful(0, |_, n| n)
        .in_order()
        .collect();
    let query_handle = engine.submit(query).unwrap();
    // A prime step visits every number once, far from the one before.
    push.push_all((0..EVENTS).map(|n| n * 7_919 % EVENTS).collect()).unwrap();
    eventually("the events", || pushed.subscribers().iter().all(|it| it.seen == EVENTS as u64));
    for reached in (0..EVENTS).step_by(1_777) {
        push.advance(at(reached));
        eventually("what is due", || seen.len() as i64 == reached + 1);
    }
    drop(push);
    completed(&query_handle);
    assert!(seen.values().into_iter().eq(0..EVENTS));
}
