//! Parts of the engine on their own: `cargo bench -p mizzle-benches`.
//!
//! The reorder stage, the merge and a window are called as a chain calls them. An inbox, a run queue,
//! tickets and a group's index belong to the runtime: they are measured from a push to what comes out,
//! with as little else as may be, so they include one wake-up of a worker.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mizzle::{Engine, Query, Receiver, WhenFull};
use mizzle_engine::Event;
use mizzle_engine::harness::Probe;
use mizzle_engine::operator::aggregate::count;
use mizzle_engine::operator::{Consumer, Cx, OpId, Window, Windowed, Windows};
use mizzle_engine::time::{Merge, Reorder, Timestamp};

const EVENTS: usize = 1_024;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// One event a microsecond, every `nth` of them late by `back`.
fn stream(nth: i64, back: i64) -> Vec<Event<u64>> {
    let time = |n: i64| if n % nth == 0 { n - back } else { n };
    (0..EVENTS as i64).map(|n| Event::new(at(time(n)), n as u64)).collect()
}

fn reorder(c: &mut Criterion) {
    let mut group = c.benchmark_group("reorder stage");
    group.throughput(Throughput::Elements(EVENTS as u64));
    for (name, nth, back) in [("in order", 1, 0), ("one in ten", 10, 50), ("every other", 2, 500)] {
        let events = stream(nth, back);
        group.bench_function(name, |b| {
            let mut stage = Reorder::new();
            b.iter(|| {
                events.iter().for_each(|event| stage.push(*event));
                stage.release(Timestamp::MAX, &mut |event| {
                    black_box(event);
                });
            });
        });
    }
    group.finish();
}

fn merge(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge of two");
    group.throughput(Throughput::Elements(EVENTS as u64));
    let fed = || {
        let mut merge = Merge::new(2);
        for event in stream(1, 0) {
            let input = event.value as usize % 2;
            merge.push(input, event).expect("it is in order");
        }
        merge
    };
    group.bench_function("in turn", |b| {
        let into = || (fed(), Vec::with_capacity(EVENTS));
        b.iter_batched_ref(into, |(merge, out)| merge.release(out), BatchSize::SmallInput);
    });
    group.finish();
}

fn window(c: &mut Criterion) {
    let mut group = c.benchmark_group("window");
    group.throughput(Throughput::Elements(EVENTS as u64));
    for keys in [10, 1_000] {
        let probe = Probe::<Windowed<u64, u64>>::default();
        let (windows, key) =
            (Windows::tumbling(Duration::from_secs(3_600)), move |v: &u64| v % keys);
        let window = Window::new(OpId(1), windows, key, count(), None, probe.port(0));
        let events = stream(1, 0);
        let (mut state, mut cx) = (Consumer::<u64>::state(&window), Cx::default());
        group.bench_function(format!("{keys} keys"), |b| {
            b.iter(|| events.iter().for_each(|event| window.event(&mut state, &mut cx, *event)));
        });
    }
    group.finish();
}

/// Takes so many results.
fn receive<T>(results: &Receiver<T>, many: usize) {
    results.iter().take(many).for_each(|result| {
        black_box(result);
    });
}

fn inbox(c: &mut Criterion) {
    let mut group = c.benchmark_group("inbox");
    group.throughput(Throughput::Elements(EVENTS as u64));
    for (name, workers) in [("one hop", 1), ("tickets of two workers", 2)] {
        let engine = Engine::builder().workers(workers).build().expect("it starts");
        let query = Query::new("hop");
        let (push, pushed) = query.push_source("numbers", |&n: &u64| at(n as i64));
        let results = pushed.map(|n| n + 1).boxed().channel(2 * EVENTS, WhenFull::Wait);
        engine.submit(query).expect("it is right");
        group.bench_function(name, |b| {
            b.iter(|| {
                push.push_all(vec![7; EVENTS]).expect("it runs");
                receive(&results, EVENTS);
            });
        });
    }
    group.finish();
}

fn run_queue(c: &mut Criterion) {
    let engine = Engine::builder().workers(1).build().expect("it starts");
    let (push, numbers) = engine.shared_push_source("numbers", |_: &u64| at(0));
    let numbers = numbers.open().expect("it is right");
    numbers.start();
    let by_number = numbers.key_by(|&n| n);
    let (done, results) = std::sync::mpsc::channel();
    for number in 0..EVENTS as u64 {
        let (query, done) = (Query::new("one"), done.clone());
        query.subscribe(&by_number.at(number)).for_each(move |event| {
            let _ = done.send(event.value);
        });
        engine.submit(query).expect("it is right");
    }
    let mut group = c.benchmark_group("run queue");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("an event for each of 1,024 queries", |b| {
        b.iter(|| {
            push.push_all((0..EVENTS as u64).collect()).expect("it runs");
            results.iter().take(EVENTS).for_each(drop);
        });
    });
    group.finish();
}

fn index(c: &mut Criterion) {
    let mut group = c.benchmark_group("group index");
    group.throughput(Throughput::Elements(EVENTS as u64));
    for members in [1_000u64, 100_000] {
        let engine = Engine::builder().workers(1).build().expect("it starts");
        let query = Query::new("members");
        let (push, pushed) = query.push_source("numbers", |&n: &u64| at(n as i64));
        let (hosted, outputs) =
            pushed.key_by(|n| *n).group("own", |each| each.map(|((), n): ((), u64)| n));
        let results = outputs.channel(2 * EVENTS, WhenFull::Wait);
        engine.submit(query).expect("it is right");
        hosted.add_all((0..members).map(|key| (key, ()))).expect("it runs");
        group.bench_function(format!("{members} members"), |b| {
            b.iter(|| {
                let events = (0..EVENTS as u64).map(|n| n * 7_919 % members).collect();
                push.push_all(events).expect("it runs");
                receive(&results, EVENTS);
            });
        });
    }
    group.finish();
}

criterion_group!(parts, reorder, merge, window, inbox, run_queue, index);
criterion_main!(parts);
