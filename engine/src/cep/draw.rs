//! A program as a picture: what its states wait for, and where that leads.

use crate::plan::Drawn;

use super::expr::Contiguity;
use super::program::{Leaf, Op, Program, State};
use super::{Report, Skip, Starts};

impl<E> Program<E> {
    /// The automaton: a line for each state, and the arrows between them.
    pub fn drawn(&self) -> Drawn {
        let mut text = vec![self.describe_options()];
        text.extend(self.warnings().into_iter().map(|warning| format!("warning: {warning}")));
        let mut arrows = Vec::new();
        for (at, state) in self.states.iter().enumerate() {
            for (label, target) in self.ways(state) {
                text.push(format!("s{at}: {label} -> {target}"));
                arrows.push((format!("s{at}"), label, target));
            }
        }
        Drawn { text, arrows }
    }

    /// What a user should know before the pattern runs.
    pub fn warnings(&self) -> Vec<String> {
        let options = &self.options;
        let bounded = options.within.is_some() || options.within_each.is_some();
        let mut warnings = Vec::new();
        let waits = |state: &State| {
            state.region == 0
                && state.leaves.iter().any(|leaf| leaf.contiguity != Contiguity::Strict)
        };
        let later = self
            .states
            .iter()
            .enumerate()
            .any(|(at, state)| at != usize::from(self.start) && waits(state));
        if later && !bounded && options.cap.is_none() {
            warnings.push(
                "partial matches are kept until they match: give the pattern `within`, or a cap"
                    .to_owned(),
            );
        }
        if options.starts == Starts::Once && self.repeats.is_empty() {
            warnings.push(
                "it begins once per key, so every key is remembered for ever: `every` begins again"
                    .to_owned(),
            );
        }
        warnings
    }

    fn describe_options(&self) -> String {
        let options = &self.options;
        let mut said = vec![match options.starts {
            Starts::EachEvent => "begins with each event".to_owned(),
            Starts::Once => "begins once per key".to_owned(),
        }];
        if let Some(within) = options.within {
            said.push(format!("within {within} us"));
        }
        if let Some(within) = options.within_each {
            said.push(format!("within {within} us of the event before"));
        }
        match options.report {
            Report::Each => {}
            Report::Best => said.push("the preferred match".to_owned()),
            Report::BestBy(length) => said.push(format!("the preferred match, by {length:?}")),
            Report::BestAt(length) => said.push(format!("the preferred match, after {length:?}")),
        }
        match &options.skip {
            Skip::None => {}
            Skip::PastLast => said.push("then past its last event".to_owned()),
            Skip::ToNext => said.push("then past its first event".to_owned()),
            Skip::ToFirst(name) => said.push(format!("then from its first {name:?}")),
            Skip::ToLast(name) => said.push(format!("then from its last {name:?}")),
        }
        said.join(", ")
    }

    /// What leads away from a state, and where to.
    fn ways(&self, state: &State) -> Vec<(String, String)> {
        let leaves = state.leaves.iter().map(|leaf| {
            (
                self.describe_leaf(leaf),
                match leaf.step {
                    Some(_) => format!("s{}", leaf.target),
                    None => "match".to_owned(),
                },
            )
        });
        let mut ways: Vec<_> = leaves.collect();
        for &(_, op) in &state.ops {
            self.op_ways(op, &mut ways);
        }
        ways
    }

    fn op_ways(&self, op: Op, ways: &mut Vec<(String, String)>) {
        let state = |at: u16| format!("s{at}");
        match op {
            Op::Accept => ways.push(("complete".to_owned(), "match".to_owned())),
            Op::Fork(group) => {
                for branch in &self.groups[group as usize].branches {
                    let label = if branch.absent { "must not be" } else { "side by side" };
                    ways.push((label.to_owned(), state(branch.entry)));
                }
            }
            Op::Arrive { group, .. } => {
                let known = &self.groups[group as usize];
                let label = if known.all { "with all others" } else { "first" };
                ways.push((label.to_owned(), state(known.next)));
            }
            Op::Fail(_) => ways.push(("impossible".to_owned(), "end".to_owned())),
            Op::Enter(repeat) => {
                ways.push(("every".to_owned(), state(self.repeats[repeat as usize].body)));
            }
            Op::Again(repeat) => {
                let known = &self.repeats[repeat as usize];
                ways.push(("complete".to_owned(), state(known.next)));
                ways.push(("again".to_owned(), state(known.body)));
            }
            Op::Wait(wait) => {
                let known = &self.waits[wait as usize];
                ways.push((format!("after {} us", known.length), state(known.next)));
            }
        }
    }

    fn describe_leaf(&self, leaf: &Leaf) -> String {
        let mut label = match leaf.step {
            Some(step) => self.names[step as usize].to_string(),
            None => "nothing forbidden".to_owned(),
        };
        match leaf.contiguity {
            Contiguity::Strict => label.push_str(" (next)"),
            Contiguity::Relaxed => {}
            Contiguity::Any => label.push_str(" (any)"),
        }
        if !leaf.until.is_empty() {
            label.push_str(" (until)");
        }
        if !leaf.not_next.is_empty() {
            label.push_str(" (not next to what is forbidden)");
        }
        if !leaf.not_until.is_empty() {
            label.push_str(" (not after what is forbidden)");
        }
        label
    }
}
