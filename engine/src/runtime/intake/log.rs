//! What a shared source has published: everything, or one key of it.

use std::sync::Arc;

use super::timed::stage_is_full;
use super::{Intake, Progress, Pulled};
use crate::event::Batch;
use crate::operator::Flow;
use crate::runtime::query::Inflow;
use crate::runtime::shared::{Cursor, Logged, Seat};
use crate::time::{Reorder, Timestamp, is_due};

/// A subscriber that has been told to end: what waited then is still taken, unless it is to stop.
#[derive(Default)]
struct Leaving {
    flow: Option<Flow>,
    left: u32,
}

impl Leaving {
    fn told(&mut self, flow: Flow, waiting: usize) {
        let waiting =
            if flow == Flow::Ended { u32::try_from(waiting).unwrap_or(u32::MAX) } else { 0 };
        match self.flow {
            // Stopped while it drains.
            Some(Flow::Ended) if flow == Flow::Halted => *self = Self { flow: Some(flow), left: 0 },
            Some(_) => {}
            None => *self = Self { flow: Some(flow), left: waiting },
        }
    }

    /// How it ends, if nothing of what waited is left.
    fn over(&self) -> Option<Flow> {
        self.flow.filter(|_| self.left == 0)
    }

    /// Accounts for a take.
    fn took(&mut self, pulled: &mut Pulled) {
        if self.flow.is_some() {
            let taken = u32::try_from(pulled.taken + pulled.lost).unwrap_or(u32::MAX);
            self.left = if pulled.more { self.left.saturating_sub(taken) } else { 0 };
            pulled.more &= self.left > 0;
        }
    }
}

/// Everything that a shared source publishes.
pub(crate) struct LogIntake<T: Send + Sync + 'static> {
    cursor: Arc<Cursor<T>>,
    promised: Progress,
    leaving: Leaving,
}

impl<T: Send + Sync + 'static> LogIntake<T> {
    pub(crate) fn new(cursor: Arc<Cursor<T>>) -> Self {
        Self { cursor, promised: Progress::NONE, leaving: Leaving::default() }
    }
}

impl<T: Clone + Send + Sync + 'static> Intake for LogIntake<T> {
    type Item = T;

    fn ending(&mut self, flow: Flow, waiting: usize) {
        self.leaving.told(flow, waiting);
    }

    fn take(&mut self, budget: usize, batch: &mut Batch<T>) -> Pulled {
        if self.leaving.over().is_some() {
            return Pulled::default();
        }
        let mut entries = Vec::new();
        let taken = self.cursor.take(budget, &mut entries);
        let mut pulled = Pulled { more: taken.more, lost: taken.lost, ..Pulled::default() };
        pulled.born = entries.first().map_or(0, |entry| entry.born);
        for entry in entries {
            match Arc::try_unwrap(entry) {
                // The last to read it takes it.
                Ok(Logged { batch: whole, .. }) => batch.append(whole),
                Err(shared) => batch.extend_from(&shared.batch),
            }
        }
        pulled.taken = batch.len() as u64;
        pulled.late = batch.late_count() as u64;
        let watermark = self.promised.watermark.max(taken.promise.watermark);
        self.promised = Progress { watermark, ..taken.promise };
        self.leaving.took(&mut pulled);
        pulled
    }

    fn progress(&self) -> Progress {
        ending(self.promised, &self.leaving)
    }

    fn close(&mut self) {
        self.cursor.leave();
    }
}

/// What is promised, or that the subscriber ends, whichever comes first.
fn ending(promised: Progress, leaving: &Leaving) -> Progress {
    let flow = leaving.over().filter(|_| !promised.flow.is_over()).unwrap_or(promised.flow);
    Progress { flow, ..promised }
}

/// What a shared source publishes of one key.
pub(crate) struct KeyIntake<T: 'static> {
    seat: Arc<dyn Seat<T>>,
    promised: Progress,
    /// The timer that the source knows of; [`Timestamp::MAX`] for none.
    armed: Timestamp,
    leaving: Leaving,
}

impl<T: Send + 'static> KeyIntake<T> {
    pub(crate) fn new(seat: Arc<dyn Seat<T>>) -> Self {
        Self { seat, promised: Progress::NONE, armed: Timestamp::MAX, leaving: Leaving::default() }
    }
}

