//! From the expression to the automaton.

mod checks;
mod closure;

use std::collections::HashMap;
use std::sync::Arc;

use super::expr::{Again, Condition, Contiguity, Expr, Link, Negation, Preference, Step, Times};
use super::pattern::{InvalidPattern, Pattern, Report, Skip};
use super::program::{
    Alone, Asked, Branch, Group, Op, Options, Program, Region, Repeated, StepOf, Wait,
};
use crate::time::micros;

/// A place among the instructions.
type Pc = u32;

/// What an expression is written as first.
#[derive(Clone)]
enum Inst {
    Step {
        step: u16,
        contiguity: Contiguity,
        /// The conditions that end the repetitions it is in.
        until: Vec<u16>,
        next: Pc,
    },
    /// Two ways to go on, the preferred one first; `possessive`: one only.
    Split {
        ways: [Pc; 2],
        possessive: bool,
    },
    Guard {
        condition: u16,
        lasting: bool,
        next: Pc,
    },
    Op(Op),
}

/// What has been written so far.
struct Compiler<E> {
    insts: Vec<Inst>,
    steps: Vec<StepOf>,
    names: Vec<Arc<str>>,
    /// The part that each step stands in.
    homes: Vec<u16>,
    conditions: Vec<Asked<E>>,
    /// Conditions that have been met, by their place in the expression: a repeated part is written
    /// several times.
    known: HashMap<*const (), u16>,
    groups: Vec<Group>,
    repeats: Vec<Repeated>,
    waits: Vec<Wait>,
    regions: Vec<Region>,
}

/// How a part stands among the others.
#[derive(Clone)]
struct Place {
    contiguity: Contiguity,
    until: Vec<u16>,
    region: u16,
}

impl Place {
    fn strictly(&self, contiguity: Contiguity) -> Self {
        Self { contiguity, ..self.clone() }
    }
}

impl<E> Pattern<E> {
    /// The program, or why there is none.
    ///
    /// # Errors
    /// Where nothing, or everything, would match, where something is held for ever, and where a part
    /// stands where it has no meaning.
    pub fn compile(&self) -> Result<Program<E>, InvalidPattern> {
        checks::check(self)?;
        let mut compiler = Compiler {
            insts: vec![Inst::Op(Op::Accept)],
            steps: Vec::new(),
            names: Vec::new(),
            homes: Vec::new(),
            conditions: Vec::new(),
            known: HashMap::new(),
            groups: Vec::new(),
            repeats: Vec::new(),
            waits: Vec::new(),
            regions: vec![Region::Whole],
        };
        let whole = Place { contiguity: Contiguity::Relaxed, until: Vec::new(), region: 0 };
        let start = compiler.expr(&self.expr, whole, 0)?;
        if let Skip::ToFirst(name) | Skip::ToLast(name) = &self.skip
            && compiler.names.iter().all(|known| **known != **name)
        {
            return Err(InvalidPattern::UnknownStep(name.clone()));
        }
        let unranked = compiler.regions.len() > 1 || !compiler.waits.is_empty();
        if self.report != Report::Each && unranked {
            return Err(InvalidPattern::NotRanked);
        }
        compiler.finish(start, self.options())
    }

    fn options(&self) -> Options {
        let limit =
            |limit: super::Limit| micros(limit.length).saturating_add(i64::from(limit.inclusive));
        Options {
            starts: self.starts,
            within: self.within.map(limit),
            within_each: self.within_each.map(limit),
            report: self.report,
            skip: self.skip.clone(),
            consume: self.consume,
            cap: self.cap,
            levels: false,
            pending: false,
        }
    }
}

/// The place of a new entry of a table.
fn place_in<X>(table: &mut Vec<X>, entry: X, what: &'static str) -> Result<u16, InvalidPattern> {
    let at = u16::try_from(table.len()).map_err(|_| InvalidPattern::TooLarge(what))?;
    table.push(entry);
    Ok(at)
}

impl<E> Compiler<E> {
    fn inst(&mut self, inst: Inst) -> Pc {
        self.insts.push(inst);
        self.insts.len() as Pc - 1
    }

    fn op(&mut self, op: Op) -> Pc {
        self.inst(Inst::Op(op))
    }

    fn condition(
        &mut self,
        known: *const (),
        condition: &Condition<E>,
        alone: bool,
    ) -> Result<u16, InvalidPattern> {
        if let Some(&at) = self.known.get(&known) {
            return Ok(at);
        }
        let asked = Asked { condition: condition.clone(), alone };
        let at = place_in(&mut self.conditions, asked, "more than 65,536 conditions")?;
        self.known.insert(known, at);
        Ok(at)
    }

