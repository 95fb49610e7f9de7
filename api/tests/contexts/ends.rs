//! How contexts end, and who notices.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mizzle::context::{AnyEvent, ContextHandle, Ended, Handlers, Stepped};
use mizzle::{Engine, PushError, Status};

/// Counts those of it that are alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn all<E>(event: &E) -> Option<&E> {
    Some(event)
}

#[test]
fn a_panic_ends_its_context_alone_and_names_the_handler() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let line = line!() + 1;
    let handlers = Arc::new(Handlers::new().on(all, |sum: &mut u32, n: &u32, _| {
        *sum += 100_u32.checked_sub(*n).expect("n is at most 100");
    }));
    let [bad, good] = ["bad", "good"].map(|name| engine.context(name).start(handlers.clone(), 0));
    for n in [1, 2, 101, 3] {
        // It may have ended before the last one comes.
        let _ = bad.send(n);
    }
    let Status::Failed(failure) = bad.wait() else { panic!("{:?}", bad.status()) };
    assert_eq!(failure.operator, "bad");
    assert!(failure.location.contains(&format!("ends.rs:{line}")), "{}", failure.location);
    assert!(failure.message.contains("n is at most 100"), "{failure}");
    assert_eq!((failure.position, bad.stats().input), (3, 3));
    assert!(matches!(bad.send(4), Err(PushError::Closed(4))));
    good.send(5).unwrap();
    good.drain();
    assert_eq!((good.wait(), good.stats().input), (Status::Completed, 1));
}

#[test]
fn routing_without_end_ends_the_context_with_an_error() {
    let stepped = Stepped::new();
    let deepest = Arc::new(Mutex::new(0));
    let line = line!() + 1;
    let handlers = Arc::new(Handlers::new().on(all, |seen: &mut Arc<Mutex<u32>>, n: &u32, cx| {
        *seen.lock().unwrap() = *n;
        if *n != 7 {
            cx.route(n + 1);
        }
    }));
    let context = |name, depth| {
        stepped.context(name).max_depth(depth).start(handlers.clone(), deepest.clone())
    };
    let enough = context("enough", 7);
    enough.try_send(0).unwrap();
    assert_eq!(stepped.run(&enough), 8);
    assert_eq!(enough.status(), Status::Running);
    let endless = context("endless", 7);
    endless.try_send(8).unwrap();
    endless.try_send(8).unwrap();
    stepped.run(&endless);
    assert_eq!(*deepest.lock().unwrap(), 8 + 7);
    let Status::Failed(failure) = endless.status() else { panic!("{:?}", endless.status()) };
    assert!(failure.message.contains("more than 7 deep"), "{failure}");
    assert!(failure.location.contains(&format!("ends.rs:{line}:")), "{failure}");
    assert_eq!(endless.stats().dropped, 1, "the second event was waiting");
    enough.try_send(7).unwrap();
    assert_eq!(stepped.run(&enough), 1, "the other one does not notice");
}

#[test]
fn who_has_ended_takes_no_more() {
    let stepped = Stepped::new();
    let refused = Arc::new(AtomicUsize::new(0));
    let ending = Handlers::new().on(all, |(): &mut (), n: &u32, cx| {
        if *n == 1 {
            cx.route(5);
            cx.end();
        }
    });
    let short = stepped.context("short").start(ending, ());
    let (target, count) = (short.clone(), refused.clone());
    let sender = stepped.context("sender").start(
        Handlers::new().on(all, move |(): &mut (), n: &u32, cx| {
            if let Err(Ended(back)) = cx.enqueue_to(&target, *n) {
                count.fetch_add(back as usize, Ordering::SeqCst);
            }
        }),
        (),
    );
    short.try_send(0).unwrap();
    short.try_send(1).unwrap();
    short.try_send(2).unwrap();
    stepped.run(&short);
    assert_eq!(short.status(), Status::Completed);
    assert_eq!((short.stats().input, short.stats().dropped), (2, 2), "one routed, one waiting");
    sender.try_send(7).unwrap();
    stepped.run(&sender);
    assert_eq!(refused.load(Ordering::SeqCst), 7);
    assert_eq!(sender.stats().sent, 0);
}

