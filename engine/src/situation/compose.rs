//! Putting candidates together: one for each operand.

use super::detection::{Detection, Picked, Search};
use super::life::Life;
use super::program::Rule;
use super::rule::{Form, Situation, Which};
use super::store::{NIL, Store};
use crate::time::Timestamp;

/// A search through the candidates of a situation in a lifespan.
pub(super) struct Fill<'a, E> {
    rule: &'a Rule,
    situation: &'a Situation<E>,
    store: &'a Store<E>,
    life: &'a Life,
    time: Timestamp,
    /// The event that must be used; [`NIL`]: none.
    cause: u32,
    /// Which operand it fills, if that can be only one.
    fixed: Option<usize>,
    /// Which operands it may fill.
    accepted: u64,
    in_order: bool,
    /// How many operands are filled.
    width: usize,
    /// The operand that is filled last.
    last: usize,
}

impl<'a, E> Fill<'a, E> {
    /// A search for what is there.
    #[inline]
    pub fn new(
        rule: &'a Rule,
        situation: &'a Situation<E>,
        store: &'a Store<E>,
        life: &'a Life,
        time: Timestamp,
    ) -> Self {
        let in_order = matches!(situation.form, Form::Sequence);
        let width =
            if matches!(situation.form, Form::Unless) { 1 } else { situation.operands.len() };
        let (cause, fixed, accepted, last) = (NIL, None, 0, width - 1);
        Self { rule, situation, store, life, time, cause, fixed, accepted, in_order, width, last }
    }

    /// The event `cause`, the newest, must be used: for operand `fixed`, or for any of `accepted`.
    #[inline]
    pub fn caused_by(&mut self, cause: u32, fixed: Option<usize>, accepted: u64) {
        (self.cause, self.fixed, self.accepted) = (cause, fixed, accepted);
        // Of two the other one.
        if fixed == Some(self.last) {
            self.last = self.last.saturating_sub(1);
        }
    }

    /// Leaves all that is found in `combos`, one list of `width` events after another.
    #[inline]
    pub fn all(&self, picked: &mut Vec<u32>, combos: &mut Vec<u32>) {
        combos.clear();
        if picked.len() != self.width {
            picked.resize(self.width, NIL);
        }
        if let Some(fixed) = self.fixed {
            picked[fixed] = self.cause;
            if self.width == 2 && !self.rule.overlaps && !self.in_order {
                let which = self.situation.operands[self.last].which();
                let candidates = self.candidates(self.last);
                if !candidates.is_empty() {
                    self.fill_last(self.last, which, candidates, picked, combos);
                }
                return;
            }
            let missing = |operand: usize| operand != fixed && self.candidates(operand).is_empty();
            if (0..self.width).any(missing) {
                return;
            }
        }
        self.fill(0, self.fixed.is_some(), picked, combos);
    }

    #[inline]
    fn candidates(&self, operand: usize) -> &'a [u32] {
        let place = self.rule.places[operand];
        place.ring.map_or(&[], |ring| self.life.rings[usize::from(ring)].as_slice())
    }

    /// Fills the operands from `operand` on. Whether that can be done.
    fn fill(
        &self,
        operand: usize,
        has_cause: bool,
        picked: &mut [u32],
        combos: &mut Vec<u32>,
    ) -> bool {
        if operand == self.width {
            return self.complete(picked, combos);
        }
        if self.fixed == Some(operand) {
            return self.fill(operand + 1, has_cause, picked, combos);
        }
        let mut candidates = self.candidates(operand);
        if self.in_order && operand > 0 {
            let before = self.store.arrival(picked[operand - 1]);
            let first = candidates.partition_point(|&at| self.store.arrival(at) <= before);
            candidates = &candidates[first..];
        }
        let which = self.situation.operands[operand].which();
        if operand == self.last && !self.rule.overlaps {
            return self.fill_last(operand, which, candidates, picked, combos);
        }
        let is_candidate = self.fixed.is_none() && self.accepted >> operand & 1 == 1;
        let offers = is_candidate && !has_cause;
        // The last operand that could take it must.
        let must = offers && self.accepted >> operand == 1;
        let older = if must { &[] } else { candidates };
        let newest = offers.then_some(self.cause);
        let mut each = |at: u32, picked: &mut [u32]| {
            if self.rule.overlaps && picked[..operand].contains(&at) {
                return false;
            }
            picked[operand] = at;
            self.fill(operand + 1, has_cause || at == self.cause, picked, combos)
        };
        match which {
            Which::First => older.iter().copied().chain(newest).any(|at| each(at, picked)),
            Which::Last => {
                newest.into_iter().chain(older.iter().rev().copied()).any(|at| each(at, picked))
            }
            Which::Each => older
                .iter()
                .copied()
                .chain(newest)
                .fold(false, |found, at| each(at, picked) | found),
        }
    }

    /// Fills the last operand that is not filled yet, with an event that fills no other.
    #[inline]
    fn fill_last(
        &self,
        operand: usize,
        which: Which,
        candidates: &[u32],
        picked: &mut [u32],
        combos: &mut Vec<u32>,
    ) -> bool {
        let when = self.situation.when.as_ref().map(|when| &*when.call);
        let mut from = 0;
        let mut found = false;
        loop {
            let candidates = &candidates[from..];
            let place = match when {
                None if which == Which::Last => candidates.len().checked_sub(1),
                None => (!candidates.is_empty()).then_some(0),
                Some(when) => {
                    let mut search = Search {
                        store: self.store,
                        names: &self.rule.names,
                        picked,
                        missing: operand,
                        opener: self.life.opener,
                        since: self.life.since,
                        time: self.time,
                    };
                    when.find(&mut search, candidates, which == Which::Last)
                }
            };
            let Some(place) = place else { return found };
            found = true;
            picked[operand] = candidates[place];
            combos.extend_from_slice(picked);
            if which != Which::Each {
                return true;
            }
            from += place + 1;
        }
    }

    /// All operands are filled: whether the condition holds.
    fn complete(&self, picked: &mut [u32], combos: &mut Vec<u32>) -> bool {
        let holds = self.situation.when.as_ref().is_none_or(|when| {
            when.call.holds(&Detection {
                store: self.store,
                names: &self.rule.names,
                picked: Picked::new(picked),
                filled: None,
                opener: self.life.opener,
                since: self.life.since,
                time: self.time,
                value: 0.0,
            })
        });
        if holds {
            combos.extend_from_slice(picked);
        }
        holds
    }
}
