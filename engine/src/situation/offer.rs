//! A situation in a lifespan: what an event, a due time or the lifespan's end is to it.

use super::compose::Fill;
use super::detection::{Detection, Picked};
use super::life::{Life, Ring, Tally};
use super::lives::Room;
use super::program::{Program, Rule, Source};
use super::rule::{Aggregate, AtCap, Form, How, Situation, Which};
use super::store::{NIL, Store};
use super::turn::Tell;
use crate::time::Timestamp;

/// A situation at work.
pub(super) struct Here<'a, E> {
    pub program: &'a Program<E>,
    pub number: u16,
    pub rule: &'a Rule,
    pub situation: &'a Situation<E>,
    pub store: &'a mut Store<E>,
    pub room: &'a mut Room<E>,
    due: &'a mut Timestamp,
    pub time: Timestamp,
    ending: bool,
}

impl<'a, E: Clone> Here<'a, E> {
    pub fn new(
        program: &'a Program<E>,
        number: u16,
        store: &'a mut Store<E>,
        room: &'a mut Room<E>,
        due: &'a mut Timestamp,
        (time, ending): (Timestamp, bool),
    ) -> Self {
        let (rule, situation) = (&program.rules[usize::from(number)], program.situation(number));
        Self { program, number, rule, situation, store, room, due, time, ending }
    }

    /// An event that may be one of `operands`.
    #[inline]
    pub fn offer(&mut self, life: &mut Life, operands: &[u8], cause: u32) {
        match &self.situation.form {
            Form::All | Form::Sequence => {
                let mut accepted = 0;
                for &operand in operands {
                    accepted |= u64::from(self.accepts(life, operand, cause)) << operand;
                }
                if accepted != 0 {
                    self.join(life, accepted, cause);
                }
            }
            form => {
                // One event does not fill two operands.
                let taken = operands.iter().find(|&&operand| self.accepts(life, operand, cause));
                if let Some(&operand) = taken {
                    self.take(form, life, operand, cause);
                }
            }
        }
    }

    /// Whether the event becomes a candidate of an operand. If it does, earlier ones may have to go.
    #[inline]
    fn accepts(&mut self, life: &mut Life, operand: u8, cause: u32) -> bool {
        let place = self.rule.places[usize::from(operand)];
        let of = &self.situation.operands[usize::from(operand)];
        let event = self.store.at(cause);
        if of.threshold.as_ref().is_some_and(|test| !(test.call)(event)) {
            return false;
        }
        let mut overrides = of.overrides.as_ref().is_some_and(|test| (test.call)(event));
        if of.is_absolute()
            && let Some(ring) = place.ring
        {
            let ring = &mut life.rings[usize::from(ring)];
            match of.which() {
                Which::First if ring.seen => return false,
                Which::First => ring.seen = true,
                Which::Last | Which::Each => overrides = true,
            }
        }
        if overrides {
            self.drop_earlier(life, operand);
        }
        let Some(cap) = of.cap else { return true };
        match place.ring.filter(|_| place.keeps && self.can_use(life)) {
            Some(ring) if life.rings[usize::from(ring)].len() >= cap.most as usize => {
                self.at_cap(life, operand, cap.at_cap)
            }
            _ => true,
        }
    }

    /// Whether a candidate that comes now can ever be used, beyond what its operand says.
    fn can_use(&self, life: &Life) -> bool {
        match self.situation.form {
            Form::After(_) => {
                !self.ending && self.program.due_after(self.number, self.time) < life.ends
            }
            Form::Unless => {
                self.rule.tally.is_none_or(|tally| !life.tallies[usize::from(tally)].done)
            }
            _ => true,
        }
    }

    /// Drops the candidates of an operand, and what they have counted.
    fn drop_earlier(&mut self, life: &mut Life, operand: u8) {
        if let Some(ring) = self.rule.places[usize::from(operand)].ring {
            while let Some(at) = life.rings[usize::from(ring)].pop_first() {
                self.drop_candidate(life, operand, at);
            }
        } else if let Some(tally) = self.rule.tally {
            let tally = &mut life.tallies[usize::from(tally)];
            let afresh = Tally { latest: tally.latest, ..Tally::new(self.situation.form.how()) };
            // What happens once in a lifespan does not happen again.
            let done = tally.done && matches!(self.situation.form, Form::Nth(_));
            *tally = Tally { done, ..afresh };
        }
    }

