//! From a shared source, and from subscriptions to one, to chains.

use std::sync::Arc;

use crate::operator::{Consumer, OpId};
use crate::plan::Head;
use crate::runtime::assemble::Assembler;
use crate::runtime::chain::{Chain, Frame};
use crate::runtime::intake::{Intake, KeyIntake, LogIntake, Sorted};
use crate::runtime::pool::Task;
use crate::runtime::port::Room;

use super::{KeySubscription, Log, Publish, Reader, Terms};

impl Assembler {
    /// The end of a shared source's chain: publishes on `log` as operator `op`.
    pub fn publish<T>(&mut self, op: OpId, log: &Arc<Log<T>>) -> impl Consumer<T> + use<T>
    where
        T: Send + Sync + 'static,
    {
        log.published_by(Arc::downgrade(&self.engine), Arc::downgrade(&self.query));
        let room: Arc<dyn Room> = log.clone();
        self.room(room);
        Publish::new(op, log.clone())
    }

    /// A chain that reads everything that is published on `log` from now on, as the head of `segment`.
    pub fn subscribed<T, C>(&mut self, segment: usize, log: &Arc<Log<T>>, terms: Terms, consumer: C)
    where
        T: Clone + Send + Sync + 'static,
        C: Consumer<T>,
    {
        let mut frame = self.next_frame(self.plan().head_of(segment));
        let cursor = log.subscribe(self.reader(segment, terms));
        frame.inflow = Some(cursor.clone());
        let intake = self.sorted(&frame, LogIntake::new(cursor.clone()));
        self.pending.push(Box::new(move || {
            let chain = Chain::new(frame, intake, Arc::new(consumer));
            let task: Arc<dyn Task> = chain.clone();
            cursor.attach(Arc::downgrade(&task));
            chain
        }));
    }

    /// As `subscribed`, for what is published of one key.
    pub fn subscribed_to_key<T, C>(
        &mut self,
        segment: usize,
        key: &KeySubscription<T>,
        terms: Terms,
        consumer: C,
    ) where
        T: Clone + Send + Sync + 'static,
        C: Consumer<T>,
    {
        let mut frame = self.next_frame(self.plan().head_of(segment));
        let seat = (key.join)(self.reader(segment, terms));
        frame.inflow = Some(seat.clone());
        let follows = self.plan().pieces().len() > 1;
        let intake = self.sorted(&frame, KeyIntake::new(seat.clone()));
        self.pending.push(Box::new(move || {
            let chain = Chain::new(frame, intake, Arc::new(consumer));
            let task: Arc<dyn Task> = chain.clone();
            seat.attach(Arc::downgrade(&task), follows);
            chain
        }));
    }

    fn reader(&self, segment: usize, Terms { lag, lease }: Terms) -> Reader {
        let op = self.plan().head(segment).op();
        debug_assert!(matches!(self.plan().head(segment), Head::Source { .. } | Head::Key { .. }));
        Reader::new(Arc::downgrade(&self.query), op.unwrap_or_default(), lag, lease)
    }

    fn sorted<I: Intake>(&self, frame: &Frame, intake: I) -> Sorted<I> {
        Sorted::new(intake, self.has_stage(frame), self.engine.settings().hold_cap)
    }
}
