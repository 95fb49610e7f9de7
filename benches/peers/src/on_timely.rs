//! The workloads on timely. Rows travel as data; a batch's timestamp is a watermark: no later row
//! happened before it. Worker 0 reads the data, as one source of Mizzle's does.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::HashMap;
use mizzle_benches::{
    Data, Prepared, Setting, Took, WINDOW_MICROS, average, average_word, mix, stopwatch,
    window_word,
};
use timely::Config;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::Operator;
use timely::dataflow::operators::vec::{Filter, Map, Partition};
use timely::dataflow::{InputHandle, StreamVec};
use timely::worker::Worker;

use crate::report::Ran;
use crate::row::{Row, row};

type Time = i64;
type Input = InputHandle<Time, timely::container::CapacityContainerBuilder<Vec<Row>>>;

/// Runs a workload.
pub fn run(workload: &str, prepared: &Prepared, setting: &Setting) -> Result<Ran, String> {
    let streams = prepared.streams.clone();
    let (batch, queries) = (setting.batch, setting.queries as u64);
    match workload {
        "chain" => execute(setting, move |worker| chain(worker, &streams[0], batch)),
        "window" => execute(setting, move |worker| window(worker, &streams[0], batch, 0)),
        "window-disorder" => {
            let delay = setting.disorder.as_micros() as i64;
            execute(setting, move |worker| window(worker, &streams[0], batch, delay))
        }
        "union" => execute(setting, move |worker| union(worker, &streams, batch)),
        "queries" => execute(setting, move |worker| many(worker, &streams[0], batch, queries)),
        _ => Err("not written".into()),
    }
}

/// Runs `program` on all workers and adds up what they come to.
fn execute(
    setting: &Setting,
    program: impl Fn(&mut Worker) -> Ran + Send + Sync + 'static,
) -> Result<Ran, String> {
    let config = match setting.workers {
        1 => Config::thread(),
        workers => Config::process(workers),
    };
    let mut all = Ran { checksum: 0, took: None };
    for ran in timely::execute(config, program)?.join() {
        let ran = ran?;
        all.checksum = all.checksum.wrapping_add(ran.checksum);
        all.took = all.took.or(ran.took);
    }
    Ok(all)
}

/// A checksum that a sink leaves behind.
type Left = Rc<Cell<u64>>;

/// Folds a stream into `left`.
fn fold<D: 'static>(
    stream: StreamVec<'_, Time, D>,
    left: &Left,
    fold: impl Fn(u64, D) -> u64 + 'static,
) {
    let left = left.clone();
    stream.sink(Pipeline, "Checksum", move |(input, _)| {
        input.for_each_stamp(|_, batches| {
            let rows = batches.flat_map(|batch| batch.drain(..));
            left.set(rows.fold(left.get(), &fold));
        });
    });
}

/// The timestamps of dataflows in which nothing asks how far time has come: coarse ones, for what a new
/// one costs is for each operator.
fn coarse(row: &Row) -> Time {
    row.time - row.time % 65_536
}

/// Feeds `data` in batches and runs until all is done. After a batch, time is at the latest that `time`
/// has given.
fn feed(
    worker: &mut Worker,
    mut input: Input,
    data: &Data,
    batch: usize,
    mut time: impl FnMut(&Row) -> Time,
) {
    let mut rows = Vec::new();
    if worker.index() == 0 {
        for start in (0..data.len()).step_by(batch) {
            rows.extend((start..start + batch).map_while(|at| row(data, at)));
            let newest = rows.iter().map(&mut time).max().unwrap_or_default();
            input.send_batch(&mut rows);
            rows.clear();
            if newest > *input.time() {
                input.advance_to(newest);
            }
            worker.step();
        }
    }
    drop(input);
    finish(worker);
}

fn finish(worker: &mut Worker) {
    while worker.has_dataflows() {
        worker.step_or_park(None);
    }
}

