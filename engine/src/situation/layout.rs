//! Which state belongs to which rule, by names.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::life::Life;
use super::lives::Lives;
use super::program::Program;
use super::rule::{Form, Set};
use super::store::NIL;
use crate::time::{Timestamp, micros};

/// The names of lifespans and rules, and the shapes of what is remembered for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    spans: Vec<SpanLayout>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SpanLayout {
    name: String,
    /// The times at which it opens, the time at which it closes, and after how long.
    times: (Vec<Timestamp>, Option<(Timestamp, bool)>, Option<(i64, bool)>),
    rules: Vec<RuleLayout>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RuleLayout {
    name: String,
    shape: Shape,
    rings: Vec<u16>,
    tally: Option<u16>,
}

/// What state means depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    form: u8,
    /// The number, or the time in microseconds, that it is about.
    quantity: i64,
    deferred: bool,
    /// The operands whose candidates are remembered.
    kept: Vec<u8>,
    operands: u8,
}

fn number<E>(form: &Form<E>) -> u8 {
    match form {
        Form::All => 0,
        Form::Sequence => 1,
        Form::AtLeast(_) => 2,
        Form::AtMost(_) => 3,
        Form::Nth(_) => 4,
        Form::At(_) => 5,
        Form::Every(_) => 6,
        Form::After(_) => 7,
        Form::Report(aggregate) => 8 + aggregate.how as u8,
        Form::Crosses(aggregate, _) => 16 + aggregate.how as u8,
        Form::Percentage(..) => 24,
        Form::Not => 25,
        Form::Unless => 26,
    }
}

fn quantity<E>(form: &Form<E>) -> i64 {
    match *form {
        Form::AtLeast(n) | Form::AtMost(n) | Form::Nth(n) => n,
        Form::At(time) => time.as_micros(),
        Form::Every(length) | Form::After(length) => micros(length),
        _ => 0,
    }
}

/// A part of the rules, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed<'a> {
    /// A type of lifespans.
    Lifespan(&'a str),
    /// A situation.
    Situation(&'a str),
}

impl<E> Program<E> {
    /// Which state belongs to which of its rules.
    pub fn layout(&self) -> Layout {
        let spans = self.spans.iter().zip(&self.set.lifespans);
        let spans = spans.map(|(span, of)| {
            let rules = span.rules.iter().map(|&rule| self.rule_layout(rule)).collect();
            let times = (span.opens_at.to_vec(), span.closes_at, span.closes_after);
            SpanLayout { name: of.name.to_string(), times, rules }
        });
        Layout { spans: spans.collect() }
    }

    fn rule_layout(&self, number_of: u16) -> RuleLayout {
        let (rule, situation) = (&self.rules[usize::from(number_of)], self.situation(number_of));
        let places = (0u8..).zip(&rule.places);
        let kept = places.filter(|(_, place)| place.ring.is_some()).map(|(at, _)| at).collect();
        let operands = situation.operands.len() as u8;
        RuleLayout {
            name: situation.name.to_string(),
            shape: Shape {
                form: number(&situation.form),
                quantity: quantity(&situation.form),
                deferred: rule.deferred,
                kept,
                operands,
            },
            rings: rule.places.iter().filter_map(|place| place.ring).collect(),
            tally: rule.tally,
        }
    }
}

impl<E> Program<E> {
    /// Whether a part that both programs have is not the same in both.
    pub fn renews(&self, old: &Self, part: Renewed<'_>) -> bool {
        match part {
            Renewed::Lifespan(name) => {
                let of = |set: &Set<E>| set.lifespans.iter().find(|of| *of.name == *name).cloned();
                differ(of(&self.set), of(&old.set))
            }
            Renewed::Situation(name) => {
                let of = |set: &Set<E>| set.situations.iter().find(|of| *of.name == *name).cloned();
                differ(of(&self.set), of(&old.set))
            }
        }
    }
}

/// Whether these are not one and the same.
fn differ<T>(one: Option<Arc<T>>, other: Option<Arc<T>>) -> bool {
    one.zip(other).is_some_and(|(one, other)| !Arc::ptr_eq(&one, &other))
}

impl<E: Clone> Program<E> {
    /// Gives `lives`, which was made under the rules of `old`, the shape that it has under these. A lifespan whose
    /// type is still there stays open; in it a rule that is there with the same name and shape goes on; others begin
    /// anew, at `now`, and what nothing is left for goes. What `renewed` names is as good as new.
    pub fn adopt(
        &self,
        old: &Layout,
        lives: &mut Lives<E>,
        now: Timestamp,
        renewed: &dyn Fn(Renewed<'_>) -> bool,
    ) {
        lives.opened_until = lives.opened_until.max(now);
        let mut before = std::mem::take(&mut lives.open).into_vec();
        let mut open = Vec::new();
        for (span, of) in self.set.lifespans.iter().enumerate() {
            let place = old.spans.iter().position(|old| old.name == *of.name);
            let place = place.filter(|_| !renewed(Renewed::Lifespan(&of.name)));
            let Some(place) = place else {
                open.push(None);
                continue;
            };
            let rules = old.spans[place]
                .rules
                .iter()
                .filter(|rule| !renewed(Renewed::Situation(&rule.name)));
            let rules: Vec<&RuleLayout> = rules.collect();
            let kept = std::mem::take(&mut before[place]);
            let kept: VecDeque<Life> =
                kept.into_iter().map(|life| self.carry(span, &rules, life, lives)).collect();
            open.push(Some(kept));
        }
        for life in before.iter().flatten() {
            super::turn::release(&mut lives.store, life);
        }
        lives.open = open.iter_mut().map(|kept| kept.take().unwrap_or_default()).collect();
        self.open_new(old, lives, renewed);
        self.look_ahead(lives);
    }

    /// Opens what of new types is open already.
    fn open_new(&self, old: &Layout, lives: &mut Lives<E>, renewed: &dyn Fn(Renewed<'_>) -> bool) {
        for (span, of) in self.set.lifespans.iter().enumerate() {
            let was_there = old.spans.iter().any(|old| old.name == *of.name);
            if !was_there || renewed(Renewed::Lifespan(&of.name)) {
                self.open_unasked(lives, span);
            }
        }
    }

    /// A lifespan of type `span` with what `rules` have come to in `life`.
    fn carry(
        &self,
        span: usize,
        rules: &[&RuleLayout],
        mut life: Life,
        lives: &mut Lives<E>,
    ) -> Life {
        let mut new = self.life(span, life.since, NIL, lives.opened_until);
        // It may be over by these rules: then it ends now.
        new.ends = new.ends.max(lives.opened_until);
        new.opener = std::mem::replace(&mut life.opener, NIL);
        for &number_of in &self.spans[span].rules {
            let now = self.rule_layout(number_of);
            let before = rules.iter().find(|old| old.name == now.name && old.shape == now.shape);
            let Some(before) = before else { continue };
            for (&to, &from) in now.rings.iter().zip(&before.rings) {
                new.rings[usize::from(to)] = std::mem::take(&mut life.rings[usize::from(from)]);
            }
            if let (Some(to), Some(from)) = (now.tally, before.tally) {
                let tally = &mut life.tallies[usize::from(from)];
                new.tallies[usize::from(to)] = tally.clone();
                tally.latest = NIL;
            }
        }
        super::turn::release(&mut lives.store, &life);
        new
    }
}
