//! Functions that wait on a worker for what other queries of the same engine send.

use std::sync::mpsc;
use std::time::Duration;

use mizzle::time::Timestamp;
use mizzle::{Engine, Event, Query, Receiver, WhenFull, source};

/// What takes longer hangs.
const GUARD: Duration = Duration::from_secs(20);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// What the only worker gets with `receive`, three times, while the query that sends waits for that
/// very worker.
fn received(receive: fn(&Receiver<i64>) -> Option<Event<i64>>) -> Vec<Option<i64>> {
    let engine = Engine::builder().workers(1).build().unwrap();
    let sending = Query::new("sending");
    let (push, stream) = sending.push_source("pushed", |&n: &i64| at(n));
    let receiver = stream.map(|n| n * 10).channel(1, WhenFull::Wait);
    engine.submit(sending).unwrap();
    let (started, has_started) = mpsc::channel();
    let (done, outcome) = mpsc::channel();
    let receiving = Query::new("receiving");
    receiving.source("once", source::from_iter([1i64], |&n| at(n))).for_each(move |_| {
        started.send(()).unwrap();
        let values = (0..3).map(|_| receive(&receiver).map(|event| event.value));
        done.send(values.collect::<Vec<_>>()).unwrap();
    });
    engine.submit(receiving).unwrap();
    has_started.recv_timeout(GUARD).unwrap();
    push.push_all(vec![1, 2]).unwrap();
    drop(push);
    let values = outcome.recv_timeout(GUARD);
    if values.is_err() {
        // Its worker is stuck: dropping the engine would wait for it.
        std::mem::forget(engine);
    }
    values.expect("hangs")
}

#[test]
fn the_only_worker_runs_what_it_waits_to_receive_from() {
    assert_eq!(received(Receiver::recv), [Some(10), Some(20), None]);
}

#[test]
fn so_it_does_when_it_waits_with_a_limit() {
    assert_eq!(received(|channel| channel.recv_timeout(4 * GUARD)), [Some(10), Some(20), None]);
}

#[test]
fn a_wait_with_a_limit_ends_on_a_worker_too() {
    let engine = Engine::builder().workers(1).build().unwrap();
    let query = Query::new("silent");
    let (push, stream) = query.push_source("pushed", |&n: &i64| at(n));
    let receiver = stream.channel(1, WhenFull::Wait);
    engine.submit(query).unwrap();
    let (done, outcome) = mpsc::channel();
    let receiving = Query::new("receiving");
    receiving.source("once", source::from_iter([1i64], |&n| at(n))).for_each(move |_| {
        let waited = receiver.recv_timeout(Duration::from_millis(1)).is_none();
        done.send(waited && receiver.try_recv().is_none()).unwrap();
    });
    engine.submit(receiving).unwrap();
    assert_eq!(outcome.recv_timeout(GUARD), Ok(true));
    drop(push);
}
