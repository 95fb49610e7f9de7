//! The command line of the benchmarks: `mizzle bench WORKLOAD`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::measure::{BenchError, Report, measure};
use crate::page;
use crate::sweep::Sweep;
use crate::workloads::{KeyKind, Latency, Setting, WORKLOADS, Workload};

/// Measures a workload, alone or against a hand-written program that does the same.
#[derive(Clone, Debug, Parser)]
#[command(after_help = workloads_help())]
pub struct Args {
    /// Which workload, or all of them. The first word of several that begin alike stands for them.
    #[arg(value_parser = parse_workload)]
    workload: Choice,
    /// Events, of all sources together.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    events: u64,
    /// Distinct keys: 1000, or where each query has one, as many as queries.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: Option<u64>,
    /// Queries, where the workload is about many of them: 1000; in a sweep at most a million.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    queries: Option<u64>,
    /// What the keys of many queries are.
    #[arg(long, default_value = "u64")]
    key: KeyKind,
    /// Worker threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    workers: u64,
    /// Events per batch, at most.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    batch: u64,
    /// Flag the stateful operator in-order (the default).
    #[arg(long, conflicts_with = "unordered")]
    in_order: bool,
    /// Do not flag it.
    #[arg(long)]
    unordered: bool,
    /// How late events may come, in milliseconds, where the workload is about that.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(..=86_400_000))]
    disorder: u64,
    /// Candidates that are held, in percent of those that may be: 100; `situations` measures all from 10 to 100.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    occupancy: u64,
    /// Events per second, where they are sent at a rate.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: u64,
    /// What the data is made from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Timed runs, or pairs of runs.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Run the hand-written program in turn with Mizzle and give the ratio of CPU times.
    #[arg(long)]
    versus_baseline: bool,
    /// Write a report with pictures: .html, .svg or .md.
    #[arg(long, value_name = "FILE", value_parser = parse_report)]
    report: Option<PathBuf>,
    /// Print one line of JSON per workload.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
enum Choice {
    Sweep,
    Some(Vec<&'static Workload>),
}

fn workloads_help() -> String {
    let lines: Vec<_> = WORKLOADS
        .iter()
        .map(|workload| format!("  {:<16} {}", workload.name, workload.about))
        .collect();
    let all = format!("  {:<16} all of these", "all");
    let sweep = format!(
        "  {:<16} one thing after another varied: the flag, queries, disorder, workers, batches; latency",
        "sweep"
    );
    format!("Workloads:\n{}\n{all}\n{sweep}", lines.join("\n"))
}

fn parse_workload(name: &str) -> Result<Choice, String> {
    if name == "sweep" {
        return Ok(Choice::Sweep);
    }
    if let Some(workload) = Workload::named(name) {
        return Ok(Choice::Some(vec![workload]));
    }
    let is_meant = |workload: &&Workload| {
        name == "all" || workload.name.split('-').next().is_some_and(|first| first == name)
    };
    match WORKLOADS.iter().filter(is_meant).collect::<Vec<_>>() {
        none if none.is_empty() => {
            let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
            Err(format!("there are {}, all, sweep", names.join(", ")))
        }
        some => Ok(Choice::Some(some)),
    }
}

fn parse_report(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    page::kind(&path).map(|_| path)
}

impl Args {
    fn setting(&self) -> Setting {
        Setting {
            events: self.events as usize,
            keys: self.keys,
            queries: self.queries.unwrap_or(match self.workload {
                Choice::Sweep => 1_000_000,
                _ => 1_000,
            }) as usize,
            key: self.key,
            workers: self.workers as usize,
            batch: self.batch as usize,
            in_order: !self.unordered,
            disorder: Duration::from_millis(self.disorder),
            occupancy: self.occupancy as usize,
            rate: self.rate,
            seed: self.seed,
            repeat: self.repeat as usize,
            versus_baseline: self.versus_baseline,
        }
    }