    /// Writes `expr`, which leads to `next`; where it begins.
    fn expr(&mut self, expr: &Expr<E>, place: Place, next: Pc) -> Result<Pc, InvalidPattern> {
        match expr {
            Expr::Step(step) => self.step(step, place, next),
            Expr::Sequence(links) => self.sequence(links, place, next),
            Expr::Repeat(of, times) => self.repeat(of, times, place, next),
            Expr::Either(parts) => self.choice(parts, place, next, false),
            Expr::AnyOf(parts) if parts.iter().all(|part| matches!(part, Expr::Step(_))) => {
                self.choice(parts, place, next, true)
            }
            Expr::AnyOf(parts) => self.group(parts, false, place, next),
            Expr::AllOf(_) if place.contiguity == Contiguity::Strict => {
                Err(InvalidPattern::AllNext)
            }
            Expr::AllOf(parts) => self.group(parts, true, place, next),
            Expr::Every(of, again) => self.every(of, *again, place, next),
            Expr::Wait(length) => self.wait(micros(*length), place, next),
            Expr::Absent(_) => Err(InvalidPattern::LoneAbsence),
            Expr::Within(of, limit) => self.within(of, *limit, place, next),
        }
    }

    fn step(&mut self, step: &Step<E>, place: Place, next: Pc) -> Result<Pc, InvalidPattern> {
        let condition =
            self.condition(std::ptr::from_ref(step).cast(), &step.condition, step.alone)?;
        let known = StepOf { condition, level: step.level, max_pending: step.max_pending };
        let at = place_in(&mut self.steps, known, "more than 65,536 steps")?;
        self.names.push(step.name.clone());
        self.homes.push(place.region);
        let Place { contiguity, until, .. } = place;
        Ok(self.inst(Inst::Step { step: at, contiguity, until, next }))
    }

    fn sequence(
        &mut self,
        links: &[Link<E>],
        place: Place,
        mut next: Pc,
    ) -> Result<Pc, InvalidPattern> {
        for (at, link) in links.iter().enumerate().rev() {
            next = match link {
                Link::To(_, part) if at == 0 => self.expr(part, place.clone(), next)?,
                Link::To(contiguity, part) => self.expr(part, place.strictly(*contiguity), next)?,
                Link::Not(negation, step) => {
                    let known = std::ptr::from_ref(step).cast();
                    let condition = self.condition(known, &step.condition, step.alone)?;
                    let lasting = *negation == Negation::Until;
                    self.inst(Inst::Guard { condition, lasting, next })
                }
            };
        }
        Ok(next)
    }

    /// The repetitions from the last to the first: those that may be left out, or a loop, and before
    /// them those that must be.
    fn repeat(
        &mut self,
        of: &Expr<E>,
        times: &Times<E>,
        place: Place,
        exit: Pc,
    ) -> Result<Pc, InvalidPattern> {
        let mut first = place;
        if let Some(until) = &times.until {
            first.until.push(self.condition(std::ptr::from_ref(times).cast(), until, true)?);
        }
        let again = first.strictly(times.inner);
        let placed = |iteration: u32| if iteration == 0 { &first } else { &again }.clone();
        let mut next = exit;
        match times.max {
            None => {
                next = self.inst(Inst::Split { ways: [exit; 2], possessive: times.possessive });
                let on = self.expr(of, again.clone(), next)?;
                self.insts[next as usize] = self.split(times, on, exit);
            }
            Some(max) => {
                for iteration in (times.min.max(1)..max).rev() {
                    let on = self.expr(of, placed(iteration), next)?;
                    let split = self.split(times, on, exit);
                    next = self.inst(split);
                }
            }
        }
        for iteration in (0..times.min.max(1)).rev() {
            next = self.expr(of, placed(iteration), next)?;
        }
        if times.min == 0 {
            let split = self.split(times, next, exit);
            next = self.inst(split);
        }
        Ok(next)
    }

    fn split(&self, times: &Times<E>, on: Pc, exit: Pc) -> Inst {
        let ways = match times.preference {
            Preference::Greedy => [on, exit],
            Preference::Reluctant => [exit, on],
        };
        Inst::Split { ways, possessive: times.possessive }
    }

    fn choice(
        &mut self,
        parts: &[Expr<E>],
        place: Place,
        next: Pc,
        possessive: bool,
    ) -> Result<Pc, InvalidPattern> {
        let mut entry = None;
        for part in parts.iter().rev() {
            let way = self.expr(part, place.clone(), next)?;
            entry = Some(match entry {
                None => way,
                Some(rest) => self.inst(Inst::Split { ways: [way, rest], possessive }),
            });
        }
        entry.ok_or(InvalidPattern::Nothing)
    }

    fn region(&mut self, kind: Region) -> Result<u16, InvalidPattern> {
        place_in(&mut self.regions, kind, "more than 65,536 parts")
    }

    fn new_group(&mut self, all: bool, region: u16, next: Pc) -> Result<u16, InvalidPattern> {
        let next = narrow(next)?;
        let group = Group { branches: Vec::new(), all, next, region, steps: Vec::new() };
        place_in(&mut self.groups, group, "more than 65,536 parts")
    }

