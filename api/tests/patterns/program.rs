//! Random patterns as data, and as what a user writes.

use std::fmt::Write as _;
use std::ops::Bound::{Included, Unbounded};
use std::time::Duration;

use mizzle::pattern::{Bound, Part, Pattern, Report, Skip, any_of, either, step_if};

/// What happens in a random stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Happening {
    pub id: usize,
    pub key: u8,
    pub time: i64,
    pub kind: u8,
    pub value: i8,
}

/// Which events fit: those of the kinds whose bits are set, and of them those that also go with what a
/// step has taken before.
#[derive(Clone, Copy, Debug)]
pub enum Fits {
    Kinds(u8),
    /// Its value is above the last one of the step, if there is one.
    Above(u8, &'static str),
    /// Its value is not the first one of the step.
    Differs(u8, &'static str),
    /// The step has taken fewer.
    Fewer(u8, &'static str, usize),
}

impl Fits {
    /// Whether an event fits; `of` gives the values that a step has taken so far.
    pub fn holds(self, event: &Happening, of: impl Fn(&str) -> Vec<i8>) -> bool {
        let (kinds, also) = match self {
            Self::Kinds(kinds) => (kinds, true),
            Self::Above(kinds, step) => (kinds, of(step).last().is_none_or(|v| *v < event.value)),
            Self::Differs(kinds, step) => (kinds, of(step).first() != Some(&event.value)),
            Self::Fewer(kinds, step, n) => (kinds, of(step).len() < n),
        };
        also && kinds & (1 << event.kind) != 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gap {
    Strict,
    Relaxed,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub min: u32,
    pub max: Option<u32>,
    pub inner: Gap,
    pub reluctant: bool,
    pub possessive: bool,
    /// The kinds that end it.
    pub until: Option<u8>,
}

#[derive(Clone, Debug)]
pub enum Pat {
    Step(&'static str, Fits),
    Sequence(Box<Pat>, Vec<Link>),
    Repeat(Box<Pat>, Times),
    Either(Vec<Pat>),
    AnyOf(Vec<Pat>),
}

#[derive(Clone, Debug)]
pub enum Link {
    To(Gap, Pat),
    NotNext(Fits),
    NotThen(Fits),
}

#[derive(Clone, Debug)]
pub struct Program {
    pub pat: Pat,
    /// Microseconds, and whether the last one counts.
    pub within: Option<(i64, bool)>,
    pub within_each: Option<i64>,
    pub report: Report,
    pub skip: Skip,
    pub consume: bool,
}

impl Pat {
    /// Whether it may be complete without an event.
    pub fn can_be_empty(&self) -> bool {
        match self {
            Self::Sequence(first, links) => {
                first.can_be_empty()
                    && links
                        .iter()
                        .all(|link| !matches!(link, Link::To(_, to) if !to.can_be_empty()))
            }
            Self::Repeat(of, times) => times.min == 0 || of.can_be_empty(),
            Self::Either(parts) | Self::AnyOf(parts) => parts.iter().any(Self::can_be_empty),
            Self::Step(..) => false,
        }
    }

    /// Whether a step in it is called so.
    pub fn has(&self, name: &str) -> bool {
        let any = |parts: &[Self]| parts.iter().any(|part| part.has(name));
        match self {
            Self::Step(own, _) => *own == name,
            Self::Sequence(first, links) => {
                let has = |link: &Link| matches!(link, Link::To(_, to) if to.has(name));
                first.has(name) || links.iter().any(has)
            }
            Self::Either(parts) | Self::AnyOf(parts) => any(parts),
            Self::Repeat(of, _) => of.has(name),
        }
    }

    /// As a user writes it.
    fn part(&self) -> Part<Happening> {
        match self {
            Self::Step(name, fits) => step(name, *fits),
            Self::Sequence(first, links) => {
                links.iter().fold(first.part(), |part, link| match link {
                    Link::To(Gap::Strict, to) => part.next(to.part()),
                    Link::To(Gap::Relaxed, to) => part.then(to.part()),
                    Link::To(Gap::Any, to) => part.then_any(to.part()),
                    Link::NotNext(fits) => part.not_next(step("not", *fits)),
                    Link::NotThen(fits) => part.not_then(step("not", *fits)),
                })
            }
            Self::Repeat(of, times) => repeated(of.part(), times),
            Self::Either(parts) => either(parts.iter().map(Self::part)),
            Self::AnyOf(parts) => any_of(parts.iter().map(Self::part)),
        }
    }
}

pub fn us(micros: i64) -> Duration {
    Duration::from_micros(micros as u64)
}

fn step(name: &str, fits: Fits) -> Part<Happening> {
    step_if(name, move |event: &Happening, before| {
        fits.holds(event, |step| before.all(step).into_iter().map(|event| event.value).collect())
    })
}

fn repeated(of: Part<Happening>, times: &Times) -> Part<Happening> {
    // `either` keeps what is said of this repetition from one right within it.
    let part = either([of]).times((Included(times.min), times.max.map_or(Unbounded, Included)));
    let part = match times.inner {
        Gap::Strict => part.consecutive(),
        Gap::Relaxed => part,
        Gap::Any => part.combinations(),
    };
    let part = if times.reluctant { part.reluctant() } else { part };
    let part = if times.possessive { part.possessive() } else { part };
    match times.until {
        Some(kinds) => part.until(move |event| Fits::Kinds(kinds).holds(event, |_| Vec::new())),
        None => part,
    }
}

impl Program {
    /// As a user writes it.
    pub fn pattern(&self) -> Pattern<Happening> {
        let part = self.pat.part();
        let pattern = Pattern::new(part);
        let pattern = match self.within {
            Some((length, true)) => pattern.within_inclusive(us(length)),
            Some((length, false)) => pattern.within(us(length)),
            None => pattern,
        };
        let pattern = match self.within_each {
            Some(length) => pattern.within_each(us(length)),
            None => pattern,
        };
        let pattern = pattern.report(self.report).skip(self.skip.clone());
        if self.consume { pattern.consume() } else { pattern }
    }
}

/// The events of a match in the order of their arrival, each with its step.
pub fn described<'a>(events: impl IntoIterator<Item = (usize, &'a str)>) -> String {
    let mut events: Vec<_> = events.into_iter().collect();
    events.sort_unstable();
    events.into_iter().fold(String::new(), |mut text, (id, step)| {
        write!(text, "{step}{id} ").expect("a text has room");
        text
    })
}

/// What a match becomes in the query: its key, and its events.
pub fn told(events: &Bound<'_, Happening>) -> (u8, String) {
    let events = events.events();
    let key = events.first().map_or(u8::MAX, |taken| taken.value.key);
    (key, described(events.iter().map(|taken| (taken.value.id, taken.step))))
}
