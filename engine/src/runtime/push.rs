//! The way in for other threads.

use std::fmt;
use std::sync::Arc;

use crate::event::Event;
use crate::operator::Flow;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::Timestamp;

use super::chain::BATCH;
use super::context::{Door, Node};
use super::engine::Shared;
use super::parker::Parker;
use super::pool::{Pool, TaskRef};
use super::port::{Load, Packet, Port, Refusal, Room};
use super::query::QueryId;

/// Why a push was not accepted. The value comes back.
#[derive(PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError<T> {
    /// The inbox is full; only `try_push` says so.
    #[error("the inbox is full")]
    Full(T),
    /// The query, or the context, is over, has been told to end, or was never submitted and is gone.
    #[error("it takes no more events: it is over, or has been told to end")]
    Closed(T),
}

/// Without the value, so that a push can be unwrapped whatever is pushed.
impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}

/// Pushes events into a query from any thread. Clones push to the same source; when the last one is
/// dropped, the source ends.
///
/// Events that one handle pushes stay in their order.
pub struct PushHandle<T> {
    line: Arc<Line<T>>,
}

/// When values happened.
trait TimeOf<T>: Send + Sync {
    /// When `value` did.
    fn one(&self, value: &T) -> Timestamp;

    /// When each of `values` did: one virtual call for all of them.
    fn each(&self, values: &[T]) -> Vec<Timestamp>;
}

impl<T, F: Fn(&T) -> Timestamp + Send + Sync> TimeOf<T> for F {
    fn one(&self, value: &T) -> Timestamp {
        self(value)
    }

    fn each(&self, values: &[T]) -> Vec<Timestamp> {
        values.iter().map(self).collect()
    }
}

/// What the handles of a source share with it.
pub struct Line<T> {
    port: Arc<Port<T>>,
    time: Box<dyn TimeOf<T>>,
    handles: AtomicUsize,
    /// The query that reads it, and its engine.
    reader: OnceLock<(Arc<Shared>, QueryId)>,
}

impl<T: Send + 'static> Line<T> {
    /// A line whose events happen when `time` says, with its first handle.
    pub fn new(
        time: impl Fn(&T) -> Timestamp + Send + Sync + 'static,
    ) -> (Arc<Self>, PushHandle<T>) {
        let line = Arc::new(Self {
            port: Port::new(1),
            time: Box::new(time),
            handles: AtomicUsize::new(1),
            reader: OnceLock::new(),
        });
        (line.clone(), PushHandle { line })
    }

    /// The port behind it.
    pub fn port(&self) -> &Arc<Port<T>> {
        &self.port
    }

    /// Says which query reads it.
    pub(super) fn attach(&self, engine: Arc<Shared>, query: QueryId) {
        // A second one cannot come: the port is read by one chain, which its `attach` asserts.
        let _ = self.reader.set((engine, query));
    }

    /// The description that it stood in is gone: unless an engine reads it, nobody ever will.
    pub fn described(&self) {
        if self.reader.get().is_none() {
            self.port.seal();
        }
    }

    fn now(&self) -> u64 {
        self.reader.get().map_or(0, |(engine, _)| engine.now_nanos())
    }

    fn event(&self, value: T) -> Event<T> {
        Event::new(self.time.one(&value), value)
    }
}

