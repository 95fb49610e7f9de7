//! Who subscribes to which key of a shared source.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::event::{Batch, Event};
use crate::operator::{Cx, OpId};
use crate::runtime::chain::BATCH;
use crate::runtime::pool::{Task, TaskRef};
use crate::runtime::query::Inflow;
use crate::state::hash;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;
use crate::time::Timestamp;

use super::{Cell, Lag, Log, Reader, SubscriberStats};

/// Events of one key between two watermarks.
pub(crate) struct Slice<T> {
    /// The watermark that stood before them.
    pub before: Timestamp,
    /// Nanoseconds on the engine's clock at which the first entered the engine.
    pub born: u64,
    pub batch: Batch<T>,
}

impl<T> Slice<T> {
    fn new(before: Timestamp) -> Self {
        Self { before, born: 0, batch: Batch::default() }
    }
}

/// What waits for a subscriber to one key.
pub(crate) struct Feed<T> {
    /// The first slice, which nearly always is the only one.
    head: Slice<T>,
    #[expect(clippy::box_collection, reason = "a pointer takes less than an empty collection")]
    more: Option<Box<VecDeque<Slice<T>>>>,
    depth: usize,
    seen: u64,
    lost: u64,
    /// Of the events lost, those that its chain has been told of.
    told: u64,
    /// It has no room, and the source waits for it.
    full: bool,
    /// It has been given up: nothing more is wanted.
    left: bool,
}

impl<T> Feed<T> {
    fn new() -> Self {
        Self {
            head: Slice::new(Timestamp::MIN),
            more: None,
            depth: 0,
            seen: 0,
            lost: 0,
            told: 0,
            full: false,
            left: false,
        }
    }

    fn push(&mut self, event: Event<T>, late: bool, from: &Origin, most: usize) {
        let more = self.more.as_deref_mut().and_then(VecDeque::back_mut);
        let last = more.unwrap_or(&mut self.head);
        let fits = last.before == from.before && last.batch.len() < most;
        let slice = if last.batch.is_empty() {
            last.before = from.before;
            last
        } else if fits {
            last
        } else {
            let more = self.more.get_or_insert_default();
            more.push_back(Slice::new(from.before));
            more.back_mut().expect("it was just added")
        };
        if slice.born == 0 {
            slice.born = from.born;
        }
        slice.batch.push(event, late);
        self.depth += 1;
    }

    /// The watermark that stood before the next event, if there is one.
    pub(crate) fn before(&self) -> Option<Timestamp> {
        (self.depth > 0).then_some(self.head.before)
    }

    /// Whether there are no events.
    pub(crate) fn is_empty(&self) -> bool {
        self.depth == 0
    }

    /// The next events.
    pub(crate) fn take(&mut self) -> Slice<T> {
        let slice = self.pop();
        self.seen += slice.batch.len() as u64;
        slice
    }

    fn pop(&mut self) -> Slice<T> {
        let next = self.more.as_mut().and_then(|more| more.pop_front());
        if next.is_none() {
            self.more = None;
        }
        let next = next.unwrap_or_else(|| Slice::new(Timestamp::MIN));
        let slice = std::mem::replace(&mut self.head, next);
        self.depth -= slice.batch.len();
        slice
    }

    /// How many more events were lost since this was asked last.
    pub(crate) fn newly_lost(&mut self) -> u64 {
        self.lost - std::mem::replace(&mut self.told, self.lost)
    }
}

/// What is the same for all events of a batch.
pub(super) struct Origin {
    pub before: Timestamp,
    pub born: u64,
}

/// What a batch leads to, to be done when nothing is locked any more.
pub(super) struct Effects<T> {
    /// Chains to be notified.
    woken: Vec<TaskRef>,
    /// Subscribers at their limit, with the events they had seen.
    failed: Vec<(Arc<dyn Seat<T>>, u64)>,
    skipped: Vec<Slice<T>>,
}

/// A subscriber to one key, its key's type hidden.
pub(crate) trait Seat<T>: Inflow {
    fn feed(&self) -> &Mutex<Feed<T>>;
    fn reader(&self) -> &Arc<Reader>;
    fn cell(&self) -> &Cell;
    /// There is room again in a feed that was full.
    fn has_room_again(&self);
}

struct Member<T, K> {
    index: Arc<KeyIndex<T, K>>,
    key: K,
    reader: Arc<Reader>,
    feed: Mutex<Feed<T>>,
}

