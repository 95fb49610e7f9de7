//! Runs a workload, alone or in turn with the hand-written program, and reports.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use mizzle::Engine;
use serde::Serialize;

use crate::platform::{commit, cpu_time, peak_rss};
use crate::workloads::{Latency, Outcome, Prepared, Setting, Workload};

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
    /// Events that each worker took from sources and inboxes, mean of the timed runs: an event that goes
    /// from one partitioned query to another is taken in both.
    pub events_per_worker: Vec<u64>,
    /// The most memory this process has held, the data included.
    pub peak_rss_bytes: Option<u64>,
    /// How long events took, in microseconds, from when they were due to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// The same of a bare hand-off between two threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_latency_us: Option<Latency>,
    /// How late events may come, where the workload is about that.
    pub disorder_ms: u64,
    /// How many candidates are held, in percent of those that may be, where the workload is about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy_percent: Option<usize>,
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
    /// The commit of the source tree, if it is known.
    pub commit: Option<String>,
}

/// What a workload came to that it should not have.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The engine could not be started.
    #[error(transparent)]
    Engine(#[from] mizzle::EngineError),
    /// The result could not be printed.
    #[error(transparent)]
    Output(#[from] std::io::Error),
    /// The report could not be written.
    #[error("{file}: {reason}")]
    Report {
        /// Where to.
        file: String,
        /// Why not.
        reason: String,
    },
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
    let taken = engine.events_per_worker();
    let mut progress = Progress::new(workload.name, setting.repeat);
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
        progress.done(pair + 1);
    }
    let each = |(now, before): (u64, u64)| (now - before) / setting.repeat as u64;
    let taken = engine.events_per_worker().into_iter().zip(taken).map(each).collect();
    drop(progress);
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
    Ok(report(workload, setting, &prepared, runs, [&baselines, &seconds], taken))
}

/// Tells on a terminal how far a workload is.
struct Progress {
    name: &'static str,
    of: usize,
    shows: bool,
}

impl Progress {
    fn new(name: &'static str, of: usize) -> Self {
        let mut progress = Self { name, of, shows: io::stderr().is_terminal() };
        progress.done(0);
        progress
    }

    fn done(&mut self, runs: usize) {
        self.show(&format!("{}: {runs} of {} runs", self.name, self.of));
    }

    /// In place of what it has shown. Whether a terminal takes it matters to nobody.
    fn show(&mut self, text: &str) {
        if self.shows {
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
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
    events_per_worker: Vec<u64>,
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
        events_per_worker,
        peak_rss_bytes: peak_rss(),
        latency_us: latency(&runs),
        baseline_latency_us: latency(baselines),
        disorder_ms: setting.disorder.as_millis() as u64,
        occupancy_percent: workload.name.starts_with("situations-").then_some(setting.occupancy),
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
        commit: commit(),
    }
}

/// The median of each of the runs' percentiles.
fn latency(runs: &[Run]) -> Option<Latency> {
    let all: Vec<_> = runs.iter().filter_map(|run| run.outcome.latency).collect();
    let of = |percentile: fn(&Latency) -> f64| median(all.iter().map(percentile).collect());
    Some(Latency {
        p50: of(|l| l.p50)?,
        p99: of(|l| l.p99)?,
        p999: of(|l| l.p999)?,
        max: of(|l| l.max)?,
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
