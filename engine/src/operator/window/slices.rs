//! The open slices of windows, and which window closes next.

use std::hash::Hash;

use hashbrown::HashTable;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use super::{Grid, saturated};
use crate::operator::aggregate::Aggregate;
use crate::state::{empty, hash, read_pairs, shrink};
use crate::time::{Timestamp, is_due};

/// How many emptied tables are kept for the next slices.
const SPARES: usize = 4;

/// What a window operator remembers.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
#[serde(bound(
    serialize = "K: Serialize, Acc: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, Acc: Deserialize<'de>"
))]
pub struct WindowState<K, Acc> {
    pub(super) slices: Slices<Table<K, Acc>>,
    #[serde(skip)]
    spares: Vec<Table<K, Acc>>,
}

/// The open slices of windows, each with a `C` of what came into it.
#[derive(Serialize, Deserialize)]
pub(in crate::operator) struct Slices<C> {
    /// In order of time; each belongs to a window that is still open. One has its place here: most
    /// windows are tumbling, and a member of a group that waits for memory twice is slow.
    slices: SmallVec<[Slice<C>; 1]>,
    /// The slice of the last event.
    #[serde(skip)]
    recent: usize,
    /// The end of the window that closes next; means nothing without slices.
    due: i128,
    /// The same as a time stamp, for every event to look at; the last instant without slices.
    due_at: Timestamp,
    /// Every window that ends at or before this is closed.
    closed: i128,
}

#[derive(Serialize, Deserialize)]
struct Slice<C> {
    /// The first and the last instant in it: unlike an end, the last instant is always a time stamp.
    first: Timestamp,
    last: Timestamp,
    content: C,
}

impl<C> Slice<C> {
    #[inline(always)]
    fn contains(&self, time: Timestamp) -> bool {
        self.first <= time && time <= self.last
    }
}

/// Why an event has no slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::operator) enum Nowhere {
    /// No window is there.
    Gap,
    /// Every window there has closed.
    Closed,
}

/// The window that closes next.
pub(in crate::operator) struct Next {
    end: i128,
    /// How many slices are in it.
    within: usize,
    /// How many slices are in no later window.
    over: usize,
}

impl Next {
    /// The first instant in it, and the first one after it.
    pub fn bounds(&self, grid: &Grid) -> (Timestamp, Timestamp) {
        (saturated(self.end - grid.size), saturated(self.end))
    }
}

impl<C> Slices<C> {
    pub fn new() -> Self {
        Self {
            slices: SmallVec::new(),
            recent: 0,
            due: i128::MAX,
            due_at: Timestamp::MAX,
            closed: i128::from(i64::MIN),
        }
    }

    /// When the next window closes.
    pub fn due(&self) -> Option<Timestamp> {
        if self.slices.is_empty() { None } else { Some(self.due_at) }
    }

    /// The clock of an ordered chain at an event at `time`, if a window is due then.
    #[inline(always)]
    pub fn closes_at(&self, time: Timestamp) -> Option<Timestamp> {
        Some(clock_at(time)).filter(|&clock| is_due(self.due_at, clock))
    }

    /// Whether an event at `time` belongs to the recent slice: that of the event before. In an
    /// ordered chain nothing is due then: what was due at the slice's first instant fired when it was
    /// opened, and windows end between slices.
    #[inline(always)]
    pub fn is_recent(&self, time: Timestamp) -> bool {
        self.slices.get(self.recent).is_some_and(|slice| slice.contains(time))
    }

    /// What came into the recent slice.
    #[inline(always)]
    pub fn recent(&mut self) -> &mut C {
        &mut self.slices[self.recent].content
    }

    /// Makes the slice of an event at `time` the recent one. If it is new, `make` gives what is in it.
    pub fn find_or_open(
        &mut self,
        grid: &Grid,
        time: Timestamp,
        make: impl FnOnce() -> C,
    ) -> Result<(), Nowhere> {
        self.recent = self.position(grid, time, make)?;
        Ok(())
    }

    fn position(
        &mut self,
        grid: &Grid,
        time: Timestamp,
        make: impl FnOnce() -> C,
    ) -> Result<usize, Nowhere> {
        let position = self.slices.partition_point(|slice| slice.last < time);
        if self.slices.get(position).is_some_and(|slice| slice.contains(time)) {
            return Ok(position);
        }
        let (first, last) = grid.slice(time).ok_or(Nowhere::Gap)?;
        let micros = i128::from(time.as_micros());
        let end = grid.end_after(micros.max(self.closed));
        if end - grid.size > micros {
            return Err(Nowhere::Closed);
        }
        self.set_due(if self.slices.is_empty() { end } else { self.due.min(end) });
        self.slices.insert(position, Slice { first, last, content: make() });
        Ok(position)
    }

