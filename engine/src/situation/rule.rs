//! Rules as data: what the user's calls describe.

use std::sync::Arc;
use std::time::Duration;

use super::detection::{Detection, Judge, Open};
use crate::time::Timestamp;

/// The number of an event's type.
pub type TypeId = u16;

/// A function of the user's, with what is known about it.
pub struct Named<F: ?Sized> {
    /// What reports call it.
    pub name: Arc<str>,
    /// What a call costs at most, where that was declared.
    pub cost: Option<Duration>,
    /// The function.
    pub call: Arc<F>,
}

impl<F: ?Sized> Named<F> {
    /// `call`, known as `name`, of unknown cost.
    pub fn new(name: impl Into<Arc<str>>, call: Arc<F>) -> Self {
        Self { name: name.into(), cost: None, call }
    }
}

impl<F: ?Sized> Clone for Named<F> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), cost: self.cost, call: self.call.clone() }
    }
}

/// A condition on one event.
pub type Test<E> = Named<dyn Fn(&E) -> bool + Send + Sync>;

/// A condition on an event, given an open lifespan.
pub type CloseTest<E> = Named<dyn Fn(&E, &Open<'_, E>) -> bool + Send + Sync>;

/// A number that is found in an event.
pub type Value<E> = Named<dyn Fn(&E) -> f64 + Send + Sync>;

/// What an event counts.
pub type Weight<E> = Named<dyn Fn(&E) -> i64 + Send + Sync>;

/// A condition on what was put together.
pub type When<E> = Named<dyn Judge<E>>;

/// Makes the event that a detection is.
pub type Express<E> = Named<dyn Fn(&Detection<'_, E>) -> E + Send + Sync>;

/// Makes an event of another.
pub type Map<E> = Named<dyn Fn(&E) -> E + Send + Sync>;

/// What is done outside about an event that a rule has made.
pub type Action<E> = Named<dyn Fn(&E) + Send + Sync>;

/// A cap, and what happens to one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// So many at most.
    pub most: u32,
    /// What happens to one more.
    pub at_cap: AtCap,
}

/// What happens at a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtCap {
    /// The newcomer is refused, and counted.
    #[default]
    RefuseNewest,
    /// The oldest is dropped, and counted.
    DropOldest,
    /// The query fails.
    Fail,
}

/// A type of lifespans.
pub struct LifespanType<E> {
    /// What situations call it.
    pub name: Arc<str>,
    /// What opens one.
    pub openers: Vec<Opener<E>>,
    /// What closes one.
    pub closers: Vec<Closer<E>>,
    /// Whether an opener adds one while one is open; else it is ignored.
    pub adds: bool,
    /// Whether the opener is an operand of what it opens.
    pub opener_counts: bool,
    /// How many may be open, of one key.
    pub cap: Option<Cap>,
}

/// What opens a lifespan.
pub enum Opener<E> {
    /// It is open from the start.
    Start,
    /// A time.
    At(Timestamp),
    /// An event of a type that satisfies a condition.
    Event(TypeId, Option<Test<E>>),
}

/// What closes a lifespan.
pub struct Closer<E> {
    /// What it is.
    pub by: CloseBy<E>,
    /// Whether deferred situations are given up, not evaluated.
    pub discards: bool,
}

/// What closes a lifespan, and which.
pub enum CloseBy<E> {
    /// A time: all of them.
    At(Timestamp),
    /// So long after it opened.
    After(Duration),
    /// An event of a type: which of those for which the condition holds.
    Event(TypeId, Option<CloseTest<E>>, Which),
}

/// Which of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The first.
    #[default]
    First,
    /// The last.
    Last,
    /// Each.
    Each,
}

/// Among which candidates the first or the last is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Those that make the condition true.
    #[default]
    Relative,
    /// All of the lifespan.
    Absolute,
}

/// An operand of a situation.
pub struct Operand<E> {
    /// The type of its events.
    pub of: TypeId,
    /// What the detection calls it, if anything.
    pub name: Option<Arc<str>>,
    /// Only events that satisfy it are candidates.
    pub threshold: Option<Test<E>>,
    /// Which candidate is used, where that was said.
    pub which: Option<Which>,
    /// Among which it is looked for, where that was said.
    pub scope: Option<Scope>,
    /// A newcomer that satisfies it drops the earlier candidates.
    pub overrides: Option<Test<E>>,
    /// A used candidate that satisfies it stays.
    pub retain: Option<Test<E>>,
    /// What it counts; 1 if nothing is said.
    pub weight: Option<Weight<E>>,
    /// How many candidates may be kept in a lifespan.
    pub cap: Option<Cap>,
}

