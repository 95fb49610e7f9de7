//! A shared source's batches, and how far each subscriber has read.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::event::Batch;
use crate::operator::Flow;
use crate::runtime::assemble::Readable;
use crate::runtime::context::Node;
use crate::runtime::engine::Shared;
use crate::runtime::intake::Progress;
use crate::runtime::pool::{Task, TaskRef};
use crate::runtime::port::Room;
use crate::runtime::query::{Inflow, QueryCore};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, OnceLock};
use crate::time::Timestamp;

use super::keyed::Index;
use super::lagging::Lagging;
use super::{Cell, Derived, Lag, Reader, SubscriberStats};

/// A batch that several read.
pub(crate) struct Logged<T> {
    pub batch: Batch<T>,
    /// Nanoseconds on the engine's clock at which the first event entered the engine.
    pub born: u64,
}

struct Entry<T> {
    logged: Arc<Logged<T>>,
    /// What the source promised after these events.
    watermark: Timestamp,
    /// How many events had been published after these.
    end: u64,
    /// How many subscribers have yet to read it.
    unread: usize,
}

/// How far a subscriber has read.
struct Place {
    /// The number of the entry that it reads next.
    next: u64,
    /// The events before that entry.
    position: u64,
    seen: u64,
    lost: u64,
    /// Of the events lost, those that its chain has been told of.
    told: u64,
    reader: Arc<Reader>,
}

struct Tail<T> {
    entries: VecDeque<Entry<T>>,
    /// The number of the first entry.
    first: u64,
    /// Events published so far.
    end: u64,
    promise: Progress,
    places: Vec<Option<Place>>,
    /// Places that nobody has.
    vacant: Vec<usize>,
    started: bool,
    /// The source chain, while it waits for room.
    waiters: Vec<TaskRef>,
    /// What was said of its waits. Goes with those who wait, at one lock: several workers may run the chain.
    noted: Vec<Node>,
}

/// A shared source: what it has published that somebody has yet to read, and who reads it.
pub struct Log<T> {
    name: String,
    in_order: bool,
    pub(super) limit: usize,
    pub(super) cell: Cell,
    pub(super) lagging: Lagging<T>,
    pub(super) lost: AtomicU64,
    pub(super) indexes: Mutex<Vec<Weak<dyn Index<T>>>>,
    tail: Mutex<Tail<T>>,
    /// The sources that are made from it.
    pub derived: Derived,
    /// The engine and the query that publish here.
    origin: OnceLock<(Weak<Shared>, Weak<QueryCore>)>,
}

/// What a shared source has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedStats {
    /// Events published.
    pub events: u64,
    /// Events held for subscribers that have yet to read them; those of single keys left aside.
    pub held: usize,
    /// Events that subscribers lost by lagging behind, those included that are gone.
    pub lost: u64,
    /// The newest watermark.
    pub watermark: Timestamp,
}

/// What a look at the log brought.
pub(crate) struct Taken {
    pub more: bool,
    pub promise: Progress,
    pub lost: u64,
}

