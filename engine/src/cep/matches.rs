//! What a key remembers while a program runs.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::arena::{Arena, Bound, NIL};
use super::offer::{Accepted, Facts, Turn};
use super::program::Program;
use super::run::{At, Run};
use super::{Report, Starts};
use crate::event::Event;
use crate::time::{Timestamp, is_due};

/// The partial matches of a key, and their events.
#[derive(Clone, Serialize, Deserialize)]
pub struct Matches<E> {
    pub(super) arena: Arena<E>,
    /// In the order in which they began; of those that began with one event the preferred first.
    pub(super) runs: SmallVec<[Run; 1]>,
    /// How many events have come.
    seq: u64,
}

/// What comes of an event, or of time.
pub enum Found<'a, E> {
    /// A match.
    Match(Bound<'a, E>),
    /// A partial match whose time is over.
    Timeout(Bound<'a, E>),
}

/// Where lists end.
type Heads = SmallVec<[u32; 1]>;

/// Room that is kept from call to call.
#[derive(Default)]
pub struct Room {
    pub(super) runs: Vec<Run>,
    pub(super) accepted: Vec<Accepted>,
}

/// The time `length` microseconds after another.
pub(crate) fn after(time: Timestamp, length: i64) -> Timestamp {
    Timestamp::from_micros(time.as_micros().saturating_add(length))
}

/// Whether `clock` has reached the end of `length` microseconds from `since` on, if there is such a length.
pub(super) fn is_past(since: Timestamp, length: Option<i64>, clock: Timestamp) -> bool {
    length.is_some_and(|length| is_due(after(since, length), clock))
}

impl Room {
    /// Forgets what was left when a user's function panicked.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.accepted.clear();
    }
}

/// What was not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Runs that were dropped at a cap.
    pub runs: u64,
    /// Whether the query is to fail because of that.
    pub fails: bool,
}

impl<E> Matches<E> {
    /// How many partial matches there are.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many events are held for them.
    pub fn held(&self) -> usize {
        self.arena.len()
    }

    /// Sweeps what no run reaches.
    fn tidy(&mut self) {
        if self.runs.iter().all(|run| run.tokens.iter().all(|token| token.chain == NIL)) {
            self.arena.clear();
        } else if self.arena.is_stale() {
            let tokens = self.runs.iter_mut().flat_map(|run| &mut run.tokens);
            self.arena.sweep(tokens.map(|token| &mut token.chain));
        }
    }
}

impl<E> Program<E> {
    /// What is remembered of a key whose first event comes at `time`.
    pub fn fresh(&self, time: Timestamp, room: &mut Room) -> Matches<E> {
        let mut matches = Matches { arena: Arena::new(), runs: SmallVec::new(), seq: 0 };
        if self.options.starts == Starts::Once {
            let mut turn =
                Turn::new(&mut matches.arena, (&mut room.runs, &mut room.accepted), time, 0);
            self.begin(&mut turn);
            matches.runs.extend(room.runs.drain(..));
        }
        matches
    }

    /// Whether `matches` is as those of a key of which nothing is known.
    pub fn is_fresh(&self, matches: &Matches<E>) -> bool {
        if self.options.starts == Starts::EachEvent {
            return matches.runs.is_empty();
        }
        let [run] = &matches.runs[..] else { return false };
        let [token] = &run.tokens[..] else { return false };
        let At::Listening { state, alive } = token.at else { return false };
        token.chain == NIL && self.rest == Some((state, alive))
    }

