//! Rules without lifespan.

use std::sync::Arc;
use std::time::Duration;

use mizzle_engine::situation::rule::{InvalidRule, Mapping, Named};

use super::{EventType, Known, no_function};

/// A rule without lifespan: an event of a type for which a condition holds becomes another event, the referenced
/// one, or an action, or both.
///
/// Stateless rules come first: what they make of an event is processed after it, and before what situations
/// are found.
#[must_use = "a rule does nothing before it is in a set of rules"]
pub struct StatelessRule<E> {
    pub(super) mapping: Mapping<E>,
    pub(super) mistake: Option<InvalidRule>,
    last: Last,
}

#[derive(Clone, Copy)]
enum Last {
    Nothing,
    Test,
    Derives,
    Action,
}

impl<E> StatelessRule<E> {
    /// A rule called `name` for events of type `of`.
    pub fn new(name: &str, of: impl EventType) -> Self {
        let mapping =
            Mapping { name: name.into(), of: of.number(), test: None, derives: None, action: None };
        Self { mapping, mistake: None, last: Last::Nothing }
    }

    /// Only for events for which `holds` is true.
    pub fn when(mut self, holds: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.mapping.test = Some(Named::new("when", Arc::new(holds) as _));
        self.last = Last::Test;
        self
    }

    /// What `express` makes of the event, which is of type `of`, is an event too.
    pub fn derives(
        mut self,
        of: impl EventType,
        express: impl Fn(&E) -> E + Send + Sync + 'static,
    ) -> Self {
        self.mapping.derives = Some((of.number(), Named::new("derives", Arc::new(express) as _)));
        self.last = Last::Derives;
        self
    }

    /// `act` is called with the referenced event, or if there is none with the event: see
    /// [`Situation::action`](super::Situation::action).
    pub fn action(mut self, act: impl Fn(&E) + Send + Sync + 'static) -> Self {
        self.mapping.action = Some(Named::new("action", Arc::new(act) as _));
        self.last = Last::Action;
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
        let mapping = &mut self.mapping;
        let noted = match self.last {
            Last::Nothing => false,
            Last::Test => known.note(mapping.test.as_mut()),
            Last::Derives => known.note(mapping.derives.as_mut().map(|(_, express)| express)),
            Last::Action => known.note(mapping.action.as_mut()),
        };
        if !noted {
            self.mistake.get_or_insert_with(|| no_function(&self.mapping.name));
        }
        self
    }
}