/// What the last event's handlers have sent goes, even if its target has no room yet.
#[test]
fn who_ends_first_sends_what_waits() {
    let stepped = Stepped::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = Handlers::new().on(all, |seen: &mut Arc<Mutex<Vec<u32>>>, n: &u32, _| {
        seen.lock().unwrap().push(*n);
    });
    let narrow = stepped.context("narrow").capacity(1).start(noting, seen.clone());
    let target = narrow.clone();
    let ending = Handlers::new().on(all, move |(): &mut (), n: &u32, cx| {
        (0..*n).for_each(|k| cx.enqueue_to(&target, k).unwrap());
        cx.end();
    });
    let sender = stepped.context("sender").start(ending, ());
    sender.try_send(3).unwrap();
    sender.try_send(9).unwrap();
    stepped.run(&sender);
    assert_eq!(sender.status(), Status::Running);
    assert!(matches!(sender.try_send(1), Err(PushError::Closed(1))));
    for _ in 0..3 {
        stepped.run(&narrow);
        stepped.run(&sender);
    }
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    assert_eq!(sender.status(), Status::Completed);
    assert_eq!((sender.stats().undelivered, sender.stats().dropped), (0, 1));
    // It stays as it ended.
    sender.cancel();
    assert_eq!(sender.status(), Status::Completed);
}

#[test]
fn a_handler_can_wait_for_whom_it_has_sent_to() {
    for workers in [1, 2] {
        let engine = Engine::builder().workers(workers).build().unwrap();
        let ending = Arc::new(Handlers::new().on(all, |(): &mut (), _: &u32, cx| cx.end()));
        let handlers = Handlers::new().on(all, move |(): &mut (), n: &u32, cx| {
            let child = cx.context("child").start(ending.clone(), ());
            cx.enqueue_to(&child, *n).unwrap();
            assert_eq!(child.wait(), Status::Completed);
            cx.end();
        });
        let context = engine.context("parent").start(handlers, ());
        context.send(1).unwrap();
        assert_eq!(context.wait(), Status::Completed);
    }
}

#[test]
fn drained_is_who_has_handled_what_waited() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handlers = Handlers::new().on(all, |seen: &mut Arc<Mutex<Vec<u32>>>, n: &u32, cx| {
        seen.lock().unwrap().push(*n);
        if *n > 0 {
            cx.route(n - 1);
        }
    });
    let context = engine.context("countdown").start(handlers, seen.clone());
    context.send(2).unwrap();
    context.send(1).unwrap();
    context.drain();
    assert!(matches!(context.send(9), Err(PushError::Closed(9))));
    assert_eq!(context.wait(), Status::Completed);
    assert_eq!(*seen.lock().unwrap(), [2, 1, 0, 1, 0]);
}

#[test]
fn a_context_nobody_can_reach_is_let_go_of() {
    let stepped = Stepped::new();
    let count = Arc::new(AtomicUsize::new(0));
    let handlers = Arc::new(Handlers::<u32, Alive>::new());
    let start = |name| stepped.context(name).start(handlers.clone(), Alive::new(&count));
    let (private, other) = (start("private"), start("other"));
    let public = stepped.context("public").public().start(handlers.clone(), Alive::new(&count));
    assert_eq!(stepped.contexts::<u32>().list().len(), 3);
    drop(private);
    drop(public);
    assert_eq!(count.load(Ordering::SeqCst), 2, "a public one can always be reached");
    assert_eq!(stepped.contexts::<u32>().list().len(), 2);
    other.try_send(1).unwrap();
    drop(other);
    assert_eq!(count.load(Ordering::SeqCst), 2, "it has an event to handle");
    drop(stepped);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn a_panic_that_panics_when_it_is_dropped_ends_its_context_alone() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let engine = Engine::builder().workers(1).build().unwrap();
    let handlers = Handlers::new().on(all, |(): &mut (), n: &u32, _| {
        if *n == 1 {
            std::panic::panic_any(Bomb);
        }
    });
    let handlers = Arc::new(handlers);
    let [bad, good] = ["bad", "good"].map(|name| engine.context(name).start(handlers.clone(), ()));
    bad.send(1).unwrap();
    assert!(matches!(bad.wait_timeout(super::common::GUARD), Status::Failed(_)));
    good.send(2).unwrap();
    good.drain();
    assert_eq!(good.wait_timeout(super::common::GUARD), Status::Completed);
}

