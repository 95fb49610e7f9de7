//! Runs a workload, alone or in turn with the hand-written program, and reports.

use std::time::Instant;

use mizzle::Engine;
use serde::Serialize;

use crate::platform::{cpu_time, peak_rss};
use crate::workloads::{Outcome, Prepared, Setting, Workload};

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Wall-clock seconds.
    pub seconds: f64,
    /// CPU seconds of all threads.
    pub cpu_seconds: f64,
}

/// Starts to measure; what it returns stops.
pub fn stopwatch() -> impl FnOnce() -> Took {
    let (wall, cpu) = (Instant::now(), cpu_time());
    move || Took {
        seconds: wall.elapsed().as_secs_f64(),
        cpu_seconds: (cpu_time() - cpu).as_secs_f64(),
    }
}

/// One timed run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What it took.
    pub took: Took,
    /// What it came to.
    pub outcome: Outcome,
}

/// What a workload's runs came to: the median run, by CPU time.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The workload's name.
    pub workload: &'static str,
    /// Events read, of all sources together.
    pub events: usize,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// CPU seconds of all threads.
    pub cpu_seconds: f64,
    /// Events per wall-clock second.
    pub events_per_s: f64,
    /// Events per CPU second.
    pub events_per_cpu_s: f64,
    /// The most memory this process has held, the data included.
    pub peak_rss_bytes: Option<u64>,
    /// Late events.
    pub late: u64,
    /// What the results come to; the hand-written program comes to the same.
    pub checksum: String,
    /// Worker threads.
    pub workers: usize,
    /// Events per batch, at most.
    pub batch: usize,
    /// Whether the stateful operator is flagged in-order.
    pub in_order: bool,
    /// What the data was made from.
    pub seed: u64,
    /// Timed runs.
    pub repeat: usize,
    /// Queries, where there are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<usize>,
    /// What one of them takes, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_query: Option<f64>,
    /// Queries or members added per CPU second, in bulk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adds_per_cpu_s: Option<f64>,
    /// Members removed per CPU second, in bulk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removes_per_cpu_s: Option<f64>,
    /// CPU time of Mizzle over that of the hand-written program, median of the pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_cpu: Option<f64>,
    /// The same of a second hand-written program, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_ratio_cpu: Option<f64>,
    /// Events per CPU second of the hand-written program, median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_events_per_cpu_s: Option<f64>,
}

/// What a workload came to that it should not have.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The engine could not be started.
    #[error(transparent)]
    Engine(#[from] mizzle::EngineError),
    /// The report could not be written.
    #[error(transparent)]
    Output(#[from] std::io::Error),
    /// Two runs, or Mizzle and the hand-written program, disagree.
    #[error("{workload}: Mizzle came to {ours:016x}, {other} to {theirs:016x}")]
    Disagreement {
        /// The workload.
        workload: &'static str,
        /// What Mizzle came to.
        ours: u64,
        /// Who came to something else.
        other: &'static str,
        /// And to what.
        theirs: u64,
    },
}

/// Runs `workload` as `setting` says, after one run that is not counted.
pub fn measure(workload: &Workload, setting: &Setting) -> Result<Report, BenchError> {
    let prepared = (workload.prepare)(setting);
    let engine = Engine::builder().workers(setting.workers).batch(setting.batch).build()?;
    let ours = || timed(|| (workload.mizzle)(&prepared, setting, &engine));
    let warm = ours();
    let (mut runs, mut baselines, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..setting.repeat {
        // In turn, and each goes first as often as the other.
        let theirs = workload.baseline.filter(|_| setting.versus_baseline);
        let theirs = || theirs.map(|baseline| timed(|| baseline(&prepared, setting)));
        let first = pair % 2 == 0;
        if first {
            baselines.extend(theirs());
        }
        runs.push(ours());
        if !first {
            baselines.extend(theirs());
        }
        if let Some(second) = workload.second_baseline.filter(|_| setting.versus_baseline) {
            seconds.push(timed(|| second(&prepared, setting)));
        }
    }
    let expected = warm.outcome.checksum;
    for (other, theirs) in baselines
        .iter()
        .map(|run| ("the hand-written program", run))
        .chain(seconds.iter().map(|run| ("the second hand-written program", run)))
        .chain(runs.iter().map(|run| ("another run", run)))
    {
        let comparable = setting.in_order || !workload.order_shows;
        if comparable && theirs.outcome.checksum != expected {
            let (workload, theirs) = (workload.name, theirs.outcome.checksum);
            return Err(BenchError::Disagreement { workload, ours: expected, other, theirs });
        }
    }
    Ok(report(workload, setting, &prepared, runs, [&baselines, &seconds]))
}

fn timed(run: impl FnOnce() -> Outcome) -> Run {
    let watch = stopwatch();
    let outcome = run();
    Run { took: outcome.took.unwrap_or_else(watch), outcome }
}

fn report(
    workload: &Workload,
    setting: &Setting,
    prepared: &Prepared,
    mut runs: Vec<Run>,
    [baselines, seconds]: [&[Run]; 2],
) -> Report {
    let events = prepared.events();
    let ratio = |others: &[Run]| {
        let pairs = runs.iter().zip(others);
        median(
            pairs.map(|(ours, theirs)| ours.took.cpu_seconds / theirs.took.cpu_seconds).collect(),
        )
    };
    let (ratio_cpu, second_ratio_cpu) = (ratio(baselines), ratio(seconds));
    let theirs = median(baselines.iter().map(|run| events as f64 / run.took.cpu_seconds).collect());
    runs.sort_by(|a, b| a.took.cpu_seconds.total_cmp(&b.took.cpu_seconds));
    let Run { took, outcome } = runs[runs.len() / 2];
    Report {
        workload: workload.name,
        events,
        seconds: took.seconds,
        cpu_seconds: took.cpu_seconds,
        events_per_s: events as f64 / took.seconds,
        events_per_cpu_s: events as f64 / took.cpu_seconds,
        peak_rss_bytes: peak_rss(),
        late: outcome.late,
        checksum: format!("{:016x}", outcome.checksum),
        workers: setting.workers,
        batch: setting.batch,
        in_order: setting.in_order,
        seed: setting.seed,
        repeat: setting.repeat,
        queries: outcome.many.map(|_| setting.queries),
        bytes_per_query: outcome.many.map(|many| many.bytes_per_query),
        adds_per_cpu_s: outcome.many.map(|many| many.adds_per_cpu_s),
        removes_per_cpu_s: outcome.many.and_then(|many| many.removes_per_cpu_s),
        ratio_cpu,
        second_ratio_cpu,
        baseline_events_per_cpu_s: theirs,
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
