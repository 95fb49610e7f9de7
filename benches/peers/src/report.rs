//! Runs a workload on a peer several times and reports the median run, as Mizzle's benchmarks do.

use std::fmt;

use mizzle_benches::{Prepared, Setting, Took, Workload, stopwatch};
use serde::Serialize;

/// What a run came to.
#[derive(Clone, Copy)]
pub struct Ran {
    /// What the results come to.
    pub checksum: u64,
    /// What it took, where it was measured without the preparations.
    pub took: Option<Took>,
}

/// Runs the workload of a name, or says why the peer cannot.
pub type Run = fn(&str, &Prepared, &Setting) -> Result<Ran, String>;

/// What the runs came to; the names are those of Mizzle's line.
#[derive(Serialize)]
pub struct Report {
    peer: &'static str,
    workload: &'static str,
    events: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events_per_cpu_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    workers: usize,
    batch: usize,
    seed: u64,
    repeat: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<usize>,
    /// Why the peer cannot run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot: Option<String>,
}

/// Runs `workload` after one run that is not counted. A peer that cannot run it says why.
pub fn measure(
    peer: &'static str,
    workload: &Workload,
    setting: &Setting,
    run: Run,
) -> Result<Report, String> {
    let prepared = (workload.prepare)(setting);
    let timed = || {
        let watch = stopwatch();
        let ran = run(workload.name, &prepared, setting)?;
        Ok((ran.took.unwrap_or_else(watch), ran.checksum))
    };
    let mut report = Report {
        peer,
        workload: workload.name,
        events: prepared.events(),
        seconds: None,
        cpu_seconds: None,
        events_per_s: None,
        events_per_cpu_s: None,
        checksum: None,
        workers: setting.workers,
        batch: setting.batch,
        seed: setting.seed,
        repeat: setting.repeat,
        queries: (workload.name == "queries").then_some(setting.queries),
        cannot: None,
    };
    let expected = match timed() {
        Ok((_, checksum)) => checksum,
        Err(reason) => return Ok(Report { cannot: Some(reason), ..report }),
    };
    let mut runs = (0..setting.repeat).map(|_| timed()).collect::<Result<Vec<_>, String>>()?;
    if let Some((_, other)) = runs.iter().find(|(_, checksum)| *checksum != expected) {
        return Err(format!("a run came to {expected:016x}, another to {other:016x}"));
    }
    runs.sort_by(|(a, _), (b, _)| a.cpu_seconds.total_cmp(&b.cpu_seconds));
    let (took, _) = runs[runs.len() / 2];
    let events = report.events as f64;
    report.seconds = Some(took.seconds);
    report.cpu_seconds = Some(took.cpu_seconds);
    report.events_per_s = Some(events / took.seconds);
    report.events_per_cpu_s = Some(events / took.cpu_seconds);
    report.checksum = Some(format!("{expected:016x}"));
    Ok(report)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, workload, workers, .. } = self;
        if let Some(reason) = &self.cannot {
            return write!(f, "{peer:<7} {workload:<16} cannot: {reason}");
        }
        write!(
            f,
            "{peer:<7} {workload:<16} {:>6.2} M events/s of CPU time   {:>6.2} M events/s   workers {workers}   checksum {}",
            self.events_per_cpu_s.unwrap_or_default() / 1e6,
            self.events_per_s.unwrap_or_default() / 1e6,
            self.checksum.as_deref().unwrap_or_default(),
        )
    }
}
