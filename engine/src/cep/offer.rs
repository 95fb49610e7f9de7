//! What an event does to a run.

use super::Starts;
use super::arena::{Arena, Bound, NIL};
use super::expr::Contiguity;
use super::matches::after;
use super::program::{Leaf, Op, Program, Region, bits};
use super::run::{At, Run, Token};
use crate::time::Timestamp;

/// What happens at one instant: an event, or a time that has come.
pub(super) struct Turn<'a, E> {
    pub arena: &'a mut Arena<E>,
    /// The runs as they stand afterwards.
    pub runs: &'a mut Vec<Run>,
    /// The matches that were completed.
    pub accepted: &'a mut Vec<Accepted>,
    pub now: Timestamp,
    /// The order of arrival of the event; `None`: only time passes.
    pub event: Option<u64>,
    /// The event, until somebody takes it and it is in the arena.
    pub value: Option<E>,
    pub tick: u32,
    /// Steps below this level do not get the event.
    pub level: u8,
    /// The stream ends: no wait that begins now is ever over.
    pub ending: bool,
    /// What is known of the event, alone.
    facts: Facts,
}

/// What is known of an event, whatever a run has taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Of the first 64 conditions, those that were asked.
    asked: u64,
    /// Those that hold.
    held: u64,
}

/// A complete match.
#[derive(Clone, Copy)]
pub(super) struct Accepted {
    pub began: u64,
    pub chain: u32,
}

/// What a token hears in an event.
struct Heard {
    /// The leaves that take it.
    took: u64,
    /// The leaves that still wait.
    alive: u64,
}

impl<'a, E> Turn<'a, E> {
    /// An event is at hand, of which something is known already.
    pub fn knowing(mut self, seq: u64, value: E, facts: Facts) -> Self {
        (self.event, self.value, self.facts) = (Some(seq), Some(value), facts);
        self
    }

    pub fn new(
        arena: &'a mut Arena<E>,
        (runs, accepted): (&'a mut Vec<Run>, &'a mut Vec<Accepted>),
        now: Timestamp,
        tick: u32,
    ) -> Self {
        let (event, value, level, ending) = (None, None, 0, false);
        let facts = Facts::default();
        Self { arena, runs, accepted, now, event, value, tick, level, ending, facts }
    }
}

impl<E> Program<E> {
    /// Asks the conditions that look at an event alone.
    #[inline]
    pub fn facts(&self, event: &E) -> Facts {
        let nothing = Bound { names: &self.names, arena: &Arena::new(), head: NIL };
        let asked = self.alone.all;
        let holds = |&at: &usize| (self.conditions[at].condition)(event, &nothing);
        let held = bits(asked).filter(holds).fold(0, |held, at| held | 1 << at);
        Facts { asked, held }
    }

    /// Whether an event changes nothing, whatever runs there are.
    #[inline]
    pub fn passes_over(&self, facts: Facts) -> bool {
        self.alone.decide && facts.held == 0
    }

    /// Whether an event changes nothing where there are no runs yet.
    #[inline]
    pub fn begins_nothing(&self, facts: Facts) -> bool {
        let each = self.options.starts == Starts::EachEvent;
        each && self.alone.begins.is_some_and(|begins| facts.held & begins == 0)
    }

    /// Whether the event at hand fits a condition for a run that has taken `chain`.
    #[inline]
    fn holds(&self, turn: &mut Turn<'_, E>, condition: u16, chain: u32) -> bool {
        let asked = &self.conditions[condition as usize];
        let bit = 1u64.checked_shl(u32::from(condition)).filter(|_| asked.alone).unwrap_or(0);
        if turn.facts.asked & bit != 0 {
            return turn.facts.held & bit != 0;
        }
        let taken = Bound { names: &self.names, arena: turn.arena, head: chain };
        let event = turn.value.as_ref().unwrap_or_else(|| turn.arena.newest());
        let holds = (asked.condition)(event, &taken);
        turn.facts.asked |= bit;
        turn.facts.held |= if holds { bit } else { 0 };
        holds
    }

    fn fits(&self, turn: &mut Turn<'_, E>, step: u16, chain: u32) -> bool {
        let step = &self.steps[step as usize];
        step.level >= turn.level && self.holds(turn, step.condition, chain)
    }

    /// The highest level of the steps that the event at hand fits, for the tokens of `runs` and, where a run
    /// begins with each event, at the beginning.
    pub(super) fn level(&self, runs: &[Run], turn: &mut Turn<'_, E>) -> u8 {
        let mut level = runs.iter().map(|run| self.level_for(turn, run)).max().unwrap_or(0);
        if self.options.starts == Starts::EachEvent {
            self.begin(turn);
            while let Some(run) = turn.runs.pop() {
                level = level.max(self.level_for(turn, &run));
            }
        }
        level
    }

