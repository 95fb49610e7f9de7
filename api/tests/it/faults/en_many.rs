//! The engine and its scheduler: many queries, many threads, many rounds.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mizzle::{Engine, Query, Status, WhenFull, source};

use super::{GUARD, at, budget, completed, engine, eventually};

#[test]
fn en_01_many_small_queries_see_every_event() {
    let (queries, events) = (budget(300, 3_000), budget(200, 6_000));
    let engine = Engine::builder().workers(4).inbox_capacity(64).build().unwrap();
    let mut pushes = Vec::new();
    let running: Vec<_> = (0..queries)
        .map(|_| {
            let query = Query::new("small");
            let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
            let counts = stream.filter(|n| n % 2 == 0).apply_stateful(0, |seen, _| {
                *seen += 1;
                *seen
            });
            pushes.push(handle);
            (counts.collect(), engine.submit(query).unwrap())
        })
        .collect();
    assert_eq!(engine.queries().len(), queries);
    for number in 0..events as i64 {
        pushes.iter().for_each(|handle| handle.push(number).unwrap());
    }
    drop(pushes);
    for (counts, query) in running {
        completed(&query);
        assert!(counts.values().into_iter().eq(1..=events / 2));
    }
    eventually("an empty registry", || engine.queries().is_empty());
}

#[test]
fn en_10_no_wake_up_is_lost() {
    for workers in [1, 4] {
        let engine = engine(workers);
        let query = Query::new("ping");
        let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
        let out = stream.map(|n| n + 1).channel(8, WhenFull::Wait);
        let query = engine.submit(query).unwrap();
        for round in 0..budget(5_000, 200_000) as i64 {
            // Some rounds find everybody asleep, some on the way there, some awake.
            if round % 16 == 0 {
                std::thread::sleep(std::time::Duration::from_micros(round as u64 * 7 % 200));
            } else {
                (0..round * 37 % 2_000).for_each(|_| std::hint::spin_loop());
            }
            handle.push(round).unwrap();
            let echo = out.recv_timeout(GUARD).map(|event| event.value);
            assert_eq!(echo, Some(round + 1), "stuck in round {round}");
        }
        drop(handle);
        completed(&query);
    }
}

#[test]
fn en_13_every_event_once_and_no_operator_twice_at_a_time() {
    let (queries, events) = (64, budget(5_000, 160_000));
    let engine = engine(8);
    let running: Vec<_> = (0..queries)
        .map(|number| {
            let query = Query::new("bitmap");
            let seen: Arc<Vec<AtomicUsize>> =
                Arc::new((0..events).map(|_| AtomicUsize::new(0)).collect());
            let (bitmap, busy) = (seen.clone(), AtomicBool::new(false));
            query
                .source("n", source::from_iter(0..events, |&n| at(n as i64)))
                .map(|n| n)
                .apply_stateful((), move |(), n| {
                    assert!(!busy.swap(true, Ordering::Relaxed), "two workers in one operator");
                    bitmap[n].fetch_add(1, Ordering::Relaxed);
                    busy.store(false, Ordering::Relaxed);
                    n
                })
                .in_order_if(number % 2 == 0)
                .for_each(|_| ());
            (seen, engine.submit(query).unwrap())
        })
        .collect();
    for (seen, query) in running {
        completed(&query);
        assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn en_16_engine_goes_away() {
    super::alone("faults::en_many::en_16_engine_goes_away", || {
        let (handles, mut after_warm_up) = (super::handles(), None);
        for round in 0..budget(200, 2_000) {
            let engine = engine(8);
            let mut pushes = Vec::new();
            for _ in 0..(round % 2) * 5 {
                let query = Query::new("q");
                let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
                stream.map(|n| n).for_each(|_| ());
                engine.submit(query).unwrap();
                pushes.push(handle);
            }
            for handle in pushes.iter().filter(|_| round % 4 > 1) {
                (0..100).for_each(|n| handle.push(n).unwrap());
            }
            // In half of the rounds the producers are still there when the engine goes.
            if round % 8 > 3 {
                pushes.clear();
            }
            drop(engine);
            pushes.iter().for_each(|handle| assert!(handle.push(0).is_err()));
            if round == 50 {
                after_warm_up = Some(super::resident());
            }
        }
        let memory = after_warm_up.expect("there were more rounds than that");
        // The system may show a thread for a moment after it was joined.
        eventually("as many threads and files as before", || super::handles() == handles);
        if let (Some(before), Some(after)) = (memory, super::resident()) {
            assert!(after < before + (16 << 20), "{before} bytes became {after}");
        }
    });
}

#[test]
fn en_17_adding_and_removing_at_once_keeps_queries_apart() {
    let (threads, rounds) = (budget(8, 16), budget(25, 200));
    let engine = Arc::new(engine(4));
    let ids = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        for thread in 0..threads as i64 {
            let (engine, ids) = (engine.clone(), &ids);
            scope.spawn(move || {
                for round in 0..rounds as i64 {
                    let tag = thread * 1_000 + round;
                    let query = Query::new(format!("{tag}"));
                    let (handle, stream) = query.push_source("n", |&(_, n): &(i64, i64)| at(n));
                    let out = stream.key_by(|event| event.0).reduce(|_, new| new).collect();
                    let query = engine.submit(query).unwrap();
                    assert!(ids.lock().unwrap().insert(query.id()), "an id came twice");
                    assert_eq!(engine.query(query.id()).unwrap().name(), format!("{tag}"));
                    (0..20).for_each(|n| handle.push((tag, n)).unwrap());
                    eventually("20 outputs", || out.len() == 20);
                    query.cancel();
                    assert_eq!(query.wait_timeout(GUARD), Status::Cancelled);
                    assert!(handle.push((tag, 20)).is_err());
                    assert!(out.values().into_iter().eq((0..20).map(|n| (tag, n))));
                    assert!(engine.query(query.id()).is_none());
                }
            });
        }
    });
    assert!(engine.queries().is_empty());
    assert_eq!(ids.lock().unwrap().len(), threads * rounds);
}
