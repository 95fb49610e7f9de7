//! Streams into contexts, and contexts into streams.

use std::sync::{Arc, Mutex};

use mizzle::context::{Ended, Handlers, Stepped};
use mizzle::{Engine, Lag, PushError, Query, Status, WhenFull, source};

use super::common::{GUARD, at, completed, engine, eventually, total};

type Seen = Arc<Mutex<Vec<u64>>>;

fn noting() -> Handlers<u64, Seen> {
    Handlers::new().on(|n: &u64| Some(n), |seen: &mut Seen, n, _| seen.lock().unwrap().push(*n))
}

#[test]
fn a_stream_into_a_context_keeps_its_order_and_its_bound() {
    for workers in [1, 2, 4] {
        for capacity in [1, 7, 100_000] {
            let engine = engine(workers);
            let seen = Seen::default();
            let context = engine.context("end").capacity(capacity).start(noting(), seen.clone());
            let query = Query::new("into a context");
            query
                .source("n", source::from_iter(0..50_000_u64, |n| at(*n as i64)))
                .map(|n| n * 2)
                .filter(|n| n % 6 != 0)
                .to_context(&context);
            completed(&engine.submit(query).unwrap());
            context.drain();
            assert_eq!(context.wait(), Status::Completed);
            let seen = seen.lock().unwrap();
            let expected = (0..50_000).map(|n| n * 2).filter(|n| n % 6 != 0);
            assert!(seen.iter().copied().eq(expected), "{} events", seen.len());
            assert_eq!(context.stats().capacity, capacity);
        }
    }
}

/// The query is over before the context has room for all of its events; so has the context been told to end.
#[test]
fn what_a_query_has_left_at_the_door_goes_in() {
    let stepped = Stepped::new();
    let seen = Seen::default();
    let context = stepped.context("narrow").capacity(2).start(noting(), seen.clone());
    let engine = engine(1);
    let query = Query::new("short");
    query.source("n", source::from_iter(0..10, |n| at(*n as i64))).to_context(&context);
    completed(&engine.submit(query).unwrap());
    assert_eq!(context.stats().depth, 2);
    context.drain();
    assert!(matches!(context.try_send(10), Err(PushError::Closed(10))));
    stepped.run(&context);
    assert_eq!(context.status(), Status::Completed);
    assert!(seen.lock().unwrap().iter().copied().eq(0..10));
}

#[test]
fn a_context_that_has_ended_lets_the_query_run_on() {
    let engine = engine(2);
    let ending = Handlers::new().on(
        |n: &u64| Some(n),
        |(): &mut (), n, cx| {
            if *n == 10 {
                cx.end();
            }
        },
    );
    let context = engine.context("short").capacity(3).start(ending, ());
    let query = Query::new("into a context that ends");
    query.source("n", source::from_iter(0..1_000_u64, |n| at(*n as i64))).to_context(&context);
    let handle = engine.submit(query).unwrap();
    completed(&handle);
    assert_eq!(context.wait(), Status::Completed);
    let stats = context.stats();
    assert_eq!(stats.input, 11);
    let (sent, lost) = (total(&handle, |it| it.events_out), total(&handle, |it| it.dropped));
    assert_eq!((sent + lost, sent), (1_000, stats.input + stats.dropped));
}

#[test]
fn a_query_that_is_cancelled_waits_for_no_context() {
    let engine = engine(2);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let stuck = Handlers::new()
        .on(|n: &u64| Some(n), move |(): &mut (), _, _| wait.lock().unwrap().recv().unwrap_or(()));
    let context = engine.context("stuck").capacity(1).start(stuck, ());
    let query = Query::new("into a context that is stuck");
    query.source("n", source::from_iter(0..100_000_u64, |n| at(*n as i64))).to_context(&context);
    let handle = engine.submit(query).unwrap();
    eventually("the query waits", || {
        handle.chains().iter().any(|it| it.state == "waiting for room")
    });
    handle.cancel();
    assert_eq!(handle.wait_timeout(GUARD), Status::Cancelled);
    context.cancel();
    drop(go);
    assert_eq!(context.wait(), Status::Cancelled);
}

#[test]
fn a_context_as_the_source_of_a_stream() {
    for workers in [1, 2, 4] {
        let engine = Engine::builder().workers(workers).inbox_capacity(4).build().unwrap();
        let query = Query::new("from a context");
        let (input, stream) = query.push_source("context", |n: &u64| at(*n as i64));
        let collected = stream.filter(|n| n % 2 == 0).collect();
        let handle = engine.submit(query).unwrap();
        let handlers = Handlers::new().on(
            |n: &u64| Some(n),
            move |(): &mut (), n, cx| {
                (0..10).for_each(|k| cx.enqueue_to(&input, 10 * n + k).unwrap());
            },
        );
        let context = engine.context("source").start(handlers, ());
        (0..500).for_each(|n| context.send(n).unwrap());
        context.drain();
        assert_eq!(context.wait(), Status::Completed);
        assert_eq!((context.stats().sent, context.stats().undelivered), (5_000, 0));
        drop(context);
        // The handlers are gone, and with them the input: so the query ends.
        completed(&handle);
        // Unflagged, it is in order only as far as one worker goes.
        let mut got = collected.values();
        got.sort_unstable();
        assert!(got.into_iter().eq((0..5_000).filter(|n| n % 2 == 0)));
    }
}

