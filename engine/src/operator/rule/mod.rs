//! Rules: small state machines, one per key, that look at what comes and when.
//!
//! A [`Rule`] says what becomes of an event, given what its key has seen; when the key wants to be woken
//! if nothing else comes; and what happens then. [`Ruled`] runs one for every key: it looks keys up, keeps
//! their alarms, forgets keys that have come to rest, saves and restores. So each of the operators here is
//! a rule of a few lines, and none of them is a consumer of its own.
//!
//! | rule | operator | what comes out, and when | wakes, and is forgotten |
//! |---|---|---|---|
//! | [`First`] | `distinct_for`, `throttle_first` | the event, unless one passed less than the lifetime ago | when the lifetime is over |
//! | [`Latest`] | `throttle_latest` | the first event; then, at the end of each period, the latest of it | after a period without events |
//! | [`Sample`] | `sample` | 1 us before the end of each aligned period, the latest event of it | at the period's end |
//! | [`Debounce`] | `debounce` | the last event, when nothing has come for the quiet time | then |
//! | [`CountWithin`] | `count_within` | each event with the count in `(time - window, time]` | when the last event has left |
//! | [`AggregateWithin`] | `aggregate_within` | each event with an aggregate of these | likewise |
//! | [`CountReaches`] | `count_reaches` | the event at which that count reaches `n` and at the one before did not | likewise |
//! | [`CountEdges`] | `count_edges` | that event, and when the count falls below `n` again the newest one | likewise |
//! | [`Increases`] | `increase` | by how much a counter has grown since the event before | never |
//! | [`RunsOf`] | `runs_of` | the `n`-th event of an unbroken run | never |
//! | [`Edge`] | `rising_edge`, `falling_edge` | the event at which a condition begins, or ends, to hold | never |
//! | [`Changes`] | `distinct_until_changed` | the first event, and each that differs from the one before | never |
//! | [`Pairwise`] | `pairwise` | each event with the one before it | never |
//! | [`Sort`] | `sort_within` | the events by time, those of one time by a key of the user's | when the clock has passed them |
//! | [`Fold`] | `apply_stateful`, `reduce`, `state_transition` | what a function of state and event makes | never |
//! | [`Expiring`] | `expire_after` on what never wakes | what the rule in it gives | when nothing has come for the time to live |
//!
//! Time is event time. A wake-up due at `d` happens when the clock reaches `d`, before events at `d`: so a
//! lifetime, a period or a quiet time includes its beginning and excludes its end. The clock of a key is the
//! chain's (the watermark; in an ordered chain the time of the event about to be taken), and unless the rule
//! [waits](Rule::WAITS) also the key's own next event: unflagged, a rule gives per key exactly what it gives
//! flagged, as long as the events of that key arrive in order. At the end of the stream all keys are woken
//! until they rest.

mod changes;
mod count;
mod debounce;
mod edge;
mod expiring;
mod first;
mod fold;
mod increase;
mod latest;
mod pairwise;
mod ruled;
mod runs;
mod sample;
mod sort;
mod within;

use std::time::Duration;

pub use changes::Changes;
pub use count::{CountEdges, CountReaches, CountWithin, Crossing};
pub use debounce::Debounce;
pub use edge::Edge;
pub use expiring::{Expiring, Touched};
pub use first::First;
pub use fold::Fold;
pub use increase::{Counter, Increase, Increases};
pub use latest::{Latest, Waiting};
pub use pairwise::Pairwise;
pub use ruled::{Ruled, RuledState};
pub use runs::RunsOf;
pub use sample::Sample;
pub use sort::{Sort, Sorting};
pub use within::{AggregateWithin, Recent};

use crate::event::Event;
use crate::time::{Timestamp, is_late, micros};

/// What an operator does with the events of one key.
///
/// Left alone, a key comes to rest: after finitely many wake-ups it wants no more. A key that rests is
/// forgotten, unless the rule [lasts](Rule::LASTS).
pub trait Rule<T>: Send + Sync + 'static {
    /// What is remembered of a key.
    type State: Send + 'static;
    /// What comes out.
    type Out: Send + 'static;

    /// Whether only the chain's clock wakes a key, and not also the time of the key's next event.
    const WAITS: bool = false;

    /// Whether a key is remembered though it does not want to be woken: for ever, then.
    const LASTS: bool = false;

    /// What is remembered of a key that nothing is known of.
    fn start(&self) -> Self::State;

    /// Takes an event of the key, which was `late` at its source or not; never late in an ordered chain.
    fn event(&self, state: &mut Self::State, event: Event<T>, late: bool) -> Answer<Self::Out>;

    /// When the key is to be woken, as things stand; [`Timestamp::MIN`]: at once.
    fn due(&self, _state: &Self::State) -> Option<Timestamp> {
        None
    }

    /// It is `due`, which is what [`due`](Rule::due) said. What comes out must not be earlier than what came
    /// out at an earlier due time.
    fn wake(&self, _state: &mut Self::State, _due: Timestamp) -> Option<Event<Self::Out>> {
        None
    }
}

/// What a rule says to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<U> {
    /// Nothing comes out.
    Nothing,
    /// This comes out, at the event's time.
    Emit(U),
    /// The event came after a newer one of its key and cannot be taken into account: it is counted as
    /// late.
    Late,
    /// What should come out does not fit its type: the event is counted as failed.
    Failed,
}

impl<U> From<Option<U>> for Answer<U> {
    fn from(made: Option<U>) -> Self {
        made.map_or(Answer::Nothing, Answer::Emit)
    }
}

/// A rule that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRule {
    /// A length of nothing.
    #[error("the {parameter} is zero")]
    Zero {
        /// "lifetime", "period", ...
        parameter: &'static str,
    },
    /// Time stamps are whole microseconds.
    #[error("the {parameter} {duration:?} is not a whole number of microseconds")]
    Fraction {
        /// "lifetime", "period", ...
        parameter: &'static str,
        /// What was given.
        duration: Duration,
    },
    /// A counter's width that is not 1 to 64 bits.
    #[error("a counter has 1 to 64 bits, not {0}")]
    Bits(u32),
}

impl InvalidRule {
    /// Whether `duration` is something that a rule can wait for.
    pub fn check(parameter: &'static str, duration: Duration) -> Result<(), Self> {
        if duration.is_zero() {
            return Err(InvalidRule::Zero { parameter });
        }
        if !duration.subsec_nanos().is_multiple_of(1_000) {
            return Err(InvalidRule::Fraction { parameter, duration });
        }
        Ok(())
    }

    /// Whether `n` events are something to count to.
    pub fn check_count(n: u64) -> Result<(), Self> {
        if n == 0 { Err(InvalidRule::Zero { parameter: "count" }) } else { Ok(()) }
    }
}

/// Holds `event` instead of what is held, unless that is later.
fn keep_latest<T>(held: &mut Option<(Timestamp, T)>, event: Event<T>) {
    if held.as_ref().is_none_or(|held| !is_late(event.time, held.0)) {
        *held = Some((event.time, event.value));
    }
}

/// A duration as it is added to a time for every event; saturates.
#[derive(Clone, Copy, Debug)]
struct Length(i64);

impl Length {
    fn new(duration: Duration) -> Self {
        Self(micros(duration))
    }

    #[inline(always)]
    fn after(self, time: Timestamp) -> Timestamp {
        Timestamp::from_micros(time.as_micros().saturating_add(self.0))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