impl<T: Send + Sync + 'static> Log<T> {
    /// A log of the source `name`, whose events come in order if it is declared so. A subscriber may
    /// be `limit` events behind.
    pub fn new(name: String, in_order: bool, limit: usize) -> Arc<Self> {
        let tail = Tail {
            entries: VecDeque::new(),
            first: 0,
            end: 0,
            promise: Progress::NONE,
            places: Vec::new(),
            vacant: Vec::new(),
            started: false,
            waiters: Vec::new(),
            noted: Vec::new(),
        };
        Arc::new(Self {
            name,
            in_order,
            limit,
            cell: Cell::default(),
            lagging: Lagging::none(),
            lost: AtomicU64::new(0),
            indexes: Mutex::default(),
            tail: Mutex::new(tail),
            derived: Derived::default(),
            origin: OnceLock::new(),
        })
    }

    /// The source's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many events a subscriber may be behind.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether the source was declared in order.
    pub fn is_in_order(&self) -> bool {
        self.in_order
    }

    pub(super) fn published_by(&self, engine: Weak<Shared>, query: Weak<QueryCore>) {
        let set = self.origin.set((engine, query));
        assert!(set.is_ok(), "a log has one source");
    }

    pub(crate) fn is_of(&self, engine: &Arc<Shared>) -> bool {
        self.origin.get().is_some_and(|(origin, _)| origin.as_ptr() == Arc::as_ptr(engine))
    }

    /// Whether the source has published its last.
    pub fn is_over(&self) -> bool {
        self.tail.lock().promise.flow.is_over()
    }

    /// Has the source read.
    pub fn start(&self) {
        let mut tail = self.tail.lock();
        tail.started = true;
        let woken = std::mem::take(&mut tail.waiters);
        drop(tail);
        woken.into_iter().for_each(|task| task.wake());
    }

    /// What has been counted.
    pub fn stats(&self) -> SharedStats {
        let tail = self.tail.lock();
        SharedStats {
            events: tail.end,
            held: tail.entries.iter().map(|entry| entry.logged.batch.len()).sum(),
            lost: self.lost.load(Ordering::Relaxed),
            watermark: tail.promise.watermark,
        }
    }

    /// Who subscribes, in the order of their queries.
    pub fn subscribers(&self) -> Vec<SubscriberStats> {
        let tail = self.tail.lock();
        let whole = tail.places.iter().flatten().filter_map(|place| {
            let lag = (tail.end - place.position) as usize;
            let stats = place.reader.stats(false)?;
            Some(SubscriberStats { seen: place.seen, lost: place.lost, lag, ..stats })
        });
        let mut all: Vec<_> = whole.collect();
        drop(tail);
        self.live_indexes().iter().for_each(|index| index.list(&mut all));
        all.sort_by_key(|stats| stats.query);
        all
    }

    pub(super) fn live_indexes(&self) -> Vec<Arc<dyn Index<T>>> {
        let mut indexes = self.indexes.lock();
        indexes.retain(|index| index.strong_count() > 0);
        indexes.iter().filter_map(Weak::upgrade).collect()
    }

    /// A subscriber to everything that is published from now on.
    pub(super) fn subscribe(self: &Arc<Self>, reader: Reader) -> Arc<Cursor<T>> {
        let reader = Arc::new(reader);
        let mut tail = self.tail.lock();
        let place = Place {
            next: tail.first + tail.entries.len() as u64,
            position: tail.end,
            seen: 0,
            lost: 0,
            told: 0,
            reader: reader.clone(),
        };
        let slot = tail.vacant.pop().unwrap_or_else(|| {
            tail.places.push(None);
            tail.places.len() - 1
        });
        tail.places[slot] = Some(place);
        Arc::new(Cursor { log: self.clone(), slot, reader })
    }

    /// Adds a batch, which is emptied, and a promise; adds to `woken` who must be notified.
    pub(super) fn append(
        &self,
        batch: &mut Batch<T>,
        promise: Progress,
        born: u64,
        woken: &mut Vec<TaskRef>,
    ) {
        let mut tail = self.tail.lock();
        if batch.is_empty() && promise == tail.promise {
            return;
        }
        let (mut failed, mut skipped) = (Vec::new(), Vec::new());
        if !batch.is_empty() {
            self.limit_lag(&mut tail, &mut failed, &mut skipped);
        }
        let newest = tail.first + tail.entries.len() as u64;
        let mut unread = 0;
        for place in tail.places.iter().flatten() {
            unread += 1;
            if place.next == newest {
                woken.extend(place.reader.task());
            }
        }
        tail.end += batch.len() as u64;
        tail.promise = promise;
        if unread == 0 || batch.is_empty() {
            batch.clear();
        } else {
            let next = Batch::with_capacity(batch.len());
            let logged = Arc::new(Logged { batch: std::mem::replace(batch, next), born });
            let end = tail.end;
            tail.entries.push_back(Entry { logged, watermark: promise.watermark, end, unread });
        }
        drop(tail);
        // Events are the user's: they are dropped, and queries are failed, without the lock.
        drop(skipped);
        for (reader, seen) in failed {
            reader.overrun(&self.name, self.limit, seen);
        }
    }

    /// Does what their policy says to those that are at the limit.
    fn limit_lag(
        &self,
        tail: &mut Tail<T>,
        failed: &mut Vec<(Arc<Reader>, u64)>,
        skipped: &mut Vec<Arc<Logged<T>>>,
    ) {
        let (end, limit) = (tail.end, self.limit as u64);
        for slot in 0..tail.places.len() {
            let Some(place) = &tail.places[slot] else { continue };
            if end - place.position < limit {
                continue;
            }
            match place.reader.policy {
                Lag::Wait => {}
                Lag::Fail => {
                    failed.push((place.reader.clone(), place.seen));
                    skipped.extend(tail.vacate(slot));
                }
                Lag::Drop => {
                    let lost = tail.skip(slot, limit, skipped);
                    // Relaxed: a sum of its own.
                    self.lost.fetch_add(lost, Ordering::Relaxed);
                }
            }
        }
    }

    /// The end without a last promise: the source failed, or was cancelled.
    pub(super) fn break_off(&self) {
        let failure = self.origin.get().and_then(|(_, query)| query.upgrade()?.failure());
        let mut woken = Vec::new();
        // Who waits for room there is the source itself, which would be kept for ever.
        drop(self.take_waiters());
        let halted = Progress { watermark: self.cell.watermark(), flow: Flow::Halted };
        if let Some(failure) = failure {
            let message = format!("the shared source {:?} failed: {failure}", self.name);
            let readers: Vec<_> =
                self.tail.lock().places.iter().flatten().map(|it| it.reader.clone()).collect();
            readers.iter().for_each(|reader| reader.fail(0, message.clone()));
            self.live_indexes().iter().for_each(|index| index.fail_all(&message));
        }
        self.append(&mut Batch::default(), halted, 0, &mut woken);
        self.cell.write(halted, &mut woken);
        self.live_indexes().iter().for_each(|index| index.wake_all(&mut woken));
        woken.into_iter().for_each(|task| task.notify());
    }

    /// There may be room again.
    pub(super) fn wake_source(&self) {
        self.take_waiters().into_iter().for_each(|task| task.wake());
    }

    /// Those who wait, and do not any more.
    fn take_waiters(&self) -> Vec<TaskRef> {
        let mut tail = self.tail.lock();
        let (waiters, noted) = (std::mem::take(&mut tail.waiters), std::mem::take(&mut tail.noted));
        drop(tail);
        self.waits_no_more(noted);
        waiters
    }

    /// What it is among the waits.
    fn node(&self) -> Option<Node> {
        self.origin.get()?.1.upgrade()?.node()
    }

    fn waits_no_more(&self, noted: Vec<Node>) {
        if let Some(node) = self.node() {
            Lagging::<T>::clear(node, noted);
        }
    }

    /// Says for whom the source is about to wait. What was noted down.
    fn note_waits(&self) -> Vec<Node> {
        let Some(node) = self.node() else { return Vec::new() };
        loop {
            let tail = self.tail.lock();
            let lagging = tail.places.iter().flatten().filter(|place| self.is_full(&tail, place));
            let readers = lagging.map(|place| place.reader.clone()).collect();
            drop(tail);
            // Each circle doubles somebody's limit, so this ends.
            if let Some(noted) = self.lagging.note(node, readers) {
                return noted;
            }
        }
    }

    /// Whether the source waits for this subscriber.
    fn is_full(&self, tail: &Tail<T>, place: &Place) -> bool {
        place.reader.is_waited_for((tail.end - place.position) as usize, self.limit)
    }

    fn room_in(&self, tail: &Tail<T>) -> bool {
        let ends = || {
            let query = self.origin.get().and_then(|(_, query)| query.upgrade());
            query.is_none_or(|query| query.control.ending().is_some())
        };
        let free = || !self.lagging.has_full_seats();
        let full = |place: &Place| self.is_full(tail, place);
        tail.started && free() && !tail.places.iter().flatten().any(full) || ends()
    }
}

