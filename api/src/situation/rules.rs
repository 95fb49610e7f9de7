//! Situations, and sets of rules.

use std::sync::Arc;
use std::time::Duration;

use mizzle_engine::situation::rule;
use mizzle_engine::situation::rule::{Form, InvalidRule, Named, Set};
use mizzle_engine::situation::{Detection, Judge, Program};
use mizzle_engine::time::Timestamp;

use super::{Aggregate, EventType, Known, Lifespan, Operand, StatelessRule, mistake, no_function};

/// A situation: what is looked for in each lifespan of a type.
///
/// It is made by the function that says its type; then it is said [in](Self::during) which lifespans, what else must
/// hold ([`when`](Self::when)), and which event it is ([`derives`](Self::derives)).
#[must_use = "a situation does nothing before it is in a set of rules"]
pub struct Situation<E> {
    of: rule::Situation<E>,
    mistake: Option<InvalidRule>,
    last: Last,
}

#[derive(Clone, Copy)]
enum Last {
    Nothing,
    Form,
    When,
    Derives,
    Action,
}

impl<E> Situation<E> {
    /// An event for each of the operands, in any order.
    pub fn all(name: &str, operands: impl IntoIterator<Item = Operand<E>>) -> Self {
        Self::new(name, Form::All, operands)
    }

    /// An event for each of the operands, in their order.
    pub fn sequence(name: &str, operands: impl IntoIterator<Item = Operand<E>>) -> Self {
        Self::new(name, Form::Sequence, operands)
    }

    /// Candidates of the operands that count `n` or more together. They are used, and counting starts again.
    pub fn at_least(name: &str, n: i64, operands: impl IntoIterator<Item = Operand<E>>) -> Self {
        Self::new(name, Form::AtLeast(n), operands)
    }

    /// When the lifespan ends: candidates that count `n` or less together, or none.
    pub fn at_most(name: &str, n: i64, operands: impl IntoIterator<Item = Operand<E>>) -> Self {
        Self::new(name, Form::AtMost(n), operands)
    }

    /// The event with which the operands come to count exactly `n`; once in a lifespan.
    pub fn nth(name: &str, n: i64, operands: impl IntoIterator<Item = Operand<E>>) -> Self {
        Self::new(name, Form::Nth(n), operands)
    }

    /// `time`, if the lifespan is open then.
    pub fn at(name: &str, time: Timestamp) -> Self {
        Self::new(name, Form::At(time), [])
    }

    /// `length` after the lifespan opened, and again and again.
    pub fn every(name: &str, length: Duration) -> Self {
        Self::new(name, Form::Every(length), [])
    }

    /// `length` after each candidate of `operand`, while the lifespan is open. A newcomer that overrides starts the
    /// waiting again.
    pub fn after(name: &str, length: Duration, operand: Operand<E>) -> Self {
        Self::new(name, Form::After(length), [operand])
    }

    /// What `aggregate` comes to: with each operand, or when the lifespan ends.
    pub fn report(name: &str, aggregate: Aggregate<E>, operand: Operand<E>) -> Self {
        Self::new(name, Form::Report(aggregate.0), [operand])
    }

    /// `holds` is true of at least so many percent of the operands.
    pub fn percentage(
        name: &str,
        least: f64,
        operand: Operand<E>,
        holds: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        let test = Named::new("percentage", Arc::new(holds) as _);
        let mut situation = Self::new(name, Form::Percentage(test, least), [operand]);
        situation.last = Last::Form;
        situation
    }

    /// `aggregate`, which was below `bound` or not there, reaches it.
    pub fn crosses(name: &str, aggregate: Aggregate<E>, bound: f64, operand: Operand<E>) -> Self {
        Self::new(name, Form::Crosses(aggregate.0, bound), [operand])
    }

    /// When the lifespan ends: none of the operands has come.
    pub fn not(name: &str, operands: impl IntoIterator<Item = Operand<E>>) -> Self {
        Self::new(name, Form::Not, operands)
    }

    /// When the lifespan ends: `operand` has come, and `absent` has not.
    pub fn unless(name: &str, operand: Operand<E>, absent: Operand<E>) -> Self {
        Self::new(name, Form::Unless, [operand, absent])
    }

