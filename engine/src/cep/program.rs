//! A pattern, compiled: an automaton.

use std::sync::Arc;

use super::expr::{Again, Condition, Contiguity};
use super::{Cap, Consume, Report, Skip, Starts};
use crate::time::micros;

/// A compiled pattern.
pub struct Program<E> {
    pub(super) steps: Vec<StepOf>,
    /// The steps' names, by step.
    pub(super) names: Vec<Arc<str>>,
    pub(super) conditions: Vec<Asked<E>>,
    pub(super) states: Vec<State>,
    pub(super) groups: Vec<Group>,
    pub(super) repeats: Vec<Repeated>,
    pub(super) waits: Vec<Wait>,
    pub(super) regions: Vec<Region>,
    pub(super) start: u16,
    /// Where a run stands that has just begun, if that is one state, and which leaves wait there.
    pub(super) rest: Option<(u16, u64)>,
    pub(super) options: Options,
    /// What is known of the conditions that look at the event alone.
    pub(super) alone: Alone,
}

/// The conditions that look at the event alone, and what follows when they do not hold: so that most
/// events are not even looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alone {
    /// Those among the first 64 conditions.
    pub all: u64,
    /// Those with which a run begins, if no other condition begins one.
    pub begins: Option<u64>,
    /// Whether an event for which none of them holds changes no run: all conditions are among them, and none
    /// must hold for the very next event.
    pub decide: bool,
}

/// What of a pattern's options a program needs.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub starts: Starts,
    /// Microseconds, one more than the limit where that is included.
    pub within: Option<i64>,
    /// Likewise.
    pub within_each: Option<i64>,
    pub report: Report,
    pub skip: Skip,
    pub consume: Consume,
    pub cap: Option<Cap>,
    /// Whether steps have levels.
    pub levels: bool,
    /// Whether steps have caps of their own.
    pub pending: bool,
}

impl Options {
    /// How long after its first event a run is over, if nothing else of it is ever due: runs are due then in
    /// the order in which they begin.
    pub fn lifetime(&self) -> Option<i64> {
        let each = self.starts == Starts::EachEvent;
        let only = each && self.within_each.is_none() && self.deadline().is_none();
        self.within.filter(|_| only)
    }

    /// Whether only the preferred match of those that begin with one event counts.
    pub fn is_ranked(&self) -> bool {
        self.report != Report::Each
    }

    /// How long after its first event a match is decided whatever may come, in microseconds.
    pub fn deadline(&self) -> Option<i64> {
        match self.report {
            Report::BestBy(length) | Report::BestAt(length) => Some(micros(length)),
            Report::Each | Report::Best => None,
        }
    }
}

/// A condition.
pub(super) struct Asked<E> {
    pub condition: Condition<E>,
    /// Whether it looks at the event alone.
    pub alone: bool,
}

/// A step.
pub(super) struct StepOf {
    /// Which condition.
    pub condition: u16,
    pub level: u8,
    pub max_pending: Option<u32>,
}

/// A place at which a run can stand, and what may come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The steps that may be taken, as preferred.
    pub leaves: Vec<Leaf>,
    /// Which of them a run waits for that comes here.
    pub alive: u64,
    /// What happens at once, each in a run of its own; the leaves before it are preferred.
    pub ops: Vec<(u8, Op)>,
    /// The part it is in.
    pub region: u16,
}

/// The positions of the bits that are set, from the lowest.
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            bit
        })
    })
}

impl State {
    /// The leaves that are still alive.
    pub(super) fn awaited(&self, alive: u64) -> impl Iterator<Item = &Leaf> {
        bits(alive).map(|at| &self.leaves[at])
    }
}

/// A step that may be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Which; `None`: the end of the pattern, behind a negation.
    pub step: Option<u16>,
    /// Which events may be passed over.
    pub contiguity: Contiguity,
    /// Where a run goes that takes it.
    pub target: u16,
    /// The leaves that are given up when it is taken.
    pub kills: u64,
    /// The conditions that end it.
    pub until: Vec<u16>,
    /// The conditions that must not hold for the next event.
    pub not_next: Vec<u16>,
    /// The conditions that must not hold for any event while it waits.
    pub not_until: Vec<u16>,
    /// The leaf that it is behind the next event, if something must not be that.
    pub after: Option<u8>,
}

