//! The workloads on renoir. Its iterator source is one replica; what follows it in the same block runs
//! in its thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use mizzle_benches::{
    Data, Prepared, Setting, Took, WINDOW_MICROS, average, average_word, mix, stopwatch,
    window_word,
};
use renoir::prelude::*;

use crate::report::Ran;
use crate::row::{Row, rows};

/// From here on the operating system may refuse the threads; a block that gets none aborts the program.
const MOST_QUERIES: usize = 5_000;

/// Runs a workload.
pub fn run(workload: &str, prepared: &Prepared, setting: &Setting) -> Result<Ran, String> {
    let streams = &prepared.streams;
    match workload {
        "chain" => chain(&streams[0], setting),
        "window" => window(&streams[0], setting, 0),
        "window-disorder" => window(&streams[0], setting, setting.disorder.as_micros() as i64),
        "union" if setting.workers > 1 => {
            Err("a merged stream of several replicas has no order".into())
        }
        "union" => union(streams, setting),
        "queries" if setting.queries > MOST_QUERIES => {
            Err("a query takes a thread or two, and it aborts when it gets no more".into())
        }
        "queries" => many(&streams[0], setting),
        _ => Err("not written".into()),
    }
}

fn context(setting: &Setting) -> Result<StreamContext, String> {
    let config = RuntimeConfig::local(setting.workers as u64);
    Ok(StreamContext::new(config.map_err(|error| error.to_string())?))
}

/// What a sink has seen; replicas add up when they are done.
struct Tally {
    sum: u64,
    all: Arc<AtomicU64>,
}

impl Tally {
    fn new(all: &Arc<AtomicU64>) -> Self {
        Self { sum: 0, all: all.clone() }
    }
}

impl Clone for Tally {
    fn clone(&self) -> Self {
        Self::new(&self.all)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.all.fetch_add(self.sum, Ordering::Relaxed);
    }
}

/// A sink's function that folds what it gets into `all`.
fn fold<T, F: Fn(u64, T) -> u64 + Clone>(
    all: &Arc<AtomicU64>,
    fold: F,
) -> impl FnMut(T) + Clone + use<T, F> {
    let mut tally = Tally::new(all);
    move |value| {
        let tally = &mut tally;
        tally.sum = fold(tally.sum, value);
    }
}

/// Runs what has been built; all threads have ended when it returns.
fn finish(context: StreamContext, all: &Arc<AtomicU64>) -> Ran {
    context.execute_blocking();
    Ran { checksum: all.load(Ordering::Relaxed), took: None }
}

fn chain(data: &Data, setting: &Setting) -> Result<Ran, String> {
    let (context, all) = (context(setting)?, Arc::default());
    let mut sum = 0i64;
    context
        .stream_iter(rows(data))
        .batch_mode(BatchMode::fixed(setting.batch))
        .map(|row| Row { value: row.value * 3, ..row })
        .filter(|row| row.key & 1 == 0)
        .map(|row| row.value + 1)
        .filter(|value| value & 2 == 0)
        .rich_map(move |value| {
            sum = sum.wrapping_add(value);
            sum
        })
        .for_each(fold(&all, |all, sum: i64| mix(all, sum as u64)));
    Ok(finish(context, &all))
}

/// A key's windows begin at its first event, not at the epoch. So each key is given an event at 0 first,
/// which is not counted. Each watermark visits every key; there is one per window, which is as few as
/// close it in time.
fn window(data: &Data, setting: &Setting, delay: i64) -> Result<Ran, String> {
    let (context, all) = (context(setting)?, Arc::default());
    let marks = (0..setting.keys()).map(|key| (Row { time: 0, key, value: 0 }, 0));
    let (mut newest, mut due) = (0, WINDOW_MICROS);
    context
        .stream_iter(marks.chain(rows(data).map(|row| (row, 1))))
        .batch_mode(BatchMode::fixed(setting.batch))
        .add_timestamps(
            |(row, _)| row.time,
            move |_, &time| {
                newest = time.max(newest);
                let watermark = newest - delay;
                // A window is closed by a watermark beyond its end.
                (watermark > due).then(|| {
                    due = watermark - watermark % WINDOW_MICROS + WINDOW_MICROS;
                    watermark
                })
            },
        )
        .group_by(|(row, _)| row.key)
        .window(EventTimeWindow::tumbling(WINDOW_MICROS))
        .fold((0, 0, 0), |(start, count, sum): &mut (i64, u64, i64), (row, one)| {
            *start = row.time - row.time % WINDOW_MICROS;
            *count += one;
            *sum += row.value;
        })
        .for_each(fold(&all, |all: u64, (key, (start, count, sum))| match count {
            0 => all,
            _ => all.wrapping_add(window_word(key, start, count, sum)),
        }));
    Ok(finish(context, &all))
}

/// `merge` is in no order; `reorder` sorts what the watermarks of both streams allow.
fn union(streams: &[Data], setting: &Setting) -> Result<Ran, String> {
    let (context, all) = (context(setting)?, Arc::default());
    let [left, right] = [&streams[0], &streams[1]].map(|data| {
        let (mut rows_seen, batch) = (0, setting.batch);
        context.stream_iter(rows(data)).batch_mode(BatchMode::fixed(batch)).add_timestamps(
            |row| row.time,
            move |_, &time| {
                rows_seen += 1;
                (rows_seen % batch == 0).then_some(time)
            },
        )
    });
    let mut last = 0i64;
    left.merge(right)
        .reorder()
        .rich_map(move |row| row.value - std::mem::replace(&mut last, row.value))
        .for_each(fold(&all, |all, difference: i64| mix(all, difference as u64)));
    Ok(finish(context, &all))
}

/// `split` hands every query every row, for `route` takes no closures, hence no keys known at run time
/// only.
fn many(data: &Data, setting: &Setting) -> Result<Ran, String> {
    let (context, all) = (context(setting)?, Arc::default());
    let (send_watch, watch) = mpsc::channel();
    let mut data = rows(data);
    // It has been waited for all threads to stand there before the clock starts.
    let gate = std::iter::once_with(move || {
        std::thread::sleep(Duration::from_millis(500));
        // If the other end is gone the run has failed.
        let _ = send_watch.send(stopwatch());
        None
    });
    let readings = gate.chain(std::iter::from_fn(move || data.next().map(Some))).flatten();
    let branches = context
        .stream_iter(readings)
        .batch_mode(BatchMode::fixed(setting.batch))
        .split(setting.queries);
    for (number, branch) in (0..).zip(branches) {
        let mut state = (0, 0);
        branch
            .filter(move |row: &Row| row.key == number)
            .rich_map(move |row| (row.key, average(&mut state, row.value)))
            .for_each(fold(&all, |all: u64, (key, average)| {
                all.wrapping_add(average_word(key, average))
            }));
    }
    let ran = finish(context, &all);
    let took: Option<Took> = watch.recv().ok().map(|watch| watch());
    Ok(Ran { took, ..ran })
}
