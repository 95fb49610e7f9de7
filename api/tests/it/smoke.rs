use std::time::Duration;

use mizzle::aggregate::{count, sum};
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Engine, PushError, Query, Status, WhenFull, Windows, source};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

#[test]
fn a_chain_gives_what_a_loop_gives() {
    for workers in [1, 2, 4] {
        let engine = Engine::builder().workers(workers).build().unwrap();
        let query = Query::new("chain");
        let out = query
            .source("n", source::from_iter(0..100_000i64, |&n| at(n)))
            .map(|n| n + 1)
            .filter(|n| n % 2 == 0)
            .apply_stateful(0i64, |s, n| {
                *s += n;
                *s
            })
            .in_order()
            .collect();
        let handle = engine.submit(query).unwrap();
        assert_eq!(handle.wait(), Status::Completed, "{}", handle.plan().explain());
        let mut sum = 0;
        let expected: Vec<i64> = (1..=100_000)
            .filter(|n| n % 2 == 0)
            .map(|n| {
                sum += n;
                sum
            })
            .collect();
        assert_eq!(out.values(), expected);
    }
}

#[test]
fn keyed_windows_in_every_mode() {
    for workers in [1, 2, 4] {
        for flagged in [false, true] {
            let engine = Engine::builder().workers(workers).build().unwrap();
            let query = Query::new("w");
            let out = query
                .source("n", source::from_iter(0..100_000i64, |&n| at(n ^ 5)))
                .watermarks(Watermarks::bounded(Duration::from_millis(10)))
                .map(|n| n)
                .key_by(|n| n % 7)
                .window(Windows::tumbling(Duration::from_millis(100)))
                .aggregate((count(), sum(|n: &i64| *n)))
                .in_order_if(flagged)
                .collect();
            let handle = engine.submit(query).unwrap();
            assert_eq!(handle.wait(), Status::Completed);
            let total: u64 = out.values().iter().map(|w| w.value.0).sum();
            assert_eq!(total, 100_000, "{}\n{:?}", handle.plan().explain(), handle.chains());
            assert_eq!(out.len(), 7000);
        }
    }
}

#[test]
fn a_diamond_in_order() {
    for workers in [1, 2, 4] {
        let engine = Engine::builder().workers(workers).inbox_capacity(2).build().unwrap();
        let query = Query::new("d");
        let shared = query.source("n", source::from_iter(0..50_000i64, |&n| at(n))).share();
        let odd = shared.clone().filter(|n| n % 2 == 1);
        let out =
            shared.map(|n| n * 10).union(odd).apply_stateful((), |(), n| n).in_order().collect();
        let handle = engine.submit(query).unwrap();
        assert_eq!(handle.wait(), Status::Completed);
        let expected: Vec<i64> = (0..50_000)
            .flat_map(|n| {
                let mut v = vec![n * 10];
                if n % 2 == 1 {
                    v.push(n)
                }
                v
            })
            .collect();
        assert!(out.values() == expected, "{}", handle.plan().explain());
    }
}

#[test]
fn a_panic_fails_its_query_alone() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let bad = Query::new("bad");
    bad.source("n", source::from_iter(0..50_000i64, |&n| at(n)))
        .debug_events()
        .map(|n| if n == 40_000 { panic!("no {n}") } else { n })
        .name("picky")
        .for_each(|_| ());
    let good = Query::new("good");
    let out = good.source("n", source::from_iter(0..50_000i64, |&n| at(n))).map(|n| n).collect();
    let bad = engine.submit(bad).unwrap();
    let good = engine.submit(good).unwrap();
    let Status::Failed(failure) = bad.wait() else { panic!("{:?}", bad.status()) };
    assert_eq!(failure.operator, "picky");
    assert_eq!(failure.message, "panicked: no 40000");
    assert_eq!(failure.event.as_deref(), Some("40000"));
    assert_eq!(failure.time, Some(at(40_000)));
    assert!(failure.location.contains("smoke.rs"), "{failure}");
    assert_eq!(good.wait(), Status::Completed);
    assert_eq!(out.len(), 50_000);
}