/// The handler is busy meanwhile.
#[test]
fn who_is_cancelled_takes_no_more_at_once() {
    let stepped = Stepped::new();
    let context = stepped
        .context("cancelled")
        .start(Handlers::new().on(all, |(): &mut (), _: &u32, _| {}), ());
    context.try_send(1).unwrap();
    context.cancel();
    assert!(matches!(context.try_send(2), Err(PushError::Closed(2))));
    stepped.run(&context);
    assert_eq!((context.status(), context.stats().dropped), (Status::Cancelled, 1));
}

#[test]
fn the_id_of_a_timer_is_never_another_ones() {
    let stepped = Stepped::new();
    let handlers =
        Handlers::new().on(all, |ids: &mut Vec<mizzle::context::TimerId>, n: &u32, cx| match n {
            0 => {
                let id = cx.after(std::time::Duration::MAX, 7);
                assert!(!ids.contains(&id));
                ids.push(id);
            }
            _ => assert!(ids.last().is_some_and(|id| cx.cancel(*id) == Some(7))),
        });
    let context = stepped.context("timers").start(handlers, Vec::new());
    for n in [0, 1, 0, 1] {
        context.try_send(n).unwrap();
        stepped.run(&context);
    }
    assert_eq!(context.status(), Status::Running);
}

/// Each is all that holds the next one. Dropped one within the other they would need more stack than there is.
#[test]
fn a_long_row_of_contexts_is_let_go_of() {
    #[expect(dead_code, reason = "they are held")]
    struct Holds(Option<ContextHandle<u32>>, Alive);
    let engine = Engine::builder().workers(1).build().unwrap();
    let alive = Arc::new(AtomicUsize::new(0));
    let handlers = Arc::new(Handlers::new().on(all, |_: &mut Holds, _: &u32, _| {}));
    let first = (0..200_000).fold(None, |next, _| {
        let holds = Holds(next, Alive::new(&alive));
        Some(engine.context("in a row").start(handlers.clone(), holds))
    });
    assert_eq!(engine.contexts::<u32>().stats().contexts, 200_000);
    drop(first);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert_eq!(engine.contexts::<u32>().stats().contexts, 0);
}

#[test]
fn an_engine_that_is_dropped_ends_its_contexts() {
    let count = Arc::new(AtomicUsize::new(0));
    {
        let engine = Engine::builder().workers(2).build().unwrap();
        let handlers = Arc::new(Handlers::new().on(all, |_: &mut Alive, n: &u32, cx| {
            cx.route(*n);
            cx.enqueue(*n);
        }));
        for n in 0..10 {
            let name = format!("endless {n}");
            let context = engine.context(&name).public().max_depth(u32::MAX);
            context.start(handlers.clone(), Alive::new(&count)).send(n).unwrap();
        }
        assert_eq!(count.load(Ordering::SeqCst), 10);
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn a_handler_starts_contexts_and_keeps_their_handles() {
    struct Job(u32);
    struct Done(u32);
    struct Main {
        workers: Vec<ContextHandle<AnyEvent>>,
        done: Vec<u32>,
    }
    let finished = Arc::new(Mutex::new(Vec::new()));
    let result = finished.clone();
    let handlers = Handlers::new()
        .on(AnyEvent::get, |main: &mut Main, job: &Job, cx| {
            let boss = cx.this();
            let work = Handlers::new().on(AnyEvent::get, move |sum: &mut u32, job: &Job, cx| {
                *sum += job.0;
                cx.enqueue_to(&boss, AnyEvent::new(Done(*sum))).unwrap();
                cx.end();
            });
            let worker = cx.context("worker").start(work, 1_000);
            cx.enqueue_to(&worker, AnyEvent::new(Job(job.0))).unwrap();
            main.workers.push(worker);
        })
        .on(AnyEvent::get, move |main: &mut Main, done: &Done, cx| {
            main.done.push(done.0);
            if main.done.len() == 3 {
                main.done.sort_unstable();
                *result.lock().unwrap() = main.done.clone();
                cx.end();
            }
        });
    let engine = Engine::builder().workers(2).build().unwrap();
    let main =
        engine.context("main").start(handlers, Main { workers: Vec::new(), done: Vec::new() });
    for n in 1..=3 {
        main.send(AnyEvent::new(Job(n))).unwrap();
    }
    assert_eq!(main.wait(), Status::Completed);
    assert_eq!(*finished.lock().unwrap(), [1_001, 1_002, 1_003]);
}