impl<E> Operand<E> {
    /// Any event of that type, nothing else said.
    pub fn new(of: TypeId) -> Self {
        Self {
            of,
            name: None,
            threshold: None,
            which: None,
            scope: None,
            overrides: None,
            retain: None,
            weight: None,
            cap: None,
        }
    }

    pub(super) fn is_absolute(&self) -> bool {
        self.scope == Some(Scope::Absolute)
    }

    pub(super) fn which(&self) -> Which {
        self.which.unwrap_or_default()
    }
}

/// What makes a situation.
pub enum Form<E> {
    /// An event for each operand.
    All,
    /// An event for each operand, in their order.
    Sequence,
    /// Weights that come to so much, or more.
    AtLeast(i64),
    /// Weights that come to so much, or less, when the lifespan ends.
    AtMost(i64),
    /// Weights that come to exactly so much.
    Nth(i64),
    /// A time.
    At(Timestamp),
    /// So much time, again and again.
    Every(Duration),
    /// So much time after an event.
    After(Duration),
    /// An aggregate.
    Report(Aggregate<E>),
    /// At least so many of a hundred satisfy a condition.
    Percentage(Test<E>, f64),
    /// An aggregate reaches a bound.
    Crosses(Aggregate<E>, f64),
    /// No event.
    Not,
    /// An event for the first operand, and none for the second.
    Unless,
}

/// An aggregate of a value found in each operand.
pub struct Aggregate<E> {
    /// Which.
    pub how: How,
    /// The value; not asked for by a count.
    pub value: Value<E>,
}

/// Which aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// How many.
    Count,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// All together.
    Sum,
    /// The mean.
    Average,
    /// That of the last.
    Latest,
}

/// A situation that is looked for in each lifespan of a type.
pub struct Situation<E> {
    /// What reports and changes of rules call it.
    pub name: Arc<str>,
    /// The type of its lifespans.
    pub lifespan: Arc<str>,
    /// What makes it.
    pub form: Form<E>,
    /// Whether it is detected when the lifespan ends, where that was said.
    pub deferred: Option<bool>,
    /// Its operands.
    pub operands: Vec<Operand<E>>,
    /// What must hold of them.
    pub when: Option<When<E>>,
    /// The type and the making of the event that it is.
    pub derives: Option<(TypeId, Express<E>)>,
    /// What is done about that event.
    pub action: Option<Action<E>>,
}

/// A rule without lifespan: what an event becomes.
pub struct Mapping<E> {
    /// What reports and changes of rules call it.
    pub name: Arc<str>,
    /// The type of the event.
    pub of: TypeId,
    /// What must hold of it.
    pub test: Option<Test<E>>,
    /// The type and the making of the referenced event, if there is one.
    pub derives: Option<(TypeId, Map<E>)>,
    /// What is done about the referenced event, or the event itself if there is none.
    pub action: Option<Action<E>>,
}

/// A set of rules.
pub struct Set<E> {
    /// Which type an event is of.
    pub type_of: Arc<dyn Fn(&E) -> TypeId + Send + Sync>,
    /// The types of lifespans, in order of definition.
    pub lifespans: Vec<Arc<LifespanType<E>>>,
    /// The situations, in order of definition.
    pub situations: Vec<Arc<Situation<E>>>,
    /// The stateless rules, in order of definition.
    pub mappings: Vec<Arc<Mapping<E>>>,
}

impl<E> Clone for Set<E> {
    fn clone(&self) -> Self {
        Self {
            type_of: self.type_of.clone(),
            lifespans: self.lifespans.clone(),
            situations: self.situations.clone(),
            mappings: self.mappings.clone(),
        }
    }
}

/// Why a set of rules cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule:?}, {field}: {reason}")]
pub struct InvalidRule {
    /// The rule, or the type of lifespans.
    pub rule: String,
    /// What about it.
    pub field: String,
    /// What is wrong with that.
    pub reason: String,
}
