//! The open sessions of each key, and which of them is due next.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::state::Keyed;
use crate::time::Timestamp;

/// What a session window remembers.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, Acc: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, Acc: Deserialize<'de>"
))]
pub struct SessionState<K, Acc> {
    /// Each key's sessions in order of time. They do not overlap.
    pub(super) keys: Keyed<K, Vec<Session<Acc>>>,
    pub(super) agenda: Agenda<K>,
    pub(super) clock: Timestamp,
    arrivals: u64,
}

/// What is due when.
#[derive(Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de>"))]
pub(super) struct Agenda<K> {
    /// By the time at which a session is looked at next, and its arrival.
    timers: BTreeMap<(Timestamp, u64), K>,
    /// Sessions that have had events since their last early result, by arrival; empty unless early
    /// results are given by time.
    changed: BTreeMap<u64, K>,
    /// When early results are due next.
    tick: Option<Timestamp>,
    /// The earliest of all these times; the last instant if there is none.
    earliest: Timestamp,
}

/// What is due next.
pub(super) enum Due<K> {
    /// A session, by its key and arrival, at the time its timer was set for.
    Session(Timestamp, u64, K),
    /// Early results.
    Tick(Timestamp),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Session<Acc> {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) acc: Acc,
    pub(super) count: u64,
    /// The number of its first event among the first events of all sessions.
    pub(super) arrival: u64,
    /// When its timer is set.
    armed: Option<Timestamp>,
    /// Whether it holds events that are in no final or corrected result.
    pub(super) pending: bool,
    /// Whether there has been a final result of it or of a part of it.
    pub(super) given: bool,
    /// Whether it is among those that have changed.
    changed: bool,
}

impl<Acc> Session<Acc> {
    /// When it ends.
    #[inline]
    pub(super) fn end(&self, gap: Duration) -> Timestamp {
        self.last + gap
    }
}

impl<K, Acc> SessionState<K, Acc> {
    pub(super) fn new() -> Self {
        Self { keys: Keyed::new(), agenda: Agenda::new(), clock: Timestamp::MIN, arrivals: 0 }
    }

    /// A session that has nothing in it yet, of an event at `time`.
    pub(super) fn begin(arrivals: &mut u64, time: Timestamp, acc: Acc) -> Session<Acc> {
        *arrivals += 1;
        Session {
            first: time,
            last: time,
            acc,
            count: 0,
            arrival: *arrivals,
            armed: None,
            pending: false,
            given: false,
            changed: false,
        }
    }

    /// Its parts, each on its own.
    pub(super) fn parts(
        &mut self,
    ) -> (&mut Keyed<K, Vec<Session<Acc>>>, &mut Agenda<K>, &mut u64, Timestamp) {
        (&mut self.keys, &mut self.agenda, &mut self.arrivals, self.clock)
    }
}

impl<K> Agenda<K> {
    fn new() -> Self {
        let (timers, changed) = (BTreeMap::new(), BTreeMap::new());
        Self { timers, changed, tick: None, earliest: Timestamp::MAX }
    }

    /// The earliest time at which something is due.
    #[inline]
    pub(super) fn next(&self) -> Option<Timestamp> {
        let nothing = self.timers.is_empty() && self.tick.is_none();
        (!nothing).then_some(self.earliest)
    }

    /// The earliest time at which something is due, else the last instant.
    #[inline(always)]
    pub(super) fn earliest(&self) -> Timestamp {
        self.earliest
    }

    fn look_again(&mut self) {
        let first = self.timers.first_key_value().map(|(&(due, _), _)| due);
        let tick = self.tick.unwrap_or(Timestamp::MAX);
        self.earliest = first.unwrap_or(Timestamp::MAX).min(tick);
    }

    /// Takes out what is due next. A session that ends at a tick comes first.
    pub(super) fn pop(&mut self) -> Option<Due<K>> {
        let first = self.timers.first_key_value().map(|(&(due, _), _)| due);
        let due = match (first, self.tick) {
            (Some(due), tick) if tick.is_none_or(|tick| due <= tick) => {
                let ((due, arrival), key) = self.timers.pop_first()?;
                Some(Due::Session(due, arrival, key))
            }
            (_, Some(tick)) => {
                self.tick = None;
                Some(Due::Tick(tick))
            }
            (_, None) => None,
        };
        self.look_again();
        due
    }

    /// Sets `session`'s timer for `due`; whatever it was set for before.
    pub(super) fn arm<Acc>(&mut self, session: &mut Session<Acc>, due: Timestamp, key: K) {
        self.disarm(session);
        session.armed = Some(due);
        self.timers.insert((due, session.arrival), key);
        self.earliest = self.earliest.min(due);
    }

    fn disarm<Acc>(&mut self, session: &mut Session<Acc>) {
        if let Some(armed) = session.armed.take() {
            self.timers.remove(&(armed, session.arrival));
            self.look_again();
        }
    }

    /// Whether `session` is looked at by `due` anyway.
    #[inline]
    pub(super) fn is_armed_by<Acc>(&self, session: &Session<Acc>, due: Timestamp) -> bool {
        session.armed.is_some_and(|armed| armed <= due)
    }

    /// The session's timer has fired.
    pub(super) fn fired<Acc>(&self, session: &mut Session<Acc>) {
        session.armed = None;
    }

    /// Notes that `session` has changed, and that this shows in an early result at `tick`.
    pub(super) fn changed<Acc>(
        &mut self,
        session: &mut Session<Acc>,
        tick: Timestamp,
        key: impl FnOnce() -> K,
    ) {
        if !session.changed {
            session.changed = true;
            self.changed.insert(session.arrival, key());
        }
        if self.tick.is_none_or(|armed| tick < armed) {
            self.tick = Some(tick);
            self.earliest = self.earliest.min(tick);
        }
    }

    /// What has changed in `session` has been given.
    #[inline]
    pub(super) fn shown<Acc>(&mut self, session: &mut Session<Acc>) {
        if std::mem::take(&mut session.changed) {
            self.changed.remove(&session.arrival);
        }
    }

    /// All sessions that have changed, by arrival.
    pub(super) fn take_changed(&mut self) -> BTreeMap<u64, K> {
        std::mem::take(&mut self.changed)
    }

    /// No early results any more.
    pub(super) fn stop_ticking(&mut self) {
        self.tick = None;
        self.changed.clear();
        self.look_again();
    }

    /// Puts two neighbouring sessions' places together: `kept` has the earlier arrival afterwards, and
    /// the timer of that.
    pub(super) fn join<Acc>(&mut self, kept: &mut Session<Acc>, other: &mut Session<Acc>) {
        if other.arrival < kept.arrival {
            std::mem::swap(&mut kept.arrival, &mut other.arrival);
            std::mem::swap(&mut kept.armed, &mut other.armed);
            std::mem::swap(&mut kept.changed, &mut other.changed);
        }
        self.disarm(other);
        self.shown(other);
    }
}
