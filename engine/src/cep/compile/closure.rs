//! Where a run comes to stand behind an instruction: the steps that it may take next.

use std::collections::HashMap;

use super::{Inst, Pc};
use crate::cep::expr::Contiguity;
use crate::cep::pattern::InvalidPattern;
use crate::cep::program::{Leaf, Op, State};

/// The states, by the instruction they begin at.
pub(super) struct States<'i> {
    insts: &'i [Inst],
    states: Vec<State>,
    known: HashMap<Pc, u16>,
    /// Those whose leaves are to be worked out.
    begun: Vec<(Pc, u16)>,
}

/// A way through the instructions that take no event.
#[derive(Clone, Default)]
struct Way {
    at: Pc,
    not_next: Vec<u16>,
    not_until: Vec<u16>,
    /// The possessive splits it came through, and which of their sides it took.
    sides: Vec<(Pc, usize)>,
}

impl<'i> States<'i> {
    pub fn new(insts: &'i [Inst]) -> Self {
        Self { insts, states: Vec::new(), known: HashMap::new(), begun: Vec::new() }
    }

    /// The state that begins at `pc`, in that part of the pattern.
    pub fn of(&mut self, pc: Pc, region: u16) -> Result<u16, InvalidPattern> {
        if let Some(&known) = self.known.get(&pc) {
            return Ok(known);
        }
        let at = u16::try_from(self.states.len())
            .map_err(|_| InvalidPattern::TooLarge("more than 65,536 states"))?;
        self.states.push(State { leaves: Vec::new(), alive: 0, ops: Vec::new(), region });
        self.known.insert(pc, at);
        self.begun.push((pc, at));
        Ok(at)
    }

    pub fn finish(mut self) -> Result<Vec<State>, InvalidPattern> {
        while let Some((pc, at)) = self.begun.pop() {
            self.close(pc, at)?;
        }
        Ok(self.states)
    }

    /// Works out the leaves of state `at`, which begins at `pc`.
    fn close(&mut self, pc: Pc, at: u16) -> Result<(), InvalidPattern> {
        let region = self.states[at as usize].region;
        let mut leaves: Vec<(Leaf, Vec<(Pc, usize)>)> = Vec::new();
        let mut ops = Vec::new();
        let mut been = Vec::new();
        let mut ways = vec![Way { at: pc, ..Way::default() }];
        while let Some(mut way) = ways.pop() {
            if been.contains(&way.at) {
                continue;
            }
            been.push(way.at);
            let guarded = !(way.not_next.is_empty() && way.not_until.is_empty());
            match self.insts[way.at as usize].clone() {
                Inst::Split { ways: [first, second], possessive } => {
                    for (side, to) in [(1, second), (0, first)] {
                        let mut sides = way.sides.clone();
                        if possessive {
                            sides.push((way.at, side));
                        }
                        ways.push(Way { at: to, sides, ..way.clone() });
                    }
                }
                Inst::Guard { condition, lasting, next } => {
                    let list = if lasting { &mut way.not_until } else { &mut way.not_next };
                    list.push(condition);
                    ways.push(Way { at: next, ..way });
                }
                Inst::Step { step, contiguity, until, next } => {
                    let target = self.of(next, region)?;
                    let leaf = leaf(Some(step), contiguity, target, until, &way);
                    leaves.push((leaf, way.sides));
                }
                Inst::Op(Op::Accept) if guarded => {
                    leaves.push((leaf(None, Contiguity::Relaxed, 0, Vec::new(), &way), way.sides));
                }
                Inst::Op(_) if guarded => return Err(InvalidPattern::NegationBefore),
                Inst::Op(op) => ops.push((leaves.len() as u8, op)),
            }
        }
        let state = &mut self.states[at as usize];
        state.ops = ops;
        state.leaves = ordered(leaves, state)?;
        Ok(())
    }
}

fn leaf(
    step: Option<u16>,
    contiguity: Contiguity,
    target: u16,
    until: Vec<u16>,
    way: &Way,
) -> Leaf {
    let Way { not_next, not_until, .. } = way.clone();
    Leaf { step, contiguity, target, kills: 0, until, not_next, not_until, after: None }
}

/// The leaves, each that must not be followed at once by something with the one behind it that it is
/// afterwards, and what each gives up. Also says which a run waits for at first, and moves the operations.
fn ordered(
    ways: Vec<(Leaf, Vec<(Pc, usize)>)>,
    state: &mut State,
) -> Result<Vec<Leaf>, InvalidPattern> {
    let mut leaves: Vec<(Leaf, Vec<(Pc, usize)>)> = Vec::new();
    let mut places = Vec::new();
    for (mut leaf, sides) in ways {
        let place = leaves.len();
        places.push(place);
        let decided = leaf.step.is_none() && leaf.not_until.is_empty();
        let afterwards = Leaf { not_next: Vec::new(), ..leaf.clone() };
        let changes = !leaf.not_next.is_empty() && !decided;
        leaf.after = changes.then_some(place as u8 + 1);
        leaves.push((leaf, sides.clone()));
        leaves.extend(changes.then_some((afterwards, sides)));
        if leaves.len() > 64 {
            return Err(InvalidPattern::TooLarge("more than 64 steps may come next at one place"));
        }
    }
    state.alive = places.iter().fold(0, |alive, place| alive | 1 << place);
    for (before, _) in &mut state.ops {
        *before = places.get(*before as usize).map_or(leaves.len(), |&place| place) as u8;
    }
    for at in 0..leaves.len() {
        let sides = leaves[at].1.clone();
        let rivals = leaves.iter().enumerate().filter(|(_, (_, others))| {
            others
                .iter()
                .any(|&(split, side)| sides.iter().any(|&(own, way)| own == split && way != side))
        });
        leaves[at].0.kills = rivals.fold(0, |kills, (rival, _)| kills | 1 << rival);
    }
    Ok(leaves.into_iter().map(|(leaf, _)| leaf).collect())
}
