//! The end of a shared source's chain: what has come goes to those who subscribe.

use std::sync::Arc;

use crate::event::{Batch, Event};
use crate::operator::{Consumer, Cx, Flow, OpId};
use crate::runtime::intake::Progress;
use crate::state::{StateError, Visit};
use crate::time::Timestamp;

use super::Log;
use super::keyed::{Effects, Origin};

/// Publishes what a shared source gives.
pub(crate) struct Publish<T> {
    op: OpId,
    log: Arc<Log<T>>,
}

impl<T> Publish<T> {
    /// To `log`, as operator `op`.
    pub(super) fn new(op: OpId, log: Arc<Log<T>>) -> Self {
        Self { op, log }
    }
}

/// What waits for the end of the batch. Whatever way its chain ends, the subscribers are told.
pub(crate) struct Publishing<T: Send + Sync + 'static> {
    log: Arc<Log<T>>,
    batch: Batch<T>,
    promise: Progress,
}

impl<T: Send + Sync + 'static> Drop for Publishing<T> {
    fn drop(&mut self) {
        if !self.promise.flow.is_over() {
            self.log.break_off();
        }
    }
}

impl<T: Send + Sync + 'static> Consumer<T> for Publish<T> {
    type State = Publishing<T>;

    fn state(&self) -> Publishing<T> {
        Publishing { log: self.log.clone(), batch: Batch::default(), promise: Progress::NONE }
    }

    #[inline]
    fn event(&self, state: &mut Publishing<T>, cx: &mut Cx, event: Event<T>) {
        state.batch.push(event, cx.late);
    }

    fn watermark(&self, state: &mut Publishing<T>, _: &mut Cx, watermark: Timestamp) {
        state.promise.watermark = state.promise.watermark.max(watermark);
    }

    fn end(&self, state: &mut Publishing<T>, _: &mut Cx) {
        state.promise.flow = Flow::Ended;
    }

    fn flush(&self, state: &mut Publishing<T>, cx: &mut Cx) {
        let Publishing { log, batch, promise } = state;
        if promise.flow != Flow::Ended {
            promise.flow = cx.flow;
        }
        cx.counters.out += batch.len() as u64;
        let mut effects = Effects::none();
        let indexes = log.live_indexes();
        if !batch.is_empty() {
            let from = Origin { before: log.cell.watermark(), born: cx.born };
            indexes.iter().for_each(|index| index.feed(self.op, cx, batch, &from, &mut effects));
        }
        let mut woken = effects.settle(log.name(), log.limit);
        log.append(batch, *promise, cx.born, &mut woken);
        log.cell.write(*promise, &mut woken);
        if promise.flow.is_over() {
            indexes.iter().for_each(|index| index.wake_all(&mut woken));
        }
        // They queue up behind each other, and the source's chain behind them all.
        woken.into_iter().for_each(|task| task.notify());
    }

    fn next_timer(&self, _: &Publishing<T>) -> Option<Timestamp> {
        None
    }

    fn visit(&self, _: &mut Publishing<T>, _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}
