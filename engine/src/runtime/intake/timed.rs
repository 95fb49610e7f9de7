//! Event time: assigned, judged, and mended where the plan asks for it.

use std::sync::Arc;
use std::time::Duration;

use super::{Intake, Progress, Pulled};
use crate::event::{Batch, Event};
use crate::operator::Flow;
use crate::time::{Clock, Reorder, Timestamp, Timing, Verdict, Watermarks, is_late};

/// Another intake's events with the time that a function of their value gives. What the other intake
/// promised means nothing then.
pub struct Assigned<I, A> {
    inner: I,
    assign: A,
}

impl<I, A> Assigned<I, A> {
    /// `inner` with the times that `assign` gives.
    pub fn new(inner: I, assign: A) -> Self {
        Self { inner, assign }
    }
}

impl<I, A> Intake for Assigned<I, A>
where
    I: Intake,
    A: FnMut(&I::Item) -> Timestamp + Send + 'static,
{
    type Item = I::Item;

    fn take(&mut self, budget: usize, batch: &mut Batch<I::Item>) -> Pulled {
        let pulled = self.inner.take(budget, batch);
        for event in batch.events_mut() {
            event.time = (self.assign)(&event.value);
        }
        batch.forgive();
        pulled
    }

    fn progress(&self) -> Progress {
        Progress { watermark: Timestamp::MIN, ..self.inner.progress() }
    }

    fn held(&self) -> usize {
        self.inner.held()
    }

    fn holding(&self) -> Option<usize> {
        self.inner.holding()
    }

    fn close(&mut self) {
        self.inner.close();
    }
}

/// Another intake's events judged: at a source, or where time stamps were assigned anew. Lateness is
/// decided here, per event, and disorder is mended here if the plan asks for it.
pub struct Timed<I: Intake> {
    inner: I,
    timing: Timing<I::Item>,
    reorder: Option<Reorder<I::Item>>,
    clock: Arc<dyn Clock>,
    idle: Idleness,
    next_tick: Option<Duration>,
    watermark: Timestamp,
    cap: usize,
}

/// Whether a quiet source is idle.
#[derive(Debug)]
struct Idleness {
    after: Option<Duration>,
    /// When the last event came; at first, when the query started.
    last: Duration,
    idle: bool,
}

impl<I: Intake> Timed<I> {
    /// `inner` judged by `watermarks`; with `reorder`, in order, as long as no more than `cap` events
    /// must be held for that.
    pub fn new(
        inner: I,
        watermarks: Watermarks<I::Item>,
        reorder: bool,
        clock: Arc<dyn Clock>,
        cap: usize,
    ) -> Self {
        let now = clock.monotonic();
        let idle = Idleness { after: watermarks.idle_timeout(), last: now, idle: false };
        let timing = watermarks.start();
        Self {
            inner,
            next_tick: timing.interval().map(|interval| now.saturating_add(interval)),
            timing,
            reorder: reorder.then(Reorder::default),
            clock,
            idle,
            watermark: Timestamp::MIN,
            cap,
        }
    }

    fn tick(&mut self, quiet: bool) {
        if self.next_tick.is_none() && self.idle.after.is_none() {
            return;
        }
        let now = self.clock.monotonic();
        if let (Some(due), Some(interval)) = (self.next_tick, self.timing.interval())
            && due <= now
        {
            self.timing.tick(self.clock.now());
            // From now on, not from when it was due: after a pause one tick makes up for all.
            self.next_tick = Some(now.saturating_add(interval));
        }
        if !quiet {
            self.idle.last = now;
            self.idle.idle = false;
        } else if let Some(after) = self.idle.after {
            self.idle.idle |= self.idle.last.saturating_add(after) <= now;
        }
    }