    fn set_due(&mut self, due: i128) {
        self.due = due;
        self.due_at = saturated(due);
    }

    /// Nothing more is due up to `clock`.
    pub fn close_until(&mut self, clock: Timestamp) {
        self.closed = self.closed.max(clock.as_micros().into());
    }

    /// The window that closes next; there is one.
    pub fn next(&self, grid: &Grid) -> Next {
        let end = self.due;
        // The window behind it that may have events starts here; nobody needs what is before.
        let start_of_next = end - grid.size + grid.hop;
        Next {
            end,
            within: self.slices.partition_point(|slice| micros(slice.first) < end),
            over: self.slices.partition_point(|slice| micros(slice.last) < start_of_next),
        }
    }

    /// What came into the slices of a window, in order of time.
    pub fn within(&self, next: &Next) -> impl Iterator<Item = &C> + Clone {
        self.slices[..next.within].iter().map(|slice| &slice.content)
    }

    /// What is in the slices.
    pub fn contents(&mut self) -> impl Iterator<Item = &mut C> {
        self.slices.iter_mut().map(|slice| &mut slice.content)
    }

    /// Closes the window that is next, and hands what came into slices that nobody needs any more to
    /// `over`, the latest first.
    pub fn close(&mut self, grid: &Grid, next: &Next, mut over: impl FnMut(C)) {
        if next.over == 1 {
            over(self.slices.remove(0).content);
        } else {
            self.slices.drain(..next.over).rev().for_each(|slice| over(slice.content));
        }
        self.recent = self.slices.len().saturating_sub(1);
        self.closed = self.closed.max(next.end);
        if let Some(slice) = self.slices.first() {
            self.set_due(grid.end_after(self.closed.max(micros(slice.first))));
        } else {
            self.set_due(i128::MAX);
        }
    }
}

impl<K, Acc> WindowState<K, Acc> {
    pub(super) fn new() -> Self {
        Self { slices: Slices::new(), spares: Vec::new() }
    }

    /// Makes the slice of an event at `time` the recent one.
    pub(super) fn find_or_open(&mut self, grid: &Grid, time: Timestamp) -> Result<(), Nowhere> {
        let Self { slices, spares } = self;
        slices.find_or_open(grid, time, || spares.pop().unwrap_or_default())
    }

    /// Gives an emptied table back.
    pub(super) fn keep(&mut self, mut table: Table<K, Acc>) {
        if const { size_of::<K>() == 0 } {
            return;
        }
        // An operator without events keeps no more than it needs for the next one.
        let limit = if self.slices.slices.is_empty() { 1 } else { SPARES };
        self.spares.truncate(limit);
        if self.spares.len() < limit {
            table.clear();
            self.spares.push(table);
        }
    }
}

#[cfg(all(test, not(loom)))]
impl<K, Acc> WindowState<K, Acc> {
    /// For how many keys there is room.
    pub(super) fn room(&self) -> usize {
        let tables = self.slices.slices.iter().map(|slice| &slice.content).chain(&self.spares);
        let room = |table: &Table<K, Acc>| match table {
            Table::Only(_) => 1,
            Table::Many { index, entries } => entries.capacity().max(index.capacity()),
        };
        tables.map(room).sum()
    }
}

impl<K: Hash + Eq + Clone, Acc> WindowState<K, Acc> {
    /// Closes the window that is due: its start and end, and what is in it.
    ///
    /// # Panics
    ///
    /// If no window is open.
    pub(super) fn close_next<T, A>(&mut self, grid: &Grid, aggregate: &A) -> Closed<K, Acc>
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let Self { slices, spares } = self;
        let next = slices.next(grid);
        let mut table = None;
        if next.within == 1 && next.over == 1 {
            slices.close(grid, &next, |only| table = Some(only));
        } else {
            let merged = table.insert(spares.pop().unwrap_or_default());
            slices.within(&next).for_each(|slice| merged.merge(slice, aggregate));
            slices.close(grid, &next, |mut over| {
                if spares.len() < SPARES && const { size_of::<K>() != 0 } {
                    over.clear();
                    spares.push(over);
                }
            });
        }
        let (start, end) = next.bounds(grid);
        Closed { start, end, table: table.unwrap_or_default() }
    }
}