impl<T: Send + 'static> PushHandle<T> {
    /// Pushes a value; waits while the inbox is full.
    ///
    /// # Errors
    /// [`PushError::Closed`] if the query takes no more events.
    pub fn push(&self, value: T) -> Result<(), PushError<T>> {
        let mut event = self.line.event(value);
        loop {
            match self.line.port.push_event(event, BATCH, || self.line.now()) {
                Ok(()) => return Ok(()),
                Err((Refusal::Closed, event)) => return Err(PushError::Closed(event.value)),
                Err((Refusal::Full, back)) => event = back,
            }
            self.wait_for_room();
        }
    }

    /// Pushes a value if there is room for it now.
    ///
    /// # Errors
    /// [`PushError::Full`] if there is not, [`PushError::Closed`] if the query takes no more events.
    pub fn try_push(&self, value: T) -> Result<(), PushError<T>> {
        self.offer_one(self.event(value)).map_err(|(refusal, event)| match refusal {
            Refusal::Full => PushError::Full(event.value),
            Refusal::Closed => PushError::Closed(event.value),
        })
    }

    /// Pushes values together, for less than one by one; waits while the inbox is full.
    ///
    /// # Errors
    /// [`PushError::Closed`] with all values if the query takes no more events.
    pub fn push_all(&self, values: Vec<T>) -> Result<(), PushError<Vec<T>>> {
        if values.len() <= BATCH {
            return self.push_batch(values).map_err(PushError::Closed);
        }
        let mut rest = values.into_iter();
        while !rest.as_slice().is_empty() {
            self.push_batch(rest.by_ref().take(BATCH).collect()).map_err(|mut values| {
                values.extend(rest.by_ref());
                PushError::Closed(values)
            })?;
        }
        Ok(())
    }

    /// Pushes a batch in the memory that it came in: to move values and times together into events is left
    /// to the chain, which does so one by one as it runs them. That spares a pass over memory that another
    /// core has freed: 10 % of what batches of 1,024 cost, nothing certain of those of 64, where a second
    /// list per batch weighs as much (*measured*). The values come back if the query takes no more.
    fn push_batch(&self, mut values: Vec<T>) -> Result<(), Vec<T>> {
        if values.is_empty() {
            return Ok(());
        }
        if 2 * values.len() < values.capacity() {
            // The inbox has room for so many events, not for so much memory.
            values.shrink_to_fit();
        }
        let mut load = Load::Apart(self.line.time.each(&values), values);
        loop {
            match self.line.port.push_outside(Packet::loaded(load, self.line.now())) {
                Ok(()) => return Ok(()),
                Err((Refusal::Closed, packet)) => {
                    let mut values = Vec::new();
                    packet.load.into_batch().consume(|event, _| values.push(event.value));
                    return Err(values);
                }
                Err((Refusal::Full, packet)) => load = packet.load,
            }
            self.wait_for_room();
        }
    }

    /// Promises that nothing pushed from now on is earlier than `watermark`; what is, is late. It
    /// adds to what the source's watermark strategy promises.
    pub fn advance(&self, watermark: Timestamp) {
        self.line.port.push(Packet::promise(0, watermark, Flow::Active));
    }

    /// Events pushed that no worker has taken yet.
    pub fn depth(&self) -> usize {
        self.line.port.depth()
    }

    /// A value with its time.
    pub(super) fn event(&self, value: T) -> Event<T> {
        self.line.event(value)
    }

    /// Takes one event if there is room.
    pub(super) fn offer_one(&self, event: Event<T>) -> Result<(), (Refusal, Event<T>)> {
        self.line.port.push_event(event, BATCH, || self.line.now())
    }

    /// Registers `task` to be woken when there is room. `false`: there is now, or no hope of it.
    pub(super) fn wait_as(&self, task: &TaskRef) -> bool {
        self.line.port.wait(task)
    }

    /// What its handles share.
    pub(super) fn line(&self) -> Arc<Line<T>> {
        self.line.clone()
    }

    fn wait_for_room(&self) {
        let parker = Arc::new(Parker::default());
        if !self.line.port.wait_outside(&parker) {
            return;
        }
        Pool::block(|timeout| parker.park_for(timeout));
    }
}

impl<T: Send + 'static> Door for Line<T> {
    fn node(&self) -> Option<Node> {
        self.reader.get().map(|(engine, query)| Node::new(engine, query.0))
    }

    fn keeps_waiting(&self) -> bool {
        !self.port.has_room()
    }

    fn grow(&self) {
        let capacity = self.port.grow();
        let query = self.reader.get().map(|(_, query)| query.0);
        tracing::warn!(query, capacity, "waits in a circle: its inbox has grown");
    }
}

impl<T> Clone for PushHandle<T> {
    fn clone(&self) -> Self {
        // Relaxed: a new handle comes from a living one.
        self.line.handles.fetch_add(1, Ordering::Relaxed);
        Self { line: self.line.clone() }
    }
}

impl<T> Drop for PushHandle<T> {
    fn drop(&mut self) {
        // AcqRel: the end follows all that every other handle has pushed.
        if self.line.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.line.port.push(Packet::promise(0, Timestamp::MIN, Flow::Ended));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const MANY: i64 = 2 * BATCH as i64 + 5;

    #[test]
    fn what_is_pushed_one_by_one_and_together_stays_in_its_order() {
        let (line, handle) = Line::new(|value| Timestamp::from_micros(-value));
        handle.push(0).unwrap();
        handle.push_all((1..MANY).collect()).unwrap();
        handle.push_all(Vec::new()).unwrap();
        handle.push(MANY).unwrap();
        assert_eq!(handle.depth(), MANY as usize + 1);
        let mut packets = VecDeque::new();
        line.port().take(usize::MAX, &mut packets);
        let mut seen = Vec::new();
        for packet in packets {
            assert!((1..=BATCH).contains(&packet.load.len()));
            packet.load.into_batch().consume(|event, _| seen.push(event));
        }
        let expected = (0..=MANY).map(|n| Event::new(Timestamp::from_micros(-n), n));
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_closed_line_gives_all_values_back_in_their_order() {
        let (line, handle) = Line::new(|_: &i64| Timestamp::MIN);
        line.port().seal();
        for values in [vec![7], (0..MANY).collect::<Vec<_>>()] {
            assert_eq!(handle.push_all(values.clone()), Err(PushError::Closed(values)));
        }
    }
}
