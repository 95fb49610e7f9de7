//! From rules to a program.

mod checks;

use std::collections::HashSet;
use std::sync::Arc;

use smallvec::SmallVec;

use super::program::{Place, Program, Reaction, Rule, Span};
use super::rule::{
    CloseBy, Form, InvalidRule, LifespanType, Opener, Operand, Scope, Set, Situation, TypeId, Which,
};
use crate::time::micros;

/// How many rules, types of lifespans or events there may be.
const MOST: usize = u16::MAX as usize;

impl<E> Set<E> {
    /// Compiles the rules.
    ///
    /// # Errors
    /// The first rule that makes no sense, and why.
    pub fn compile(&self) -> Result<Program<E>, InvalidRule> {
        self.check_names()?;
        let mut spans = Vec::new();
        for of in &self.lifespans {
            checks::lifespan(of)?;
            spans.push(span(of));
        }
        let mut rules = Vec::new();
        for (number, situation) in self.situations.iter().enumerate() {
            let name = &situation.lifespan;
            let place = self.lifespans.iter().position(|of| of.name == *name).ok_or_else(|| {
                situation.invalid("lifespan", format!("no type of lifespans is called {name:?}"))
            })?;
            checks::situation(situation, &self.lifespans[place], &spans[place])?;
            if usize::from(spans[place].rings) + situation.operands.len() > MOST {
                let reason = format!("lifespan {name:?} has more than {MOST} operands");
                return Err(situation.invalid("operands", reason));
            }
            let rule = rule(situation, place as u16, number as u16, &mut spans[place]);
            rules.push(rule);
        }
        for mapping in &self.mappings {
            if mapping.derives.is_none() && mapping.action.is_none() {
                let reason = "the rule makes no event and has no action, so it does nothing";
                return Err(invalid(&mapping.name, "event", reason));
            }
        }
        let opens_at = spans.iter().any(|span| !span.opens_at.is_empty());
        for span in &mut spans {
            span.look_timeless(&self.situations);
        }
        let reactions = Vec::new();
        let mut program = Program { set: self.clone(), spans, rules, reactions, opens_at };
        program.look_up_reactions();
        Ok(program)
    }

    fn check_names(&self) -> Result<(), InvalidRule> {
        let lifespans = self.lifespans.iter().map(|of| &of.name).collect::<Vec<_>>();
        let situations = self.situations.iter().map(|of| &of.name);
        let rules = situations.chain(self.mappings.iter().map(|of| &of.name)).collect::<Vec<_>>();
        for names in [lifespans, rules] {
            let mut seen = HashSet::new();
            if let Some(name) = names.iter().find(|name| !seen.insert(**name)) {
                return Err(invalid(name, "name", "another one has this name already"));
            }
            if names.len() > MOST {
                let reason = format!("there are {} of them; {MOST} can be", names.len());
                return Err(invalid(names[0], "number", reason));
            }
        }
        Ok(())
    }
}

pub(super) fn invalid(rule: &str, field: &str, reason: impl Into<String>) -> InvalidRule {
    InvalidRule { rule: rule.to_owned(), field: field.to_owned(), reason: reason.into() }
}

impl<E> Situation<E> {
    pub(super) fn invalid(&self, field: &str, reason: impl Into<String>) -> InvalidRule {
        invalid(&self.name, field, reason)
    }

    /// Whether it is detected when the lifespan ends.
    pub(super) fn is_deferred(&self) -> bool {
        self.deferred.unwrap_or(self.form.is_deferred_only())
    }

    fn place(&self, number: usize, operand: &Operand<E>, rings: &mut u16) -> Place {
        let is_last = number + 1 == self.operands.len();
        let deferred = self.is_deferred();
        let keeps = match self.form {
            Form::All => deferred || self.operands.len() > 1,
            Form::Sequence => deferred || !is_last,
            Form::AtLeast(_) | Form::AtMost(_) | Form::After(_) => true,
            Form::Unless => number == 0,
            _ => false,
        };
        let ring = (keeps || operand.is_absolute()).then(|| {
            *rings += 1;
            *rings - 1
        });
        Place { ring, keeps }
    }

    fn has_tally(&self) -> bool {
        match self.form {
            Form::All | Form::Sequence | Form::AtMost(_) | Form::After(_) => false,
            Form::AtLeast(_) => !self.is_deferred(),
            _ => true,
        }
    }
}

impl<E> Form<E> {
    /// Whether it is known only when the lifespan ends.
    pub(super) fn is_deferred_only(&self) -> bool {
        matches!(self, Form::AtMost(_) | Form::Not | Form::Unless)
    }
}

