//! The situations that a scheduler with stealing must survive, as checks of progress.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use mizzle::{Engine, PushHandle, Query, QueryHandle, Status, source};

use crate::faults::{GUARD, at, completed, engine, eventually};

type Each = Box<dyn FnMut(i64) + Send>;

/// A query that does `each` with what is pushed.
fn relay(
    engine: &Engine,
    each: impl FnMut(i64) + Send + 'static,
) -> (PushHandle<i64>, QueryHandle) {
    let (query, mut each): (Query, Each) = (Query::new("relay"), Box::new(each));
    let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
    stream.for_each(move |event| each(event.value));
    (handle, engine.submit(query).unwrap())
}

/// A query that does `each` with numbers from 0 on, as many as there are.
fn numbers(engine: &Engine, many: i64, each: impl FnMut(i64) + Send + 'static) -> QueryHandle {
    let (query, mut each): (Query, Each) = (Query::new("numbers"), Box::new(each));
    query
        .source("n", source::from_iter(0..many, |&n: &i64| at(n)))
        .for_each(move |event| each(event.value));
    engine.submit(query).unwrap()
}

fn cancelled(query: &QueryHandle) {
    query.cancel();
    assert_eq!(query.wait_timeout(GUARD), Status::Cancelled);
}

#[test]
fn sched_01_stolen_work_keeps_the_order_of_its_stream() {
    let engine = Engine::builder().workers(4).batch(3).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let relays: Vec<_> = (0..16)
        .map(|tag| {
            let sender = sender.clone();
            relay(&engine, move |n| sender.send((tag, n)).unwrap())
        })
        .collect();
    for n in 0..2_000 {
        relays.iter().for_each(|(handle, _)| handle.push(n).unwrap());
    }
    let queries: Vec<_> = relays.into_iter().map(|(_, query)| query).collect();
    queries.iter().for_each(completed);
    let mut next = [0; 16];
    for (tag, n) in receiver.try_iter() {
        assert_eq!(n, next[tag]);
        next[tag] += 1;
    }
    assert_eq!(next, [2_000; 16]);
}

#[test]
fn sched_02_every_item_is_taken_once() {
    let engine = Engine::builder().workers(8).batch(16).build().unwrap();
    let items = 50_000;
    let query = Query::new("items");
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..items).map(|_| AtomicUsize::new(0)).collect());
    let taken = seen.clone();
    query
        .source("n", source::from_iter(0..items, |&n| at(n as i64)))
        .map(move |n| taken[n].fetch_add(1, Ordering::Relaxed))
        .for_each(|event| assert_eq!(event.value, 0, "taken twice"));
    completed(&engine.submit(query).unwrap());
    assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1));
}

#[test]
fn sched_03_every_worker_gets_work() {
    let engine = engine(8);
    let inside = Arc::new(AtomicUsize::new(0));
    let queries: Vec<_> = (0..8)
        .map(|_| {
            let inside = inside.clone();
            numbers(&engine, 1, move |_| {
                inside.fetch_add(1, Ordering::Relaxed);
                eventually("all eight at once", || inside.load(Ordering::Relaxed) == 8);
            })
        })
        .collect();
    queries.iter().for_each(completed);
}

/// Says when it is dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn sched_04_everything_is_dropped_once() {
    let (made, dropped) = (50_000, Arc::new(AtomicUsize::new(0)));
    for end in [QueryHandle::cancel, QueryHandle::stop, QueryHandle::drain] {
        dropped.store(0, Ordering::Relaxed);
        let engine = Engine::builder().workers(4).inbox_capacity(usize::MAX).build().unwrap();
        let query = Query::new("drops");
        let (handle, stream) = query.push_source("n", |_: &Counted| at(0));
        let kept = stream.map(|item| item).collect();
        let query = engine.submit(query).unwrap();
        (0..made).for_each(|_| handle.push(Counted(dropped.clone())).unwrap());
        end(&query);
        assert!(query.wait_timeout(GUARD).is_over());
        drop((engine, handle, query));
        assert_eq!(dropped.load(Ordering::Relaxed) + kept.len(), made);
        drop(kept);
        assert_eq!(dropped.load(Ordering::Relaxed), made);
    }
}