impl<T, K> Member<T, K>
where
    T: Clone + Send + Sync + 'static,
    K: Hash + Eq + Send + Sync + 'static,
{
    /// Takes an event.
    fn push(self: &Arc<Self>, event: &Event<T>, late: bool, from: &Origin, to: &mut Effects<T>) {
        let limit = self.index.log.limit;
        let mut feed = self.feed.lock();
        if feed.left {
            return;
        }
        if feed.depth >= limit {
            match self.reader.policy {
                Lag::Fail => {
                    feed.left = true;
                    to.failed.push((self.clone(), feed.seen));
                    return;
                }
                Lag::Drop => {
                    let slice = feed.pop();
                    let lost = slice.batch.len() as u64;
                    feed.lost += lost;
                    // Relaxed: a sum of its own.
                    self.index.log.lost.fetch_add(lost, Ordering::Relaxed);
                    to.skipped.push(slice);
                }
                Lag::Wait => {}
            }
        }
        if feed.is_empty() {
            to.woken.extend(self.reader.task());
        }
        feed.push(event.clone(), late, from, (limit / 4).clamp(1, BATCH));
        if self.reader.is_waited_for(feed.depth, limit) && !feed.full {
            feed.full = true;
            self.index.log.lagging.add(self.clone());
        }
    }
}

impl<T, K> Seat<T> for Member<T, K>
where
    T: Clone + Send + Sync + 'static,
    K: Hash + Eq + Send + Sync + 'static,
{
    fn feed(&self) -> &Mutex<Feed<T>> {
        &self.feed
    }

    fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    fn cell(&self) -> &Cell {
        &self.index.log.cell
    }

    fn has_room_again(&self) {
        let mut feed = self.feed.lock();
        let is_full = self.reader.is_waited_for(feed.depth, self.index.log.limit) && !feed.left;
        if !feed.full || is_full {
            return;
        }
        feed.full = false;
        drop(feed);
        if self.index.log.lagging.remove(self) {
            self.index.log.wake_source();
        }
    }
}

impl<T, K> Inflow for Member<T, K>
where
    T: Clone + Send + Sync + 'static,
    K: Hash + Eq + Send + Sync + 'static,
{
    fn depth(&self) -> usize {
        self.feed.lock().depth
    }

    fn leave(&self) {
        self.index.remove(self);
        let mut feed = self.feed.lock();
        feed.left = true;
        feed.depth = 0;
        let head = std::mem::replace(&mut feed.head, Slice::new(Timestamp::MIN));
        let more = std::mem::take(&mut feed.more);
        drop(feed);
        drop((head, more));
        self.has_room_again();
    }
}

/// Those who have one key in common.
enum Members<T, K> {
    One(Arc<Member<T, K>>),
    // Boxed, because nearly all keys have one.
    #[expect(clippy::box_collection, reason = "a pointer takes less than an empty collection")]
    Many(Box<Vec<Arc<Member<T, K>>>>),
}

impl<T, K> Members<T, K> {
    fn all(&self) -> &[Arc<Member<T, K>>] {
        match self {
            Self::One(member) => std::slice::from_ref(member),
            Self::Many(members) => members,
        }
    }

    fn key(&self) -> &K {
        &self.all()[0].key
    }

    fn add(&mut self, member: Arc<Member<T, K>>) {
        match self {
            Self::Many(members) => members.push(member),
            Self::One(first) => *self = Self::Many(Box::new(vec![first.clone(), member])),
        }
    }

    /// `true`: nobody is left.
    fn remove(&mut self, member: &Member<T, K>) -> bool {
        match self {
            Self::One(one) => std::ptr::eq(&raw const **one, member),
            Self::Many(members) => {
                members.retain(|other| !std::ptr::eq(&raw const **other, member));
                if let [last] = members.as_slice() {
                    *self = Self::One(last.clone());
                }
                false
            }
        }
    }
}

/// A shared source by key.
pub struct KeyIndex<T, K> {
    log: Arc<Log<T>>,
    key: Box<dyn Fn(&T) -> K + Send + Sync>,
    members: Mutex<HashTable<Members<T, K>>>,
    /// The keys of the batch at hand; kept for its room.
    keys: Mutex<Vec<Option<K>>>,
}

/// A shared source's index, its key's type hidden.
pub(super) trait Index<T>: Send + Sync {
    /// Puts copies of the batch's events into the feeds of those who want them.
    fn feed(&self, op: OpId, cx: &mut Cx, batch: &Batch<T>, from: &Origin, to: &mut Effects<T>);
    /// Adds every subscriber's chain.
    fn wake_all(&self, woken: &mut Vec<TaskRef>);
    /// Fails every subscriber.
    fn fail_all(&self, message: &str);
    /// Adds what is known of every subscriber.
    fn list(&self, all: &mut Vec<SubscriberStats>);
}