impl<T> Tail<T> {
    /// Counts an entry as read once more; the entry if nobody is left to read it.
    fn read(&mut self, number: u64) -> Option<Entry<T>> {
        let index = (number - self.first) as usize;
        let entry = &mut self.entries[index];
        entry.unread -= 1;
        if entry.unread > 0 {
            return None;
        }
        assert_eq!(index, 0, "who has yet to read an earlier entry has yet to read this one");
        self.first += 1;
        self.entries.pop_front()
    }

    /// Frees the place `slot`; the batches that only it held.
    fn vacate(&mut self, slot: usize) -> Vec<Arc<Logged<T>>> {
        let Some(place) = self.places[slot].take() else { return Vec::new() };
        self.vacant.push(slot);
        let newest = self.first + self.entries.len() as u64;
        let freed = (place.next..newest).filter_map(|number| self.read(number));
        let freed = freed.map(|entry| entry.logged).collect();
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
        }
        freed
    }

    /// Moves the place `slot` forward until it is less than `limit` events behind; how many it lost.
    fn skip(&mut self, slot: usize, limit: u64, skipped: &mut Vec<Arc<Logged<T>>>) -> u64 {
        let Some(mut place) = self.places[slot].take() else { return 0 };
        let before = place.position;
        while self.end - place.position >= limit {
            place.position = self.entries[(place.next - self.first) as usize].end;
            skipped.extend(self.read(place.next).map(|entry| entry.logged));
            place.next += 1;
        }
        let lost = place.position - before;
        place.lost += lost;
        self.places[slot] = Some(place);
        lost
    }
}

