//! From a shared source, and from subscriptions to one, to chains.

use std::sync::{Arc, Weak};

use crate::operator::{Consumer, OpId};
use crate::plan::Head;
use crate::runtime::assemble::{Assembler, Readable};
use crate::runtime::chain::Frame;
use crate::runtime::intake::{Intake, KeyIntake, LogIntake, Sorted};
use crate::runtime::pool::Task;
use crate::runtime::port::Room;

use super::{KeySubscription, Log, Publish, Reader, Seat, Terms};

/// A seat that is read.
struct OfKey<T> {
    seat: Arc<dyn Seat<T>>,
    /// Whether every watermark wakes the chain.
    follows: bool,
}

impl<T: 'static> Readable for OfKey<T> {
    fn attach(&self, chain: Weak<dyn Task>, _: usize) {
        self.seat.attach(chain, self.follows);
    }
}

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
        self.chain_of(frame, cursor, intake, consumer);
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
        self.chain_of(frame, Arc::new(OfKey { seat, follows }), intake, consumer);
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