    fn level_for(&self, turn: &mut Turn<'_, E>, run: &Run) -> u8 {
        let mut level = 0;
        for token in &run.tokens {
            if let At::Listening { state, alive } = token.at {
                for leaf in self.states[state as usize].awaited(alive) {
                    if let Some(step) = leaf.step
                        && self.fits(turn, step, token.chain)
                    {
                        level = level.max(self.steps[step as usize].level);
                    }
                }
            }
        }
        level
    }

    /// A run begins: what it does before its first event goes to the turn's runs.
    pub(super) fn begin(&self, turn: &mut Turn<'_, E>) {
        let run = Run::new(turn.now, At::Entering { state: self.start }, turn.tick);
        self.offer(run, turn);
    }

    /// Lets a run begin with the event at hand, if it fits.
    #[inline]
    pub(super) fn begin_with_event(&self, turn: &mut Turn<'_, E>) {
        if let Some((state, alive)) = self.rest {
            let token = Token { at: At::Listening { state, alive }, chain: NIL, tick: turn.tick };
            let Heard { took, .. } = self.listen(token, state, alive, turn);
            for leaf in bits(took) {
                let run = Run::new(turn.now, token.at, turn.tick);
                self.take(run, 0, &self.states[state as usize].leaves[leaf], turn);
            }
            return;
        }
        // It begins in several ways: as if it had begun before, but only those count that take it.
        let before = turn.runs.len();
        turn.tick = turn.tick.wrapping_sub(1);
        self.begin(turn);
        turn.tick = turn.tick.wrapping_add(1);
        for run in turn.runs.split_off(before) {
            self.offer(run, turn);
        }
        let offered = turn.runs.split_off(before);
        turn.runs.extend(offered.into_iter().filter(|run| run.began != u64::MAX));
    }

    /// Lets a run go on: what is about to enter a state does, and an event is offered to each token
    /// that has not had it yet.
    pub(super) fn offer(&self, run: Run, turn: &mut Turn<'_, E>) {
        let entering = |token: &Token| matches!(token.at, At::Entering { .. });
        if let Some(at) = run.tokens.iter().position(entering) {
            return self.enter(run, at, turn);
        }
        let tick = turn.tick;
        let waits = |token: &Token| matches!(token.at, At::Listening { .. }) && token.tick != tick;
        let at = turn.event.and_then(|_| run.tokens.iter().position(waits));
        let Some(at) = at else { return turn.runs.push(run) };
        let token = run.tokens[at];
        let At::Listening { state, alive } = token.at else { unreachable!("just looked") };
        let Heard { took, alive } = self.listen(token, state, alive, turn);
        if took | alive == 0 {
            let region = self.states[state as usize].region;
            return self.fail(run, region, token.chain, turn);
        }
        let mut waits = 0;
        for leaf in bits(took | alive) {
            let bit = 1 << leaf;
            if took & bit != 0 {
                if waits != 0 && self.options.is_ranked() {
                    // What is preferred to what is taken waits before it.
                    self.wait_on(run.clone(), at, (state, waits), turn);
                    waits = 0;
                }
                self.take(run.clone(), at, &self.states[state as usize].leaves[leaf], turn);
            }
            waits |= alive & bit;
        }
        if waits != 0 {
            self.wait_on(run, at, (state, waits), turn);
        }
    }

    /// A run's token passes the event at hand over, for the leaves that are still `alive`.
    fn wait_on(&self, mut run: Run, at: usize, (state, alive): (u16, u64), turn: &mut Turn<'_, E>) {
        let at_leaves = At::Listening { state, alive };
        run.tokens[at] = Token { at: at_leaves, tick: turn.tick, ..run.tokens[at] };
        self.offer(run, turn);
    }

