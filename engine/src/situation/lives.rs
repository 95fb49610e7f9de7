//! What a key remembers.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::life::{Life, Ring, Tally};
use super::program::{Program, Source, Span};
use super::rule::{Action, AtCap, TypeId};
use super::store::{NIL, Store};
use crate::time::{Timestamp, is_due};

/// The open lifespans of a key, and the events that they hold.
#[derive(Clone, Serialize, Deserialize)]
pub struct Lives<E> {
    pub(super) store: Store<E>,
    /// By type of lifespans; oldest first.
    pub(super) open: Box<[VecDeque<Life>]>,
    /// Nothing happens without an event before.
    pub(super) due: Timestamp,
    /// Until when lifespans that open at a time have been opened.
    pub(super) opened_until: Timestamp,
}

/// What came of an event, or of time, with room that is kept from call to call.
pub struct Room<E> {
    /// The events found that are still to be processed.
    pub(super) pending: Vec<(TypeId, u32)>,
    pub(super) picked: Vec<u32>,
    /// What was put together: one list of events after another.
    pub(super) combos: Vec<u32>,
    /// Which operands the events that were picked fill.
    pub(super) filled: Vec<u8>,
    pub(super) used: Vec<u32>,
    /// The events of this closure.
    pub(super) said: Vec<Told<E>>,
    /// How many of them have been processed.
    pub(super) steps: u32,
    /// How many events the one at hand was made of, each of the one before.
    pub(super) depth: u32,
    /// What was found, in order; the events of one closure with the same number.
    pub said_by: Vec<Said<E>>,
    /// What is to be done about it.
    pub acts: Vec<Act<E>>,
    /// What was not kept.
    pub dropped: Dropped,
    pub(super) closure: u32,
}

/// An event that a rule has made.
pub(super) struct Told<E> {
    pub by: Source,
    /// Where it is in the store, unless it is here.
    pub at: u32,
    pub value: Option<E>,
}

/// An event that a rule has made.
#[derive(Debug, PartialEq)]
pub struct Said<E> {
    /// The rule.
    pub by: Source,
    /// Of one call: the events of one closure have the same number.
    pub closure: u32,
    /// When it was found.
    pub time: Timestamp,
    /// The event.
    pub value: E,
}

/// Something that is to be done about an event.
pub struct Act<E> {
    /// What.
    pub action: Action<E>,
    /// The event.
    pub event: E,
}

/// What was not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Lifespans and candidates that were refused or dropped at a cap.
    pub count: u64,
    /// Why the query is to fail.
    pub fails: Option<Arc<str>>,
}

impl<E> Default for Room<E> {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            picked: Vec::new(),
            combos: Vec::new(),
            filled: Vec::new(),
            used: Vec::new(),
            said: Vec::new(),
            steps: 0,
            depth: 0,
            said_by: Vec::new(),
            acts: Vec::new(),
            dropped: Dropped::default(),
            closure: 0,
        }
    }
}

impl<E> Room<E> {
    /// Forgets what was left when a user's function panicked.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl<E> Lives<E> {
    /// How many lifespans are open.
    pub fn len(&self) -> usize {
        self.open.iter().map(VecDeque::len).sum()
    }

    /// Whether no lifespan is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many events are held.
    pub fn held(&self) -> usize {
        self.store.len()
    }

    /// No later than this something happens without an event, if anything does.
    #[inline]
    pub fn due(&self) -> Option<Timestamp> {
        (self.due < Timestamp::MAX).then_some(self.due)
    }
}

impl Span {
    /// When a lifespan that opens at `since` ends, and whether it is discarded then.
    pub fn end_of(&self, since: Timestamp) -> (Timestamp, bool) {
        let never = (Timestamp::MAX, false);
        let at = self.closes_at.unwrap_or(never);
        let after = self.closes_after.map_or(never, |(length, discards)| {
            (Timestamp::from_micros(since.as_micros().saturating_add(length)), discards)
        });
        if after.0 < at.0 { after } else { at }
    }
}

