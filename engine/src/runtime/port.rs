//! A chain's inbox: packets from its inputs, and the chains that wait for room in it.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::event::{Batch, Event};
use crate::operator::{Flow, Note};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, OnceLock};
use crate::time::Timestamp;

use super::assemble::Readable;
use super::parker::Parker;
use super::pool::{Task, TaskRef};
use super::query::Inflow;

/// What one input sends at a time: events, then a watermark, then how it goes on.
pub struct Packet<T> {
    /// Which of the port's inputs sent it.
    pub input: u16,
    /// The events, in order.
    pub load: Load<T>,
    /// The input's promise after these events.
    pub watermark: Timestamp,
    /// How the input goes on.
    pub flow: Flow,
    /// Nanoseconds on the engine's clock at which the first event entered the engine.
    pub born: u64,
    /// What is said to the chain's first operator behind all that.
    pub notes: Vec<Note>,
}

/// The events of a packet.
pub enum Load<T> {
    /// Each with its time.
    Batch(Batch<T>),
    /// From a producer outside the engine: their values as that has laid them out, which so need not be
    /// moved on its thread, and their times. As many of the one as of the other.
    Apart(Vec<Timestamp>, Vec<T>),
}

impl<T> Load<T> {
    /// How many events it holds.
    pub fn len(&self) -> usize {
        match self {
            Load::Batch(batch) => batch.len(),
            Load::Apart(_, values) => values.len(),
        }
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The events, each with its time.
    pub fn into_batch(self) -> Batch<T> {
        match self {
            Load::Batch(batch) => batch,
            Load::Apart(times, values) => {
                let events = times.into_iter().zip(values);
                events.map(|(time, value)| Event::new(time, value)).collect::<Vec<_>>().into()
            }
        }
    }
}

/// Notes that are heeded at one go.
const NOTES_TOGETHER: usize = 16;

/// The input that packets with nothing but notes come from: none.
const NO_INPUT: u16 = u16::MAX;

impl<T> Packet<T> {
    /// A packet without events.
    pub fn promise(input: u16, watermark: Timestamp, flow: Flow) -> Self {
        let load = Load::Batch(Batch::default());
        Self { input, load, watermark, flow, born: 0, notes: Vec::new() }
    }

    /// A packet of events that promises nothing.
    pub fn of(batch: Batch<T>, born: u64) -> Self {
        Self::loaded(Load::Batch(batch), born)
    }

    /// A packet of what a producer outside the engine has pushed.
    pub fn loaded(load: Load<T>, born: u64) -> Self {
        let (watermark, flow) = (Timestamp::MIN, Flow::Active);
        Self { input: 0, load, watermark, flow, born, notes: Vec::new() }
    }

    /// Whether it holds nothing but the events, their times apart.
    pub fn is_apart(&self) -> bool {
        matches!(self.load, Load::Apart(..))
            && self.watermark == Timestamp::MIN
            && self.flow == Flow::Active
            && self.notes.is_empty()
    }

    /// Whether it holds nothing but notes.
    pub fn is_notes(&self) -> bool {
        self.input == NO_INPUT
    }
}

/// Somewhere a chain's output goes that can be full.
pub trait Room: Send + Sync {
    /// Whether another batch is welcome.
    fn has_room(&self) -> bool;

    /// Registers `task` to be woken when there is room. `false`: there is room now.
    fn wait(&self, task: &TaskRef) -> bool;
}

/// A chain's inbox.
pub struct Port<T> {
    queue: Mutex<Queue<T>>,
    /// Events in the queue. Changed under the lock, read without it.
    depth: AtomicUsize,
    capacity: AtomicUsize,
    used: AtomicBool,
    task: OnceLock<Weak<dyn Task>>,
}

struct Queue<T> {
    packets: VecDeque<Packet<T>>,
    waiters: Vec<Waiter>,
    inputs: u16,
    /// Producers outside the engine are refused.
    sealed: bool,
    closed: bool,
}

/// Who waits for room.
enum Waiter {
    /// A chain upstream.
    Task(TaskRef),
    /// A producer outside the engine.
    Thread(Arc<Parker>),
}

/// Why an event was not accepted from outside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Full,
    Closed,
}

/// The depth at which a port has no room, unless the engine was told otherwise.
pub const DEFAULT_CAPACITY: usize = 16 * 1024;

