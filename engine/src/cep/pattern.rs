//! A pattern: an expression, and what happens around it.

use std::time::Duration;

use super::{Expr, Limit};

/// A pattern as the user describes it. [`compile`](Pattern::compile) makes a program of it.
pub struct Pattern<E> {
    /// What makes a match.
    pub expr: Expr<E>,
    /// When a run begins.
    pub starts: Starts,
    /// How long a run may take, from its first event.
    pub within: Option<Limit>,
    /// How long it may wait, from the event before.
    pub within_each: Option<Limit>,
    /// Which ways of matching are reported, and when.
    pub report: Report,
    /// Which matches go on after one.
    pub skip: Skip,
    /// Whether an event may be in several matches.
    pub consume: Consume,
    /// How many runs a key may have.
    pub cap: Option<Cap>,
}

impl<E> Pattern<E> {
    /// Looks for `expr`: each match is reported, and nothing limits or drops anything.
    pub fn new(expr: Expr<E>, starts: Starts) -> Self {
        let (report, skip, consume) = (Report::Each, Skip::None, Consume::Nothing);
        Self { expr, starts, within: None, within_each: None, report, skip, consume, cap: None }
    }
}

/// When a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starts {
    /// With every event that fits the beginning.
    EachEvent,
    /// Once per key, when its first event comes.
    Once,
}

/// Which ways in which events match are reported, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Each, as soon as it is complete.
    Each,
    /// Of those that begin with one event the preferred one, as soon as it is decided.
    Best,
    /// Likewise, and what is preferred so long after the first event at the latest.
    BestBy(Duration),
    /// What is preferred so long after the first event, and not before.
    BestAt(Duration),
}

/// Where matching goes on after a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Everywhere: nothing is dropped.
    None,
    /// Behind its last event.
    PastLast,
    /// Behind its first event.
    ToNext,
    /// At the first event of a step.
    ToFirst(String),
    /// At the last event of a step.
    ToLast(String),
}

/// Whether an event may be in several matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consume {
    /// It may.
    Nothing,
    /// Runs that hold an event of a match are dropped.
    Matched,
}

/// How many runs there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// At most.
    pub runs: u32,
    /// What happens to one more.
    pub at_cap: AtCap,
}

/// What happens at a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtCap {
    /// The run that is newest is dropped, and counted.
    RefuseNewest,
    /// The run that began first is dropped, and counted.
    DropOldest,
    /// The query fails.
    Fail,
}

/// Why a pattern cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPattern {
    /// A sequence or a choice of nothing, or a step that comes no times.
    #[error("a part of the pattern has no steps, so nothing can match it")]
    Nothing,
    /// No event is needed.
    #[error("everything matches: all steps may be left out; let one of them come at least once")]
    Everything,
    /// What is repeated needs no event.
    #[error(
        "what is repeated may be complete without an event, so it would be repeated for ever; let \
         a step in it come at least once"
    )]
    Endless,
    /// An absence without an end.
    #[error(
        "what must not come has no end: wait for a time beside it, add `within`, or let a step \
         follow that ends it"
    )]
    Unending,
    /// An absence that stands alone.
    #[error("`absent` stands beside what it forbids an event of: put it into `all_of`")]
    LoneAbsence,
    /// Something is said of repetitions where nothing is repeated.
    #[error("nothing is repeated here: say `times`, `one_or_more` or `optional` first")]
    NotRepeated,
    /// What may be left out is made optional again.
    #[error("this may be left out already: `optional` says nothing new")]
    OptionalTwice,
    /// Something that only a step has.
    #[error("`level` and `max_pending` are for a single step: say them of it")]
    NotAStep,
    /// A negation in front of what is not a step.
    #[error("`not_next` and `not_then` stand in front of a step, or at the end of the pattern")]
    NegationBefore,
    /// A run for every event, each of which waits.
    #[error(
        "the pattern begins with a wait, which no event begins: say when it begins with \
         `Pattern::once`, and repeat it with `every`"
    )]
    WaitsFirst,
    /// A wait that is longer than the time there is.
    #[error(
        "nothing can match: the waits in it take {waits:?}, and it must be over within {within:?}"
    )]
    TooShort {
        /// How long it waits.
        waits: Duration,
        /// How long it may take.
        within: Duration,
    },
    /// A length, or a number, of nothing.
    #[error("the {0} is zero")]
    Zero(&'static str),
    /// A step that is not there.
    #[error("no step is called {0:?}, to skip to")]
    UnknownStep(String),
    /// All of several events, each of which must be the next.
    #[error("the parts of `all_of` cannot all be the next event: let it follow with `then`")]
    AllNext,
    /// What only a single sequence of events has.
    #[error(
        "the preferred match is known for sequences of steps only: with `all_of`, `any_of`, \
         `every`, `wait` or a part `within` a time, report each match"
    )]
    NotRanked,
    /// An automaton that is too large.
    #[error("the pattern is too large: {0}")]
    TooLarge(&'static str),
}
