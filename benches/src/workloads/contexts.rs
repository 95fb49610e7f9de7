//! Contexts: what one takes when it is idle, what a hop from one to another costs, and what routing costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mizzle::context::{ContextHandle, Handlers};
use mizzle::{Engine, Event, Status};

use super::{Many, Outcome, Prepared, Setting, Workload, mix};
use crate::counting::bytes_of;
use crate::data::{Data, Reading};
use crate::measure::stopwatch;

pub(super) const IDLE: Workload = Workload {
    name: "contexts-idle",
    about: "--queries contexts, each event sent to one of them: a sum; bytes of one when idle",
    order_shows: false,
    prepare: |setting| Prepared::in_order(setting, setting.events),
    mizzle: idle,
    baseline: None,
    second_baseline: None,
};

pub(super) const PING_PONG: Workload = Workload {
    name: "contexts-ping-pong",
    about: "two contexts that send each other an event, as often as there are events",
    order_shows: false,
    prepare: |setting| Prepared::in_order(setting, setting.events),
    mizzle: ping_pong,
    baseline: Some(by_hand),
    second_baseline: None,
};

pub(super) const ROUTE: Workload = Workload {
    name: "contexts-route",
    about: "a context that routes itself one event after the other, a thousand in a row",
    order_shows: false,
    prepare: |setting| Prepared::in_order(setting, setting.events),
    mizzle: route,
    baseline: Some(by_hand),
    second_baseline: None,
};

/// Events that are routed in a row.
const IN_A_ROW: usize = 1_000;

/// Adds what it comes to to all others' when its context ends.
struct Sum {
    sum: u64,
    all: Arc<AtomicU64>,
}

impl Drop for Sum {
    fn drop(&mut self) {
        self.all.fetch_add(self.sum, Ordering::Relaxed);
    }
}

#[inline]
fn add(sum: &mut u64, event: &Event<Reading>) {
    *sum = mix(*sum, event.value.value as u64);
}

fn idle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let all = Arc::new(AtomicU64::new(0));
    let handlers = Arc::new(Handlers::new().on(
        |event: &Event<Reading>| Some(event),
        |state: &mut Sum, event, _| add(&mut state.sum, event),
    ));
    let data = &prepared.streams[0];
    let watch = stopwatch();
    let (contexts, bytes) = bytes_of(|| {
        let start = |_| {
            let state = Sum { sum: 0, all: all.clone() };
            engine.context("").start(handlers.clone(), state)
        };
        let contexts: Vec<ContextHandle<_>> = (0..setting.queries).map(start).collect();
        // What one keeps once it has had something to do counts too.
        contexts.iter().for_each(|context| send(context, data[0]));
        while contexts.iter().any(|context| context.stats().state != "idle") {
            std::thread::yield_now();
        }
        contexts
    });
    let adding = watch();
    let watch = stopwatch();
    for event in data.iter() {
        send(&contexts[event.value.key as usize % contexts.len()], *event);
    }
    contexts.iter().for_each(ContextHandle::drain);
    contexts.iter().for_each(|context| assert_eq!(context.wait(), Status::Completed));
    let took = watch();
    let many = Many {
        bytes_per_query: bytes as f64 / setting.queries as f64,
        adds_per_cpu_s: setting.queries as f64 / adding.cpu_seconds,
        removes_per_cpu_s: None,
    };
    let checksum = all.load(Ordering::Relaxed);
    Outcome { took: Some(took), many: Some(many), ..Outcome::by_hand(checksum) }
}

fn send<E: Send + Sync + 'static>(context: &ContextHandle<E>, event: E) {
    context.send(event).expect("the context takes everything");
}

/// What a context of `ping_pong` knows.
struct Player {
    data: Data,
    other: Option<ContextHandle<Hop>>,
    all: Arc<AtomicU64>,
}

/// What goes to and fro.
enum Hop {
    /// Who the other one is.
    Meet(ContextHandle<Hop>),
    /// The number of an event, and what those before it came to.
    Ball((usize, u64)),
}

fn ping_pong(prepared: &Prepared, _: &Setting, engine: &Engine) -> Outcome {
    let all = Arc::new(AtomicU64::new(0));
    let handlers = Arc::new(
        Handlers::new()
            .on(
                |hop| match hop {
                    Hop::Ball(ball) => Some(ball),
                    Hop::Meet(_) => None,
                },
                |player: &mut Player, &(number, mut sum), cx| {
                    add(&mut sum, &player.data[number]);
                    let other = player.other.as_ref().expect("they have met");
                    if number + 1 == player.data.len() {
                        player.all.store(sum, Ordering::Relaxed);
                        // They hold each other.
                        player.other = None;
                        cx.end();
                    } else {
                        cx.enqueue_to(other, Hop::Ball((number + 1, sum))).expect("it plays on");
                    }
                },
            )
            .on(
                |hop| match hop {
                    Hop::Meet(other) => Some(other),
                    Hop::Ball(_) => None,
                },
                |player, other, _| player.other = Some(other.clone()),
            ),
    );
    let start = |name| {
        let data = prepared.streams[0].clone();
        engine.context(name).start(handlers.clone(), Player { data, other: None, all: all.clone() })
    };
    let players = [start("ping"), start("pong")];
    send(&players[0], Hop::Meet(players[1].clone()));
    send(&players[1], Hop::Meet(players[0].clone()));
    send(&players[0], Hop::Ball((0, 0)));
    let last = (prepared.events() - 1) % 2;
    assert_eq!(players[last].wait(), Status::Completed);
    players[1 - last].drain();
    players[1 - last].wait();
    Outcome::by_hand(all.load(Ordering::Relaxed))
}

fn route(prepared: &Prepared, _: &Setting, engine: &Engine) -> Outcome {
    let all = Arc::new(AtomicU64::new(0));
    let data = prepared.streams[0].clone();
    let handlers = Handlers::new().on(
        |number: &usize| Some(number),
        move |state: &mut Sum, &number, cx| {
            add(&mut state.sum, &data[number]);
            if !(number + 1).is_multiple_of(IN_A_ROW) && number + 1 < data.len() {
                cx.route(number + 1);
            }
        },
    );
    let state = Sum { sum: 0, all: all.clone() };
    let context = engine.context("route").start(handlers, state);
    (0..prepared.events()).step_by(IN_A_ROW).for_each(|number| send(&context, number));
    context.drain();
    assert_eq!(context.wait(), Status::Completed);
    Outcome::by_hand(all.load(Ordering::Relaxed))
}

/// A loop.
fn by_hand(prepared: &Prepared, _: &Setting) -> Outcome {
    let mut sum = 0;
    prepared.streams[0].iter().for_each(|event| add(&mut sum, event));
    Outcome::by_hand(sum)
}