#[test]
fn pushed_events_and_drain() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let query = Query::new("push");
    let (handle, stream) = query.push_source("p", |&n: &i64| at(n));
    let out = stream.map(|n| n + 1).collect();
    let q = engine.submit(query).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let handle = handle.clone();
            scope.spawn(move || (0..10_000).for_each(|n| handle.push(n * 4 + t).unwrap()));
        }
    });
    q.drain();
    assert_eq!(q.wait(), Status::Completed);
    assert_eq!(out.len(), 40_000);
    assert!(handle.push(1).is_err());
}

#[test]
fn for_ever_is_a_time_like_any_other() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let query = Query::new("for ever");
    let (handle, pushed) = query.push_source("pushed", |&n: &i64| at(n));
    let watermarks = Watermarks::periodic(Duration::MAX, Duration::MAX);
    let out = pushed
        .watermarks(watermarks.idle_after(Duration::MAX).refuse_after(Duration::MAX))
        .channel(10, WhenFull::Wait);
    let query = engine.submit(query).unwrap();
    handle.push(1).unwrap();
    assert_eq!(out.recv_timeout(Duration::MAX).map(|event| event.value), Some(1));
    drop(handle);
    assert_eq!(query.wait_timeout(Duration::MAX), Status::Completed);
}

#[test]
fn more_streams_than_a_union_can_count_are_refused() {
    let engine = Engine::builder().workers(1).build().unwrap();
    let query = Query::new("wide");
    let mut streams = (0..65_536).map(|_| query.source("n", source::from_iter([1i64], |&n| at(n))));
    let first = streams.next().unwrap();
    let _ = first.union_all(streams).collect();
    let error = engine.submit(query).err().expect("too wide").to_string();
    assert!(error.contains("\"union\" (api/tests/it/smoke.rs:"), "{error}");
    assert!(error.contains("65536 streams, and no more than 65535 can be united"), "{error}");
}

#[test]
fn a_push_into_a_query_that_is_gone_unsubmitted_is_refused() {
    let query = Query::new("dropped");
    let (dropped, stream) = query.push_source("pushed", |&n: &i64| at(n));
    let _ = stream.collect();
    drop(query);
    assert!(matches!(dropped.push(1), Err(PushError::Closed(1))));

    let engine = Engine::builder().workers(1).build().unwrap();
    let query = Query::new("refused");
    let (refused, stream) = query.push_source("pushed", |&n: &i64| at(n));
    drop(stream.map(|n| n));
    assert!(engine.submit(query).is_err());
    assert!(matches!(refused.push(1), Err(PushError::Closed(1))));

    let query = Query::new("submitted");
    let (early, stream) = query.push_source("pushed", |&n: &i64| at(n));
    let out = stream.collect();
    early.push(1).unwrap();
    let handle = engine.submit(query).unwrap();
    early.push(2).unwrap();
    drop(early);
    assert_eq!((handle.wait(), out.values()), (Status::Completed, vec![1, 2]));
}

/// What panics is skipped alone: its siblings of the same event, and what a window or a timer behind
/// it has, stay; the same on one worker and on four.
#[test]
fn skipping_a_panic_harms_nothing_else() {
    for workers in [1, 4] {
        let engine = Engine::builder().workers(workers).build().unwrap();
        let query = Query::new("siblings");
        let picky = |n| if n % 3 == 2 { panic!("no {n}") } else { n };
        let siblings = query
            .source("n", source::from_iter(0..3i64, |&n| at(n)))
            .flat_map(|n| [3 * n + 1, 3 * n + 2, 3 * n + 3])
            .map(picky)
            .skip_panics()
            .collect();
        let results = query
            .source("m", source::from_iter(0..10i64, |&n| at(n)))
            .key_by(|n| n % 2)
            .window(Windows::tumbling(Duration::from_millis(5)))
            .aggregate(count())
            .map(|w| if w.key == 0 && w.start == at(0) { panic!("no") } else { (w.key, w.value) })
            .skip_panics()
            .collect();
        let handle = engine.submit(query).unwrap();
        assert_eq!(handle.wait(), Status::Completed);
        let sorted = |mut values: Vec<_>| {
            values.sort_unstable();
            values
        };
        assert_eq!(sorted(siblings.values()), [1, 3, 4, 6, 7, 9]);
        let mut results = results.values();
        results.sort_unstable();
        assert_eq!(results, [(0, 2), (1, 2), (1, 3)]);
        let failed: u64 = handle.chains().iter().map(|chain| chain.stats.failed).sum();
        assert_eq!(failed, 4);
    }
}
