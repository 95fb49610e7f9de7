//! A set of rules, compiled.

use std::sync::Arc;

use smallvec::SmallVec;

use super::quick::Step;
use super::rule::{Form, How, Mapping, Set, Situation, TypeId};
use crate::time::Timestamp;

/// A compiled set of rules.
pub struct Program<E> {
    pub(super) set: Set<E>,
    /// By type of lifespans.
    pub(super) spans: Vec<Span>,
    /// By situation.
    pub(super) rules: Vec<Rule>,
    /// By type of events.
    pub(super) reactions: Vec<Reaction<E>>,
    /// Whether a lifespan opens at a time.
    pub(super) opens_at: bool,
}

/// A type of lifespans, compiled.
#[derive(Default)]
pub(super) struct Span {
    /// Its situations, in order.
    pub rules: Vec<u16>,
    /// Those that are evaluated when it ends.
    pub deferred: Vec<u16>,
    /// Those that are due at times of their own.
    pub timed: Vec<u16>,
    pub rings: u16,
    pub starts: bool,
    /// Whether nothing happens at a time in one that was open from the start.
    pub is_timeless: bool,
    /// The times at which it opens, in order.
    pub opens_at: SmallVec<[Timestamp; 1]>,
    /// The time at which all of them close, and whether they are discarded.
    pub closes_at: Option<(Timestamp, bool)>,
    /// After how many microseconds each closes.
    pub closes_after: Option<(i64, bool)>,
    /// What the tallies of a new one count.
    pub tallies: Vec<Option<How>>,
}

/// A situation, compiled.
pub(super) struct Rule {
    pub span: u16,
    pub deferred: bool,
    /// Where each operand's candidates are.
    pub places: SmallVec<[Place; 2]>,
    pub names: Box<[Option<Arc<str>>]>,
    pub tally: Option<u16>,
    /// Whether an event may be a candidate of several operands.
    pub overlaps: bool,
    /// Whether one of its candidates may stay when it has been used.
    pub retains: bool,
    /// Whether something reacts to the event that it is.
    pub is_heard: bool,
}

/// Where an operand's candidates are.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub ring: Option<u16>,
    /// Whether they are kept; else only one that comes is looked at.
    pub keeps: bool,
}

/// What can react to a type of events.
pub(super) struct Reaction<E> {
    pub mappings: Vec<u16>,
    /// Types of lifespans, and which of their closers.
    pub closers: Vec<(u16, u16)>,
    /// Situations, and which of their operands.
    pub offers: Vec<(u16, SmallVec<[u8; 4]>)>,
    /// Types of lifespans whose opener is an operand, and which of their openers.
    pub early_openers: Vec<(u16, SmallVec<[u16; 4]>)>,
    /// Types of lifespans, and which of their openers.
    pub openers: Vec<(u16, SmallVec<[u16; 4]>)>,
    /// Whether something may come of it for a key of which nothing is known.
    pub begins: bool,
    /// Whether there is anything.
    pub is_some: bool,
    /// The short way, if it serves all that there is.
    pub quick: Option<Box<[Step<E>]>>,
}

impl<E> Default for Reaction<E> {
    fn default() -> Self {
        Self {
            mappings: Vec::new(),
            closers: Vec::new(),
            offers: Vec::new(),
            early_openers: Vec::new(),
            openers: Vec::new(),
            begins: false,
            is_some: false,
            quick: None,
        }
    }
}

impl<E> Form<E> {
    pub(super) fn is_joining(&self) -> bool {
        matches!(self, Form::All | Form::Sequence)
    }

    pub(super) fn is_counting(&self) -> bool {
        matches!(self, Form::AtLeast(_) | Form::AtMost(_) | Form::Nth(_))
    }

    /// Whether it is due at a time of its own.
    pub(super) fn is_timed(&self) -> bool {
        matches!(self, Form::At(_) | Form::Every(_) | Form::After(_))
    }

    pub(super) fn how(&self) -> Option<How> {
        match self {
            Form::Report(aggregate) | Form::Crosses(aggregate, _) => Some(aggregate.how),
            Form::Percentage(..) => Some(How::Count),
            _ => None,
        }
    }
}

/// What made an event: the name of a situation or of a stateless rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(pub(super) u32);

impl<E> Program<E> {
    /// The rules that it was compiled from.
    pub fn rules(&self) -> &Set<E> {
        &self.set
    }

    /// Whether something is to be done about what a rule makes.
    pub fn has_actions(&self) -> bool {
        self.set.situations.iter().any(|of| of.action.is_some())
            || self.set.mappings.iter().any(|of| of.action.is_some())
    }

    /// The type of an event.
    #[inline]
    pub fn type_of(&self, event: &E) -> TypeId {
        (self.set.type_of)(event)
    }

    /// Whether nothing can react to events of a type.
    #[inline]
    pub fn passes_over(&self, of: TypeId) -> bool {
        self.reaction(of).is_none()
    }

    /// Whether nothing can come of an event of a type for a key of which nothing is known.
    #[inline]
    pub fn begins_nothing(&self, of: TypeId) -> bool {
        self.reaction(of).is_none_or(|reaction| !reaction.begins)
    }

    #[inline(always)]
    pub(super) fn reaction(&self, of: TypeId) -> Option<&Reaction<E>> {
        self.reactions.get(usize::from(of)).filter(|reaction| reaction.is_some)
    }

    #[inline(always)]
    pub(super) fn situation(&self, rule: u16) -> &Situation<E> {
        &self.set.situations[usize::from(rule)]
    }

    pub(super) fn mapping(&self, mapping: u16) -> &Mapping<E> {
        &self.set.mappings[usize::from(mapping)]
    }

    /// The rule that made an event.
    pub fn name_of(&self, source: Source) -> &Arc<str> {
        let situations = self.set.situations.len();
        match (source.0 as usize).checked_sub(situations) {
            None => &self.set.situations[source.0 as usize].name,
            Some(mapping) => &self.set.mappings[mapping].name,
        }
    }
}
