//! A source's events as they come.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::{Intake, Progress, Pulled};
use crate::event::{Batch, Event};
use crate::operator::Flow;
use crate::runtime::assemble::Readable;
use crate::runtime::pool::Task;
use crate::runtime::query::QueryCore;
use crate::source::{Pull, Source, SourceCx};
use crate::sync::OnceLock;
use crate::time::{Clock, Timestamp};

/// Has the chain that reads a source look at it again.
#[derive(Default)]
pub(in crate::runtime) struct SourceWaker(OnceLock<Weak<dyn Task>>);

impl Readable for SourceWaker {
    fn attach(&self, chain: Weak<dyn Task>, _: usize) {
        let attached = self.0.set(chain);
        assert!(attached.is_ok(), "a source is read by one chain");
    }
}

impl Wake for SourceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(task) = self.0.get().and_then(Weak::upgrade) {
            task.notify();
        }
    }
}

/// A source's events as they come.
pub struct SourceIntake<S> {
    source: S,
    /// What the source is given with the first look at it.
    unstarted: Option<SourceCx>,
    query: Arc<QueryCore>,
    flow: Flow,
    /// When a quiet source is to be looked at again.
    until: Option<Duration>,
}

impl<S: Source> SourceIntake<S> {
    /// An intake from `source` until it ends or the query is drained or stopped. A quiet source is looked
    /// at again when `waker` is called.
    pub fn new(source: S, query: Arc<QueryCore>, clock: Arc<dyn Clock>, waker: Waker) -> Self {
        let unstarted = Some(SourceCx::new(clock, waker));
        Self { source, unstarted, query, flow: Flow::Active, until: None }
    }

    #[inline]
    fn hand_over(&mut self, budget: usize, to: &mut impl FnMut(Event<S::Item>)) -> Pulled {
        let mut pulled = Pulled::default();
        if self.flow.is_over() {
            return pulled;
        }
        let ending = self.query.control.ending();
        if let Some(flow) = ending
            && self.source.close()
        {
            self.flow = flow;
            return pulled;
        }
        if let Some(cx) = self.unstarted.take() {
            self.source.start(&cx);
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
        self.until = None;
        match outcome {
            Pull::More => pulled.more = true,
            Pull::Quiet(until) if ending.is_none() => self.until = until,
            Pull::Quiet(_) | Pull::Ended => self.flow = ending.unwrap_or(Flow::Ended),
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

    fn deadline(&self) -> Option<Duration> {
        self.until
    }

    fn close(&mut self) {
        // What it holds is not wanted any more.
        self.source.close();
    }
}