    /// What the leaves of a token do with the event at hand.
    #[inline]
    fn listen(&self, token: Token, state: u16, alive: u64, turn: &mut Turn<'_, E>) -> Heard {
        let leaves = &self.states[state as usize].leaves;
        let mut heard = Heard { took: 0, alive: 0 };
        let mut killed = 0;
        for at in bits(alive) {
            let leaf = &leaves[at];
            let bit = 1 << at;
            if killed & bit != 0 || self.is_ended(leaf, token.chain, turn) {
                continue;
            }
            let stays = leaf.after.map_or(bit, |after| 1 << after);
            match leaf.step {
                None if leaf.not_until.is_empty() => {
                    heard.took |= bit;
                    killed |= leaf.kills;
                }
                None => heard.alive |= stays,
                Some(step) if self.fits(turn, step, token.chain) => {
                    heard.took |= bit;
                    killed |= leaf.kills;
                    if leaf.contiguity == Contiguity::Any {
                        heard.alive |= stays;
                    }
                }
                Some(_) if leaf.contiguity != Contiguity::Strict => heard.alive |= stays,
                Some(_) => {}
            }
        }
        heard.alive &= !killed;
        heard
    }

    /// Whether the event at hand ends what a leaf waits for.
    #[inline]
    fn is_ended(&self, leaf: &Leaf, chain: u32, turn: &mut Turn<'_, E>) -> bool {
        let mut ends = leaf.until.iter().chain(&leaf.not_next).chain(&leaf.not_until);
        ends.any(|&condition| self.holds(turn, condition, chain))
    }

    /// A run's token takes the event at hand, as `leaf`'s step; or, where the leaf is the end behind a
    /// negation, has seen that it may.
    fn take(&self, mut run: Run, at: usize, leaf: &Leaf, turn: &mut Turn<'_, E>) {
        let Some(step) = leaf.step else { return self.accept(run, at, turn) };
        let seq = turn.event.expect("an event was taken");
        if let Some(value) = turn.value.take() {
            turn.arena.admit(seq, turn.now, value);
        }
        let chain = turn.arena.take(run.tokens[at].chain, step);
        run.took(seq, turn.now);
        run.tokens[at] = Token { at: At::Entering { state: leaf.target }, chain, tick: turn.tick };
        self.enter(run, at, turn);
    }

    /// Puts a token into the state it is about to enter.
    fn enter(&self, mut run: Run, at: usize, turn: &mut Turn<'_, E>) {
        let At::Entering { state: entered } = run.tokens[at].at else { unreachable!("it enters") };
        let state = &self.states[entered as usize];
        let ranked = self.options.is_ranked();
        let mut alive = state.alive;
        if ranked && let Some(&(before, _)) = state.ops.first() {
            // What is less preferred than the match that is complete here is not tried.
            alive &= (1 << before) - 1;
        }
        if alive == 0 {
            if let Some((&(_, last), ops)) = state.ops.split_last() {
                for &(_, op) in ops {
                    self.happen(op, run.clone(), at, turn);
                }
                self.happen(last, run, at, turn);
            }
            return;
        }
        let waiting = Token {
            at: At::Listening { state: entered, alive },
            tick: turn.tick,
            ..run.tokens[at]
        };
        if ranked && !state.ops.is_empty() {
            // What waits is preferred to what is complete.
            let mut on = run.clone();
            on.tokens[at] = waiting;
            self.offer(on, turn);
            return state.ops.iter().for_each(|&(_, op)| self.happen(op, run.clone(), at, turn));
        }
        for &(_, op) in &state.ops {
            self.happen(op, run.clone(), at, turn);
        }
        run.matched |= state.ops.iter().any(|&(_, op)| op == Op::Accept);
        run.tokens[at] = waiting;
        self.offer(run, turn);
    }

    /// A run is a match; where only preferred ones count, that is decided later.
    pub(super) fn accept(&self, mut run: Run, at: usize, turn: &mut Turn<'_, E>) {
        if self.options.is_ranked() {
            run.tokens[at].at = At::Accepted;
            turn.runs.push(run);
        } else {
            turn.accepted.push(Accepted { began: run.began, chain: run.tokens[at].chain });
        }
    }

    /// Does what happens without an event at a token's place.
    fn happen(&self, op: Op, mut run: Run, at: usize, turn: &mut Turn<'_, E>) {
        let token = run.tokens[at];
        match op {
            Op::Accept => self.accept(run, at, turn),
            Op::Fork(group) => {
                run.tokens.remove(at);
                for branch in &self.groups[group as usize].branches {
                    let at = At::Entering { state: branch.entry };
                    run.tokens.push(Token { at, ..token });
                }
                self.offer(run, turn);
            }
            Op::Arrive { group, branch } => {
                run.tokens[at].at = At::Arrived { group, branch };
                self.arrived(run, at, group, turn);
            }
            Op::Fail(group) => {
                self.leave_group(&mut run, group);
                self.fail(run, self.groups[group as usize].region, token.chain, turn);
            }
            Op::Enter(repeat) => {
                let state = self.repeats[repeat as usize].body;
                run.tokens[at].at = At::Entering { state };
                self.offer(run, turn);
            }
            Op::Again(repeat) => {
                let mut on = run.clone();
                let next = self.repeats[repeat as usize].next;
                on.tokens[at].at = At::Entering { state: next };
                self.offer(on, turn);
                if self.repeats[repeat as usize].when.complete {
                    self.begin_again(run, repeat, token.chain, turn);
                }
            }
            Op::Wait(wait) => {
                let length = self.waits[wait as usize].length;
                let due = if turn.ending { Timestamp::MAX } else { after(turn.now, length) };
                run.tokens[at].at = At::Waiting { wait, due };
                self.offer(run, turn);
            }
        }
    }