/// The clock of an ordered chain at an event at `time`. An end past the last instant saturates there, so
/// an event at the last instant must not close the window that it belongs to.
#[inline(always)]
pub(in crate::operator) fn clock_at(time: Timestamp) -> Timestamp {
    time.min(Timestamp::MAX.previous())
}

fn micros(time: Timestamp) -> i128 {
    time.as_micros().into()
}

/// A window that has closed.
pub(super) struct Closed<K, Acc> {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) table: Table<K, Acc>,
}

/// Keys and their accumulators in order of arrival. Unlike [`Keyed`](crate::state::Keyed) it does
/// not let go of single keys and keeps no marks, which makes it a little smaller and faster. The
/// entries are dense, because what costs is how many lines of cache are touched: in the hash table
/// itself, with the gaps between them, a thousand keys took a third longer.
pub(super) enum Table<K, Acc> {
    /// Of the only key there is: windows over all events need no index, and no memory elsewhere.
    Only(Option<(K, Acc)>),
    /// Of a type that has more keys than one.
    Many { index: HashTable<u32>, entries: Vec<(K, Acc)> },
}

impl<K, Acc> Default for Table<K, Acc> {
    fn default() -> Self {
        if const { size_of::<K>() == 0 } {
            Table::Only(None)
        } else {
            Table::Many { index: HashTable::new(), entries: Vec::new() }
        }
    }
}

impl<K, Acc> Table<K, Acc> {
    /// Takes everything out, in order of arrival.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, Acc)> {
        let (only, many) = match self {
            Table::Only(only) => (only.take(), None),
            Table::Many { index, entries } => {
                empty(index);
                shrink(entries);
                (None, Some(entries.drain(..)))
            }
        };
        only.into_iter().chain(many.into_iter().flatten())
    }

    fn clear(&mut self) {
        self.drain().for_each(drop);
    }

    fn iter(&self) -> impl Iterator<Item = &(K, Acc)> {
        let (only, many) = match self {
            Table::Only(only) => (only.as_ref(), &[][..]),
            Table::Many { entries, .. } => (None, entries.as_slice()),
        };
        only.into_iter().chain(many)
    }
}

impl<K: Hash + Eq, Acc> Table<K, Acc> {
    /// The accumulator of `key`, which is what `create` makes if the key is new.
    #[inline(always)]
    pub(super) fn entry(&mut self, key: K, create: impl FnOnce() -> Acc) -> &mut Acc {
        let (index, entries) = match self {
            Table::Only(only) => return &mut only.get_or_insert_with(|| (key, create())).1,
            Table::Many { index, entries } => (index, entries),
        };
        let hash = hash(&key);
        let found = index.find(hash, |&position| entries[position as usize].0 == key);
        let position = match found {
            Some(&position) => position as usize,
            None => arrive(index, entries, hash, (key, create())),
        };
        &mut entries[position].1
    }

    fn merge<T, A>(&mut self, other: &Self, aggregate: &A)
    where
        K: Clone,
        A: Aggregate<T, Acc = Acc>,
    {
        for (key, acc) in other.iter() {
            aggregate.merge(self.entry(key.clone(), || aggregate.create()), acc);
        }
    }
}

#[cold]
fn arrive<K: Hash, Acc>(
    index: &mut HashTable<u32>,
    entries: &mut Vec<(K, Acc)>,
    hash_of_key: u64,
    entry: (K, Acc),
) -> usize {
    let position = u32::try_from(entries.len()).expect("fewer than 2^32 keys");
    let rehash = |&position: &u32| hash(&entries[position as usize].0);
    index.insert_unique(hash_of_key, position, rehash);
    entries.push(entry);
    position as usize
}

impl<K: Hash + Eq, Acc> FromIterator<(K, Acc)> for Table<K, Acc> {
    fn from_iter<I: IntoIterator<Item = (K, Acc)>>(pairs: I) -> Self {
        let mut table = Self::default();
        for (key, acc) in pairs {
            table.entry(key, || acc);
        }
        table
    }
}

/// Pairs in order of arrival.
impl<K: Serialize, Acc: Serialize> Serialize for Table<K, Acc> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, K, Acc> Deserialize<'de> for Table<K, Acc>
where
    K: Deserialize<'de> + Hash + Eq,
    Acc: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_pairs(deserializer)
    }
}
