//! W2 and W3: count and sum per key in tumbling windows of a second, in order and with delays.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use mizzle::aggregate::{count, sum};
use mizzle::time::Watermarks;
use mizzle::{Engine, Event, Query, Windowed, Windows, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run, scatter};
use crate::data::{Reader, Reading, delayed};

/// How long a window is, in microseconds.
pub const SIZE_MICROS: i64 = 1_000_000;
const SIZE: Duration = Duration::from_micros(SIZE_MICROS as u64);

pub(super) const WINDOW: Workload = Workload {
    name: "window",
    about: "count and sum per key in windows of 1 s; in order",
    order_shows: false,
    prepare: |setting| Prepared::in_order(setting, setting.events),
    mizzle: |prepared, setting, engine| mizzle(prepared, setting, engine, Watermarks::ascending()),
    baseline: Some(|prepared, _| {
        let mut windows = InOrder::default();
        prepared.streams[0].iter().for_each(|event| windows.add(event));
        Outcome::by_hand(windows.finish())
    }),
    second_baseline: None,
};

pub(super) const WINDOW_DISORDER: Workload = Workload {
    name: "window-disorder",
    about: "as window, each event delayed by up to --disorder",
    order_shows: false,
    prepare: |setting| {
        let delay = setting.disorder.as_micros() as u64;
        Prepared {
            streams: vec![delayed(setting.events, setting.keys(), delay, setting.seed)],
            ..Prepared::default()
        }
    },
    mizzle: |prepared, setting, engine| {
        mizzle(prepared, setting, engine, Watermarks::bounded(setting.disorder))
    },
    baseline: Some(|prepared, setting| {
        Outcome::by_hand(if setting.in_order {
            sorted(&prepared.streams[0], setting.disorder)
        } else {
            as_they_come(&prepared.streams[0], setting.disorder)
        })
    }),
    second_baseline: None,
};

/// What a window's result adds to the checksum, which is the same for any order of results.
#[inline]
pub fn word(key: u64, start: i64, count: u64, sum: i64) -> u64 {
    scatter(mix(mix(mix(key, start as u64), count), sum as u64))
}

fn mizzle(
    prepared: &Prepared,
    setting: &Setting,
    engine: &Engine,
    watermarks: Watermarks<Reading>,
) -> Outcome {
    let (sink, result) = checksum(|all: u64, event: &Event<Windowed<u64, (u64, i64)>>| {
        let Windowed { key, start, value: (count, sum), .. } = &event.value;
        all.wrapping_add(word(*key, start.as_micros(), *count, *sum))
    });
    let query = Query::new("window");
    query
        .source("readings", source::events(Reader::new(&prepared.streams[0])))
        .watermarks(watermarks)
        .key_by(|reading| reading.key)
        .window(Windows::tumbling(SIZE))
        .aggregate((count(), sum(|reading: &Reading| reading.value)))
        .in_order_if(setting.in_order)
        .sink(sink);
    run(engine, query, &result)
}

type Table = HashMap<u64, (u64, i64)>;

fn emit(start: i64, table: &mut Table) -> u64 {
    table.drain().fold(0, |all, (key, (count, sum))| all.wrapping_add(word(key, start, count, sum)))
}

/// One window is open at a time.
#[derive(Default)]
struct InOrder {
    start: i64,
    table: Table,
    checksum: u64,
}

impl InOrder {
    #[inline]
    fn add(&mut self, event: &Event<Reading>) {
        let time = event.time.as_micros();
        if time >= self.start + SIZE_MICROS {
            self.checksum = self.checksum.wrapping_add(emit(self.start, &mut self.table));
            self.start = time - time % SIZE_MICROS;
        }
        let entry = self.table.entry(event.value.key).or_default();
        entry.0 += 1;
        entry.1 += event.value.value;
    }

    fn finish(mut self) -> u64 {
        self.checksum.wrapping_add(emit(self.start, &mut self.table))
    }
}

/// Events per sorted run: of the sizes tried (1,024 to 65,536) the fastest.
const RUN: usize = 16_384;

/// Sorted runs, merged as far as the watermark allows, then as if in order.
fn sorted(events: &[Event<Reading>], delay: Duration) -> u64 {
    let mut windows = InOrder::default();
    let mut runs: VecDeque<(Vec<Event<Reading>>, usize)> = VecDeque::new();
    let (mut due, mut newest) = (Vec::new(), i64::MIN);
    for chunk in events.chunks(RUN) {
        let mut run = chunk.to_vec();
        run.sort_by_key(|event| event.time);
        newest = newest.max(run.last().map_or(newest, |event| event.time.as_micros()));
        runs.push_back((run, 0));
        release(&mut runs, newest - delay.as_micros() as i64, &mut due, &mut windows);
    }
    release(&mut runs, i64::MAX, &mut due, &mut windows);
    windows.finish()
}

fn release(
    runs: &mut VecDeque<(Vec<Event<Reading>>, usize)>,
    watermark: i64,
    due: &mut Vec<Event<Reading>>,
    windows: &mut InOrder,
) {
    for (run, done) in runs.iter_mut() {
        let ready = run[*done..].partition_point(|event| event.time.as_micros() <= watermark);
        due.extend_from_slice(&run[*done..*done + ready]);
        *done += ready;
    }
    runs.retain(|(run, done)| *done < run.len());
    // The standard library's stable sort finds the runs and merges them.
    due.sort_by_key(|event| event.time);
    due.drain(..).for_each(|event| windows.add(&event));
}

/// A table per open window, closed when the watermark reaches its end.
fn as_they_come(events: &[Event<Reading>], delay: Duration) -> u64 {
    let mut open: VecDeque<(i64, Table)> = VecDeque::new();
    let (mut spare, mut newest, mut checksum) = (Vec::new(), i64::MIN, 0u64);
    for chunk in events.chunks(1_024) {
        for event in chunk {
            let time = event.time.as_micros();
            newest = newest.max(time);
            let table = match open.iter().rposition(|(start, _)| *start <= time) {
                Some(at) if time < open[at].0 + SIZE_MICROS => &mut open[at].1,
                at => {
                    let at = at.map_or(0, |at| at + 1);
                    open.insert(at, (time - time % SIZE_MICROS, spare.pop().unwrap_or_default()));
                    &mut open[at].1
                }
            };
            let entry = table.entry(event.value.key).or_default();
            entry.0 += 1;
            entry.1 += event.value.value;
        }
        let watermark = newest - delay.as_micros() as i64;
        while open.front().is_some_and(|(start, _)| start + SIZE_MICROS <= watermark) {
            if let Some((start, mut table)) = open.pop_front() {
                checksum = checksum.wrapping_add(emit(start, &mut table));
                spare.push(table);
            }
        }
    }
    open.iter_mut().fold(checksum, |all, (start, table)| all.wrapping_add(emit(*start, table)))
}
