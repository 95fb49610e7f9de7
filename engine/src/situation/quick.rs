//! The short way for what most events are: operands of immediate situations that join one or two of them, about which
//! nothing more is said. It does what the phases do, without what they would look at in vain, and what it needs of the
//! rules lies side by side.

use std::sync::Arc;

use super::detection::{Detection, Judge, Picked, Search};
use super::life::Life;
use super::lives::{Lives, Room, Said};
use super::program::{Program, Reaction, Rule, Source};
use super::rule::{AtCap, Form, Operand, Situation, Which};
use super::store::{NIL, Store};
use crate::time::Timestamp;

/// What the short way does with an event for one situation.
pub(super) struct Step<E> {
    /// The situation.
    number: u16,
    /// The type of its lifespans.
    span: u16,
    /// What the event is joined with, if with anything.
    joins: Option<Joins>,
    when: Option<Arc<dyn Judge<E>>>,
    express: Arc<dyn Fn(&Detection<'_, E>) -> E + Send + Sync>,
}

/// Two operands, one of which the event is.
struct Joins {
    /// Which.
    operand: usize,
    /// Where its candidates are, and how many may be.
    own: u16,
    most: usize,
    /// Where the other's are.
    other: u16,
}

impl Rule {
    /// Whether the short way serves events that are operand `number` of `situation`.
    fn is_quick<E>(&self, situation: &Situation<E>, number: usize) -> bool {
        let own = &situation.operands[number];
        let is_plain = own.threshold.is_none() && own.overrides.is_none() && !own.is_absolute();
        let refuses = own.cap.is_none_or(|cap| cap.at_cap == AtCap::RefuseNewest);
        let firsts = |operand: &Operand<E>| operand.which() == Which::First;
        matches!(situation.form, Form::All)
            && situation.operands.len() <= 2
            && situation.operands.iter().all(firsts)
            && situation.action.is_none()
            && is_plain
            && refuses
            && !(self.deferred || self.overlaps || self.retains || self.is_heard)
    }
}

impl<E> Program<E> {
    /// The short way for events to which `reaction` is all that reacts, if it serves.
    pub(super) fn quick_steps(&self, reaction: &Reaction<E>) -> Option<Box<[Step<E>]>> {
        let only_offers = reaction.mappings.is_empty()
            && reaction.closers.is_empty()
            && reaction.early_openers.is_empty()
            && reaction.openers.is_empty();
        let steps = reaction.offers.iter().map(|(number, operands)| {
            let operand = usize::from(operands[0]);
            self.quick_step(*number, operand)
        });
        steps.collect::<Option<_>>().filter(|_| only_offers)
    }

    fn quick_step(&self, number: u16, operand: usize) -> Option<Step<E>> {
        let (rule, situation) = (&self.rules[usize::from(number)], self.situation(number));
        let (_, express) =
            situation.derives.as_ref().filter(|_| rule.is_quick(situation, operand))?;
        let joins = match rule.places[..] {
            [_, _] => Some(Joins {
                operand,
                own: rule.places[operand].ring?,
                most: situation.operands[operand].cap.map_or(usize::MAX, |cap| cap.most as usize),
                other: rule.places[1 - operand].ring?,
            }),
            _ => None,
        };
        let when = situation.when.as_ref().map(|when| when.call.clone());
        Some(Step { number, span: rule.span, joins, when, express: express.call.clone() })
    }

    /// An event to which only such situations react.
    #[inline]
    pub(super) fn event_quickly(
        &self,
        lives: &mut Lives<E>,
        room: &mut Room<E>,
        steps: &[Step<E>],
        (time, value): (Timestamp, E),
    ) {
        let Lives { store, open, .. } = lives;
        let mut quick = Quick { program: self, store, room, at: NIL, value: Some(value), time };
        for step in steps {
            // The queue's own iterator was a call, and a sixth of the time (*measured*).
            let (older, newer) = open[usize::from(step.span)].as_mut_slices();
            for life in older {
                quick.offer(step, life);
            }
            for life in newer {
                quick.offer(step, life);
            }
        }
        quick.finish();
    }
}

/// An event on its short way, and what it works on.
struct Quick<'a, E> {
    program: &'a Program<E>,
    store: &'a mut Store<E>,
    room: &'a mut Room<E>,
    /// Where the event is in the store, once it has to be there.
    at: u32,
    /// The event, until then.
    value: Option<E>,
    time: Timestamp,
}

impl<E> Quick<'_, E> {
    #[inline]
    fn offer(&mut self, step: &Step<E>, life: &mut Life) {
        match &step.joins {
            Some(joins) if life.rings[usize::from(joins.own)].len() >= joins.most => {
                self.room.dropped.count += 1;
            }
            Some(joins) => self.join(step, joins, life),
            None => {
                let at = self.admit();
                self.detect(step, life, &mut [at], step.when.as_deref());
            }
        }
    }

    /// The event lies in the store from now on. Where.
    #[inline]
    fn admit(&mut self) -> u32 {
        if let Some(value) = self.value.take() {
            self.at = self.store.admit(self.time, value);
            self.store.arrive(self.at);
        }
        self.at
    }

    /// The closure is complete.
    #[inline]
    fn finish(self) {
        self.room.closure = self.room.closure.wrapping_add(1);
        if self.at != NIL {
            self.store.release(self.at);
            self.store.tidy();
        }
    }

    fn join(&mut self, step: &Step<E>, joins: &Joins, life: &mut Life) {
        let at = self.admit();
        let mut picked = [at; 2];
        match self.search(step, joins, life, &mut picked) {
            Some(place) => {
                let used = life.rings[usize::from(joins.other)].take(place);
                picked[1 - joins.operand] = used;
                self.detect(step, life, &mut picked, None);
                self.store.release(used);
            }
            None => {
                self.store.hold(at);
                life.rings[usize::from(joins.own)].push(at);
            }
        }
    }

    fn names(&self, step: &Step<E>) -> &[Option<Arc<str>>] {
        &self.program.rules[usize::from(step.number)].names
    }

    /// The first candidate of the other operand that makes it.
    #[inline]
    fn search(
        &self,
        step: &Step<E>,
        joins: &Joins,
        life: &Life,
        picked: &mut [u32],
    ) -> Option<usize> {
        let candidates = life.rings[usize::from(joins.other)].as_slice();
        if candidates.is_empty() {
            return None;
        }
        let Some(when) = &step.when else { return Some(0) };
        let (store, names, missing) = (&*self.store, self.names(step), 1 - joins.operand);
        let (opener, since, time) = (life.opener, life.since, self.time);
        let mut search = Search { store, names, picked, missing, opener, since, time };
        when.find(&mut search, candidates, false)
    }

    /// It is there, if `when` holds.
    #[inline]
    fn detect(
        &mut self,
        step: &Step<E>,
        life: &Life,
        picked: &mut [u32],
        when: Option<&dyn Judge<E>>,
    ) {
        let detection = Detection {
            store: &*self.store,
            names: self.names(step),
            picked: Picked::new(picked),
            filled: None,
            opener: life.opener,
            since: life.since,
            time: self.time,
            value: 0.0,
        };
        if when.is_none_or(|when| when.holds(&detection)) {
            let value = (step.express)(&detection);
            let (by, closure) = (Source(u32::from(step.number)), self.room.closure);
            self.room.said_by.push(Said { by, closure, time: self.time, value });
        }
    }
}
