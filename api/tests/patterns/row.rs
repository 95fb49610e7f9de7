//! Row patterns as SQL writes them: `A B*? (C | D){2,3} PERMUTE(E, F)`.

use mizzle::pattern::{Part, any_event, either, step_if};
use serde_json::Value;

use super::conditions::{Happening, defined};

/// The part that `text` means; `define` says what the variables are.
pub fn parse(text: &str, define: &Value) -> Part<Happening> {
    let mut reader = Reader { rest: text.trim(), define };
    let part = reader.choice();
    assert!(reader.rest.is_empty(), "what is {:?} in a row pattern?", reader.rest);
    part
}

struct Reader<'a> {
    rest: &'a str,
    define: &'a Value,
}

impl Reader<'_> {
    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text).map(str::trim_start);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn choice(&mut self) -> Part<Happening> {
        let mut ways = vec![self.sequence()];
        while self.eat("|") {
            ways.push(self.sequence());
        }
        if ways.len() == 1 { ways.remove(0) } else { either(ways) }
    }

    fn sequence(&mut self) -> Part<Happening> {
        let mut part = self.repeated();
        while !self.rest.is_empty() && !self.rest.starts_with([')', '|', ',']) {
            part = part.next(self.repeated());
        }
        part
    }

    fn repeated(&mut self) -> Part<Happening> {
        let part = self.atom();
        let part = if self.eat("*") {
            part.zero_or_more()
        } else if self.eat("+") {
            part.one_or_more()
        } else if self.eat("?") {
            part.optional()
        } else if self.eat("{") {
            let (range, rest) = self.rest.split_once('}').expect("a range ends");
            self.rest = rest.trim_start();
            let number = |text: &str| text.trim().parse::<u32>().ok();
            match range.split_once(',') {
                None => part.times(number(range).unwrap()..=number(range).unwrap()),
                Some((min, max)) => match number(max) {
                    Some(max) => part.times(number(min).unwrap_or(0)..=max),
                    None => part.times(number(min).unwrap_or(0)..),
                },
            }
        } else {
            return part;
        };
        let part = part.consecutive();
        if self.eat("?") { part.reluctant() } else { part }
    }

    fn atom(&mut self) -> Part<Happening> {
        if self.eat("(") {
            let part = self.choice();
            assert!(self.eat(")"), "a bracket ends");
            return part;
        }
        if self.eat("PERMUTE(") {
            let mut names = Vec::new();
            while !self.eat(")") {
                names.push(self.name());
                self.eat(",");
            }
            let ways = orders(&names).into_iter().map(|order| {
                let steps = order.iter().map(|name| self.variable(name));
                steps.reduce(|before, step| before.next(step)).expect("something is permuted")
            });
            return either(ways.collect::<Vec<_>>());
        }
        let name = self.name();
        self.variable(&name)
    }

    fn name(&mut self) -> String {
        let end = self.rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(self.rest.len());
        assert!(end > 0, "a variable stands at {:?}", self.rest);
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        name.to_owned()
    }

    fn variable(&self, name: &str) -> Part<Happening> {
        match self.define[name].as_str() {
            Some(definition) => step_if(name, defined(definition)),
            None => any_event(name),
        }
    }
}

/// All orders of `names`, in the order of their places.
fn orders(names: &[String]) -> Vec<Vec<String>> {
    if names.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: usize| {
        let mut rest = names.to_vec();
        let first = rest.remove(first);
        orders(&rest).into_iter().map(move |rest| [vec![first.clone()], rest].concat())
    };
    (0..names.len()).flat_map(with_first).collect()
}
