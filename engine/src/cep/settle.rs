//! What is reported after an instant, and what is dropped for it.

use std::collections::VecDeque;

use super::arena::Bound;
use super::matches::{Dropped, Found, is_past};
use super::offer::{Accepted, Turn};
use super::program::Program;
use super::run::{At, Run};
use super::{AtCap, Consume, Report, Skip};

/// What a match drops.
struct Cut {
    /// Runs that began so.
    began: Began,
    /// Runs that hold one of these events.
    seqs: Vec<u64>,
}

enum Began {
    Any,
    At(u64),
    By(u64),
    Before(u64),
}

impl Cut {
    fn drops(&self, began: u64) -> bool {
        match self.began {
            Began::Any => false,
            Began::At(seq) => began == seq,
            Began::By(seq) => began <= seq,
            Began::Before(seq) => began < seq,
        }
    }
}

impl<E> Program<E> {
    /// Reports the matches that are complete, and drops what goes with them. With `ends` nothing comes any
    /// more.
    pub(super) fn settle(
        &self,
        turn: &mut Turn<'_, E>,
        ends: bool,
        found: &mut impl FnMut(Found<'_, E>),
    ) {
        if !turn.accepted.is_empty() {
            turn.accepted.sort_by_key(|accepted| accepted.began);
            let mut waiting = VecDeque::from(std::mem::take(turn.accepted));
            while let Some(accepted) = waiting.pop_front() {
                let cut = self.report(turn, accepted, found);
                waiting.retain(|other| {
                    !cut.drops(other.began) && !turn.arena.holds_any(other.chain, &cut.seqs)
                });
            }
            *turn.accepted = waiting.into();
        }
        if self.options.is_ranked() {
            self.decide(turn, ends, found);
        }
    }

    /// Reports a match, and drops the runs that go with it.
    fn report(
        &self,
        turn: &mut Turn<'_, E>,
        Accepted { began, chain }: Accepted,
        found: &mut impl FnMut(Found<'_, E>),
    ) -> Cut {
        found(Found::Match(Bound { names: &self.names, arena: turn.arena, head: chain }));
        let of = |name: &str| {
            let named = |step: u16| *self.names[step as usize] == *name;
            let nodes = turn.arena.list(chain).filter(move |node| named(node.step));
            nodes.map(|node| turn.arena.seq(node)).collect::<Vec<u64>>()
        };
        let before = |seq: Option<u64>| seq.map_or(Began::Any, Began::Before);
        let seqs = || turn.arena.list(chain).map(|node| turn.arena.seq(node));
        let began = match &self.options.skip {
            Skip::None => Began::Any,
            Skip::PastLast => seqs().max().map_or(Began::Any, Began::By),
            Skip::ToNext => Began::At(began),
            Skip::ToFirst(name) => before(of(name).into_iter().min()),
            Skip::ToLast(name) => before(of(name).into_iter().max()),
        };
        let consumed = match self.options.consume {
            Consume::Nothing => Vec::new(),
            Consume::Matched => seqs().collect(),
        };
        let cut = Cut { began, seqs: consumed };
        let arena = &*turn.arena;
        turn.runs.retain(|run| {
            !cut.drops(run.began)
                && !run.tokens.iter().any(|token| arena.holds_any(token.chain, &cut.seqs))
        });
        cut
    }

    /// Of the runs that began with one event, the preferred match counts: it is reported once nothing
    /// preferred can come, and the runs that began earlier are decided.
    fn decide(&self, turn: &mut Turn<'_, E>, ends: bool, found: &mut impl FnMut(Found<'_, E>)) {
        let mut at = 0;
        while at < turn.runs.len() {
            let began = turn.runs[at].began;
            let group = turn.runs[at..].iter().take_while(|run| run.began == began).count();
            let accepted = turn.runs[at..at + group].iter().position(Run::is_accepted);
            if let Some(accepted) = accepted {
                turn.runs.drain(at + accepted + 1..at + group);
            }
            let over = ends || is_past(turn.runs[at].start, self.options.deadline(), turn.now);
            let waits = matches!(self.options.report, Report::BestAt(_)) && !over;
            match accepted {
                Some(first) if over || first == 0 && !waits => {
                    let chain = turn.runs[at + first].tokens[0].chain;
                    turn.runs.drain(at..=at + first);
                    self.report(turn, Accepted { began, chain }, found);
                    // Runs before it may have gone with it.
                    at = turn.runs.iter().take_while(|run| run.began < began).count();
                }
                None if over => {
                    turn.runs.drain(at..at + group);
                }
                _ if self.options.skip == Skip::None => {
                    at += accepted.map_or(group, |first| first + 1);
                }
                _ => return self.keep_preferred(turn, at),
            }
        }
    }

    /// Drops, of the runs from `from` on, those that are less preferred than a match.
    fn keep_preferred(&self, turn: &mut Turn<'_, E>, from: usize) {
        let mut matched = u64::MAX;
        let mut at = 0;
        turn.runs.retain(|run| {
            at += 1;
            if at <= from || run.began == u64::MAX {
                return true;
            }
            let keeps = run.began != matched;
            if run.is_accepted() {
                matched = run.began;
            }
            keeps
        });
    }

    /// Drops the runs that are too many.
    pub(super) fn drop_at_caps(&self, turn: &mut Turn<'_, E>) -> Dropped {
        let mut dropped = Dropped::default();
        if self.options.pending {
            self.drop_pending(turn, &mut dropped);
        }
        let Some(cap) = self.options.cap else { return dropped };
        let over = turn.runs.len().saturating_sub(cap.runs as usize);
        if over > 0 {
            dropped.runs += over as u64;
            match cap.at_cap {
                AtCap::RefuseNewest => turn.runs.truncate(cap.runs as usize),
                AtCap::DropOldest => drop(turn.runs.drain(..over)),
                AtCap::Fail => dropped.fails = true,
            }
        }
        dropped
    }

    /// Drops the runs that have just come to wait for a step for which as many wait as may.
    fn drop_pending(&self, turn: &mut Turn<'_, E>, dropped: &mut Dropped) {
        let mut pending = vec![0u32; self.steps.len()];
        let newest = turn.event;
        let arena = &*turn.arena;
        let waits = |run: &Run, new: bool| {
            let came = |chain: u32| arena.list(chain).next().map(|node| arena.seq(node));
            let is_new = |chain: u32| newest.is_some() && came(chain) == newest;
            let tokens = run.tokens.iter().filter(|token| is_new(token.chain) == new);
            let steps = tokens.filter_map(|token| match token.at {
                At::Listening { state, alive } => Some((state, alive)),
                _ => None,
            });
            let mut waits = Vec::new();
            for (state, alive) in steps {
                let awaited = self.states[state as usize].awaited(alive);
                let steps = awaited.filter_map(|leaf| leaf.step).map(usize::from);
                waits.extend(steps.filter(|&step| self.steps[step].max_pending.is_some()));
            }
            waits
        };
        for run in turn.runs.iter() {
            waits(run, false).into_iter().for_each(|step| pending[step] += 1);
        }
        turn.runs.retain(|run| {
            let steps = waits(run, true);
            let full = |&step: &usize| {
                self.steps[step].max_pending.is_some_and(|max| pending[step] >= max)
            };
            let keeps = !steps.iter().any(full);
            if keeps {
                steps.into_iter().for_each(|step| pending[step] += 1);
            } else {
                dropped.runs += 1;
            }
            keeps
        });
    }
}