/// A stateful map: results in order of the rows that a worker gets.
fn stateful<'s, D: 'static, R: 'static>(
    stream: StreamVec<'s, Time, D>,
    name: &str,
    mut map: impl FnMut(D) -> R + 'static,
) -> StreamVec<'s, Time, R> {
    stream.unary(Pipeline, name, |_, _| {
        move |input, output| {
            input.for_each_stamp(|stamp, batches| {
                let mut session = output.session(&stamp);
                session.give_iterator(batches.flat_map(|batch| batch.drain(..)).map(&mut map));
            });
        }
    })
}

fn chain(worker: &mut Worker, data: &Data, batch: usize) -> Ran {
    let mut input = Input::new();
    let left = Left::default();
    worker.dataflow(|scope| {
        let values = input
            .to_stream(scope)
            .map_in_place(|row: &mut Row| row.value *= 3)
            .filter(|row| row.key & 1 == 0)
            .map(|row| row.value + 1)
            .filter(|value| value & 2 == 0);
        let mut sum = 0i64;
        let sums = stateful(values, "RunningSum", move |value| {
            sum = sum.wrapping_add(value);
            sum
        });
        fold(sums, &left, |all, sum| mix(all, sum as u64));
    });
    feed(worker, input, data, batch, coarse);
    Ran { checksum: left.get(), took: None }
}

type Table = HashMap<u64, (u64, i64)>;

/// A window that has not ended, with the right to speak at a time before its end.
struct Open {
    start: i64,
    right: Capability<Time>,
    table: Table,
}

/// Where in `open` the window of `time` stands, opened if it is not.
fn place(
    open: &mut VecDeque<Open>,
    time: i64,
    right: impl FnOnce() -> Capability<Time>,
    spare: &mut Vec<Table>,
) -> usize {
    let at = match open.iter().rposition(|window| window.start <= time) {
        Some(at) if time < open[at].start + WINDOW_MICROS => return at,
        at => at.map_or(0, |at| at + 1),
    };
    let start = time - time % WINDOW_MICROS;
    open.insert(at, Open { start, right: right(), table: spare.pop().unwrap_or_default() });
    at
}

/// Rows are sent to the worker of their key, which closes a window once the frontier is at its end.
fn window(worker: &mut Worker, data: &Data, batch: usize, delay: i64) -> Ran {
    let mut input = Input::new();
    let left = Left::default();
    worker.dataflow(|scope| {
        let rows = input.to_stream(scope);
        let by_key = Exchange::new(|row: &Row| row.key);
        let windows: StreamVec<_, _> = rows.unary_frontier(by_key, "Windows", |_, _| {
            let (mut open, mut spare) = (VecDeque::<Open>::new(), Vec::new());
            move |(input, frontier), output| {
                let port = output.output_index();
                input.for_each_stamp(|stamp, batches| {
                    for row in batches.flat_map(|batch| batch.drain(..)) {
                        let right = || stamp.retain_least(port).expect("a batch has a time");
                        let at = place(&mut open, row.time, right, &mut spare);
                        let entry = open[at].table.entry(row.key).or_default();
                        entry.0 += 1;
                        entry.1 += row.value;
                    }
                });
                while let Some(window) = open.front_mut()
                    && !frontier.less_than(&(window.start + WINDOW_MICROS))
                {
                    let start = window.start;
                    let mut session = output.session(&window.right);
                    let closed = window.table.drain();
                    session.give_iterator(closed.map(|(key, (n, sum))| (key, start, n, sum)));
                    drop(session);
                    spare.extend(open.pop_front().map(|window| window.table));
                }
            }
        });
        fold(windows, &left, |all, (key, start, count, sum)| {
            all.wrapping_add(window_word(key, start, count, sum))
        });
    });
    feed(worker, input, data, batch, move |row| row.time - delay);
    Ran { checksum: left.get(), took: None }
}