    /// A candidate that was taken out of its ring goes without having been used.
    fn drop_candidate(&mut self, life: &mut Life, operand: u8, at: u32) {
        if let Some(tally) = self.rule.tally
            && self.situation.form.is_counting()
        {
            life.tallies[usize::from(tally)].sum -= self.weight(operand, at);
        }
        self.store.release(at);
    }

    /// What happens to a newcomer where the cap is reached. Whether it is a candidate.
    #[cold]
    fn at_cap(&mut self, life: &mut Life, operand: u8, at_cap: AtCap) -> bool {
        self.room.dropped.count += 1;
        match at_cap {
            AtCap::RefuseNewest => false,
            AtCap::DropOldest => {
                let ring = self.rule.places[usize::from(operand)].ring;
                let oldest = ring.and_then(|ring| life.rings[usize::from(ring)].pop_first());
                if let Some(at) = oldest {
                    self.drop_candidate(life, operand, at);
                }
                true
            }
            AtCap::Fail => {
                let name = &self.situation.name;
                let why = format!(
                    "situation {name:?} has more candidates for operand {operand} than its cap allows"
                );
                self.room.dropped.fails.get_or_insert_with(|| why.into());
                false
            }
        }
    }

    fn weight(&self, operand: u8, at: u32) -> i128 {
        match &self.situation.operands[usize::from(operand)].weight {
            Some(weight) => i128::from((weight.call)(self.store.at(at))),
            None => 1,
        }
    }

    /// A candidate of a situation that joins nothing.
    fn take(&mut self, form: &Form<E>, life: &mut Life, operand: u8, cause: u32) {
        match form {
            Form::All | Form::Sequence | Form::At(_) | Form::Every(_) => {}
            Form::AtLeast(most) => {
                self.keep(life, operand, cause);
                if !self.rule.deferred {
                    self.count(life, operand, cause, i128::from(*most));
                }
            }
            Form::AtMost(_) => self.keep(life, operand, cause),
            Form::Nth(nth) => self.nth(life, operand, cause, i128::from(*nth)),
            Form::After(_) => {
                if self.can_use(life) {
                    *self.due = (*self.due).min(self.program.due_after(self.number, self.time));
                    self.keep(life, operand, cause);
                }
            }
            Form::Report(aggregate) => self.report(life, cause, aggregate),
            Form::Crosses(aggregate, bound) => self.cross(life, cause, aggregate, *bound),
            Form::Percentage(test, bound) => {
                let hit = (test.call)(self.store.at(cause));
                self.percentage(life, cause, hit, *bound);
            }
            Form::Not => self.tally(life).done = true,
            Form::Unless if operand == 1 => {
                self.tally(life).done = true;
                // Nothing comes of those of the first operand any more.
                self.drop_earlier(life, 0);
            }
            Form::Unless => {
                if self.can_use(life) {
                    self.keep(life, operand, cause);
                }
            }
        }
    }

