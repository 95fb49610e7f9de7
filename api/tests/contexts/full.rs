//! Inboxes that are full: exact bounds, outboxes, circles, the special queue.

use std::sync::{Arc, Mutex};
use std::thread;

use mizzle::context::{ContextHandle, Handlers, Stepped};
use mizzle::{Engine, PushError, Status};

use super::common::eventually;

type Seen = Arc<Mutex<Vec<u32>>>;

fn noting() -> Arc<Handlers<u32, Seen>> {
    Arc::new(
        Handlers::new()
            .on(|n: &u32| Some(n), |seen: &mut Seen, n, _| seen.lock().unwrap().push(*n)),
    )
}

fn seen(seen: &Seen) -> Vec<u32> {
    seen.lock().unwrap().clone()
}

#[test]
fn an_inbox_holds_exactly_so_many_events_that_are_not_begun() {
    let stepped = Stepped::new();
    let log = Seen::default();
    let context = stepped.context("three").capacity(3).start(noting(), log.clone());
    for round in 0..3 {
        for n in 0..3 {
            context.try_send(n).unwrap();
        }
        assert_eq!(context.try_send(9), Err(PushError::Full(9)));
        // Begun events make room, one each, though all were taken from the inbox at once.
        assert_eq!(stepped.step(&context, 1), 1);
        context.try_send(3).unwrap();
        assert_eq!(context.try_send(9), Err(PushError::Full(9)));
        assert_eq!(context.stats().depth, 3);
        stepped.run(&context);
        assert_eq!(seen(&log).len(), 4 * (round + 1));
    }
    assert_eq!(seen(&log)[..4], [0, 1, 2, 3]);
}

#[test]
fn routed_events_take_no_room_and_are_never_refused() {
    let stepped = Stepped::new();
    let handlers = Handlers::new()
        .on(|n: &u32| Some(n), |(): &mut (), n, cx| (0..*n).for_each(|_| cx.route(0)));
    let context = stepped.context("one").capacity(1).start(handlers, ());
    context.try_send(100).unwrap();
    stepped.step(&context, 1);
    assert_eq!(context.stats().depth, 0);
    context.try_send(0).unwrap();
    assert_eq!(stepped.run(&context), 101);
}

#[test]
fn a_sender_outside_waits_for_room_and_nothing_is_lost() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let log = Seen::default();
    let context = engine.context("narrow").capacity(1).start(noting(), log.clone());
    thread::scope(|scope| {
        for sender in 0..2 {
            let context = context.clone();
            scope.spawn(move || {
                (0..2_000).for_each(|n| context.send(sender * 10_000 + n).unwrap());
            });
        }
    });
    context.drain();
    assert_eq!(context.wait(), Status::Completed);
    let all = seen(&log);
    assert_eq!(all.len(), 4_000);
    for sender in 0..2 {
        let own: Vec<_> = all.iter().filter(|n| **n / 10_000 == sender).collect();
        assert!(own.is_sorted());
    }
}

#[test]
fn what_is_sent_behind_a_full_target_waits_with_it() {
    let stepped = Stepped::new();
    let (narrow_log, wide_log, other) = (Seen::default(), Seen::default(), Seen::default());
    let narrow = stepped.context("narrow").capacity(1).start(noting(), narrow_log.clone());
    let wide = stepped.context("wide").start(noting(), wide_log.clone());
    let public = stepped.context("public").public().start(noting(), other.clone());
    let targets = (narrow.clone(), wide.clone());
    let sender = stepped.context("sender").start(
        Handlers::new().on(
            |n: &u32| Some(n),
            move |(): &mut (), n, cx| {
                cx.enqueue_to(&targets.1, *n).unwrap();
                cx.enqueue_to(&targets.0, *n).unwrap();
                cx.enqueue_to(&targets.0, n + 1).unwrap();
                cx.enqueue_to(&targets.1, n + 1).unwrap();
                cx.enqueue(n + 2);
            },
        ),
        (),
    );
    sender.try_send(1).unwrap();
    sender.try_send(10).unwrap();
    assert_eq!(stepped.run(&sender), 1, "its second event waits for the outbox");
    assert_eq!(sender.stats().state, "waiting for room");
    stepped.run(&wide);
    stepped.move_enqueued::<u32>();
    stepped.run(&public);
    assert_eq!((seen(&wide_log), seen(&other)), (vec![1], vec![]));
    stepped.run(&narrow);
    assert_eq!(stepped.run(&sender), 1);
    stepped.run(&wide);
    stepped.move_enqueued::<u32>();
    stepped.run(&public);
    assert_eq!((seen(&wide_log), seen(&other)), (vec![1, 2, 10], vec![3]));
    // The target ends: what waits for it is counted, and the sender goes on.
    narrow.cancel();
    stepped.run(&narrow);
    assert_eq!(narrow.status(), Status::Cancelled);
    stepped.run(&sender);
    assert_eq!((sender.stats().undelivered, sender.stats().state), (2, "idle"));
    stepped.run(&wide);
    assert_eq!(seen(&wide_log), [1, 2, 10, 11]);
}

