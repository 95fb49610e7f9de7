//! How long an event takes from when it was due to be sent to the end of the chain.
//!
//! Events are due at a steady rate. One that is sent late, because those before it took long, is
//! measured from when it was due: a stall shows in every event that it delayed.

use std::hint::spin_loop;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mizzle::sink::{Sink, SinkError};
use mizzle::{Engine, Event, Histogram, Query};

use super::chain::Sum;
use super::{Latency, Outcome, Prepared, Setting, Workload, checksum, mix, run};
use crate::data::{Data, Reading};

pub(super) const LATENCY: Workload = Workload {
    name: "latency",
    about: "chain, pushed at --rate from another thread: how long events take; 2 s at most",
    order_shows: false,
    prepare: |setting| Prepared::in_order(setting, setting.events.min(2 * setting.rate as usize)),
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

/// A reading on its way.
#[derive(Clone, Copy)]
struct Sent {
    event: Event<Reading>,
    /// When it was due.
    due: Instant,
}

/// Hands each event to `send` when it is due, or as soon after as may be.
fn sending(data: &Data, rate: u64, mut send: impl FnMut(Sent) + Send + 'static) -> JoinHandle<()> {
    let (data, begin) = (data.clone(), Instant::now() + Duration::from_millis(1));
    thread::spawn(move || {
        for (number, event) in data.iter().enumerate() {
            let nanos = number as u64 * 1_000_000_000 / rate;
            let due = begin + Duration::from_nanos(nanos);
            while Instant::now() < due {
                spin_loop();
            }
            send(Sent { event: *event, due });
        }
    })
}

fn histogram() -> Histogram<u64> {
    // Up to an hour: it does not grow while it is measured.
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds are valid")
}

fn record(latencies: &mut Histogram<u64>, due: Instant) {
    latencies.saturating_record(due.elapsed().as_nanos() as u64);
}

/// Records how long events took before it passes them on.
struct Arrival<S> {
    latencies: Histogram<u64>,
    leave: Sender<Histogram<u64>>,
    next: S,
}

impl<S: Sink<i64>> Sink<(i64, Instant)> for Arrival<S> {
    fn event(&mut self, event: Event<(i64, Instant)>) {
        record(&mut self.latencies, event.value.1);
        self.next.event(event.map(|(value, _)| value));
    }

    fn end(&mut self) -> Result<(), SinkError> {
        let _ = self.leave.send(self.latencies.clone());
        self.next.end()
    }
}

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (next, result) = checksum(|sum, event: &Event<i64>| mix(sum, event.value as u64));
    let (leave, left) = channel();
    let query = Query::new("latency");
    let (push, pushed) = query.push_source("readings", |sent: &Sent| sent.event.time);
    pushed
        .map(|Sent { event, due }| (Reading { value: event.value.value * 3, ..event.value }, due))
        .filter(|(reading, _)| reading.key & 1 == 0)
        .map(|(reading, due)| (reading.value + 1, due))
        .filter(|(value, _)| value & 2 == 0)
        .apply_stateful(0i64, |sum, (value, due)| {
            *sum = sum.wrapping_add(value);
            (*sum, due)
        })
        .in_order_if(setting.in_order)
        .sink(Arrival { latencies: histogram(), leave, next });
    let sending = sending(&prepared.streams[0], setting.rate, move |sent| {
        push.push(sent).expect("the query takes everything");
    });
    let outcome = run(engine, query, &result);
    sending.join().expect("sending does not panic");
    let latencies = left.recv().expect("the sink has ended");
    Outcome { latency: Some(Latency::of(&latencies)), ..outcome }
}

/// A bare hand-off: a channel of the standard library, and the same loop.
fn baseline(prepared: &Prepared, setting: &Setting) -> Outcome {
    let (sender, receiver) = channel();
    let sending = sending(&prepared.streams[0], setting.rate, move |sent| {
        sender.send(sent).expect("the loop takes everything");
    });
    let (mut sum, mut latencies) = (Sum::default(), histogram());
    for Sent { event, due } in receiver {
        if sum.take(event.value) {
            record(&mut latencies, due);
        }
    }
    sending.join().expect("sending does not panic");
    Outcome { latency: Some(Latency::of(&latencies)), ..Outcome::by_hand(sum.checksum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::in_order;

    /// Else a stall would only show in the event that it holds up, not in those that wait behind it.
    #[test]
    fn when_events_are_due_does_not_depend_on_how_long_sending_takes() {
        let (sender, receiver) = channel();
        let data = in_order(20, 5, 1);
        let sending = sending(&data, 1_000, move |sent| {
            thread::sleep(Duration::from_millis(3));
            sender.send(sent.due).unwrap();
        });
        let due: Vec<_> = receiver.iter().collect();
        sending.join().unwrap();
        let between: Vec<_> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(between, vec![Duration::from_millis(1); 19]);
    }
}