impl<E> Program<E> {
    /// What is known of a key whose first event comes at `time`.
    pub fn fresh(&self, time: Timestamp) -> Lives<E> {
        let open = self.spans.iter().map(|_| VecDeque::new()).collect();
        let mut lives =
            Lives { store: Store::new(), open, due: Timestamp::MAX, opened_until: time };
        for span in 0..self.spans.len() {
            self.open_unasked(&mut lives, span);
        }
        self.look_ahead(&mut lives);
        lives
    }

    /// Opens what of a type is open at the time of `lives` without an event: what would be if the key had been known
    /// from the start.
    pub(super) fn open_unasked(&self, lives: &mut Lives<E>, span: usize) {
        let now = lives.opened_until;
        let opened = self.opened_unasked(span, now).into_iter();
        lives.open[span].extend(opened.map(|since| self.life(span, since, NIL, now)));
    }

    /// When those were opened that are open at `now` if no event came.
    fn opened_unasked(&self, span: usize, now: Timestamp) -> SmallVec<[Timestamp; 4]> {
        let (of, span_of) = (&self.set.lifespans[span], &self.spans[span]);
        let mut open = SmallVec::<[Timestamp; 4]>::new();
        let times = span_of.starts.then_some(Timestamp::MIN).into_iter();
        for since in times.chain(span_of.opens_at.iter().copied()).filter(|&since| since <= now) {
            open.retain(|since_of| span_of.end_of(*since_of).0 > since);
            let is_full = of.cap.is_some_and(|cap| open.len() >= cap.most as usize);
            let drops = of.cap.is_some_and(|cap| cap.at_cap == AtCap::DropOldest);
            if !open.is_empty() && !of.adds || is_full && !drops {
                continue;
            }
            if is_full {
                open.remove(0);
            }
            open.push(since);
        }
        open.retain(|since| span_of.end_of(*since).0 > now);
        open
    }

    /// A lifespan that opens at `since`, of which nothing before `now` is told.
    pub(super) fn life(&self, span: usize, since: Timestamp, opener: u32, now: Timestamp) -> Life {
        let of = &self.spans[span];
        let (ends, discards) = of.end_of(since);
        let rings = (0..of.rings).map(|_| Ring::default()).collect();
        let tallies = of.tallies.iter().map(|&how| Tally::new(how)).collect();
        let mut life = Life { since, ends, discards, opener, rings, tallies };
        for &rule in &of.timed {
            self.wind_up(&mut life, rule, now);
        }
        life
    }

    /// Whether `lives` is, at `now`, as that of a key of which nothing is known, and nothing will happen that does
    /// not to such a key.
    pub fn is_fresh(&self, lives: &Lives<E>, now: Timestamp) -> bool {
        lives.held() == 0 && (0..self.spans.len()).all(|span| self.is_untouched(lives, span, now))
    }

    /// Whether the open lifespans of a type are those of a key of which nothing is known.
    fn is_untouched(&self, lives: &Lives<E>, span: usize, now: Timestamp) -> bool {
        let (of, open) = (&self.spans[span], &lives.open[span]);
        let is_over = of.closes_at.is_some_and(|(end, _)| is_due(end, now));
        let starts = of.starts && !is_over;
        // What is to happen at a time happens to the keys that are known.
        let opens = of.opens_at.last().is_some_and(|&time| !is_due(time, now));
        let awaits = opens || starts && !of.is_timeless;
        if awaits || open.len() != usize::from(starts) || !open.iter().all(Life::is_blank) {
            return false;
        }
        // Of a new key one could not know that an event has closed what was opened at a time.
        of.opens_at.is_empty() || self.opened_unasked(span, now).len() == usize::from(starts)
    }
}

impl Life {
    /// Whether nothing has come, and nothing opened it.
    fn is_blank(&self) -> bool {
        self.opener == NIL
            && self.since == Timestamp::MIN
            && self.rings.iter().all(Ring::is_blank)
            && self.tallies.iter().all(Tally::is_blank)
    }
}
