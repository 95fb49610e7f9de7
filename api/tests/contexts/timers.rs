//! Timers of contexts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mizzle::context::{Handlers, Stepped, TimerId};
use mizzle::time::ManualClock;
use mizzle::{Engine, Status};

use super::common::eventually;

#[derive(Default)]
struct State {
    seen: Arc<Mutex<Vec<u32>>>,
    timer: Option<TimerId>,
}

fn handlers() -> Handlers<u32, State> {
    Handlers::new().on(
        |n: &u32| Some(n),
        |state: &mut State, n, cx| {
            state.seen.lock().unwrap().push(*n);
            match *n {
                1 => {
                    cx.after(Duration::from_secs(20), 20);
                    state.timer = Some(cx.after(Duration::from_secs(10), 10));
                    cx.after(Duration::from_secs(20), 21);
                }
                2 => {
                    let timer = state.timer.take().unwrap();
                    assert_eq!(cx.cancel(timer), Some(10));
                    assert_eq!(cx.cancel(timer), None);
                }
                20 => {
                    cx.after(Duration::from_secs(1), 30);
                }
                30 => cx.end(),
                _ => {}
            }
        },
    )
}

fn ended(clock: &ManualClock, context: &mizzle::context::ContextHandle<u32>) {
    eventually("its last timer comes", || {
        clock.advance(Duration::from_secs(1));
        context.status().is_over()
    });
}

#[test]
fn timers_come_when_they_are_due_in_the_order_in_which_they_were_set() {
    for workers in [1, 2] {
        for cancel in [false, true] {
            let clock = ManualClock::default();
            let engine = Engine::builder().workers(workers).clock(clock.clone()).build().unwrap();
            let state = State::default();
            let seen = state.seen.clone();
            let context = engine.context("timed").start(handlers(), state);
            context.send(1).unwrap();
            if cancel {
                context.send(2).unwrap();
            }
            let begun = 1 + u64::from(cancel);
            eventually("it has begun", || context.stats().input == begun);
            ended(&clock, &context);
            assert_eq!(context.status(), Status::Completed);
            let expected: &[u32] = if cancel { &[1, 2, 20, 21, 30] } else { &[1, 10, 20, 21, 30] };
            assert_eq!(*seen.lock().unwrap(), expected);
        }
    }
}

#[test]
fn events_of_timers_take_no_room() {
    let clock = ManualClock::default();
    let stepped = Stepped::with_clock(clock.clone());
    let handlers = Handlers::new().on(
        |n: &u32| (*n > 0).then_some(n),
        |(): &mut (), n, cx| (0..*n).for_each(|_| _ = cx.after(Duration::from_secs(1), 0)),
    );
    let context = stepped.context("timed").capacity(1).start(handlers, ());
    context.try_send(3).unwrap();
    stepped.run(&context);
    context.try_send(0).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(stepped.step(&context, 1), 1, "the one that waited comes first");
    context.try_send(0).unwrap();
    assert_eq!(context.stats().depth, 1);
    assert_eq!(stepped.run(&context), 4);
    assert_eq!(context.stats().input, 6);
}

#[test]
fn a_context_with_a_timer_is_not_let_go_of() {
    let clock = ManualClock::default();
    let stepped = Stepped::with_clock(clock.clone());
    let contexts = stepped.contexts::<u32>();
    let context = stepped.context("timed").start(handlers(), State::default());
    context.try_send(1).unwrap();
    stepped.run(&context);
    drop(context);
    let [context] = &contexts.list()[..] else { panic!("it has timers") };
    // One that asked for no timer, or whose timers have all come, is.
    let other = stepped.context("other").start(handlers(), State::default());
    other.try_send(0).unwrap();
    stepped.run(&other);
    drop(other);
    assert_eq!(contexts.list().len(), 1);
    let context = context.clone();
    clock.advance(Duration::from_secs(60));
    eventually("its timer comes", || stepped.run(&context) > 0);
    clock.advance(Duration::from_secs(60));
    eventually("its timer comes", || stepped.run(&context) > 0);
    assert_eq!(context.status(), Status::Completed);
}