/// Something that happens without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The pattern is complete.
    Accept,
    /// A group's parts begin.
    Fork(u16),
    /// A group's part is complete.
    Arrive {
        /// The group.
        group: u16,
        /// Its part.
        branch: u16,
    },
    /// What a group must not see has come, or its time is over.
    Fail(u16),
    /// A part that is repeated begins.
    Enter(u16),
    /// It is complete.
    Again(u16),
    /// A wait begins.
    Wait(u16),
}

/// Parts that stand side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub branches: Vec<Branch>,
    /// Whether all of them must be complete, or any.
    pub all: bool,
    /// Where a run goes then.
    pub next: u16,
    /// The part that the group is in.
    pub region: u16,
    /// The steps in it, also in parts of it.
    pub steps: Vec<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub entry: u16,
    pub absent: bool,
    /// The part that it is.
    pub own: u16,
}

/// A part under `every`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub body: u16,
    pub next: u16,
    /// The part that it is.
    pub own: u16,
    /// The steps in it, also in parts of it.
    pub steps: Vec<bool>,
    /// The part that it is in.
    pub region: u16,
    pub when: Again,
}

/// A wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Microseconds.
    pub length: i64,
    pub next: u16,
    /// The part that it is in.
    pub region: u16,
}

/// A part that can fail as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    Whole,
    Branch { group: u16, branch: u16 },
    Every(u16),
}

impl<E> Program<E> {
    /// What is known of its conditions.
    pub(super) fn look_alone(&self) -> Alone {
        let bit = |condition: u16| 1u64.checked_shl(u32::from(condition)).unwrap_or(0);
        let is_alone = |condition: u16| self.conditions[condition as usize].alone;
        let conditions = 0..self.conditions.len() as u16;
        let all = conditions.filter(|&it| is_alone(it)).fold(0, |all, it| all | bit(it));
        let begins = self.rest.and_then(|(state, alive)| {
            let awaited = self.states[state as usize].awaited(alive);
            let conditions = awaited.map(|leaf| Some(self.steps[leaf.step? as usize].condition));
            let conditions: Option<Vec<u16>> = conditions.collect();
            let mut alone =
                conditions?.into_iter().map(|it| Some(bit(it) & all).filter(|&it| it != 0));
            alone.try_fold(0, |all, it| Some(all | it?))
        });
        let mut leaves = self.states.iter().flat_map(|state| &state.leaves);
        let passes =
            leaves.all(|leaf| leaf.contiguity != Contiguity::Strict && leaf.not_next.is_empty());
        let begins_by_event = self.options.starts == Starts::EachEvent || self.rest.is_some();
        let decide =
            passes && begins_by_event && all.count_ones() as usize == self.conditions.len();
        Alone { all, begins, decide }
    }

    /// Where a run stands that has just begun, if all that happens then is that parts are entered.
    pub(super) fn resting(&self) -> Option<(u16, u64)> {
        let mut at = self.start;
        loop {
            let state = &self.states[at as usize];
            match (&state.leaves[..], &state.ops[..]) {
                ([_, ..], []) => return Some((at, state.alive)),
                ([], [(_, Op::Enter(repeat))]) => at = self.repeats[*repeat as usize].body,
                _ => return None,
            }
        }
    }

    /// The part that a part is in.
    pub(super) fn outer(&self, region: u16) -> Option<u16> {
        match self.regions[region as usize] {
            Region::Whole => None,
            Region::Branch { group, .. } => Some(self.groups[group as usize].region),
            Region::Every(repeat) => Some(self.repeats[repeat as usize].region),
        }
    }

    /// Whether `region` is `part` or within it.
    pub(super) fn is_in(&self, mut region: u16, part: u16) -> bool {
        while region != part {
            match self.outer(region) {
                Some(outer) => region = outer,
                None => return false,
            }
        }
        true
    }

    /// Whether `region` is something that must not come beside others, or within it.
    pub(super) fn is_absent(&self, region: u16) -> bool {
        let own = match self.regions[region as usize] {
            Region::Branch { group, branch } => {
                self.groups[group as usize].branches[branch as usize].absent
            }
            _ => false,
        };
        own || self.outer(region).is_some_and(|outer| self.is_absent(outer))
    }

    /// Whether `region` is a part of the group or within one.
    pub(super) fn is_in_group(&self, mut region: u16, group: u16) -> bool {
        loop {
            match self.regions[region as usize] {
                Region::Branch { group: own, .. } if own == group => return true,
                _ => match self.outer(region) {
                    Some(outer) => region = outer,
                    None => return false,
                },
            }
        }
    }
}
