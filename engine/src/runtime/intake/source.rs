//! A source's events as they come.

use std::sync::Arc;

use super::{Intake, Progress, Pulled};
use crate::event::{Batch, Event};
use crate::operator::Flow;
use crate::runtime::query::QueryCore;
use crate::source::{Pull, Source};
use crate::time::Timestamp;

/// A source's events as they come.
pub struct SourceIntake<S> {
    source: S,
    query: Arc<QueryCore>,
    flow: Flow,
}

impl<S: Source> SourceIntake<S> {
    /// An intake from `source` until it ends or the query is drained or stopped.
    pub fn new(source: S, query: Arc<QueryCore>) -> Self {
        Self { source, query, flow: Flow::Active }
    }
}

impl<S: Source> SourceIntake<S> {
    #[inline]
    fn hand_over(&mut self, budget: usize, to: &mut impl FnMut(Event<S::Item>)) -> Pulled {
        let mut pulled = Pulled::default();
        if let Some(flow) = self.query.control.ending() {
            self.flow = flow;
        }
        if self.flow.is_over() {
            return pulled;
        }
        pulled.born = self.query.control.now_nanos();
        let mut taken = 0;
        let outcome = self.source.pull(
            budget,
            &mut |event| {
                taken += 1;
                to(event);
            },
            &mut pulled.rejects,
        );
        pulled.taken = taken;
        match outcome {
            Pull::More => pulled.more = true,
            Pull::Ended => self.flow = Flow::Ended,
            Pull::Failed(reason) => pulled.failure = Some(reason),
        }
        pulled
    }
}

impl<S: Source> Intake for SourceIntake<S> {
    type Item = S::Item;

    fn take(&mut self, budget: usize, batch: &mut Batch<S::Item>) -> Pulled {
        let events = batch.on_time_end();
        events.reserve(budget);
        self.hand_over(budget, &mut |event| events.push(event))
    }

    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        _: &mut Batch<S::Item>,
        run: &mut impl FnMut(Event<S::Item>, bool),
    ) -> Pulled {
        self.hand_over(budget, &mut |event| run(event, false))
    }

    fn progress(&self) -> Progress {
        Progress { watermark: Timestamp::MIN, flow: self.flow }
    }
}
