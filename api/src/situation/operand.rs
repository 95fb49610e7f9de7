//! What a situation is made of.

use std::sync::Arc;
use std::time::Duration;

use mizzle_engine::situation::rule;
use mizzle_engine::situation::rule::{AtCap, Cap, Named, Scope, Which};

use super::{EventType, Known};

/// An operand of a situation: which events may fill it, and which of them do.
///
/// Unless it is said otherwise every event of its type is a candidate, and the first candidate that makes the
/// detection condition true is used, and then gone.
#[must_use = "an operand does nothing before it is in a situation"]
pub struct Operand<E> {
    pub(super) operand: rule::Operand<E>,
    /// Whether something was said of a function that there is not.
    pub(super) mistaken: bool,
    last: Last,
}

#[derive(Clone, Copy)]
enum Last {
    Nothing,
    Threshold,
    Overrides,
    Retain,
    Weight,
}

/// An operand whose events are of type `of`.
pub fn operand<E>(of: impl EventType) -> Operand<E> {
    Operand { operand: rule::Operand::new(of.number()), mistaken: false, last: Last::Nothing }
}

impl<E> Operand<E> {
    /// In a detection it is found by `name`, which several operands may share.
    pub fn named(mut self, name: &str) -> Self {
        self.operand.name = Some(name.into());
        self
    }

    /// Only events for which `holds` is true are candidates.
    pub fn threshold(mut self, holds: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.operand.threshold = Some(Named::new("threshold", Arc::new(holds) as _));
        self.last = Last::Threshold;
        self
    }

    /// The oldest candidate is used.
    pub fn first(self) -> Self {
        self.which(Which::First)
    }

    /// The newest candidate is used.
    pub fn last(self) -> Self {
        self.which(Which::Last)
    }

    /// Each candidate is used, for a detection of its own.
    pub fn each(self) -> Self {
        self.which(Which::Each)
    }

    fn which(mut self, which: Which) -> Self {
        self.operand.which = Some(which);
        self
    }

    /// The first or last of all candidates of the lifespan, whether it makes the condition true or not.
    pub fn absolute(mut self) -> Self {
        self.operand.scope = Some(Scope::Absolute);
        self
    }

    /// The first or last among the candidates that make the condition true. It is so unless
    /// [`absolute`](Self::absolute) is said.
    pub fn relative(mut self) -> Self {
        self.operand.scope = Some(Scope::Relative);
        self
    }

    /// A newcomer for which `drops` holds drops the earlier candidates.
    pub fn overrides(mut self, drops: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.operand.overrides = Some(Named::new("override", Arc::new(drops) as _));
        self.last = Last::Overrides;
        self
    }

    /// Every newcomer drops the earlier candidates.
    pub fn overrides_always(self) -> Self {
        self.overrides(|_| true)
    }

    /// A candidate that was used stays if `stays` holds of it.
    pub fn retain(mut self, stays: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.operand.retain = Some(Named::new("retain", Arc::new(stays) as _));
        self.last = Last::Retain;
        self
    }

    /// Candidates that were used stay.
    pub fn retain_always(self) -> Self {
        self.retain(|_| true)
    }

    /// What an event counts, in situations that count; else it counts 1.
    pub fn weight(mut self, weight: impl Fn(&E) -> i64 + Send + Sync + 'static) -> Self {
        self.operand.weight = Some(Named::new("weight", Arc::new(weight) as _));
        self.last = Last::Weight;
        self
    }

    /// At most so many candidates are kept in a lifespan. One more is refused, or the oldest is dropped, and counted.
    pub fn max_candidates(mut self, most: u32, at_cap: AtCap) -> Self {
        self.operand.cap = Some(Cap { most, at_cap });
        self
    }

    /// Calls the function that was given last `name`.
    pub fn called(self, name: &str) -> Self {
        self.known(&Known::Name(name))
    }

    /// Declares what a call of the function that was given last costs at most.
    pub fn cost(self, most: Duration) -> Self {
        self.known(&Known::Cost(most))
    }

    fn known(mut self, known: &Known<'_>) -> Self {
        let operand = &mut self.operand;
        let noted = match self.last {
            Last::Nothing => false,
            Last::Threshold => known.note(operand.threshold.as_mut()),
            Last::Overrides => known.note(operand.overrides.as_mut()),
            Last::Retain => known.note(operand.retain.as_mut()),
            Last::Weight => known.note(operand.weight.as_mut()),
        };
        self.mistaken |= !noted;
        self
    }
}