impl<T> Port<T> {
    /// A port for `inputs` inputs, not yet read by any chain.
    pub fn new(inputs: u16) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(Queue {
                packets: VecDeque::new(),
                waiters: Vec::new(),
                inputs,
                sealed: false,
                closed: false,
            }),
            depth: AtomicUsize::new(0),
            capacity: AtomicUsize::new(DEFAULT_CAPACITY),
            used: AtomicBool::new(false),
            task: OnceLock::new(),
        })
    }

    /// Adds inputs, numbered one after the other; the number of the first.
    pub fn add_inputs(&self, more: u16) -> u16 {
        let mut queue = self.queue.lock();
        queue.inputs += more;
        queue.inputs - more
    }

    /// How many inputs there are.
    pub fn inputs(&self) -> u16 {
        self.queue.lock().inputs
    }

    /// Says that a chain is going to read this port.
    pub fn mark_used(&self) {
        // Relaxed: set and read by the thread that assembles the query.
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether a chain reads this port, or is going to.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Puts a packet into the inbox. Always accepted; dropped if the chain is over.
    pub fn push(&self, packet: Packet<T>) {
        if self.append(packet) {
            self.notify();
        }
    }

    /// As `push`, for a chain whose own code has returned: the reader may run next on this worker.
    pub(super) fn hand_on(&self, packet: Packet<T>) {
        if self.append(packet)
            && let Some(task) = self.reader()
        {
            task.notify_next();
        }
    }

    /// `true`: the inbox was empty, and its chain is to be notified.
    fn append(&self, packet: Packet<T>) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed {
            return false;
        }
        let was_empty = queue.packets.is_empty();
        self.add_depth(packet.load.len());
        match queue.packets.back_mut() {
            Some(last)
                if packet.load.is_empty()
                    && last.input == packet.input
                    && last.notes.is_empty()
                    && !last.flow.is_over() =>
            {
                last.watermark = last.watermark.max(packet.watermark);
                last.flow = packet.flow;
            }
            _ => queue.packets.push_back(packet),
        }
        was_empty
    }

    /// Puts a note into the inbox, behind all that is there. `false`: the chain is over.
    pub(super) fn tell(&self, note: Note) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed {
            return false;
        }
        let was_empty = queue.packets.is_empty();
        match queue.packets.back_mut() {
            Some(last) if last.notes.len() < NOTES_TOGETHER => last.notes.push(note),
            _ => {
                let mut packet = Packet::promise(NO_INPUT, Timestamp::MIN, Flow::Active);
                packet.notes.push(note);
                queue.packets.push_back(packet);
            }
        }
        drop(queue);
        if was_empty {
            self.notify();
        }
        true
    }

    /// Adds one event to the last packet if that is still open, else to a new one. For producers
    /// outside the engine, which send as input 0, one event at a time; they are refused when there
    /// is no room.
    pub(super) fn push_event(
        &self,
        event: Event<T>,
        most: usize,
        born: impl FnOnce() -> u64,
    ) -> Result<(), (Refusal, Event<T>)> {
        let mut queue = self.queue.lock();
        if queue.sealed || queue.closed {
            return Err((Refusal::Closed, event));
        }
        if !self.has_room() {
            return Err((Refusal::Full, event));
        }
        let was_empty = queue.packets.is_empty();
        self.add_depth(1);
        match queue.packets.back_mut() {
            Some(Packet { load: Load::Batch(batch), watermark: Timestamp::MIN, notes, .. })
                if batch.len() < most && notes.is_empty() =>
            {
                batch.push(event, false);
            }
            _ => {
                queue.packets.push_back(Packet::of(Batch::from(vec![event]), born()));
            }
        }
        drop(queue);
        if was_empty {
            self.notify();
        }
        Ok(())
    }

    /// Puts a producer's packet into the inbox, if there is room.
    pub(super) fn push_outside(&self, packet: Packet<T>) -> Result<(), (Refusal, Packet<T>)> {
        let mut queue = self.queue.lock();
        if queue.sealed || queue.closed {
            return Err((Refusal::Closed, packet));
        }
        if !self.has_room() {
            return Err((Refusal::Full, packet));
        }
        let was_empty = queue.packets.is_empty();
        self.add_depth(packet.load.len());
        queue.packets.push_back(packet);
        drop(queue);
        if was_empty {
            self.notify();
        }
        Ok(())
    }

    /// Refuses producers outside the engine from now on.
    pub(super) fn seal(&self) {
        let mut queue = self.queue.lock();
        queue.sealed = true;
        let woken = std::mem::take(&mut queue.waiters);
        drop(queue);
        wake(woken);
    }

    /// Registers a producer outside the engine, to be unparked when there is room or no hope of it.
    /// `false`: there is now.
    pub(super) fn wait_outside(&self, parker: &Arc<Parker>) -> bool {
        let mut queue = self.queue.lock();
        if queue.sealed || queue.closed || self.has_room() {
            return false;
        }
        queue.waiters.push(Waiter::Thread(parker.clone()));
        true
    }

    /// Moves packets to `into` until they hold `budget` events. `true`: there is more.
    pub(super) fn take(&self, budget: usize, into: &mut VecDeque<Packet<T>>) -> bool {
        let mut queue = self.queue.lock();
        let mut taken = 0;
        while taken < budget {
            let Some(packet) = queue.packets.pop_front() else { break };
            taken += packet.load.len();
            into.push_back(packet);
        }
        let more = !queue.packets.is_empty();
        let depth = self.depth() - taken;
        // Relaxed: the depth is a hint; who must be sure looks again under the lock.
        self.depth.store(depth, Ordering::Relaxed);
        let woken =
            if depth < self.capacity() { std::mem::take(&mut queue.waiters) } else { Vec::new() };
        drop(queue);
        wake(woken);
        more
    }

    /// The chain is over: what waits here is dropped, and so is what comes.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let packets = std::mem::take(&mut queue.packets);
        let woken = std::mem::take(&mut queue.waiters);
        self.depth.store(0, Ordering::Relaxed);
        drop(queue);
        wake(woken);
        // Last: these are the user's, and dropping them may panic.
        drop(packets);
    }

    /// Events in the inbox.
    pub fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }

    pub(super) fn has_room(&self) -> bool {
        self.depth() < self.capacity()
    }

    fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Doubles the bound, which is returned.
    pub(super) fn grow(&self) -> usize {
        let mut queue = self.queue.lock();
        let capacity = self.capacity().saturating_mul(2);
        self.capacity.store(capacity, Ordering::Relaxed);
        let woken = std::mem::take(&mut queue.waiters);
        drop(queue);
        wake(woken);
        capacity
    }

    fn add_depth(&self, events: usize) {
        // Under the lock; a plain addition would do were it not read without it.
        self.depth.fetch_add(events, Ordering::Relaxed);
    }

    /// The chain that reads here.
    fn reader(&self) -> Option<TaskRef> {
        self.task.get().and_then(Weak::upgrade)
    }

    fn notify(&self) {
        if let Some(task) = self.reader() {
            task.notify();
        }
    }
}