    fn new(name: &str, form: Form<E>, operands: impl IntoIterator<Item = Operand<E>>) -> Self {
        let mut mistake = None;
        let operands = operands.into_iter().map(|operand| {
            if operand.mistaken {
                mistake.get_or_insert_with(|| no_function(name));
            }
            operand.operand
        });
        let operands = operands.collect();
        let of = rule::Situation {
            name: name.into(),
            lifespan: "".into(),
            form,
            deferred: None,
            operands,
            when: None,
            derives: None,
            action: None,
        };
        Self { of, mistake, last: Last::Nothing }
    }

    /// It is looked for in the lifespans called `lifespan`.
    pub fn during(mut self, lifespan: &str) -> Self {
        self.of.lifespan = lifespan.into();
        self
    }

    /// It is detected as soon as it is there. That is so unless [`deferred`](Self::deferred) is said, for all that can be.
    pub fn immediate(mut self) -> Self {
        self.of.deferred = Some(false);
        self
    }

    /// It is detected when the lifespan ends.
    pub fn deferred(mut self) -> Self {
        self.of.deferred = Some(true);
        self
    }

    /// Only if `holds` is true of the detection: its events, its value, its lifespan.
    pub fn when(
        mut self,
        holds: impl Fn(&Detection<'_, E>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.of.when = Some(Named::new("when", Arc::new(holds) as Arc<dyn Judge<E>>));
        self.last = Last::When;
        self
    }

    /// What `express` makes of the detection, which is of type `of`, is the event that the situation is.
    pub fn derives(
        mut self,
        of: impl EventType,
        express: impl Fn(&Detection<'_, E>) -> E + Send + Sync + 'static,
    ) -> Self {
        self.of.derives = Some((of.number(), Named::new("derives", Arc::new(express) as _)));
        self.last = Last::Derives;
        self
    }

    /// `act` is called with the event that the situation is, on the action thread and not while situations are
    /// looked for: the stream says how many may wait for it, with
    /// [`actions`](crate::Stream::actions).
    pub fn action(mut self, act: impl Fn(&E) + Send + Sync + 'static) -> Self {
        self.of.action = Some(Named::new("action", Arc::new(act) as _));
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
        let of = &mut self.of;
        let noted = match self.last {
            Last::Nothing => false,
            Last::Form => match &mut of.form {
                Form::Percentage(test, _) => known.note(Some(test)),
                _ => false,
            },
            Last::When => known.note(of.when.as_mut()),
            Last::Derives => known.note(of.derives.as_mut().map(|(_, express)| express)),
            Last::Action => known.note(of.action.as_mut()),
        };
        if !noted {
            self.mistake.get_or_insert_with(|| no_function(&self.of.name));
        }
        self
    }
}

/// A set of rules over events `E`: lifespans, situations and stateless rules, in the order in which they are
/// evaluated.
///
/// ```
/// use mizzle::{Engine, Event, Query, source};
/// use mizzle::situation::{Lifespan, Situation, Situations, operand};
/// use mizzle::time::Timestamp;
///
/// // Events as (type, number): three of type 0 within a lifespan that 1 opens and 2 closes are a 3.
/// type Rule = Situation<(u8, i64)>;
/// let rules = Situations::new(|event: &(u8, i64)| event.0)
///     .lifespan(Lifespan::new("shift").opened_by(1u8).closed_by(2u8))
///     .situation(
///         Rule::at_least("three", 3, [operand(0u8)])
///             .during("shift")
///             .derives(3u8, |found| (3, found.events().map(|event| event.1).sum())),
///     );
/// let events = [(0, 5), (1, 0), (0, 1), (0, 2), (0, 3), (2, 0), (0, 4), (0, 4), (0, 4)];
/// let events = events.into_iter().enumerate();
/// let events = events.map(|(n, event)| Event::new(Timestamp::from_secs(n as i64), event));
/// let query = Query::new("shifts");
/// let found = query.source("events", source::events(events)).situations(rules).collect();
/// Engine::new()?.submit(query)?.wait();
/// assert_eq!(found.values(), [(3, 6)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "rules do nothing before a stream looks for what they say"]
pub struct Situations<E> {
    set: Set<E>,
    mistake: Option<InvalidRule>,
}

impl<E> Clone for Situations<E> {
    fn clone(&self) -> Self {
        Self { set: self.set.clone(), mistake: self.mistake.clone() }
    }
}

impl<E> Situations<E> {
    /// A set without rules over events whose type `type_of` says.
    pub fn new<K: EventType>(type_of: impl Fn(&E) -> K + Send + Sync + 'static) -> Self {
        let set = Set {
            type_of: Arc::new(move |event| type_of(event).number()),
            lifespans: Vec::new(),
            situations: Vec::new(),
            mappings: Vec::new(),
        };
        Self { set, mistake: None }
    }

    /// Adds a type of lifespans.
    pub fn lifespan(mut self, lifespan: Lifespan<E>) -> Self {
        self.mistake = self.mistake.or(lifespan.mistake);
        self.set.lifespans.push(Arc::new(lifespan.of));
        self
    }

    /// Adds a situation, behind those that are there.
    pub fn situation(mut self, situation: Situation<E>) -> Self {
        self.mistake = self.mistake.or(situation.mistake);
        self.set.situations.push(Arc::new(situation.of));
        self
    }

    /// Adds a stateless rule.
    pub fn stateless(mut self, rule: StatelessRule<E>) -> Self {
        self.mistake = self.mistake.or(rule.mistake);
        self.set.mappings.push(Arc::new(rule.mapping));
        self
    }

    /// Puts a situation in the place of the one with its name, or adds it.
    pub fn replace(mut self, situation: Situation<E>) -> Self {
        self.mistake = self.mistake.or(situation.mistake);
        let situation = Arc::new(situation.of);
        match self.set.situations.iter_mut().find(|other| other.name == situation.name) {
            Some(other) => *other = situation,
            None => self.set.situations.push(situation),
        }
        self
    }

    /// Puts a type of lifespans in the place of the one with its name, or adds it.
    pub fn replace_lifespan(mut self, lifespan: Lifespan<E>) -> Self {
        self.mistake = self.mistake.or(lifespan.mistake);
        let lifespan = Arc::new(lifespan.of);
        match self.set.lifespans.iter_mut().find(|other| other.name == lifespan.name) {
            Some(other) => *other = lifespan,
            None => self.set.lifespans.push(lifespan),
        }
        self
    }

    /// Takes out the situation or the stateless rule called `name`.
    pub fn remove(mut self, name: &str) -> Self {
        let before = self.set.situations.len() + self.set.mappings.len();
        self.set.situations.retain(|of| *of.name != *name);
        self.set.mappings.retain(|of| *of.name != *name);
        if before == self.set.situations.len() + self.set.mappings.len() {
            self.mistake.get_or_insert_with(|| mistake(name, "remove", "there is no such rule"));
        }
        self
    }

    /// Takes out a type of lifespans, which no situation names any more.
    pub fn remove_lifespan(mut self, name: &str) -> Self {
        let before = self.set.lifespans.len();
        self.set.lifespans.retain(|of| *of.name != *name);
        if before == self.set.lifespans.len() {
            let reason = "there is no such type of lifespans";
            self.mistake.get_or_insert_with(|| mistake(name, "remove_lifespan", reason));
        }
        self
    }

    /// Makes them ready to be used: [`situations`](crate::Stream::situations) does it too, and refuses the
    /// query. Who changes rules while events flow does it before, and is told at once.
    ///
    /// # Errors
    /// The first rule that makes no sense, with the field and the reason.
    pub fn compile(&self) -> Result<Rules<E>, InvalidRule> {
        match &self.mistake {
            Some(mistake) => Err(mistake.clone()),
            None => Ok(Rules { program: Arc::new(self.set.compile()?) }),
        }
    }
}

/// Rules that make sense, ready to be used.
pub struct Rules<E> {
    pub(crate) program: Arc<Program<E>>,
}

impl<E> Rules<E> {
    /// The rules as data, for who walks them.
    pub fn as_data(&self) -> &Set<E> {
        self.program.rules()
    }
}

impl<E> From<Rules<E>> for Arc<Program<E>> {
    fn from(rules: Rules<E>) -> Self {
        rules.program
    }
}

impl<E> Clone for Rules<E> {
    fn clone(&self) -> Self {
        Self { program: self.program.clone() }
    }
}