impl<T: Send + 'static> Intake for KeyIntake<T> {
    type Item = T;

    fn standing(&mut self) -> Timestamp {
        if let Some(before) = self.seat.feed().lock().before() {
            self.promised.watermark = self.promised.watermark.max(before);
        }
        self.promised.watermark
    }

    fn ending(&mut self, flow: Flow, waiting: usize) {
        self.leaving.told(flow, waiting);
    }

    fn take(&mut self, _: usize, batch: &mut Batch<T>) -> Pulled {
        let mut pulled = Pulled::default();
        if self.leaving.over().is_some() {
            return pulled;
        }
        // Before the look into the feed: README.md says why.
        let newest = self.seat.cell().read();
        let mut feed = self.seat.feed().lock();
        let slice = match feed.before() {
            Some(before) if before > self.promised.watermark => {
                self.promised = Progress { watermark: before, flow: Flow::Active };
                pulled.more = true;
                return pulled;
            }
            Some(_) => Some(feed.take()),
            None => None,
        };
        pulled.more = !feed.is_empty();
        pulled.lost = feed.newly_lost();
        drop(feed);
        if !pulled.more {
            let watermark = self.promised.watermark.max(newest.watermark);
            self.promised = Progress { watermark, ..newest };
        }
        if let Some(slice) = slice {
            pulled.born = slice.born;
            pulled.taken = slice.batch.len() as u64;
            pulled.late = slice.batch.late_count() as u64;
            batch.append(slice.batch);
            if self.seat.reader().waits() {
                self.seat.has_room_again();
            }
        }
        self.leaving.took(&mut pulled);
        pulled
    }

    fn progress(&self) -> Progress {
        ending(self.promised, &self.leaving)
    }

    fn rest(&mut self, next_timer: Option<Timestamp>) -> bool {
        if is_due(self.armed, self.promised.watermark) {
            self.armed = Timestamp::MAX;
        }
        match next_timer {
            Some(due) if due < self.armed && !is_due(due, self.promised.watermark) => {
                self.armed = due;
                self.seat.cell().arm(due, self.seat.reader().weak_task())
            }
            _ => false,
        }
    }

    fn close(&mut self) {
        self.seat.leave();
    }
}

/// Another intake's events in order, where the plan asks for it. Which are late is known: they were
/// judged at the source.
pub(crate) struct Sorted<I: Intake> {
    inner: I,
    stage: Option<Box<Stage<I::Item>>>,
}

struct Stage<T> {
    events: Reorder<T>,
    cap: usize,
}

impl<I: Intake> Sorted<I> {
    /// `inner` as it comes; with `stage`, in order, as long as no more than `cap` events must be held
    /// for that.
    pub(crate) fn new(inner: I, stage: bool, cap: usize) -> Self {
        let stage = stage.then(|| Box::new(Stage { events: Reorder::new(), cap }));
        Self { inner, stage }
    }
}

impl<I: Intake> Intake for Sorted<I> {
    type Item = I::Item;

    fn standing(&mut self) -> Timestamp {
        // With a stage, what it holds comes before the watermark does.
        if self.stage.is_some() { Timestamp::MIN } else { self.inner.standing() }
    }

    fn take(&mut self, budget: usize, batch: &mut Batch<I::Item>) -> Pulled {
        let mut pulled = self.inner.take(budget, batch);
        let Some(Stage { events: stage, cap }) = self.stage.as_deref_mut() else { return pulled };
        std::mem::take(batch).consume(|event, late| {
            if late {
                batch.push(event, true);
            } else {
                stage.push(event);
            }
        });
        let Progress { watermark, flow } = self.inner.progress();
        let until = if flow == Flow::Ended { Timestamp::MAX } else { watermark };
        stage.release(until, &mut |event| batch.push(event, false));
        if stage.len() > *cap {
            pulled.failure = Some(stage_is_full(stage.len(), watermark, *cap));
        }
        pulled
    }

    fn progress(&self) -> Progress {
        self.inner.progress()
    }

    fn rest(&mut self, next_timer: Option<Timestamp>) -> bool {
        let held = self.stage.as_ref().and_then(|stage| stage.events.earliest());
        // The stage's answer may be early. What the watermark has reached is out, so nothing is held
        // that is not later; and a timer that is due already would never be armed.
        let held = held.map(|held| held.max(self.inner.progress().watermark.next()));
        self.inner.rest(next_timer.into_iter().chain(held).min())
    }

    fn ending(&mut self, flow: Flow, waiting: usize) {
        self.inner.ending(flow, waiting);
    }

    fn held(&self) -> usize {
        self.stage.as_ref().map_or(0, |stage| stage.events.len())
    }

    fn close(&mut self) {
        self.inner.close();
    }
}