impl<T, K> KeyIndex<T, K>
where
    T: Clone + Send + Sync + 'static,
    K: Hash + Eq + Send + Sync + 'static,
{
    /// An index of `log` by what `key` gives.
    pub fn new(log: &Arc<Log<T>>, key: impl Fn(&T) -> K + Send + Sync + 'static) -> Arc<Self> {
        let index = Arc::new(Self {
            log: log.clone(),
            key: Box::new(key),
            members: Mutex::default(),
            keys: Mutex::default(),
        });
        let weak: Weak<dyn Index<T>> = Arc::<Self>::downgrade(&index);
        log.indexes.lock().push(weak);
        index
    }

    /// What is to be done to subscribe to `key`.
    pub fn at(self: &Arc<Self>, key: K) -> KeySubscription<T>
    where
        K: Clone,
    {
        let index = self.clone();
        let join = move |reader| -> Arc<dyn Seat<T>> {
            let (index, key) = (index.clone(), key.clone());
            let member = Arc::new(Member {
                index,
                key,
                reader: Arc::new(reader),
                feed: Mutex::new(Feed::new()),
            });
            member.index.insert(member.clone());
            member
        };
        KeySubscription { log: self.log.clone(), join: Arc::new(join) }
    }

    fn insert(&self, member: Arc<Member<T, K>>) {
        let mut table = self.members.lock();
        let entry = table.entry(
            hash(&member.key),
            |members| *members.key() == member.key,
            |members| hash(members.key()),
        );
        match entry {
            Entry::Occupied(mut occupied) => occupied.get_mut().add(member),
            Entry::Vacant(vacant) => {
                vacant.insert(Members::One(member));
            }
        }
    }

    fn remove(&self, member: &Member<T, K>) {
        let mut table = self.members.lock();
        let found = table.find_entry(hash(&member.key), |members| *members.key() == member.key);
        let Ok(mut found) = found else { return };
        if found.get_mut().remove(member) {
            let gone = found.remove().0;
            if table.len() < table.capacity() / 4 {
                let room = 2 * table.len();
                table.shrink_to(room, |members| hash(members.key()));
            }
            drop(table);
            drop(gone);
        }
    }

    fn everybody(&self) -> Vec<Arc<Member<T, K>>> {
        self.members.lock().iter().flat_map(|members| members.all().to_vec()).collect()
    }
}

impl<T, K> Index<T> for KeyIndex<T, K>
where
    T: Clone + Send + Sync + 'static,
    K: Hash + Eq + Send + Sync + 'static,
{
    fn feed(&self, op: OpId, cx: &mut Cx, batch: &Batch<T>, from: &Origin, to: &mut Effects<T>) {
        if self.members.lock().is_empty() {
            return;
        }
        // The user's function runs without a lock: it may subscribe.
        let mut keys = std::mem::take(&mut *self.keys.lock());
        keys.extend(
            batch.iter().map(|(event, _)| {
                cx.attempt::<true, _>(op, event.time, || (self.key)(&event.value))
            }),
        );
        let table = self.members.lock();
        for ((event, late), key) in batch.iter().zip(keys.drain(..)) {
            let Some(key) = key else { continue };
            if let Some(members) = table.find(hash(&key), |members| *members.key() == key) {
                members.all().iter().for_each(|member| member.push(event, late, from, to));
            }
        }
        drop(table);
        *self.keys.lock() = keys;
    }

    fn wake_all(&self, woken: &mut Vec<TaskRef>) {
        woken.extend(self.everybody().iter().filter_map(|member| member.reader.task()));
    }

    fn fail_all(&self, message: &str) {
        for member in self.everybody() {
            let seen = member.feed.lock().seen;
            member.reader.fail(seen, message.to_owned());
        }
    }

    fn list(&self, all: &mut Vec<SubscriberStats>) {
        all.extend(self.everybody().iter().filter_map(|member| {
            let stats = member.reader.stats(true)?;
            let feed = member.feed.lock();
            Some(SubscriberStats { seen: feed.seen, lost: feed.lost, lag: feed.depth, ..stats })
        }));
    }
}

impl<T> Effects<T> {
    /// Nothing so far.
    pub(super) fn none() -> Self {
        Self { woken: Vec::new(), failed: Vec::new(), skipped: Vec::new() }
    }

    /// Lets go of what was skipped, and fails those at their limit.
    pub(super) fn settle(self, source: &str, limit: usize) -> Vec<TaskRef> {
        drop(self.skipped);
        for (seat, seen) in self.failed {
            seat.reader().overrun(source, limit, seen);
        }
        self.woken
    }
}

/// What is to be done to subscribe to one key of a shared source.
pub struct KeySubscription<T> {
    pub(super) log: Arc<Log<T>>,
    pub(super) join: Arc<dyn Fn(Reader) -> Arc<dyn Seat<T>> + Send + Sync>,
}

impl<T> KeySubscription<T> {
    /// The shared source.
    pub fn log(&self) -> &Arc<Log<T>> {
        &self.log
    }
}

impl<T> Clone for KeySubscription<T> {
    fn clone(&self) -> Self {
        Self { log: self.log.clone(), join: self.join.clone() }
    }
}

impl<T> dyn Seat<T> {
    /// Says which chain takes the events; with `follows` every watermark wakes it.
    pub(super) fn attach(&self, task: Weak<dyn Task>, follows: bool) {
        if follows {
            self.cell().follow(task.clone());
        }
        self.reader().attach(task);
    }
}
