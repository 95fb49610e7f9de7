//! What a pattern is written as.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use super::Bound;

/// Says whether an event fits, given what the run has taken so far.
pub type Condition<E> = Arc<dyn Fn(&E, &Bound<'_, E>) -> bool + Send + Sync>;

/// A part of a pattern.
pub enum Expr<E> {
    /// One event.
    Step(Step<E>),
    /// One part after another.
    Sequence(Vec<Link<E>>),
    /// A part several times.
    Repeat(Box<Expr<E>>, Times<E>),
    /// All parts, in any order.
    AllOf(Vec<Expr<E>>),
    /// The part that is complete first.
    AnyOf(Vec<Expr<E>>),
    /// Any of the parts, each in a run of its own.
    Either(Vec<Expr<E>>),
    /// A part that begins again.
    Every(Box<Expr<E>>, Again),
    /// A time that passes.
    Wait(Duration),
    /// Within [`AllOf`](Expr::AllOf): what must not be complete before the other parts are.
    Absent(Box<Expr<E>>),
    /// A part that must be complete in time.
    Within(Box<Expr<E>>, Limit),
}

/// When a part begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// When it is complete.
    pub complete: bool,
    /// When it has become impossible; else that makes impossible what it is a part of.
    pub impossible: bool,
}

/// One event of a pattern.
pub struct Step<E> {
    /// What its events are called in a match. Several steps may share a name.
    pub name: Arc<str>,
    /// Which events fit.
    pub condition: Condition<E>,
    /// Whether the condition looks at the event alone.
    pub alone: bool,
    /// An event that fits steps of several levels is kept from those of the lower ones.
    pub level: u8,
    /// How many runs may wait for it.
    pub max_pending: Option<u32>,
}

/// What stands in a sequence.
pub enum Link<E> {
    /// A part, and how it follows the one before it.
    To(Contiguity, Expr<E>),
    /// What must not come before the part that follows.
    Not(Negation, Step<E>),
}

/// Which events may lie between two events of a match: Flink's three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contiguity {
    /// None.
    Strict,
    /// Those that do not fit.
    Relaxed,
    /// Any.
    Any,
}

/// Where an event is forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Negation {
    /// As the very next one.
    Next,
    /// Anywhere until the part that follows has its first event.
    Until,
}

/// What a run does rather where a repetition may go on or stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preference {
    /// Go on.
    Greedy,
    /// Stop.
    Reluctant,
}

/// How often a part is repeated.
pub struct Times<E> {
    /// At least.
    pub min: u32,
    /// At most.
    pub max: Option<u32>,
    /// How one repetition follows another.
    pub inner: Contiguity,
    /// What is rather done.
    pub preference: Preference,
    /// Whether only one of going on and stopping happens.
    pub possessive: bool,
    /// The event that ends the repetition, by itself and not by what was taken: nothing is taken from then on.
    pub until: Option<Condition<E>>,
}

impl<E> Times<E> {
    /// As often as `range` says, relaxed and greedy.
    pub fn new(range: impl RangeBounds<u32>) -> Self {
        let min = match range.start_bound() {
            Included(&min) => min,
            Excluded(&below) => below.saturating_add(1),
            Unbounded => 0,
        };
        let max = match range.end_bound() {
            Included(&max) => Some(max),
            Excluded(&above) => Some(above.saturating_sub(1)),
            Unbounded => None,
        };
        let (inner, preference) = (Contiguity::Relaxed, Preference::Greedy);
        Self { min, max, inner, preference, possessive: false, until: None }
    }
}

/// How long something may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The time.
    pub length: Duration,
    /// Whether the last instant counts.
    pub inclusive: bool,
}

impl Limit {
    /// Less than `length`.
    pub fn below(length: Duration) -> Self {
        Self { length, inclusive: false }
    }
}