    /// Offers an event, of which [`facts`](Self::facts) are known, and which is not earlier than those before
    /// it. All that is due at or before it must have happened.
    pub fn event(
        &self,
        matches: &mut Matches<E>,
        room: &mut Room,
        Event { time, value }: Event<E>,
        facts: Facts,
        found: &mut impl FnMut(Found<'_, E>),
    ) -> Dropped {
        matches.seq += 1;
        let Matches { arena, runs, seq } = matches;
        let turn = Turn::new(arena, (&mut room.runs, &mut room.accepted), time, *seq as u32);
        let mut turn = turn.knowing(*seq, value, facts);
        let begins = self.options.starts == Starts::EachEvent;
        if self.options.levels {
            turn.level = self.level(runs, &mut turn);
        }
        for run in runs.drain(..) {
            if run.is_accepted() {
                turn.runs.push(run);
            } else {
                self.offer(run, &mut turn);
            }
        }
        if begins {
            self.begin_with_event(&mut turn);
        }
        self.settle(&mut turn, false, found);
        let dropped = self.drop_at_caps(&mut turn);
        runs.extend(room.runs.drain(..));
        matches.tidy();
        dropped
    }

    /// How long a run lives, if all that ever happens to it without an event is that its time is over, in
    /// microseconds from its first event: then runs are due in the order in which they begin.
    #[inline]
    pub fn lifetime(&self) -> Option<i64> {
        self.options.lifetime().filter(|_| self.waits.is_empty())
    }

    /// Whether a run began with the last event.
    #[inline]
    pub fn has_begun(&self, matches: &Matches<E>) -> bool {
        matches.runs.last().is_some_and(|run| run.began == matches.seq)
    }

    /// When something happens next without an event, if anything does.
    pub fn due(&self, matches: &Matches<E>) -> Option<Timestamp> {
        matches.runs.iter().filter_map(|run| self.run_due(run)).min()
    }

    fn run_due(&self, run: &Run) -> Option<Timestamp> {
        let waits = run.tokens.iter().filter_map(|token| match token.at {
            At::Waiting { due, .. } => Some(due),
            _ => None,
        });
        let waits = waits.min();
        if run.began == u64::MAX {
            return waits;
        }
        let decided = self.options.deadline().map(|length| after(run.start, length));
        if run.is_accepted() {
            return decided;
        }
        let whole = self.options.within.map(|length| after(run.start, length));
        let each = self.options.within_each.map(|length| after(run.last, length));
        [waits, decided, whole, each].into_iter().flatten().min()
    }

    /// Lets happen what is due at or before `clock`; `found` is told when. If the stream is `ending`, no wait
    /// that begins meanwhile is ever over.
    pub fn clock(
        &self,
        matches: &mut Matches<E>,
        room: &mut Room,
        (clock, ending): (Timestamp, bool),
        found: &mut impl FnMut(Timestamp, Found<'_, E>),
    ) -> Dropped {
        let mut dropped = Dropped::default();
        while let Some(due) = self.due(matches).filter(|&due| is_due(due, clock))
            && !(ending && due == Timestamp::MAX)
        {
            let more = self.come(matches, room, due, ending, &mut |what| found(due, what));
            dropped.runs += more.runs;
            dropped.fails |= more.fails;
        }
        dropped
    }

    /// Lets happen what is due at `due`.
    fn come(
        &self,
        matches: &mut Matches<E>,
        room: &mut Room,
        due: Timestamp,
        ending: bool,
        found: &mut impl FnMut(Found<'_, E>),
    ) -> Dropped {
        let Matches { arena, runs, seq } = matches;
        let mut turn = Turn::new(arena, (&mut room.runs, &mut room.accepted), due, *seq as u32);
        turn.ending = ending;
        let mut told = self.spared_chains(runs, due);
        for mut run in runs.drain(..) {
            let waits = self.run_due(&run).is_some_and(|own| is_due(own, due));
            if !waits || run.is_accepted() {
                turn.runs.push(run);
            } else if self.is_over(&run, due) {
                self.expire(run, &mut turn, &mut told, found);
            } else {
                for token in &mut run.tokens {
                    if let At::Waiting { wait, due: own } = token.at
                        && is_due(own, due)
                    {
                        let state = self.waits[wait as usize].next;
                        token.at = At::Entering { state };
                    }
                }
                self.offer(run, &mut turn);
            }
        }
        self.settle(&mut turn, false, found);
        let dropped = self.drop_at_caps(&mut turn);
        runs.extend(room.runs.drain(..));
        matches.tidy();
        dropped
    }

    /// Whether all that happens at `clock` is that the time of the only run is over, and nobody is to be
    /// told but of a timeout.
    #[inline]
    pub fn only_expires(&self, matches: &Matches<E>, clock: Timestamp) -> bool {
        let each = self.options.starts == Starts::EachEvent && self.options.report == Report::Each;
        match &matches.runs[..] {
            [run] if each => self.is_over(run, clock) && !self.is_spared(run),
            _ => false,
        }
    }

    /// Whether a run's own time is over at `clock`.
    fn is_over(&self, run: &Run, clock: Timestamp) -> bool {
        run.began != u64::MAX
            && (is_past(run.start, self.options.within, clock)
                || is_past(run.last, self.options.within_each, clock))
    }

    /// Where only preferred matches count, what a run waits for may be spread over several, for the sake of
    /// their order. Of those whose time is over at `clock`, what was taken by runs that only wait for
    /// something not to come: the others that have taken the same are no timeouts.
    fn spared_chains(&self, runs: &[Run], clock: Timestamp) -> Vec<Heads> {
        if !self.options.is_ranked() {
            return Vec::new();
        }
        let over = runs.iter().filter(|run| self.is_over(run, clock) && self.is_spared(run));
        over.map(|run| self.heads(run)).collect()
    }

    /// The lists of what a run has taken, each once: one for each of the parts that stand side by side, but
    /// none of what must not come.
    fn heads(&self, run: &Run) -> Heads {
        let present = run.tokens.iter().filter(|token| !self.is_absent(self.region(token)));
        let mut heads: Heads = present.map(|token| token.chain).filter(|&at| at != NIL).collect();
        heads.sort_unstable();
        heads.dedup();
        heads
    }

    /// A run's time is over: a match, if all it waited for was that something does not come; else a
    /// timeout, unless it had matched before, or what it has taken was `told` of.
    fn expire(
        &self,
        run: Run,
        turn: &mut Turn<'_, E>,
        told: &mut Vec<Heads>,
        found: &mut impl FnMut(Found<'_, E>),
    ) {
        if self.is_spared(&run) {
            self.accept(run, 0, turn);
        } else if !run.matched {
            let heads = self.heads(&run);
            let head = turn.arena.union(&heads);
            if self.options.is_ranked() {
                if told.contains(&heads) {
                    return;
                }
                told.push(heads);
            }
            found(Found::Timeout(Bound { names: &self.names, arena: turn.arena, head }));
        }
    }

    /// Whether all that a run waits for is that something does not come.
    fn is_spared(&self, run: &Run) -> bool {
        let [token] = run.tokens[..] else { return false };
        let At::Listening { state, alive } = token.at else { return false };
        self.states[state as usize].awaited(alive).any(|leaf| leaf.step.is_none())
    }

    /// No event comes any more, and all that was due has happened: what only waited for something not
    /// to come is a match, and what was not decided is.
    pub fn end(
        &self,
        matches: &mut Matches<E>,
        room: &mut Room,
        time: Timestamp,
        found: &mut impl FnMut(Found<'_, E>),
    ) {
        let Matches { arena, runs, seq } = matches;
        let mut turn = Turn::new(arena, (&mut room.runs, &mut room.accepted), time, *seq as u32);
        for run in runs.drain(..) {
            if self.is_spared(&run) {
                self.accept(run, 0, &mut turn);
            } else if self.options.is_ranked() {
                turn.runs.push(run);
            }
        }
        self.settle(&mut turn, true, found);
        room.runs.clear();
        matches.tidy();
    }
}
