//! The windows that are kept, and which of them is due next.

use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::super::saturated;
use super::Bounds;
use crate::state::Keyed;
use crate::time::Timestamp;

/// What such a window operator remembers.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, Acc: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, Acc: Deserialize<'de>"
))]
pub struct AlignedState<K, Acc> {
    /// In order of their ends: first those that are over and kept, then those that are open.
    pub(super) panes: Vec<Pane<K, Acc>>,
    /// How many are over.
    pub(super) over: usize,
    /// The pane of the last event, if it is open and the only one for that.
    #[serde(skip)]
    pub(super) recent: Option<usize>,
    pub(super) clock: Timestamp,
    /// When early results are due next.
    pub(super) tick: Option<Timestamp>,
    /// What was promised downstream is before this: the earliest end of a window that is not let go of.
    #[serde(skip)]
    pub(super) kept_end: Option<i128>,
}

/// A window.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, Acc: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, Acc: Deserialize<'de>"
))]
pub(super) struct Pane<K, Acc> {
    pub(super) start: i128,
    pub(super) end: i128,
    pub(super) keys: Keyed<K, Held<Acc>>,
    /// Keys that have had an event since their last early result, if those are given by time.
    pub(super) changed: Vec<K>,
}

/// What is kept of a key in a window.
#[derive(Serialize, Deserialize)]
pub(super) struct Held<Acc> {
    pub(super) acc: Acc,
    pub(super) count: u64,
    /// Whether there have been events since its last early result.
    pub(super) news: bool,
    /// Whether the key is among those that have changed.
    pub(super) changed: bool,
}

impl<Acc> Held<Acc> {
    /// Of no events.
    pub(super) fn new(acc: Acc) -> Self {
        Self { acc, count: 0, news: false, changed: false }
    }
}

impl<K, Acc> Pane<K, Acc> {
    pub(super) fn new(Bounds { start, end }: Bounds) -> Self {
        Self { start, end, keys: Keyed::new(), changed: Vec::new() }
    }

    /// When it is over.
    pub(super) fn end(&self) -> Timestamp {
        saturated(self.end)
    }

    pub(super) fn start(&self) -> Timestamp {
        saturated(self.start)
    }

    #[inline]
    pub(super) fn holds(&self, time: Timestamp) -> bool {
        let time = i128::from(time.as_micros());
        self.start <= time && time < self.end
    }
}

impl<K, Acc> AlignedState<K, Acc> {
    pub(super) fn new() -> Self {
        Self {
            panes: Vec::new(),
            over: 0,
            recent: None,
            clock: Timestamp::MIN,
            tick: None,
            kept_end: None,
        }
    }

    /// When the next window is over.
    #[inline]
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.panes.get(self.over).map(Pane::end)
    }

    /// The position of the window with these bounds, which is made if it is not there.
    pub(super) fn find_or_open(&mut self, bounds: Bounds) -> usize {
        let of = |pane: &Pane<K, Acc>| (pane.end, pane.start);
        let position = self.panes.partition_point(|pane| of(pane) < (bounds.end, bounds.start));
        let found = self.panes.get(position).is_some_and(|pane| pane.end == bounds.end);
        if !found {
            self.recent = None;
            self.panes.insert(position, Pane::new(bounds));
            self.over += usize::from(bounds.end <= i128::from(self.clock.as_micros()));
        }
        position
    }
}