impl<T: Send + Sync + 'static> Room for Log<T> {
    fn has_room(&self) -> bool {
        self.room_in(&self.tail.lock())
    }

    fn wait(&self, task: &TaskRef) -> bool {
        let noted = self.note_waits();
        let mut tail = self.tail.lock();
        if self.room_in(&tail) {
            drop(tail);
            self.waits_no_more(noted);
            return false;
        }
        tail.noted.extend(noted);
        if !tail.waiters.iter().any(|waiter| Arc::ptr_eq(waiter, task)) {
            tail.waiters.push(task.clone());
        }
        true
    }
}

/// A subscriber's hold on a log.
pub(crate) struct Cursor<T> {
    log: Arc<Log<T>>,
    slot: usize,
    /// Tells whether the place is still this subscriber's: another may have it after.
    reader: Arc<Reader>,
}

impl<T: Send + Sync + 'static> Readable for Cursor<T> {
    fn attach(&self, chain: Weak<dyn Task>, _: usize) {
        self.reader.attach(chain);
    }
}

impl<T: Send + Sync + 'static> Cursor<T> {
    fn is_mine(&self, place: &Place) -> bool {
        Arc::ptr_eq(&place.reader, &self.reader)
    }

    /// Takes entries of about `budget` events.
    pub(crate) fn take(&self, budget: usize, into: &mut Vec<Arc<Logged<T>>>) -> Taken {
        let mut tail = self.log.tail.lock();
        let mut promise = tail.promise;
        let Some(mut place) = tail.places[self.slot].take_if(|place| self.is_mine(place)) else {
            // The place is lost: the query is failing or cancelled.
            return Taken { more: false, promise: Progress::NONE, lost: 0 };
        };
        let newest = tail.first + tail.entries.len() as u64;
        let before = place.position;
        while place.next < newest && place.position - before < budget as u64 {
            let entry = &tail.entries[(place.next - tail.first) as usize];
            place.position = entry.end;
            if place.next + 1 < newest {
                promise = Progress { watermark: entry.watermark, flow: Flow::Active };
            } else {
                promise = tail.promise;
            }
            let logged = entry.logged.clone();
            let last = tail.read(place.next);
            // Let go of one of the two, so that the last reader has the only one.
            into.push(last.map_or(logged, |entry| entry.logged));
            place.next += 1;
        }
        place.seen += place.position - before;
        let lost = std::mem::replace(&mut place.told, place.lost);
        let taken = Taken { more: place.next < newest, promise, lost: place.lost - lost };
        let waited = place.reader.policy == Lag::Wait && !tail.waiters.is_empty();
        tail.places[self.slot] = Some(place);
        drop(tail);
        if waited {
            self.log.wake_source();
        }
        taken
    }
}

impl<T: Send + Sync + 'static> Inflow for Cursor<T> {
    fn depth(&self) -> usize {
        let tail = self.log.tail.lock();
        let place = tail.places[self.slot].as_ref().filter(|place| self.is_mine(place));
        place.map_or(0, |place| (tail.end - place.position) as usize)
    }

    fn leave(&self) {
        let mut tail = self.log.tail.lock();
        if !tail.places[self.slot].as_ref().is_some_and(|place| self.is_mine(place)) {
            return;
        }
        let freed = tail.vacate(self.slot);
        drop(tail);
        drop(freed);
        self.log.wake_source();
    }
}
