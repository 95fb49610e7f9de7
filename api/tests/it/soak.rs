//! Many rounds of what goes wrong rarely: lost wake-ups, starvation, ends under load, back-pressure.
//! Short by default; `MIZZLE_LONG` makes it a hundred times longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mizzle::time::Timestamp;
use mizzle::{Engine, Query, QueryHandle, Status, source};

const GUARD: Duration = Duration::from_secs(60);

fn rounds(few: usize) -> usize {
    if std::env::var_os("MIZZLE_LONG").is_some() { few * 100 } else { few }
}

fn engine(workers: usize, capacity: usize, batch: usize) -> Engine {
    let builder = Engine::builder().workers(workers).inbox_capacity(capacity).batch(batch);
    builder.build().unwrap()
}

fn at(n: i64) -> Timestamp {
    Timestamp::from_micros(n)
}

/// Waits for the end; a hang is reported with what each chain is at.
fn over(query: &QueryHandle) -> Status {
    let status = query.wait_timeout(GUARD);
    if !status.is_over() {
        eprintln!("hangs: {:#?}\n{}", query.chains(), query.plan().explain());
        // Unwinding would wait for the engine's workers.
        std::process::abort();
    }
    status
}

/// Workers fall asleep between rounds; each single event must wake one.
#[test]
fn no_wake_up_is_lost_between_idle_pauses() {
    for workers in [1, 2, 4] {
        let engine = engine(workers, 4, 1024);
        let query = Query::new("echo");
        let (push, stream) = query.push_source("push", |&n: &i64| at(n));
        let echoes = stream.map(|n| n).boxed().map(|n| n).channel(4, Default::default());
        let handle = engine.submit(query).unwrap();
        for n in 0..rounds(500) as i64 {
            push.push(n).unwrap();
            let echo = echoes.recv_timeout(GUARD).map(|event| event.value);
            assert_eq!(echo, Some(n), "{:#?}", handle.chains());
            if n % 50 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(push);
        assert_eq!(over(&handle), Status::Completed);
    }
}

/// One query never runs out of input; the others must get their turn on the same worker.
#[test]
fn an_endless_query_starves_nobody() {
    for workers in [1, 2] {
        let engine = engine(workers, 64, 64);
        let endless = Query::new("endless");
        endless
            .source("n", source::from_iter(0i64.., |&n| at(n)))
            .map(|n| n)
            .boxed()
            .for_each(drop);
        let endless = engine.submit(endless).unwrap();
        for _ in 0..rounds(10) {
            let short = Query::new("short");
            let out = short.source("n", source::from_iter(0..1_000, |&n| at(n))).boxed().collect();
            assert_eq!(over(&engine.submit(short).unwrap()), Status::Completed);
            assert_eq!(out.len(), 1_000);
        }
        assert_eq!(endless.status(), Status::Running);
        endless.cancel();
        assert_eq!(over(&endless), Status::Cancelled);
    }
}

#[test]
fn a_diamond_without_room_ends() {
    for round in 0..rounds(3) {
        for workers in 1..=8 {
            let engine = engine(workers, 1, 1 + round % 3);
            let query = Query::new("diamond");
            let shared = query.source("n", source::from_iter(0..500i64, |&n| at(n))).share();
            // One arm lets next to nothing through, so that the union waits for its watermark.
            let rare = shared.clone().filter(|n| n % 100 == 99).boxed();
            let all = shared.map(|n| -n).boxed();
            let merged = rare.union(all).apply_stateful((), |(), n| n).in_order().collect();
            assert_eq!(over(&engine.submit(query).unwrap()), Status::Completed);
            let both = |n: i64| (n % 100 == 99).then_some(n).into_iter().chain([-n]);
            assert_eq!(merged.values(), (0..500).flat_map(both).collect::<Vec<_>>());
        }
    }
}

#[test]
fn ends_under_load() {
    for round in 0..rounds(30) {
        let engine = engine(1 + round % 4, 8, 16);
        let ended = Arc::new(AtomicBool::new(false));
        let handles: Vec<_> = (0..8)
            .map(|n| {
                let query = Query::new(format!("load {n}"));
                let shared = query.source("n", source::from_iter(0i64.., |&n| at(n))).share();
                let ended = ended.clone();
                let other = shared.clone().filter(|n| n % 2 == 0);
                shared.union(other).reduce(|a, b| a ^ b).in_order_if(n % 2 == 0).for_each(
                    move |_| {
                        assert!(!ended.load(Ordering::Acquire), "user code after the end");
                    },
                );
                engine.submit(query).unwrap()
            })
            .collect();
        for (n, handle) in handles.iter().enumerate() {
            match n % 3 {
                0 => handle.drain(),
                1 => handle.stop(),
                _ => handle.cancel(),
            }
        }
        for (n, handle) in handles.iter().enumerate() {
            let expected = [Status::Completed, Status::Stopped, Status::Cancelled];
            assert_eq!(over(handle), expected[n % 3]);
        }
        ended.store(true, Ordering::Release);
        assert!(engine.queries().is_empty());
    }
}

/// Dropping the engine with everything running.
#[test]
fn shutdown_under_load() {
    for round in 0..rounds(30) {
        let engine = engine(1 + round % 4, 8, 16);
        let mut handles = Vec::new();
        for n in 0..10 {
            let query = Query::new(format!("query {n}"));
            let numbers = query.source("n", source::from_iter(0i64.., |&n| at(n)));
            numbers.map(|n| n).boxed().key_by(|n| n % 5).reduce(|a, b| a ^ b).for_each(drop);
            handles.push(engine.submit(query).unwrap());
        }
        drop(engine);
        handles.iter().for_each(|handle| assert_eq!(handle.status(), Status::Cancelled));
    }
}
