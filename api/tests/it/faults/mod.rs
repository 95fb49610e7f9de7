//! Faults that users met in engines of this kind, each test named after its id in
//! `tests/cases/faults.jsonl`. What has no test stands in `tests/cases/README.md`.

mod ag;
mod en;
mod en_many;
mod lc;
mod st;
mod ti;
mod un;
mod wi;
mod wm;

use std::fmt::Debug;
use std::process::Command;

use mizzle::aggregate::count;
use mizzle::sink::Collected;
use mizzle::time::Watermarks;
use mizzle::{Engine, Query, QueryHandle, Windowed, Windows, source};

pub use crate::common::{GUARD, at, completed, engine, eventually, ms, total};

/// `long` where the environment asks for it, else `short`.
pub fn budget(short: usize, long: usize) -> usize {
    if std::env::var_os("MIZZLE_LONG").is_some() { long } else { short }
}

/// What the chain that reads the source `name` has counted.
pub fn source_stats(query: &QueryHandle, name: &str) -> mizzle::ChainStats {
    let reads = |chain: &mizzle::ChainReport| chain.operators.first().is_some_and(|it| it == name);
    query.chains().into_iter().find(reads).expect("a chain reads the source").stats
}

/// Start and end in milliseconds, and the value, of every window, in order of time.
pub fn windows<K: Clone, V: Clone + Ord>(out: &Collected<Windowed<K, V>>) -> Vec<(i64, i64, V)> {
    let mut all: Vec<_> = out
        .values()
        .into_iter()
        .map(|window| (window.start.as_millis(), window.end.as_millis(), window.value))
        .collect();
    all.sort();
    all
}

/// What a count over windows gives, whatever the workers, the batches and the flag.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub windows: Vec<(i64, i64, u64)>,
    /// Events that were late, wherever they counted.
    pub late: u64,
    /// Events that counted nowhere.
    pub unused: u64,
}

/// Counts events that arrive at `times`, flagged in-order or not, in several ways that must agree.
pub fn counted(
    times: &[i64],
    watermarks: &Watermarks<i64>,
    shape: Windows,
    in_order: bool,
) -> Counted {
    let ways = [(1, 1), (1, 1_024), (2, 1), (4, 3)];
    same(
        &ways
            .map(|(workers, batch)| counted_in(times, watermarks, shape, in_order, workers, batch)),
    )
}

/// As `counted`, in one way.
pub fn counted_in(
    times: &[i64],
    watermarks: &Watermarks<i64>,
    shape: Windows,
    in_order: bool,
    workers: usize,
    batch: usize,
) -> Counted {
    let engine = Engine::builder().workers(workers).batch(batch).build().unwrap();
    let query = Query::new("count");
    let out = query
        .source("times", source::from_iter(times.to_vec(), |&time| at(time)))
        .watermarks(watermarks.clone())
        .window(shape)
        .aggregate(count())
        .in_order_if(in_order)
        .collect();
    let query = engine.submit(query).unwrap();
    completed(&query);
    let late = source_stats(&query, "times").late;
    let unused = total(&query, |stats| stats.late_unused);
    Counted { windows: windows(&out), late, unused }
}

/// The one value that all of `values` are.
fn same<T: Debug + PartialEq + Clone>(values: &[T]) -> T {
    for value in values {
        assert_eq!(*value, values[0]);
    }
    values[0].clone()
}

/// Runs `body` in a process of its own, in which no other test moves what is measured of it. `test`
/// is the full name of the calling test.
pub fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os("MIZZLE_ALONE").is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env("MIZZLE_ALONE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 passed"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Resident memory of this process in bytes, where the system tells it.
pub fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4_096)
}

/// How many threads and open files this process has, where the system tells it.
pub fn handles() -> Option<(usize, usize)> {
    let many = |path| std::fs::read_dir(path).map(Iterator::count).ok();
    Some((many("/proc/self/task")?, many("/proc/self/fd")?))
}

/// Areas of which every fault has a test or a line in the README.
const AREAS: [&str; 11] = ["WM", "UN", "TI", "EN", "LC", "ST", "AG", "WI", "JO", "CE", "IO"];

#[test]
fn every_fault_has_a_test_or_a_reason() {
    let tests = [
        include_str!("ag.rs"),
        include_str!("en.rs"),
        include_str!("en_many.rs"),
        include_str!("lc.rs"),
        include_str!("st.rs"),
        include_str!("ti.rs"),
        include_str!("un.rs"),
        include_str!("wi.rs"),
        include_str!("wm.rs"),
        include_str!("../../patterns/faults.rs"),
        include_str!("../../toolbox/joins/faults.rs"),
        include_str!("../../toolbox/io/faults.rs"),
        include_str!("../../toolbox/processing_time/faults.rs"),
        include_str!("../../toolbox/windows/faults.rs"),
    ];
    let readme = include_str!("../../cases/README.md");
    for line in include_str!("../../cases/faults.jsonl").lines() {
        let fault: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = fault["id"].as_str().unwrap();
        if !AREAS.contains(&&id[..2]) {
            continue;
        }
        let name = format!("fn {}_", id.to_lowercase().replace('-', "_"));
        let tested = tests.iter().any(|file| file.contains(&name));
        let listed = readme.contains(&format!("| {id} |"));
        assert!(tested || listed, "{id} has neither a test nor a line in the README");
    }
}
