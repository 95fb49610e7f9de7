//! Models of the hand-offs, over every interleaving that loom can tell apart.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p mizzle-engine --release --lib loom_`

use std::collections::VecDeque;
use std::sync::Arc;

use crate::event::{Batch, Event};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Injector, Mutex, Steal, thread};
use crate::time::Timestamp;

use super::assemble::Readable as _;
use super::pool::{Pool, Task, TaskRef};
use super::port::{Packet, Port, Room};
use super::sleep::Sleepers;
use super::tickets::Tickets;
use super::token::{Queue, Token};

/// A chain that does nothing by itself; the model runs it.
struct Chain {
    token: Token,
    pool: Arc<Pool>,
}

impl Task for Chain {
    fn token(&self) -> &Token {
        &self.token
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn run(self: Arc<Self>) {}
}

fn chain() -> Arc<Chain> {
    let pool = Pool::start("model", 0).expect("no thread is started");
    Arc::new(Chain { token: Token::default(), pool })
}

fn packet(value: u32) -> Packet<u32> {
    let batch = Batch::from(vec![Event::new(Timestamp::MIN, value)]);
    Packet::of(batch, 0)
}

#[test]
fn loom_no_signal_of_two_is_lost() {
    loom::model(|| {
        // Input, chains on the run queue, and what has been handled.
        let shared = Arc::new((Token::default(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let signal = |(token, input, queued): &(Token, AtomicUsize, AtomicUsize)| {
            input.fetch_add(1, Ordering::Relaxed);
            if token.notify() == Queue::Now {
                assert_eq!(queued.fetch_add(1, Ordering::AcqRel), 0, "queued twice");
            }
        };
        let run = |(token, input, queued): &(Token, AtomicUsize, AtomicUsize)| {
            if queued.load(Ordering::Acquire) == 0 {
                return 0;
            }
            queued.fetch_sub(1, Ordering::AcqRel);
            assert!(token.begin());
            let taken = input.swap(0, Ordering::Relaxed);
            if token.release(false) == Queue::Now {
                assert_eq!(queued.fetch_add(1, Ordering::AcqRel), 0, "queued twice");
            }
            taken
        };
        let threads = [shared.clone(), shared.clone()];
        let threads = threads.map(|shared| thread::spawn(move || signal(&shared)));
        let mut taken = run(&shared) + run(&shared);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        while shared.2.load(Ordering::Acquire) > 0 {
            taken += run(&shared);
        }
        assert_eq!(taken, 2);
        assert_eq!(shared.0.name(), "idle");
    });
}

#[test]
fn loom_nobody_waits_for_room_that_is_there() {
    loom::model(|| {
        let (up, port) = (chain(), Port::new(1));
        let task: TaskRef = up.clone();
        let down: TaskRef = chain();
        port.attach(Arc::downgrade(&down), 1);
        port.push(packet(1));
        assert_eq!(up.token.notify(), Queue::Now);
        assert!(up.token.begin());
        let consumer = {
            let port = port.clone();
            thread::spawn(move || port.take(1, &mut VecDeque::new()))
        };
        // What a chain does that finds its outlet full.
        let queued = if port.wait(&task) { up.token.wait() } else { up.token.release(true) };
        consumer.join().unwrap();
        let offered = up.pool.take_offered().is_some();
        assert!(offered != (queued == Queue::Now), "queued once, by the one or by the other");
        assert_eq!(up.token.name(), "queued");
    });
}

#[test]
fn loom_no_input_is_lost() {
    loom::model(|| {
        let (reader, port) = (chain(), Port::new(1));
        let task: TaskRef = reader.clone();
        port.attach(Arc::downgrade(&task), 8);
        let producers = [1, 2].map(|value| {
            let port = port.clone();
            thread::spawn(move || port.push(packet(value)))
        });
        let mut taken = VecDeque::new();
        let mut run = || {
            let Some(task) = reader.pool.take_offered() else { return false };
            assert!(task.token().begin());
            let more = port.take(1, &mut taken);
            if task.token().release(more) == Queue::Now {
                Pool::offer(task);
            }
            true
        };
        run();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        while run() {}
        assert_eq!(taken.len(), 2);
        assert_eq!((port.depth(), reader.token.name()), (0, "idle"));
    });
}

#[test]
fn loom_tickets_commit_in_order_one_at_a_time() {
    loom::model(|| {
        let shared = Arc::new((Tickets::default(), Mutex::new(Vec::new()), AtomicBool::new(false)));
        let tickets = [shared.0.open(), shared.0.open(), shared.0.open()];
        let [first, second, third] = tickets;
        let retire = |shared: Arc<(Tickets<u32>, Mutex<Vec<u32>>, AtomicBool)>, ticket, number| {
            let (tickets, committed, busy) = &*shared;
            tickets.retire(ticket, number, |number| {
                assert!(!busy.swap(true, Ordering::AcqRel), "two commit at once");
                committed.lock().push(number);
                busy.store(false, Ordering::Release);
            });
        };
        let (a, b) = (shared.clone(), shared.clone());
        let a = thread::spawn(move || retire(a, third, 3));
        let b = thread::spawn(move || retire(b, first, 1));
        retire(shared.clone(), second, 2);
        a.join().unwrap();
        b.join().unwrap();
        assert_eq!(*shared.1.lock(), [1, 2, 3]);
    });
}

/// A worker that slept through what was queued would never end: loom reports the deadlock.
#[test]
fn loom_what_is_queued_wakes_a_sleeper() {
    loom::model(|| {
        let shared = Arc::new((Sleepers::new(2), Injector::new()));
        let workers = [0, 1].map(|index| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (sleepers, queue): &(Sleepers, Injector<u32>) = &shared;
                let mut searching = false;
                loop {
                    if let Steal::Success(task) = queue.steal() {
                        if searching {
                            sleepers.found();
                        }
                        return task;
                    }
                    sleepers.sleep(index, searching, || !queue.is_empty());
                    searching = true;
                }
            })
        });
        for task in [1, 2] {
            shared.1.push(task);
            shared.0.wake_one();
        }
        let done: u32 = workers.map(|worker| worker.join().unwrap()).iter().sum();
        assert_eq!(done, 3);
    });
}