/// The earlier of the first rows, if it happened before `bound`; the left one if they tie.
#[inline]
fn next_before(bound: Time, left: &mut VecDeque<Row>, right: &mut VecDeque<Row>) -> Option<Row> {
    let from = match (left.front(), right.front()) {
        (Some(l), Some(r)) if l.time <= r.time => left,
        (Some(_), None) => left,
        _ => right,
    };
    if from.front()?.time < bound { from.pop_front() } else { None }
}

/// Rows of two streams in order of time: merged as far as both frontiers allow.
fn merge<'s>(
    left: StreamVec<'s, Time, Row>,
    right: StreamVec<'s, Time, Row>,
) -> StreamVec<'s, Time, Row> {
    left.binary_frontier(right, Pipeline, Pipeline, "Merge", |start, _| {
        let (mut left, mut right) = (VecDeque::<Row>::new(), VecDeque::<Row>::new());
        let mut may_speak = Some(start);
        move |(from_left, left_frontier), (from_right, right_frontier), output| {
            from_left.for_each(|_, batch| left.extend(batch.drain(..)));
            from_right.for_each(|_, batch| right.extend(batch.drain(..)));
            let Some(now) = &mut may_speak else { return };
            let frontiers = left_frontier
                .frontier()
                .iter()
                .chain(right_frontier.frontier().iter())
                .min()
                .copied();
            let bound = frontiers.unwrap_or(Time::MAX);
            let mut session = output.session(&now);
            while let Some(row) = next_before(bound, &mut left, &mut right) {
                session.give(row);
            }
            drop(session);
            match frontiers {
                Some(bound) => now.downgrade(&bound),
                None => may_speak = None,
            }
        }
    })
}

fn union(worker: &mut Worker, streams: &[Data], batch: usize) -> Ran {
    let mut inputs = [Input::new(), Input::new()];
    let left = Left::default();
    worker.dataflow(|scope| {
        let [first, second] = inputs.each_mut().map(|input| input.to_stream(scope));
        let mut last = 0i64;
        let differences = stateful(merge(first, second), "Difference", move |row| {
            row.value - std::mem::replace(&mut last, row.value)
        });
        fold(differences, &left, |all, difference| mix(all, difference as u64));
    });
    let mut inputs = inputs.map(Some);
    let (mut at, mut rows) = ([0, 0], Vec::new());
    // A batch of whichever is behind.
    while worker.index() == 0 {
        let next = |from: usize| row(&streams[from], at[from]).map(|row| row.time);
        let from = match (next(0), next(1)) {
            (Some(first), Some(second)) => usize::from(second < first),
            (Some(_), None) => 0,
            (None, Some(_)) => 1,
            (None, None) => break,
        };
        rows.extend((at[from]..at[from] + batch).map_while(|at| row(&streams[from], at)));
        at[from] += rows.len();
        if let Some(input) = &mut inputs[from] {
            input.send_batch(&mut rows);
            rows.clear();
            match row(&streams[from], at[from]) {
                Some(row) => input.advance_to(row.time),
                None => inputs[from] = None,
            }
        }
        worker.step();
    }
    drop(inputs);
    finish(worker);
    Ran { checksum: left.get(), took: None }
}

/// A branch of the dataflow per query, each with operators of its own. `partition` hands each branch
/// its rows, which spares it a filter over all of them.
fn many(worker: &mut Worker, data: &Data, batch: usize, queries: u64) -> Ran {
    let mut input = Input::new();
    let left = Left::default();
    worker.dataflow(|scope| {
        let rows = input.to_stream(scope);
        for branch in rows.partition(queries, |row: Row| (row.key, row)) {
            let mut state = (0, 0);
            let averages =
                stateful(branch, "Average", move |row| (row.key, average(&mut state, row.value)));
            fold(averages, &left, |all, (key, average)| {
                all.wrapping_add(average_word(key, average))
            });
        }
    });
    // Some steps, so that all operators have had their first look at nothing before the clock starts.
    for _ in 0..10 {
        worker.step();
    }
    let watch = stopwatch();
    feed(worker, input, data, batch, coarse);
    let took: Option<Took> = (worker.index() == 0).then(watch);
    Ran { checksum: left.get(), took }
}