#[test]
fn sched_05_many_queries_submitted_by_one_worker_all_run() {
    let engine = Arc::new(engine(4));
    let ran = Arc::new(AtomicUsize::new(0));
    let (inner, counter) = (Arc::downgrade(&engine), ran.clone());
    let outer = numbers(&engine, 257, move |_| {
        let (engine, counter) = (inner.upgrade().expect("it runs this"), counter.clone());
        numbers(&engine, 1, move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
    });
    completed(&outer);
    eventually("all of them", || engine.queries().is_empty());
    assert_eq!(ran.load(Ordering::Relaxed), 257);
}

/// A query that goes on feeding itself until it is cancelled.
fn feeding_itself(engine: &Engine) -> QueryHandle {
    let own: Arc<Mutex<Option<PushHandle<i64>>>> = Arc::default();
    let again = own.clone();
    let (handle, query) = relay(engine, move |n| {
        if let Some(handle) = &*again.lock().unwrap() {
            let _ = handle.push(n);
        }
    });
    *own.lock().unwrap() = Some(handle.clone());
    handle.push(0).unwrap();
    query
}

#[test]
fn sched_07_work_that_makes_more_of_itself_does_not_starve_the_rest() {
    let engine = engine(1);
    let endless = feeding_itself(&engine);
    completed(&numbers(&engine, 1_000, |_| ()));
    cancelled(&endless);
}

#[test]
fn sched_08_worker_may_block_on_what_it_has_spawned() {
    let engine = Arc::new(engine(2));
    let inner = Arc::downgrade(&engine);
    let outer = numbers(&engine, 10, move |_| {
        let engine = inner.upgrade().expect("it runs this");
        let (done, is_done) = mpsc::channel();
        numbers(&engine, 1, move |_| done.send(()).unwrap());
        // Not through the engine, so that this worker can do nothing meanwhile.
        is_done.recv_timeout(GUARD).expect("the other worker takes it");
    });
    completed(&outer);
}

#[test]
fn sched_09_newcomers_run_under_saturation() {
    for workers in [1, 2] {
        let engine = engine(workers);
        let busy: Vec<_> = (0..20).map(|_| feeding_itself(&engine)).collect();
        for _ in 0..5 {
            completed(&numbers(&engine, 100, |_| ()));
        }
        busy.iter().for_each(cancelled);
    }
}

#[test]
fn sched_10_sources_are_read_although_others_never_pause() {
    for workers in [1, 2] {
        let engine = engine(workers);
        let endless: Vec<_> = (0..20).map(|_| numbers(&engine, i64::MAX, |_| ())).collect();
        let seen = Arc::new(AtomicUsize::new(0));
        let counter = seen.clone();
        let (handle, query) = relay(&engine, move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        for n in 1..=11 {
            handle.push(n).unwrap();
            eventually("the event", || seen.load(Ordering::Relaxed) == n as usize);
        }
        drop(handle);
        completed(&query);
        endless.iter().for_each(cancelled);
    }
}

#[test]
fn sched_11_work_per_turn_is_bounded() {
    let engine = Engine::builder().workers(1).batch(16).build().unwrap();
    let query = numbers(&engine, 1_000, |_| ());
    completed(&query);
    assert!(query.chains()[0].stats.batches >= 1_000 / 16);
}

#[test]
fn sched_12_a_token_goes_round() {
    for workers in [1, 4] {
        let engine = engine(workers);
        let next: Arc<Mutex<Vec<PushHandle<i64>>>> = Arc::default();
        let (done, is_done) = mpsc::channel();
        let ring: Vec<_> = (0..50)
            .map(|member| {
                let (next, done) = (next.clone(), done.clone());
                relay(&engine, move |hops| match hops {
                    0 => done.send(member).unwrap(),
                    hops => {
                        let handle = next.lock().unwrap()[(member + 1) % 50].clone();
                        handle.push(hops - 1).unwrap();
                    }
                })
            })
            .collect();
        next.lock().unwrap().extend(ring.iter().map(|(handle, _)| handle.clone()));
        ring[0].0.push(20_000).unwrap();
        assert_eq!(is_done.recv_timeout(GUARD), Ok(0));
        ring.iter().for_each(|(_, query)| cancelled(query));
        next.lock().unwrap().clear();
    }
}

#[test]
fn sched_13_shutdown_with_queries_that_wait_or_are_woken() {
    for round in 0..100 {
        let engine = engine(2);
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut handles = Vec::new();
        for _ in 0..20 {
            let kept = Counted(dropped.clone());
            let (handle, _) = relay(&engine, move |_| {
                let _ = &kept;
            });
            handles.push(handle);
        }
        let pusher = std::thread::spawn(move || {
            // Until it is refused: the queries are woken while the engine goes.
            for n in 0.. {
                if handles.iter().any(|handle| handle.push(n).is_err()) {
                    return;
                }
            }
        });
        std::thread::sleep(Duration::from_micros(round * 10));
        drop(engine);
        pusher.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 20);
    }
}

#[test]
fn sched_14_pools_that_sleep_or_wait_for_each_other() {
    drop(engine(22));
    let asleep = engine(22);
    completed(&numbers(&asleep, 10, |_| ()));
    drop(asleep);
    // Each of two engines with one worker waits for the other.
    let (one, two) = (Arc::new(engine(1)), Arc::new(engine(1)));
    let (first, second) = (Arc::downgrade(&one), Arc::downgrade(&two));
    let outer = numbers(&one, 3, move |_| {
        let first = first.clone();
        let middle = numbers(&second.upgrade().expect("it is kept"), 3, move |_| {
            let inner = numbers(&first.upgrade().expect("it is kept"), 3, |_| ());
            assert_eq!(inner.wait(), Status::Completed);
        });
        assert_eq!(middle.wait(), Status::Completed);
    });
    completed(&outer);
}

#[test]
fn sched_15_panic_fails_one_query_and_leaves_its_worker() {
    let engine = engine(1);
    for round in 0..50 {
        let bad = numbers(&engine, 10, move |n| assert!(n < 5, "round {round}"));
        let good = numbers(&engine, 10, |_| ());
        let Status::Failed(failure) = bad.wait_timeout(GUARD) else { panic!("{:?}", bad.status()) };
        assert_eq!(failure.message, format!("panicked: round {round}"));
        completed(&good);
    }
    let threads = Arc::new(Mutex::new(HashSet::new()));
    let seen = threads.clone();
    completed(&numbers(&engine, 10, move |_| {
        seen.lock().unwrap().insert(std::thread::current().id());
    }));
    assert_eq!(threads.lock().unwrap().len(), 1);
}