    /// Judges a batch where it is, or sends its on-time events to the reorder stage.
    fn judge(&mut self, batch: &mut Batch<I::Item>, pulled: &mut Pulled) {
        let Self { timing, reorder, clock, watermark, .. } = self;
        let promised = *watermark;
        // The usual rule is copied, so that it stays in registers while a batch is judged.
        let mut plain = timing.plain();
        if let Some(plain) = &mut plain {
            plain.promise(promised);
        }
        match (plain, reorder) {
            (Some(plain), None) => {
                let mut rule = *plain;
                pulled.late = batch.mark_late(0, |time| rule.is_late(time));
                *plain = rule;
            }
            (Some(plain), Some(reorder)) => {
                let mut rule = *plain;
                std::mem::take(batch).consume(|event, _| {
                    if rule.is_late(event.time) {
                        batch.push(event, true);
                    } else {
                        reorder.push(event);
                    }
                });
                *plain = rule;
                pulled.late = batch.late_count() as u64;
            }
            (None, reorder) => {
                std::mem::take(batch).consume(|event, _| {
                    let verdict = timing.observe(event.time, &event.value, || clock.now());
                    match (verdict, &mut *reorder) {
                        (Verdict::Refused, _) => pulled.refused += 1,
                        (Verdict::OnTime, reorder) if !is_late(event.time, promised) => {
                            match reorder {
                                Some(reorder) => reorder.push(event),
                                None => batch.push(event, false),
                            }
                        }
                        _ => batch.push(event, true),
                    }
                });
                pulled.late = batch.late_count() as u64;
            }
        }
    }

    /// What follows from a batch: time moves on, and the reorder stage lets go of what it may.
    fn settle(&mut self, batch: &mut Batch<I::Item>, pulled: &mut Pulled) {
        self.tick(pulled.taken == 0);
        let below = self.inner.progress();
        self.watermark = self.watermark.max(self.timing.watermark()).max(below.watermark);
        let Some(reorder) = &mut self.reorder else { return };
        let until = match below.flow {
            Flow::Ended => Timestamp::MAX,
            _ => self.watermark,
        };
        reorder.release(until, &mut |event| batch.push(event, false));
        if reorder.len() > self.cap {
            pulled.failure = Some(stage_is_full(reorder.len(), self.watermark, self.cap));
        }
    }
}

impl<I: Intake> Intake for Timed<I> {
    type Item = I::Item;

    fn take(&mut self, budget: usize, batch: &mut Batch<I::Item>) -> Pulled {
        let mut pulled = self.inner.take(budget, batch);
        self.judge(batch, &mut pulled);
        self.settle(batch, &mut pulled);
        pulled
    }

    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        batch: &mut Batch<I::Item>,
        run: &mut impl FnMut(Event<I::Item>, bool),
    ) -> Pulled {
        let Self { inner, timing, reorder: None, watermark, .. } = self else {
            return self.take(budget, batch);
        };
        let Some(plain) = timing.plain() else { return self.take(budget, batch) };
        let mut rule = *plain;
        rule.promise(*watermark);
        let mut late_events = 0;
        let mut pulled = inner.pull(budget, batch, &mut |event, _| {
            let late = rule.is_late(event.time);
            if late {
                late_events += 1;
            }
            run(event, late);
        });
        *plain = rule;
        if !batch.is_empty() {
            self.judge(batch, &mut pulled);
        }
        pulled.late += late_events;
        self.settle(batch, &mut pulled);
        pulled
    }

    fn progress(&self) -> Progress {
        let below = self.inner.progress().flow;
        let flow = if below == Flow::Active && self.idle.idle { Flow::Idle } else { below };
        Progress { watermark: self.watermark, flow }
    }

    fn deadline(&self) -> Option<Duration> {
        let idle = self
            .idle
            .after
            .filter(|_| !self.idle.idle)
            .map(|after| self.idle.last.saturating_add(after));
        [self.next_tick, idle, self.inner.deadline()].into_iter().flatten().min()
    }

    fn held(&self) -> usize {
        self.inner.held() + self.reorder.as_ref().map_or(0, Reorder::len)
    }

    fn holding(&self) -> Option<usize> {
        self.inner.holding()
    }

    fn close(&mut self) {
        self.inner.close();
    }
}

/// Why a reorder stage cannot go on.
pub(super) fn stage_is_full(held: usize, watermark: Timestamp, cap: usize) -> String {
    format!(
        "a reorder stage holds {held} events while its watermark stands at {watermark}: more than \
         the cap of {cap}"
    )
}