impl<T: Send + 'static> Readable for Port<T> {
    fn attach(&self, chain: Weak<dyn Task>, capacity: usize) {
        // Relaxed: set before the first push of the query, which is ordered by the port's lock.
        self.capacity.store(capacity, Ordering::Relaxed);
        let attached = self.task.set(chain);
        assert!(attached.is_ok(), "a port is read by one chain");
    }
}

impl<T: Send + 'static> Inflow for Port<T> {
    fn depth(&self) -> usize {
        Port::depth(self)
    }
}

impl<T: Send + 'static> Room for Port<T> {
    fn has_room(&self) -> bool {
        Port::has_room(self)
    }

    fn wait(&self, task: &TaskRef) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed || Port::has_room(self) {
            return false;
        }
        let known =
            |waiter: &Waiter| matches!(waiter, Waiter::Task(known) if Arc::ptr_eq(known, task));
        if !queue.waiters.iter().any(known) {
            queue.waiters.push(Waiter::Task(task.clone()));
        }
        true
    }
}

fn wake(waiters: Vec<Waiter>) {
    for waiter in waiters {
        match waiter {
            Waiter::Task(task) => task.wake(),
            Waiter::Thread(parker) => parker.unpark(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::super::pool::Pool;
    use super::super::token::Token;
    use super::*;

    /// The type of a reader that is gone.
    struct Nobody;

    impl Task for Nobody {
        fn token(&self) -> &Token {
            unreachable!("nobody is ever made")
        }

        fn pool(&self) -> &Arc<Pool> {
            unreachable!("nobody is ever made")
        }

        fn run(self: Arc<Self>) {}
    }

    fn push(port: &Port<u32>, value: u32) -> Result<(), Refusal> {
        let event = Event::new(Timestamp::MIN, value);
        port.push_event(event, 1, || 1).map_err(|(refusal, _)| refusal)
    }

    #[test]
    fn who_waits_for_room_is_woken_when_there_is_some() {
        let port = Port::new(1);
        let reader: Weak<dyn Task> = Weak::<Nobody>::new();
        port.attach(reader, 2);
        let parker = Arc::new(Parker::default());
        assert!(!port.wait_outside(&parker));
        assert_eq!([1, 2, 3].map(|n| push(&port, n)), [Ok(()), Ok(()), Err(Refusal::Full)]);
        assert!(port.wait_outside(&parker));
        assert!(port.take(1, &mut VecDeque::new()));
        assert!(parker.park_for(Some(Duration::ZERO)));
        assert_eq!((port.depth(), push(&port, 3)), (1, Ok(())));
    }
}
