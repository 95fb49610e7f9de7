//! All five queries, run once beside each other.

use std::error::Error;
use std::time::{Duration, Instant};

use mizzle::plan::{Head, Plan, Reorder};
use mizzle::{ChainReport, Engine, LatencyStats, QueryHandle, Status};

use super::question::{Answers, Flags, Question};
use crate::interrupt::Interrupt;

/// What came of running all queries in one engine.
pub struct Round {
    pub workers: usize,
    pub outcomes: Vec<Outcome>,
    /// Until the last query was over.
    pub elapsed: Duration,
    /// Half of all results took at most this long.
    pub p50: Duration,
    /// All but a hundredth did.
    pub p99: Duration,
}

/// What came of one query.
pub struct Outcome {
    pub question: Question,
    pub flagged: bool,
    pub answers: Answers,
    pub status: Status,
    pub elapsed: Duration,
    pub plan: Plan,
    pub chains: Vec<ChainReport>,
}

impl Round {
    /// Runs all queries, flagged as `flags` say, on a new engine of `workers` workers.
    pub fn run(
        workers: usize,
        flags: Flags,
        interrupt: &Interrupt,
    ) -> Result<Self, Box<dyn Error>> {
        let engine = Engine::builder().workers(workers).build()?;
        let begun = Instant::now();
        let (mut handles, mut checks) = (Vec::new(), Vec::new());
        for question in Question::ALL {
            let asked = question.ask(flags.has(question));
            handles.push(engine.submit(asked.query)?);
            checks.push((question, asked.answers));
        }
        interrupt.watch(handles.clone());
        let ends = wait_for_all(&handles, begun);
        let elapsed = begun.elapsed();
        let latencies = engine.latencies();
        let outcomes = checks.into_iter().zip(handles).zip(ends).map(
            |(((question, answers), handle), elapsed)| Outcome {
                question,
                flagged: flags.has(question),
                answers: answers(),
                status: handle.status(),
                elapsed,
                plan: handle.plan().clone(),
                chains: handle.chains(),
            },
        );
        Ok(Self {
            workers,
            outcomes: outcomes.collect(),
            elapsed,
            p50: Duration::from_nanos(latencies.value_at_quantile(0.5)),
            p99: Duration::from_nanos(latencies.value_at_quantile(0.99)),
        })
    }

    /// Whether every answer that should be right, flagged as it was, is right.
    pub fn is_as_promised(&self) -> bool {
        self.outcomes.iter().all(Outcome::is_as_promised)
    }

    /// The sum of what `count` counts about each query.
    pub fn total(&self, count: impl Fn(&Outcome) -> u64) -> u64 {
        self.outcomes.iter().map(count).sum()
    }

    /// Latencies of all queries together.
    pub fn latency(&self) -> LatencyStats {
        sum_latencies(self.outcomes.iter().map(Outcome::latency))
    }
}

/// Waits for all of them; gives for each how long after `begun` it was over.
fn wait_for_all(handles: &[QueryHandle], begun: Instant) -> Vec<Duration> {
    std::thread::scope(|scope| {
        let waiting: Vec<_> = handles
            .iter()
            .map(|handle| {
                scope.spawn(move || {
                    handle.wait();
                    begun.elapsed()
                })
            })
            .collect();
        waiting.into_iter().map(|end| end.join().expect("waiting does not panic")).collect()
    })
}

impl Outcome {
    /// Whether it is right, or one that need not be without the flag.
    pub fn is_as_promised(&self) -> bool {
        let promised = self.flagged || !self.question.needs_order();
        self.status == Status::Completed && (self.is_right() || !promised)
    }

    /// Whether its answers are the right ones.
    pub fn is_right(&self) -> bool {
        self.status == Status::Completed && self.answers.verdict.is_right()
    }

    /// Events that its sources gave.
    pub fn events(&self) -> u64 {
        self.sources().map(|chain| chain.stats.events_in).sum()
    }

    /// Events among them that came later than their source had promised.
    pub fn late(&self) -> u64 {
        self.sources().map(|chain| chain.stats.late).sum()
    }

    /// How many reorder stages and merges it has.
    pub fn reorders(&self) -> u64 {
        self.plan.pieces().iter().filter(|piece| piece.reorder != Reorder::Never).count() as u64
    }

    /// The most events that they held.
    pub fn held(&self) -> u64 {
        self.chains.iter().map(|chain| chain.stats.held_max as u64).sum()
    }

    /// How long events took from a source to the answers.
    pub fn latency(&self) -> LatencyStats {
        sum_latencies(self.chains.iter().map(|chain| chain.stats.latency))
    }

    fn sources(&self) -> impl Iterator<Item = &ChainReport> {
        self.chains.iter().filter(|chain| {
            let piece = &self.plan.pieces()[chain.piece];
            piece.at_head && matches!(self.plan.head(piece.segment), Head::Source { .. })
        })
    }
}

fn sum_latencies(all: impl Iterator<Item = LatencyStats>) -> LatencyStats {
    all.fold(LatencyStats::default(), |sum, one| LatencyStats {
        count: sum.count + one.count,
        sum_nanos: sum.sum_nanos + one.sum_nanos,
        max_nanos: sum.max_nanos.max(one.max_nanos),
    })
}