    /// A part of a group is complete; so is the group, perhaps.
    fn arrived(&self, mut run: Run, at: usize, group: u16, turn: &mut Turn<'_, E>) {
        let known = &self.groups[group as usize];
        let mut chain = run.tokens[at].chain;
        if known.all {
            let here: Vec<Token> = run
                .tokens
                .iter()
                .filter(|token| matches!(token.at, At::Arrived { group: own, .. } if own == group))
                .copied()
                .collect();
            if here.len() < known.branches.iter().filter(|branch| !branch.absent).count() {
                return self.offer(run, turn);
            }
            let base = turn.arena.before(chain, |step| known.steps[step as usize]);
            chain =
                here.iter().fold(base, |whole, part| turn.arena.joined(whole, part.chain, base));
        }
        self.leave_group(&mut run, group);
        let at = At::Entering { state: known.next };
        run.tokens.push(Token { at, chain, tick: turn.tick });
        self.offer(run, turn);
    }

    /// Where a token is.
    pub(super) fn region(&self, token: &Token) -> u16 {
        match token.at {
            At::Listening { state, .. } | At::Entering { state } => {
                self.states[state as usize].region
            }
            At::Waiting { wait, .. } => self.waits[wait as usize].region,
            At::Arrived { group, branch } => {
                self.groups[group as usize].branches[branch as usize].own
            }
            At::Accepted => 0,
        }
    }

    fn leave_group(&self, run: &mut Run, group: u16) {
        run.tokens.retain(|token| !self.is_in_group(self.region(token), group));
    }

    fn leave(&self, run: &mut Run, part: u16) {
        run.tokens.retain(|token| !self.is_in(self.region(token), part));
    }

    /// A part under `every` begins again, with nothing taken in it.
    fn begin_again(&self, mut run: Run, repeat: u16, chain: u32, turn: &mut Turn<'_, E>) {
        let part = &self.repeats[repeat as usize];
        self.leave(&mut run, part.own);
        let chain = turn.arena.before(chain, |step| part.steps[step as usize]);
        let at = At::Entering { state: part.body };
        run.tokens.push(Token { at, chain, tick: turn.tick });
        if run.tokens.iter().all(|token| token.chain == NIL) {
            (run.began, run.start, run.last) = (u64::MAX, turn.now, turn.now);
        }
        self.offer(run, turn);
    }

    /// The part `region` of a run has become impossible, at a token that had taken `chain`.
    fn fail(&self, mut run: Run, mut region: u16, chain: u32, turn: &mut Turn<'_, E>) {
        loop {
            self.leave(&mut run, region);
            match self.regions[region as usize] {
                Region::Whole => return,
                Region::Every(repeat) if self.repeats[repeat as usize].when.impossible => {
                    return self.begin_again(run, repeat, chain, turn);
                }
                Region::Every(repeat) => region = self.repeats[repeat as usize].region,
                Region::Branch { group, branch } => {
                    let known = &self.groups[group as usize];
                    let others = |token: &Token| self.is_in_group(self.region(token), group);
                    // What must not come cannot any more; or another part may still be complete. The
                    // time of a part within one is none.
                    let spared = known.branches[branch as usize].absent
                        || !known.all
                            && run
                                .tokens
                                .iter()
                                .any(|token| others(token) && !self.is_clock(token, group));
                    if spared {
                        return self.offer(run, turn);
                    }
                    self.leave_group(&mut run, group);
                    region = known.region;
                }
            }
        }
    }

    /// Whether a token is the wait that ends the group.
    fn is_clock(&self, token: &Token, group: u16) -> bool {
        let At::Waiting { wait, .. } = token.at else { return false };
        let next = &self.states[self.waits[wait as usize].next as usize];
        next.leaves.is_empty() && next.ops.iter().any(|&(_, op)| op == Op::Fail(group))
    }
}
