//! What happens without an event.

use std::time::Duration;

use super::life::Life;
use super::lives::{Lives, Room};
use super::program::Program;
use super::rule::Form;
use super::store::{NIL, Store};
use super::turn::Turn;
use crate::time::{Timestamp, is_due, micros};

/// The time `length` after another.
pub(super) fn later(time: Timestamp, length: Duration) -> Timestamp {
    Timestamp::from_micros(time.as_micros().saturating_add(micros(length)))
}

/// The first thing that is due.
enum First {
    /// The oldest lifespan of a type ends.
    End(usize),
    /// What opens at a time does.
    Opening,
    /// A situation is due in a lifespan.
    Due(u16, usize),
}

impl<E> Program<E> {
    /// When a candidate of `after` that comes at `time` is due.
    pub(super) fn due_after(&self, rule: u16, time: Timestamp) -> Timestamp {
        match self.situation(rule).form {
            Form::After(length) => later(time, length),
            _ => Timestamp::MAX,
        }
    }

    /// Sets when a situation is due first in a lifespan that has been open, of which nothing before `now` is told.
    pub(super) fn wind_up(&self, life: &mut Life, rule: u16, now: Timestamp) {
        let Some(tally) = self.rules[usize::from(rule)].tally else { return };
        let next = match self.situation(rule).form {
            Form::At(time) if time >= life.since.max(now) => time,
            Form::Every(length) => {
                let (since, length) = (life.since.as_micros(), micros(length).max(1));
                let gone = i128::from(now.as_micros()) - i128::from(since);
                // The first that is later than its opening and not earlier than now.
                let times = (gone + i128::from(length) - 1).div_euclid(i128::from(length)).max(1);
                let next = i128::from(since) + times * i128::from(length);
                i64::try_from(next).map_or(Timestamp::MAX, Timestamp::from_micros)
            }
            _ => Timestamp::MAX,
        };
        life.tallies[usize::from(tally)].next =
            if next < life.ends { next } else { Timestamp::MAX };
    }

    /// When a situation is due next in a lifespan.
    fn rule_due(&self, rule: u16, life: &Life, store: &Store<E>) -> Timestamp {
        let of = &self.rules[usize::from(rule)];
        let due = match self.situation(rule).form {
            Form::After(length) => {
                let ring = of.places[0].ring.map(|ring| &life.rings[usize::from(ring)]);
                let first = ring.and_then(|ring| ring.first());
                first.map_or(Timestamp::MAX, |at| later(store.time(at), length))
            }
            _ => of.tally.map_or(Timestamp::MAX, |tally| life.tallies[usize::from(tally)].next),
        };
        if due < life.ends { due } else { Timestamp::MAX }
    }

    /// When something happens next in a lifespan.
    pub(super) fn due_of(&self, span: usize, life: &Life, store: &Store<E>) -> Timestamp {
        let timed = self.spans[span].timed.iter().map(|&rule| self.rule_due(rule, life, store));
        timed.fold(life.ends, Timestamp::min)
    }

    /// Finds out when something is due next.
    pub(super) fn look_ahead(&self, lives: &mut Lives<E>) {
        let mut due = Timestamp::MAX;
        for (span, of) in self.spans.iter().enumerate() {
            let lives_of = &lives.open[span];
            // Those that opened first end first.
            due = due.min(lives_of.front().map_or(Timestamp::MAX, |life| life.ends));
            if !of.timed.is_empty() {
                due = lives_of
                    .iter()
                    .map(|life| self.due_of(span, life, &lives.store))
                    .fold(due, Timestamp::min);
            }
            let opening = of.opens_at.iter().find(|&&time| time > lives.opened_until);
            due = opening.map_or(due, |&time| due.min(time));
        }
        lives.due = due;
    }

    /// What comes first of what is due at `due`, or before.
    fn first_due(&self, lives: &Lives<E>, due: Timestamp) -> Option<First> {
        for (span, open) in lives.open.iter().enumerate() {
            if open.front().is_some_and(|life| is_due(life.ends, due)) {
                return Some(First::End(span));
            }
        }
        for of in &self.spans {
            if of.opens_at.iter().any(|&time| time > lives.opened_until && is_due(time, due)) {
                return Some(First::Opening);
            }
        }
        for (number, rule) in (0u16..).zip(&self.rules) {
            if !self.situation(number).form.is_timed() {
                continue;
            }
            let open = &lives.open[usize::from(rule.span)];
            let place =
                open.iter().position(|life| is_due(self.rule_due(number, life, &lives.store), due));
            if let Some(place) = place {
                return Some(First::Due(number, place));
            }
        }
        None
    }
}

impl<E: Clone> Program<E> {
    /// Lets happen what is due by `clock`. When the stream is `ending`, nothing is set any more.
    pub fn clock(
        &self,
        lives: &mut Lives<E>,
        room: &mut Room<E>,
        (clock, ending): (Timestamp, bool),
    ) {
        while lives.due < Timestamp::MAX && is_due(lives.due, clock) && room.dropped.fails.is_none()
        {
            self.come(lives, room, lives.due, ending);
            self.look_ahead(lives);
        }
        lives.store.tidy();
    }

    /// Lets happen what is due at `due`: one thing after the other, each with what comes of it, in one closure.
    fn come(&self, lives: &mut Lives<E>, room: &mut Room<E>, due: Timestamp, ending: bool) {
        let mut turn = Turn { program: self, lives, room, time: due, ending };
        while turn.room.dropped.fails.is_none()
            && let Some(first) = self.first_due(turn.lives, due)
        {
            match first {
                First::End(span) => {
                    if let Some(life) = turn.lives.open[span].pop_front() {
                        let discards = life.discards;
                        turn.end_life(span as u16, life, discards);
                    }
                }
                First::Opening => {
                    let spans = self.spans.iter().enumerate();
                    let opened_until = turn.lives.opened_until;
                    let opens = |time: &Timestamp| *time > opened_until && is_due(*time, due);
                    turn.lives.opened_until = due;
                    for (span, _) in spans.filter(|(_, of)| of.opens_at.iter().any(opens)) {
                        turn.open_life(span as u16, due, NIL);
                    }
                }
                First::Due(rule, place) => {
                    let base = turn.room.pending.len();
                    turn.due(rule, place);
                    turn.settle(base);
                }
            }
            // Each may bring as much as an event may.
            turn.room.steps = 0;
        }
        turn.close();
    }
}
