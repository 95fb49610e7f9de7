//! The short way for what most events are: operands of immediate situations that join one or two of them, about which
//! nothing more is said. It does what the phases do, without what they would look at in vain.

use super::detection::{Detection, Picked, Search};
use super::life::Life;
use super::lives::{Lives, Room, Said};
use super::program::{Program, Reaction, Rule, Source};
use super::rule::{AtCap, Form, Operand, Situation, Which};
use super::store::Store;
use crate::time::Timestamp;

impl Rule {
    /// Whether the short way serves events that are operand `number` of `situation`.
    pub(super) fn is_quick<E>(&self, situation: &Situation<E>, number: usize) -> bool {
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
    /// An event to which only such situations react.
    pub(super) fn event_quickly(
        &self,
        lives: &mut Lives<E>,
        room: &mut Room<E>,
        reaction: &Reaction,
        (time, value): (Timestamp, E),
    ) {
        let Lives { store, open, .. } = lives;
        let at = store.admit(time, value);
        store.arrive(at);
        for (number, operands) in &reaction.offers {
            let rule = &self.rules[usize::from(*number)];
            let situation = self.situation(*number);
            let said = (Source(u32::from(*number)), room.closure, time);
            for life in &mut open[usize::from(rule.span)] {
                let quick = Quick { rule, situation, operand: usize::from(operands[0]), said };
                quick.offer(life, store, room, at);
            }
        }
        room.closure = room.closure.wrapping_add(1);
        store.release(at);
        store.tidy();
    }
}

/// A situation to which the short way leads.
struct Quick<'a, E> {
    rule: &'a Rule,
    situation: &'a Situation<E>,
    operand: usize,
    /// What is said of it: by whom, in which closure, when.
    said: (Source, u32, Timestamp),
}

impl<E> Quick<'_, E> {
    #[inline]
    fn offer(self, life: &mut Life, store: &mut Store<E>, room: &mut Room<E>, at: u32) {
        if let [_] = self.situation.operands[..] {
            self.detect(life, store, room, &mut [at], true);
            return;
        }
        let (own, other) = (self.operand, 1 - self.operand);
        let ring_of = |operand: usize| self.rule.places[operand].ring.map_or(0, usize::from);
        if let Some(cap) = self.situation.operands[own].cap
            && life.rings[ring_of(own)].len() >= cap.most as usize
        {
            room.dropped.count += 1;
            return;
        }
        let mut picked = [at; 2];
        match self.search(life, store, &mut picked, life.rings[ring_of(other)].as_slice(), other) {
            Some(place) => {
                let used = life.rings[ring_of(other)].take(place);
                picked[other] = used;
                self.detect(life, store, room, &mut picked, false);
                store.release(used);
            }
            None => {
                store.hold(at);
                life.rings[ring_of(own)].push(at);
            }
        }
    }

    /// The first candidate that makes it.
    #[inline]
    fn search(
        &self,
        life: &Life,
        store: &Store<E>,
        picked: &mut [u32],
        candidates: &[u32],
        missing: usize,
    ) -> Option<usize> {
        if candidates.is_empty() {
            return None;
        }
        let Some(when) = &self.situation.when else { return Some(0) };
        let names = &*self.rule.names;
        let (opener, since, (_, _, time)) = (life.opener, life.since, self.said);
        let mut search = Search { store, names, picked, missing, opener, since, time };
        when.call.find(&mut search, candidates, false)
    }

    /// It is there, unless its condition is `asked` and does not hold.
    #[inline]
    fn detect(
        &self,
        life: &Life,
        store: &Store<E>,
        room: &mut Room<E>,
        picked: &mut [u32],
        asked: bool,
    ) {
        let (by, closure, time) = self.said;
        let detection = Detection {
            store,
            names: &self.rule.names,
            picked: Picked::new(picked),
            filled: None,
            opener: life.opener,
            since: life.since,
            time,
            value: 0.0,
        };
        if asked && self.situation.when.as_ref().is_some_and(|when| !when.call.holds(&detection)) {
            return;
        }
        if let Some((_, express)) = &self.situation.derives {
            let value = (express.call)(&detection);
            room.said_by.push(Said { by, closure, time, value });
        }
    }
}