#[test]
fn a_query_that_is_over_takes_no_more_from_a_context() {
    let engine = engine(1);
    let query = Query::new("short");
    let (input, stream) = query.push_source("context", |n: &u64| at(*n as i64));
    stream.collect();
    let handle = engine.submit(query).unwrap();
    handle.cancel();
    handle.wait();
    let refused = Seen::default();
    let handlers = Handlers::new().on(
        |n: &u64| Some(n),
        move |refused: &mut Seen, n, cx| {
            if let Err(Ended(back)) = cx.enqueue_to(&input, *n) {
                refused.lock().unwrap().push(back);
            }
        },
    );
    let context = engine.context("source").start(handlers, refused.clone());
    context.send(3).unwrap();
    context.drain();
    context.wait();
    assert_eq!(*refused.lock().unwrap(), [3]);
}

/// A shared source waits for its subscriber, that for a context, and the context for the source.
#[test]
fn a_circle_through_a_shared_source_goes_on() {
    for (workers, keyed) in [(1, false), (1, true), (2, false), (2, true), (4, false), (4, true)] {
        let engine = Engine::builder().workers(workers).inbox_capacity(1).batch(4).build().unwrap();
        let (input, shared) = engine.shared_push_source("again", |_: &u64| at(0));
        let shared = shared.lag_limit(2).open().unwrap();
        let done = Arc::new(Mutex::new(0_u64));
        let (again, count) = (input.clone(), done.clone());
        let handlers = Handlers::new().on(
            |n: &u64| Some(n),
            move |(): &mut (), n, cx| {
                *count.lock().unwrap() += 1;
                (0..3).filter(|_| *n > 0).for_each(|_| cx.enqueue_to(&again, n - 1).unwrap());
            },
        );
        let context = engine.context("again").capacity(1).start(handlers, ());
        let query = Query::new("in a circle");
        if keyed {
            let key = shared.key_by(|_| ()).at(());
            query.subscribe(&key).when_lagging(Lag::Wait).to_context(&context);
        } else {
            query.subscribe(&shared).when_lagging(Lag::Wait).to_context(&context);
        }
        let handle = engine.submit(query).unwrap();
        shared.start();
        input.push(7).unwrap();
        let expected: u64 = (0..=7).map(|depth| 3_u64.pow(depth)).sum();
        eventually("all have gone round", || *done.lock().unwrap() == expected);
        assert_eq!(handle.status(), Status::Running);
    }
}

/// A query feeds a context, which feeds the query: all inboxes are tiny, and each event becomes several. Half
/// of them go one way, half another.
#[test]
fn a_circle_of_a_query_and_a_context_goes_on() {
    for workers in [1, 2, 4] {
        let engine = Engine::builder().workers(workers).inbox_capacity(1).batch(4).build().unwrap();
        let query = Query::new("in a circle");
        let (input, stream) = query.push_source("again", |_: &u64| at(0));
        let done = Arc::new(Mutex::new(0_u64));
        let (again, count) = (input.clone(), done.clone());
        let handlers = Handlers::new().on(
            |n: &u64| Some(n),
            move |(): &mut (), n, cx| {
                *count.lock().unwrap() += 1;
                (0..3).filter(|_| *n > 0).for_each(|_| cx.enqueue_to(&again, n - 1).unwrap());
            },
        );
        let context = engine.context("again").capacity(1).start(handlers, ());
        let mut ways = stream.branches();
        ways.when(|n| n % 2 == 1).to_context(&context);
        ways.rest().map(|n| n).to_context(&context);
        let handle = engine.submit(query).unwrap();
        input.push(7).unwrap();
        let expected: u64 = (0..=7).map(|depth| 3_u64.pow(depth)).sum();
        eventually("all have gone round", || *done.lock().unwrap() == expected);
        assert_eq!(handle.status(), Status::Running);
    }
}

/// What waits for a query's room is offered again and again.
#[test]
fn the_time_of_what_is_sent_to_a_query_is_asked_for_once() {
    let engine = Engine::builder().workers(2).inbox_capacity(1).build().unwrap();
    let asked = Arc::new(Mutex::new(0));
    let (query, asks) = (Query::new("slow"), asked.clone());
    let (input, stream) = query.push_source("n", move |n: &u64| {
        *asks.lock().unwrap() += 1;
        at(*n as i64)
    });
    let received = stream.channel(1, WhenFull::Wait);
    let handlers = Handlers::new().on(
        |n: &u64| Some(n),
        move |(): &mut (), n, cx| (0..*n).for_each(|n| cx.enqueue_to(&input, n).unwrap()),
    );
    let context = engine.context("fast").start(handlers, ());
    let handle = engine.submit(query).unwrap();
    context.send(500).unwrap();
    assert!((0..500).eq((0..500).map(|_| received.recv().unwrap().value)));
    assert_eq!(*asked.lock().unwrap(), 500);
    context.drain();
    completed(&handle);
}