    /// Runs what was asked for and prints it.
    ///
    /// # Errors
    /// If an engine cannot be started, results disagree, or something cannot be written.
    pub fn run(&self) -> Result<(), BenchError> {
        let mut reports = Vec::new();
        let mut tell = |report: &Report| -> Result<(), BenchError> {
            reports.push(report.clone());
            Ok(self.print(report)?)
        };
        let setting = self.setting();
        let measured = match &self.workload {
            Choice::Some(workloads) => each(workloads, &setting, &mut tell).map(|()| Vec::new()),
            Choice::Sweep => Sweep::new(setting, &mut tell).run(),
        };
        let charts = match measured {
            // Whoever has stopped reading gets no complaint, and no more measurements.
            Err(BenchError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(());
            }
            measured => measured?,
        };
        let Some(file) = &self.report else { return Ok(()) };
        page::write(file, &charts, &reports).map_err(|error| BenchError::Report {
            file: file.display().to_string(),
            reason: error.to_string(),
        })
    }

    fn print(&self, report: &Report) -> io::Result<()> {
        let text = if self.json {
            serde_json::to_string(report).expect("numbers and texts can be written")
        } else {
            line(report)
        };
        writeln!(io::stdout(), "{text}")
    }
}

/// Measures workloads one after another.
fn each(
    workloads: &[&Workload],
    setting: &Setting,
    tell: &mut impl FnMut(&Report) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for workload in workloads {
        tell(&measure(workload, setting)?)?;
    }
    if let [Workload { name: "situations", .. }] = workloads {
        by_occupancy(setting, tell)?;
    }
    Ok(())
}

/// Situations by how many candidates are held, and by which event completes one.
fn by_occupancy(
    setting: &Setting,
    tell: &mut impl FnMut(&Report) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for name in ["situations-trigger", "situations-track"] {
        let workload = Workload::named(name).expect("it is a workload");
        for occupancy in (10..=100).step_by(10) {
            tell(&measure(workload, &Setting { occupancy, ..setting.clone() })?)?;
        }
    }
    Ok(())
}

fn line(report: &Report) -> String {
    let mut line = format!(
        "{:<16} {:>6.1} M events/s of CPU time   {:>6.1} M events/s   workers {}   {}   checksum {}",
        report.workload,
        report.events_per_cpu_s / 1e6,
        report.events_per_s / 1e6,
        report.workers,
        if report.in_order { "in order" } else { "unordered" },
        report.checksum,
    );
    if let Some(percent) = report.occupancy_percent {
        let nanos = 1e9 / report.events_per_cpu_s;
        line.push_str(&format!("\n{:<16} {percent:>3} % occupied: {nanos:.1} ns an event", ""));
    }
    if let (Some(queries), Some(bytes)) = (report.queries, report.bytes_per_query) {
        line.push_str(&format!("\n{:<16} {queries} queries of {bytes:.0} bytes each", ""));
    }
    if let Some(adds) = report.adds_per_cpu_s {
        line.push_str(&format!("   {:.2} M added", adds / 1e6));
        if let Some(removes) = report.removes_per_cpu_s {
            line.push_str(&format!(", {:.2} M removed", removes / 1e6));
        }
        line.push_str(" per s of CPU time");
    }
    if let (Some(ratio), Some(theirs)) = (report.ratio_cpu, report.baseline_events_per_cpu_s) {
        let by_hand =
            format!("\n{:<16} {:>6.1} M events/s by hand   ratio_cpu {ratio:.2}", "", theirs / 1e6);
        line.push_str(&by_hand);
    }
    if let Some(us) = report.latency_us {
        let text = |us: Latency| {
            format!(
                "p50 {:.1}   p99 {:.1}   p99.9 {:.1}   max {:.0} us",
                us.p50, us.p99, us.p999, us.max
            )
        };
        line.push_str(&format!("\n{:<16} {}", "", text(us)));
        if let Some(bare) = report.baseline_latency_us {
            line.push_str(&format!("\n{:<16} {}   (bare hand-off)", "", text(bare)));
        }
    }
    if let Some(ratio) = report.second_ratio_cpu {
        line.push_str(&format!("   against the second program {ratio:.2}"));
    }
    line
}
