//! The chain of W1, fed from another thread.

use std::sync::mpsc::sync_channel;
use std::thread;

use mizzle::{Engine, Event, Query};

use super::chain::{Sum, sums};
use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run};
use crate::data::Reading;

pub(super) const PUSHED: Workload = Workload {
    name: "pushed",
    about: "chain, pushed from another thread in batches of --batch",
    order_shows: false,
    prepare: |setting| Prepared::in_order(setting, setting.events),
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

/// So many events may wait in the engine's inbox, and in the channel.
const ROOM: usize = 16 * 1024;

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|sum, event: &Event<i64>| mix(sum, event.value as u64));
    let query = Query::new("pushed");
    let (push, pushed) = query.push_source("readings", |event: &Event<Reading>| event.time);
    sums(pushed.map(|event| event.value), setting).sink(sink);
    let (data, batch) = (prepared.streams[0].clone(), setting.batch);
    let pushing = thread::spawn(move || {
        for events in data.chunks(batch) {
            push.push_all(events.to_vec()).expect("the query takes everything");
        }
    });
    let outcome = run(engine, query, &result);
    pushing.join().expect("pushing does not panic");
    outcome
}

/// A bare channel of the standard library, and the same loop.
fn baseline(prepared: &Prepared, setting: &Setting) -> Outcome {
    let (sender, receiver) = sync_channel::<Vec<Event<Reading>>>((ROOM / setting.batch).max(1));
    let (data, batch) = (prepared.streams[0].clone(), setting.batch);
    let sending = thread::spawn(move || {
        for events in data.chunks(batch) {
            sender.send(events.to_vec()).expect("the loop takes everything");
        }
    });
    let mut sum = Sum::default();
    for events in receiver {
        events.iter().for_each(|event| {
            sum.take(event.value);
        });
    }
    sending.join().expect("sending does not panic");
    Outcome::by_hand(sum.checksum)
}
