//! What is remembered per key, and when its timers are due.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::state::Keyed;
use crate::time::Timestamp;

/// Which time a timer goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum By {
    Event,
    Processing,
}

/// What a handler wants of a timer of its key.
pub(super) enum TimerChange {
    Set(By, Timestamp),
    Cancel(By, Timestamp),
}

/// What a handler has said; kept from call to call for its room.
pub(super) struct Said<Out, Side> {
    pub out: Vec<Out>,
    pub side: Vec<Side>,
    pub timers: Vec<TimerChange>,
    pub clear: bool,
}

impl<Out, Side> Default for Said<Out, Side> {
    fn default() -> Self {
        Self { out: Vec::new(), side: Vec::new(), timers: Vec::new(), clear: false }
    }
}

impl<Out, Side> Said<Out, Side> {
    /// Forgets what a handler said that did not return.
    pub fn reset(&mut self) {
        self.out.clear();
        self.side.clear();
        self.timers.clear();
        self.clear = false;
    }
}

/// Timers by due time and their key's arrival.
type Timers<K> = BTreeMap<(Timestamp, u64), K>;

/// What a [`Process`](super::Process) remembers: the keys' states and timers, and its event time.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, S: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, S: Deserialize<'de>"
))]
pub struct ProcessState<K, S> {
    pub(super) keys: Keyed<K, Held<S>>,
    pub(super) event: Timers<K>,
    pub(super) processing: Timers<K>,
    arrivals: u64,
    /// What event-time timers go by.
    pub(super) clock: Timestamp,
    /// The newest event's time.
    pub(super) newest: Timestamp,
}

/// What is held of a key.
#[derive(Serialize, Deserialize)]
pub(super) struct Held<S> {
    state: S,
    arrival: u64,
    /// When its timers are due, in order.
    dues: VecDeque<(By, Timestamp)>,
}

impl<K: Hash + Eq + Clone, S: Default> ProcessState<K, S> {
    pub(super) fn new() -> Self {
        Self {
            keys: Keyed::new(),
            event: Timers::new(),
            processing: Timers::new(),
            arrivals: 0,
            clock: Timestamp::MIN,
            newest: Timestamp::MIN,
        }
    }

    fn timers(&mut self, by: By) -> &mut Timers<K> {
        match by {
            By::Event => &mut self.event,
            By::Processing => &mut self.processing,
        }
    }

    /// When the first timer is due.
    #[inline]
    pub(super) fn next_due(&self, by: By) -> Option<Timestamp> {
        let timers = match by {
            By::Event => &self.event,
            By::Processing => &self.processing,
        };
        timers.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Takes out the first timer that `is_due`: when it was due, and its key.
    pub(super) fn pop_timer(
        &mut self,
        by: By,
        is_due: impl FnOnce(Timestamp) -> bool,
    ) -> Option<(Timestamp, K)> {
        let timer = self.timers(by).first_entry().filter(|timer| is_due(timer.key().0))?;
        let ((due, _), key) = timer.remove_entry();
        Some((due, key))
    }

    /// Runs `handler` for an event of `key`, and does what it said about timers.
    pub(super) fn with_event<Out, Side>(
        &mut self,
        key: K,
        said: &mut Said<Out, Side>,
        handler: impl FnOnce(&K, &mut S, &mut Said<Out, Side>),
    ) {
        let arrivals = &mut self.arrivals;
        let (key, held) = self.keys.entry_with_key(key, || {
            *arrivals += 1;
            Held { state: S::default(), arrival: *arrivals, dues: VecDeque::new() }
        });
        handler(key, &mut held.state, said);
        for change in said.timers.drain(..) {
            held.apply(key, change, [&mut self.event, &mut self.processing]);
        }
        if said.clear {
            let key = key.clone();
            self.forget(&key);
        }
    }

    /// Runs `handler` for a timer that was taken out, which is `key`'s, and does what it said about
    /// timers; at the end of the stream no timer is set any more.
    pub(super) fn with_timer<Out, Side>(
        &mut self,
        key: K,
        timer: (By, Timestamp),
        ending: bool,
        said: &mut Said<Out, Side>,
        handler: impl FnOnce(&K, &mut S, &mut Said<Out, Side>),
    ) {
        let held = self.keys.get_mut(&key).expect("a key with a timer is held");
        held.forget(timer);
        handler(&key, &mut held.state, said);
        for change in said.timers.drain(..) {
            if !(ending && matches!(change, TimerChange::Set(..))) {
                held.apply(&key, change, [&mut self.event, &mut self.processing]);
            }
        }
        if said.clear {
            self.forget(&key);
        }
    }

    /// Forgets a key and its timers.
    pub(super) fn forget(&mut self, key: &K) {
        if let Some(held) = self.keys.remove(key) {
            for (by, due) in held.dues {
                self.timers(by).remove(&(due, held.arrival));
            }
        }
    }
}

impl<S> Held<S> {
    fn apply<K: Clone>(
        &mut self,
        key: &K,
        change: TimerChange,
        [event, processing]: [&mut Timers<K>; 2],
    ) {
        let of = |by| match by {
            By::Event => event,
            By::Processing => processing,
        };
        match change {
            TimerChange::Set(by, due) => {
                if let Err(position) = self.dues.binary_search(&(by, due)) {
                    self.dues.insert(position, (by, due));
                    of(by).insert((due, self.arrival), key.clone());
                }
            }
            TimerChange::Cancel(by, due) => {
                if self.forget((by, due)) {
                    of(by).remove(&(due, self.arrival));
                }
            }
        }
    }

    /// Whether it had that timer, which it has no more.
    fn forget(&mut self, timer: (By, Timestamp)) -> bool {
        let found = self.dues.binary_search(&timer).ok();
        found.and_then(|position| self.dues.remove(position)).is_some()
    }
}