/// A type of lifespans without its situations.
fn span<E>(of: &LifespanType<E>) -> Span {
    let mut span = Span::default();
    for opener in &of.openers {
        match opener {
            Opener::Start => span.starts = true,
            Opener::At(time) => span.opens_at.push(*time),
            Opener::Event(..) => {}
        }
    }
    span.opens_at.sort_unstable();
    for closer in &of.closers {
        // The earliest counts, of one time that named first.
        match closer.by {
            CloseBy::At(time) if span.closes_at.is_none_or(|(earlier, _)| time < earlier) => {
                span.closes_at = Some((time, closer.discards));
            }
            CloseBy::After(length)
                if span.closes_after.is_none_or(|(shorter, _)| micros(length) < shorter) =>
            {
                span.closes_after = Some((micros(length), closer.discards));
            }
            _ => {}
        }
    }
    span
}

impl Span {
    /// Finds out whether something happens at a time in a lifespan of it that was open from the start.
    fn look_timeless<E>(&mut self, situations: &[Arc<Situation<E>>]) {
        let is_at = |&rule: &u16| matches!(situations[usize::from(rule)].form, Form::At(_));
        self.is_timeless = self.closes_at.is_none() && !self.timed.iter().any(is_at);
    }
}

fn rule<E>(situation: &Situation<E>, place: u16, number: u16, span: &mut Span) -> Rule {
    let deferred = situation.is_deferred();
    span.rules.push(number);
    if deferred {
        span.deferred.push(number);
    }
    if situation.form.is_timed() {
        span.timed.push(number);
    }
    let operands = situation.operands.iter().enumerate();
    let rings = &mut span.rings;
    let places = operands.map(|(at, operand)| situation.place(at, operand, rings)).collect();
    let tally = situation.has_tally().then(|| {
        span.tallies.push(situation.form.how());
        (span.tallies.len() - 1) as u16
    });
    let names = situation.operands.iter().map(|operand| operand.name.clone()).collect();
    let mut types = HashSet::new();
    let overlaps = !situation.operands.iter().all(|operand| types.insert(operand.of));
    let retains = situation.operands.iter().any(|operand| operand.retain.is_some());
    Rule { span: place, deferred, places, names, tally, overlaps, retains, is_heard: false }
}

impl<E> Program<E> {
    /// Makes the table from types of events to what can react.
    fn look_up_reactions(&mut self) {
        let set = self.set.clone();
        for (number, mapping) in (0u16..).zip(&set.mappings) {
            self.reaction_mut(mapping.of).mappings.push(number);
        }
        for (span, of) in (0u16..).zip(&set.lifespans) {
            for (number, closer) in (0u16..).zip(&of.closers) {
                if let CloseBy::Event(by, ..) = closer.by {
                    self.reaction_mut(by).closers.push((span, number));
                }
            }
            for (number, opener) in (0u16..).zip(&of.openers) {
                if let Opener::Event(by, _) = opener {
                    let reaction = self.reaction_mut(*by);
                    let openers = if of.opener_counts {
                        &mut reaction.early_openers
                    } else {
                        &mut reaction.openers
                    };
                    push_to(openers, span, number);
                }
            }
        }
        for (rule, situation) in (0u16..).zip(&set.situations) {
            for (number, operand) in (0u8..).zip(&situation.operands) {
                push_to(&mut self.reaction_mut(operand.of).offers, rule, number);
            }
        }
        let begins_with_all = self.opens_at || self.spans.iter().any(|span| span.starts);
        for reaction in &mut self.reactions {
            // It was made because something reacts, or as a gap in the table.
            reaction.is_some = !(reaction.mappings.is_empty()
                && reaction.closers.is_empty()
                && reaction.offers.is_empty()
                && reaction.early_openers.is_empty()
                && reaction.openers.is_empty());
            reaction.begins = begins_with_all
                || !reaction.mappings.is_empty()
                || !reaction.openers.is_empty()
                || !reaction.early_openers.is_empty();
        }
        for (number, situation) in set.situations.iter().enumerate() {
            let derives = situation.derives.as_ref().map(|(of, _)| *of);
            self.rules[number].is_heard = derives.is_some_and(|of| !self.passes_over(of));
        }
        for of in 0..self.reactions.len() {
            self.reactions[of].quick = self.quick_steps(&self.reactions[of]);
        }
    }

    fn reaction_mut(&mut self, of: TypeId) -> &mut Reaction<E> {
        let of = usize::from(of);
        if self.reactions.len() <= of {
            self.reactions.resize_with(of + 1, Reaction::default);
        }
        &mut self.reactions[of]
    }
}

/// Adds `item` to the entry of `of`, the last or a new one.
fn push_to<A: smallvec::Array>(entries: &mut Vec<(u16, SmallVec<A>)>, of: u16, item: A::Item) {
    match entries.last_mut() {
        Some((last, items)) if *last == of => items.push(item),
        _ => entries.push((of, SmallVec::from_iter([item]))),
    }
}

impl<E> Operand<E> {
    /// Whether something was said of which candidate is used.
    pub(super) fn says_which(&self) -> bool {
        self.which.is_some() || self.scope.is_some()
    }

    pub(super) fn is_absolute_each(&self) -> bool {
        self.scope == Some(Scope::Absolute) && self.which == Some(Which::Each)
    }
}