    fn group(
        &mut self,
        parts: &[Expr<E>],
        all: bool,
        place: Place,
        next: Pc,
    ) -> Result<Pc, InvalidPattern> {
        let group = self.new_group(all, place.region, next)?;
        // What is absent comes first: an event that completes it and another part is forbidden.
        let (absent, present): (Vec<_>, Vec<_>) =
            parts.iter().partition(|part| matches!(part, Expr::Absent(_)));
        for (branch, part) in absent.into_iter().chain(present).enumerate() {
            let branch = branch as u16;
            let region = self.region(Region::Branch { group, branch })?;
            let inside = Place { region, ..place.clone() };
            let entry = match part {
                Expr::Absent(of) if all => {
                    let fail = self.op(Op::Fail(group));
                    self.expr(of, inside.strictly(Contiguity::Relaxed), fail)?
                }
                part => {
                    let arrive = self.op(Op::Arrive { group, branch });
                    self.expr(part, inside, arrive)?
                }
            };
            let absent = matches!(part, Expr::Absent(_));
            let entry = narrow(entry)?;
            self.groups[group as usize].branches.push(Branch { entry, absent, own: region });
        }
        Ok(self.op(Op::Fork(group)))
    }

    fn every(
        &mut self,
        of: &Expr<E>,
        when: Again,
        place: Place,
        next: Pc,
    ) -> Result<Pc, InvalidPattern> {
        let next = narrow(next)?;
        let Place { region, .. } = place;
        let repeated = Repeated { body: 0, next, own: 0, steps: Vec::new(), region, when };
        let at = place_in(&mut self.repeats, repeated, "more than 65,536 parts")?;
        let region = self.region(Region::Every(at))?;
        let again = self.op(Op::Again(at));
        let body = self.expr(of, Place { region, ..place }, again)?;
        let repeated = &mut self.repeats[at as usize];
        (repeated.body, repeated.own) = (narrow(body)?, region);
        Ok(self.op(Op::Enter(at)))
    }

    fn wait(&mut self, length: i64, place: Place, next: Pc) -> Result<Pc, InvalidPattern> {
        let wait = Wait { length, next: narrow(next)?, region: place.region };
        let at = place_in(&mut self.waits, wait, "more than 65,536 waits")?;
        Ok(self.op(Op::Wait(at)))
    }

    /// Races the part against a wait.
    fn within(
        &mut self,
        of: &Expr<E>,
        limit: super::Limit,
        place: Place,
        next: Pc,
    ) -> Result<Pc, InvalidPattern> {
        let group = self.new_group(false, place.region, next)?;
        for branch in [0, 1] {
            let region = self.region(Region::Branch { group, branch })?;
            let inside = Place { region, ..place.clone() };
            let entry = if branch == 0 {
                let arrive = self.op(Op::Arrive { group, branch });
                self.expr(of, inside, arrive)?
            } else {
                let fail = self.op(Op::Fail(group));
                let length = micros(limit.length).saturating_add(i64::from(limit.inclusive));
                self.wait(length, inside, fail)?
            };
            let entry = narrow(entry)?;
            self.groups[group as usize].branches.push(Branch { entry, absent: false, own: region });
        }
        Ok(self.op(Op::Fork(group)))
    }

    /// Makes states of all places that a run can come to stand at.
    fn finish(mut self, start: Pc, options: Options) -> Result<Program<E>, InvalidPattern> {
        let mut states = closure::States::new(&self.insts);
        let start = states.of(start, 0)?;
        for group in &mut self.groups {
            group.next = states.of(Pc::from(group.next), group.region)?;
        }
        for (region, kind) in self.regions.iter().enumerate() {
            let region = region as u16;
            match *kind {
                Region::Whole => {}
                Region::Branch { group, branch } => {
                    let entry = &mut self.groups[group as usize].branches[branch as usize].entry;
                    *entry = states.of(Pc::from(*entry), region)?;
                }
                Region::Every(repeat) => {
                    let repeat = &mut self.repeats[repeat as usize];
                    repeat.body = states.of(Pc::from(repeat.body), region)?;
                    repeat.next = states.of(Pc::from(repeat.next), repeat.region)?;
                }
            }
        }
        for wait in &mut self.waits {
            wait.next = states.of(Pc::from(wait.next), wait.region)?;
        }
        let states = states.finish()?;
        let mut program = Program {
            options: Options {
                levels: self.steps.iter().any(|step| step.level > 0),
                pending: self.steps.iter().any(|step| step.max_pending.is_some()),
                ..options
            },
            steps: self.steps,
            names: self.names,
            conditions: self.conditions,
            states,
            groups: self.groups,
            repeats: self.repeats,
            waits: self.waits,
            regions: self.regions,
            start,
            rest: None,
            alone: Alone::default(),
        };
        program.rest = program.resting();
        program.alone = program.look_alone();
        for group in 0..program.groups.len() {
            let within = |&home: &u16| program.is_in_group(home, group as u16);
            program.groups[group].steps = self.homes.iter().map(within).collect();
        }
        for repeat in 0..program.repeats.len() {
            let within = |&home: &u16| program.is_in(home, program.repeats[repeat].own);
            program.repeats[repeat].steps = self.homes.iter().map(within).collect();
        }
        Ok(program)
    }
}

/// A place among instructions, where there is little room to note it.
fn narrow(pc: Pc) -> Result<u16, InvalidPattern> {
    u16::try_from(pc).map_err(|_| InvalidPattern::TooLarge("more than 65,536 instructions"))
}
