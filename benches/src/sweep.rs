//! One thing after another is varied while the rest stays: what the flag costs, how cost grows with
//! queries, disorder, workers and batches, and how long events take.

use std::time::Duration;

use crate::chart::{Chart, Line, PER_CPU};
use crate::measure::{BenchError, Report, measure};
use crate::workloads::{Latency, Setting, Workload};

/// A sweep: measures, tells of each measurement, and gathers pictures.
pub struct Sweep<'a> {
    base: Setting,
    tell: &'a mut dyn FnMut(&Report) -> Result<(), BenchError>,
}

fn per_cpu(report: &Report) -> f64 {
    report.events_per_cpu_s / 1e6
}

impl<'a> Sweep<'a> {
    /// A sweep around `base`.
    pub fn new(base: Setting, tell: &'a mut dyn FnMut(&Report) -> Result<(), BenchError>) -> Self {
        Self { base, tell }
    }

    /// Measures everything.
    ///
    /// # Errors
    /// As [`measure`], and what telling gives.
    pub fn run(mut self) -> Result<Vec<Chart>, BenchError> {
        Ok(vec![
            self.flag()?,
            self.queries()?,
            self.disorder()?,
            self.workers()?,
            self.batches()?,
            self.latency()?,
        ])
    }

    fn measure(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Setting),
    ) -> Result<Report, BenchError> {
        let mut setting = self.base.clone();
        change(&mut setting);
        let workload = Workload::named(name).expect("it is a workload");
        let report = measure(workload, &setting)?;
        (self.tell)(&report)?;
        Ok(report)
    }

    fn flag(&mut self) -> Result<Chart, BenchError> {
        let mut groups = Vec::new();
        for name in ["chain", "window", "window-disorder", "union", "diamond", "join"] {
            let mut values = Vec::new();
            for in_order in [true, false] {
                let report = self.measure(name, |setting| setting.in_order = in_order)?;
                values.push(per_cpu(&report));
            }
            groups.push((name.to_owned(), values));
        }
        Ok(Chart::bars("What the in-order flag costs", PER_CPU, ["flagged", "unflagged"], groups))
    }

    /// Lines of several workloads or flags over what `points` sets.
    fn lines<P: Copy>(
        &mut self,
        of: &[(&str, &str, bool)],
        points: &[P],
        set: impl Fn(&mut Setting, P) -> f64,
        value: impl Fn(&Report) -> f64,
    ) -> Result<Vec<Line>, BenchError> {
        let mut lines = Vec::new();
        for &(name, workload, in_order) in of {
            let mut line = Vec::new();
            for &point in points {
                let mut at = 0.0;
                let report = self.measure(workload, |setting| {
                    setting.in_order = in_order;
                    at = set(setting, point);
                })?;
                line.push((at, value(&report)));
            }
            lines.push((name.to_owned(), line));
        }
        Ok(lines)
    }

    fn queries(&mut self) -> Result<Chart, BenchError> {
        let set = |setting: &mut Setting, queries: usize| {
            setting.queries = queries;
            queries as f64
        };
        let at_most = self.base.queries;
        let up_to = |most: usize| -> Vec<_> {
            let counts = (0..).map(|n| 100usize.pow(n)).take_while(|&count| count < most);
            counts.chain([most]).collect()
        };
        let many = up_to(at_most);
        let mut lines = self.lines(
            &[("members of a group", "queries", true), ("of which 100 match", "members", true)],
            &many,
            set,
            per_cpu,
        )?;
        // An event is a hop for each: more take long and show nothing else.
        let few = up_to(at_most.min(100_000));
        lines.extend(self.lines(&[("separate queries", "separate", true)], &few, set, per_cpu)?);
        Ok(Chart::lines("How cost grows with queries", ["queries", PER_CPU], true, lines)
            .by_factors())
    }

    fn disorder(&mut self) -> Result<Chart, BenchError> {
        let set = |setting: &mut Setting, millis: u64| {
            setting.disorder = Duration::from_millis(millis);
            millis as f64
        };
        let of = [("flagged", "window-disorder", true), ("unflagged", "window-disorder", false)];
        let lines = self.lines(&of, &[0, 10, 100, 500, 1_000], set, per_cpu)?;
        let axes = ["delay of up to, ms", PER_CPU];
        Ok(Chart::lines("Windows over events out of order", axes, false, lines))
    }

    fn workers(&mut self) -> Result<Chart, BenchError> {
        let set = |setting: &mut Setting, workers: usize| {
            setting.workers = workers;
            workers as f64
        };
        let of = [("heavy, flagged", "heavy", true), ("heavy, unflagged", "heavy", false)];
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let counts: Vec<_> = (0..).map(|n| 1 << n).take_while(|&n| n <= cores.max(4)).collect();
        let lines = self.lines(&of, &counts, set, |report| report.events_per_s / 1e6)?;
        let title = format!("Keyed work of 1 us an event, on {cores} cores");
        Ok(Chart::lines(title, ["workers", "million events per second"], false, lines))
    }

    fn batches(&mut self) -> Result<Chart, BenchError> {
        let set = |setting: &mut Setting, batch: usize| {
            setting.batch = batch;
            batch as f64
        };
        let of = [("chain", "chain", true), ("window", "window", true), ("pushed", "pushed", true)];
        let lines = self.lines(&of, &[16, 64, 256, 1_024, 8_192], set, per_cpu)?;
        Ok(Chart::lines("Batches", ["events per batch", PER_CPU], true, lines))
    }

    fn latency(&mut self) -> Result<Chart, BenchError> {
        let report = self.measure("latency", |setting| {
            setting.versus_baseline = true;
            setting.workers = 1;
        })?;
        let all: Vec<_> =
            [report.latency_us, report.baseline_latency_us].into_iter().flatten().collect();
        let group =
            |name: &str, of: fn(&Latency) -> f64| (name.to_owned(), all.iter().map(of).collect());
        let groups = vec![
            group("p50", |it| it.p50),
            group("p99", |it| it.p99),
            group("p99.9", |it| it.p999),
            group("max", |it| it.max),
        ];
        let title = format!("Latency at {} events per second", self.base.rate);
        let series = ["Mizzle", "bare hand-off"];
        Ok(Chart::bars(title, "microseconds", series, groups).by_factors())
    }
}