    fn tally<'b>(&self, life: &'b mut Life) -> &'b mut Tally {
        &mut life.tallies[usize::from(self.rule.tally.expect("it has a tally"))]
    }

    /// Keeps a candidate, if candidates of the operand are kept.
    #[inline]
    pub fn keep(&mut self, life: &mut Life, operand: u8, cause: u32) {
        let place = self.rule.places[usize::from(operand)];
        if let Some(ring) = place.ring.filter(|_| place.keeps) {
            self.store.hold(cause);
            life.rings[usize::from(ring)].push(cause);
        }
    }

    /// The latest operand is kept for the end of the lifespan.
    fn keep_latest(&mut self, life: &mut Life, cause: u32) {
        self.store.hold(cause);
        let before = std::mem::replace(&mut self.tally(life).latest, cause);
        if before != NIL {
            self.store.release(before);
        }
    }

    /// One more candidate counts: enough of them are used.
    fn count(&mut self, life: &mut Life, operand: u8, cause: u32, least: i128) {
        let weight = self.weight(operand, cause);
        let tally = self.tally(life);
        tally.sum += weight;
        let sum = tally.sum;
        if sum < least || !self.tell_all(life, sum) {
            return;
        }
        let mut left = 0;
        for operand in 0..self.situation.operands.len() as u8 {
            let place = self.rule.places[usize::from(operand)];
            let Some(ring) = place.ring else { continue };
            let mut ring = std::mem::take(&mut life.rings[usize::from(ring)]);
            ring.retain(|at| {
                let stays = self.retains(operand, at);
                if stays {
                    left += self.weight(operand, at);
                } else {
                    self.store.release(at);
                }
                stays
            });
            life.rings[usize::from(place.ring.expect("as above"))] = ring;
        }
        self.tally(life).sum = left;
    }

    pub fn retains(&self, operand: u8, at: u32) -> bool {
        let retain = &self.situation.operands[usize::from(operand)].retain;
        retain.as_ref().is_some_and(|test| (test.call)(self.store.at(at)))
    }

    fn nth(&mut self, life: &mut Life, operand: u8, cause: u32, nth: i128) {
        let weight = self.weight(operand, cause);
        let tally = self.tally(life);
        tally.sum += weight;
        tally.count += 1;
        let (sum, done) = (tally.sum, tally.done);
        if self.rule.deferred {
            self.keep_latest(life, cause);
        } else if !done && sum == nth && self.tell(life, &[cause], sum as f64) {
            self.tally(life).done = true;
        }
    }

    fn value(&self, aggregate: &Aggregate<E>, cause: u32) -> f64 {
        if aggregate.how == How::Count {
            return 0.0;
        }
        (aggregate.value.call)(self.store.at(cause))
    }

    fn report(&mut self, life: &mut Life, cause: u32, aggregate: &Aggregate<E>) {
        let value = self.value(aggregate, cause);
        let value = self.tally(life).add(aggregate.how, value);
        if self.rule.deferred {
            self.keep_latest(life, cause);
        } else {
            self.tell(life, &[cause], value);
        }
    }

    fn cross(&mut self, life: &mut Life, cause: u32, aggregate: &Aggregate<E>, bound: f64) {
        let value = self.value(aggregate, cause);
        let tally = self.tally(life);
        let value = tally.add(aggregate.how, value);
        let crosses = value >= bound && !tally.done;
        tally.done = value >= bound;
        if crosses {
            self.tell(life, &[cause], value);
        }
    }

    fn percentage(&mut self, life: &mut Life, cause: u32, hit: bool, bound: f64) {
        let tally = self.tally(life);
        tally.count += 1;
        tally.hits += u64::from(hit);
        let share = share(tally.hits, tally.count);
        if self.rule.deferred {
            self.keep_latest(life, cause);
        } else if share >= bound {
            self.tell(life, &[cause], share);
        }
    }

    /// The situation is detected with some events, if its condition holds of them. Whether it does.
    pub fn tell(&mut self, life: &Life, picked: &[u32], value: f64) -> bool {
        // It has one event, or none.
        let mut place = picked.first().copied().unwrap_or(NIL);
        let picked = Picked::new(&mut std::slice::from_mut(&mut place)[..picked.len()]);
        let (store, names) = (&*self.store, &*self.rule.names);
        let (opener, since, time) = (life.opener, life.since, self.time);
        let detection =
            Detection { store, names, picked, filled: None, opener, since, time, value };
        if self.situation.when.as_ref().is_some_and(|when| !when.call.holds(&detection)) {
            return false;
        }
        let value = self.express(&detection);
        self.say(value);
        true
    }

    fn express(&self, detection: &Detection<'_, E>) -> E {
        let (_, express) = self.situation.derives.as_ref().expect("a situation derives an event");
        (express.call)(detection)
    }

    #[inline]
    pub fn say(&mut self, value: E) {
        let (of, _) = self.situation.derives.as_ref().expect("a situation derives an event");
        let (source, is_heard) = (Source(u32::from(self.number)), self.rule.is_heard);
        let told = Tell { source, of: *of, is_heard, action: self.situation.action.as_ref() };
        told.tell(self.store, self.room, self.time, value);
    }

    /// As `tell`, with all candidates, oldest first.
    fn tell_all(&mut self, life: &Life, sum: i128) -> bool {
        let mut picked = std::mem::take(&mut self.room.picked);
        let mut filled = std::mem::take(&mut self.room.filled);
        picked.clear();
        filled.clear();
        let rings = (0u8..)
            .zip(&self.rule.places)
            .filter_map(|(operand, place)| Some((operand, &life.rings[usize::from(place.ring?)])));
        for (operand, ring) in rings {
            picked.extend_from_slice(ring.as_slice());
            filled.resize(picked.len(), operand);
        }
        if self.situation.operands.len() > 1 {
            let mut both: Vec<(u32, u8)> = picked.drain(..).zip(filled.drain(..)).collect();
            both.sort_unstable_by_key(|&(at, _)| self.store.arrival(at));
            both.into_iter().for_each(|(at, operand)| {
                picked.push(at);
                filled.push(operand);
            });
        }
        let detection = Detection {
            store: self.store,
            names: &self.rule.names,
            picked: Picked::new(&mut picked),
            filled: Some(&filled),
            opener: life.opener,
            since: life.since,
            time: self.time,
            value: sum as f64,
        };
        let holds = self.situation.when.as_ref().is_none_or(|when| when.call.holds(&detection));
        let value = holds.then(|| self.express(&detection));
        (self.room.picked, self.room.filled) = (picked, filled);
        if let Some(value) = value {
            self.say(value);
        }
        holds
    }

    /// A situation that waits for a time is due in a lifespan.
    pub fn due(&mut self, life: &mut Life) {
        match self.situation.form {
            Form::After(_) => {
                let ring = self.rule.places[0].ring.map(usize::from);
                let candidate = ring.and_then(|ring| life.rings[ring].pop_first());
                if let Some(at) = candidate {
                    self.tell(life, &[at], 0.0);
                    self.store.release(at);
                }
            }
            Form::Every(length) if !self.ending => {
                let tally = self.tally(life);
                tally.next = super::clock::later(tally.next, length);
                self.tell(life, &[], 0.0);
            }
            _ => {
                self.tally(life).next = Timestamp::MAX;
                self.tell(life, &[], 0.0);
            }
        }
    }

    /// The lifespan ends: what is deferred is decided.
    pub fn end(&mut self, life: &mut Life) {
        let tally = self.rule.tally.map(|tally| life.tallies[usize::from(tally)].clone());
        match (&self.situation.form, tally) {
            (Form::All | Form::Sequence, _) => self.join_at_end(life),
            (Form::Unless, Some(tally)) if !tally.done => self.join_at_end(life),
            (Form::AtLeast(n), _) => {
                let sum = self.sum(life);
                if sum >= i128::from(*n) {
                    self.tell_all(life, sum);
                }
            }
            (Form::AtMost(n), _) => {
                let sum = self.sum(life);
                if sum <= i128::from(*n) {
                    self.tell_all(life, sum);
                }
            }
            (Form::Nth(n), Some(tally)) if tally.sum == i128::from(*n) && tally.latest != NIL => {
                self.tell(life, &[tally.latest], tally.sum as f64);
            }
            (Form::Report(aggregate), Some(tally)) if tally.count > 0 => {
                self.tell(life, &[tally.latest], tally.read(aggregate.how));
            }
            (Form::Percentage(_, bound), Some(tally)) if tally.count > 0 => {
                let share = share(tally.hits, tally.count);
                if share >= *bound {
                    self.tell(life, &[tally.latest], share);
                }
            }
            (Form::Not, Some(tally)) if !tally.done => drop(self.tell(life, &[], 0.0)),
            _ => {}
        }
    }

    /// What all candidates count.
    fn sum(&self, life: &Life) -> i128 {
        let rings = (0u8..)
            .zip(&self.rule.places)
            .filter_map(|(operand, place)| Some((operand, &life.rings[usize::from(place.ring?)])));
        let of = |(operand, ring): (u8, &Ring)| -> i128 {
            ring.as_slice().iter().map(|&at| self.weight(operand, at)).sum()
        };
        rings.map(of).sum()
    }

    /// What joins when an event comes: the detections that contain it.
    #[inline]
    fn join(&mut self, life: &mut Life, accepted: u64, cause: u32) {
        let width = self.situation.operands.len();
        if width == 1 && !self.rule.deferred {
            // Alone it is all there is, and is not kept.
            self.tell(life, &[cause], 0.0);
            return;
        }
        let is_last = accepted >> (width - 1) == 1;
        let in_order = matches!(self.situation.form, Form::Sequence);
        let mut consumed = false;
        if !self.rule.deferred && (is_last || !in_order) {
            let fixed = if in_order {
                Some(width - 1)
            } else {
                (accepted.count_ones() == 1).then(|| accepted.trailing_zeros() as usize)
            };
            consumed = self.compose(life, fixed, accepted, cause);
        }
        if !consumed {
            for operand in 0..width as u8 {
                if accepted >> operand & 1 == 1 {
                    self.keep(life, operand, cause);
                }
            }
        }
    }

    /// Detects what can be put together with `cause`, and consumes what was used. Whether that includes it.
    #[inline]
    fn compose(
        &mut self,
        life: &mut Life,
        fixed: Option<usize>,
        accepted: u64,
        cause: u32,
    ) -> bool {
        let Room { picked, combos, .. } = &mut *self.room;
        let mut fill = Fill::new(self.rule, self.situation, self.store, life, self.time);
        fill.caused_by(cause, fixed, accepted);
        fill.all(picked, combos);
        if self.room.combos.is_empty() {
            return false;
        }
        self.tell_combos(life);
        self.consume(life, cause)
    }

    /// Tells each of the combinations that were found.
    fn tell_combos(&mut self, life: &Life) {
        let mut combos = std::mem::take(&mut self.room.combos);
        // Of an absence the second operand has no event.
        let width = if matches!(self.situation.form, Form::Unless) {
            1
        } else {
            self.situation.operands.len()
        };
        for picked in combos.chunks_exact_mut(width) {
            let picked = Picked::new(picked);
            let (store, names) = (&*self.store, &*self.rule.names);
            let (opener, since, time) = (life.opener, life.since, self.time);
            let detection =
                Detection { store, names, picked, filled: None, opener, since, time, value: 0.0 };
            let value = self.express(&detection);
            self.say(value);
        }
        self.room.combos = combos;
    }

    /// Takes out what was used and is not retained. Whether that includes `cause`.
    fn consume(&mut self, life: &mut Life, cause: u32) -> bool {
        let combos = std::mem::take(&mut self.room.combos);
        let mut consumed = false;
        let width = self.situation.operands.len();
        for set in combos.chunks_exact(width) {
            for (operand, &at) in set.iter().enumerate() {
                if self.rule.retains && self.retains(operand as u8, at) {
                    continue;
                }
                if at == cause {
                    consumed = true;
                    continue;
                }
                for (other, place) in self.rule.places.iter().enumerate() {
                    if (other == operand || self.rule.overlaps)
                        && let Some(ring) = place.ring
                        && life.rings[usize::from(ring)].remove(at)
                    {
                        self.room.used.push(at);
                    }
                }
            }
        }
        self.room.combos = combos;
        self.room.combos.clear();
        for at in self.room.used.drain(..) {
            self.store.release(at);
        }
        consumed
    }

    /// What is there when the lifespan ends is put together.
    fn join_at_end(&mut self, life: &Life) {
        let Room { picked, combos, .. } = &mut *self.room;
        let fill = Fill::new(self.rule, self.situation, self.store, life, self.time);
        fill.all(picked, combos);
        if !self.room.combos.is_empty() {
            self.tell_combos(life);
            self.room.combos.clear();
        }
    }
}

/// So many of a hundred.
fn share(hits: u64, count: u64) -> f64 {
    hits as f64 * 100.0 / count as f64
}