#[test]
fn contexts_that_fill_each_other_go_on() {
    let engine = Engine::builder().workers(4).build().unwrap();
    let peers: Arc<Mutex<Vec<ContextHandle<u32>>>> = Arc::default();
    let handlers = Arc::new(Handlers::new().on(
        |n: &u32| Some(n),
        |peers: &mut Arc<Mutex<Vec<ContextHandle<u32>>>>, n, cx| {
            if *n > 0 {
                let all = peers.lock().unwrap().clone();
                // To everybody, itself included.
                all.iter().for_each(|peer| cx.enqueue_to(peer, n - 1).unwrap());
            }
        },
    ));
    for n in 0..4 {
        let context = engine.context(&format!("peer {n}")).capacity(1);
        peers.lock().unwrap().push(context.start(handlers.clone(), peers.clone()));
    }
    let all = peers.lock().unwrap().clone();
    all[0].send(6).unwrap();
    let expected: u64 = (0..=6).map(|depth| 4_u64.pow(depth)).sum();
    let handled = || all.iter().map(|context| context.stats().input).sum::<u64>();
    eventually("they go on", || handled() >= expected);
    assert!(engine.contexts::<u32>().stats().warnings > 0);
    peers.lock().unwrap().clear();
}

#[test]
fn the_special_queue_can_be_bounded_and_a_circle_through_it_is_broken() {
    let stepped = Stepped::new();
    let contexts = stepped.contexts::<u32>();
    contexts.bound_special(Some(2));
    let log = Seen::default();
    let slow = stepped.context("slow").public().capacity(1).start(noting(), log.clone());
    let handlers = Handlers::new().on(
        |n: &u32| (*n >= 10).then_some(n),
        |(): &mut (), n, cx| (0..n / 10).for_each(|k| cx.enqueue(k)),
    );
    let sender = stepped.context("sender").start(handlers, ());
    sender.try_send(50).unwrap();
    stepped.run(&sender);
    assert_eq!((contexts.stats().special, sender.stats().state), (2, "waiting for room"));
    for _ in 0..20 {
        stepped.move_enqueued::<u32>();
        stepped.run(&sender);
        stepped.run(&slow);
    }
    assert_eq!((seen(&log), contexts.stats().special), (vec![0, 1, 2, 3, 4], 0));
    assert_eq!(contexts.stats().warnings, 0);
    // Now the one who enqueues is itself public and full.
    let own = Handlers::new().on(
        |n: &u32| Some(n),
        |seen: &mut Seen, n, cx| {
            seen.lock().unwrap().push(*n);
            if *n >= 10 {
                (0..n / 10).for_each(|k| cx.enqueue(k));
            }
        },
    );
    let echo_log = Seen::default();
    let echo = stepped.context("echo").public().capacity(1).start(own, echo_log.clone());
    echo.try_send(90).unwrap();
    for _ in 0..40 {
        stepped.run(&echo);
        stepped.move_enqueued::<u32>();
        stepped.run(&slow);
    }
    assert_eq!(seen(&echo_log), [90, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(contexts.stats().warnings > 0);
}

#[test]
fn who_joins_later_gets_what_is_enqueued_later() {
    let stepped = Stepped::new();
    let (first, second) = (Seen::default(), Seen::default());
    let echo = Handlers::new()
        .on(|n: &u32| (*n >= 10).then_some(n), |(): &mut (), n, cx| cx.enqueue(n / 10));
    let sender = stepped.context("sender").start(echo, ());
    let old = stepped.context("old").public().start(noting(), first.clone());
    sender.try_send(10).unwrap();
    stepped.run(&sender);
    let new = stepped.context("new").public().start(noting(), second.clone());
    sender.try_send(20).unwrap();
    stepped.run(&sender);
    stepped.move_enqueued::<u32>();
    stepped.run(&old);
    stepped.run(&new);
    assert_eq!((seen(&first), seen(&second)), (vec![1, 2], vec![2]));
    // And who has ended gets nothing, and holds nothing up.
    old.cancel();
    stepped.run(&old);
    sender.try_send(30).unwrap();
    stepped.run(&sender);
    stepped.move_enqueued::<u32>();
    assert_eq!(stepped.contexts::<u32>().stats().special, 0);
    new.cancel();
    stepped.run(&new);
    sender.try_send(40).unwrap();
    stepped.run(&sender);
    stepped.move_enqueued::<u32>();
    let stats = stepped.contexts::<u32>().stats();
    assert_eq!((stats.special, stats.enqueued, stats.unheard), (0, 4, 1));
}
