//! Mizzle's workloads on other engines: the same data, flags, line of JSON and checksums.

mod on_renoir;
mod on_timely;
mod report;
mod row;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use mizzle_benches::{KeyKind, Setting, Workload};

use report::{Run, measure};

/// The allocator of Mizzle's own benchmarks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures a workload on another engine.
#[derive(Parser)]
struct Args {
    /// The engine.
    peer: Peer,
    /// The workload.
    #[arg(value_parser = ["chain", "window", "window-disorder", "union", "queries"])]
    workload: String,
    /// Events, of all sources together.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    events: u64,
    /// Distinct keys: 1000, or where each query has one, as many as queries.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: Option<u64>,
    /// Queries, where the workload is about many of them.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    queries: u64,
    /// Worker threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    workers: u64,
    /// Events per batch, at most.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    batch: u64,
    /// How late events may come, in milliseconds, where the workload is about that.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(..=86_400_000))]
    disorder: u64,
    /// What the data is made from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Timed runs.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Peer {
    Timely,
    Renoir,
}

impl Args {
    fn setting(&self) -> Setting {
        Setting {
            events: self.events as usize,
            keys: self.keys,
            queries: self.queries as usize,
            key: KeyKind::U64,
            workers: self.workers as usize,
            batch: self.batch as usize,
            in_order: true,
            disorder: Duration::from_millis(self.disorder),
            rate: 0,
            seed: self.seed,
            repeat: self.repeat as usize,
            versus_baseline: false,
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (name, run): (_, Run) = match args.peer {
        Peer::Timely => ("timely", on_timely::run),
        Peer::Renoir => ("renoir", on_renoir::run),
    };
    let workload = Workload::named(&args.workload).expect("the command line takes no others");
    match measure(name, workload, &args.setting(), run) {
        Ok(report) if args.json => {
            println!(
                "{}",
                serde_json::to_string(&report).expect("numbers and texts can be written")
            );
            ExitCode::SUCCESS
        }
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("mizzle-peers: {name} {}: {problem}", args.workload);
            ExitCode::from(2)
        }
    }
}
