//! Patterns: which events, one after another, are looked for.
//!
//! A [`Part`] is what is looked for: steps put together with [`then`](Part::then), [`next`](Part::next) and
//! the other methods. A [`Pattern`] is a part together with what shall happen around it: how long it may
//! take, which matches are reported, where matching goes on afterwards. A stream looks for it with
//! [`pattern`](crate::KeyedStream::pattern).

use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use mizzle_engine::cep;
use mizzle_engine::cep::{
    Again, Cap, Condition, Consume, Contiguity, Expr, Limit, Link, Negation, Preference, Program,
    Step, Times,
};

pub use mizzle_engine::cep::{AtCap, Bound, Found, InvalidPattern, Report, Skip, Taken};

/// A part of a pattern: a step, or steps put together.
#[must_use = "a part does nothing before it is in a pattern"]
pub struct Part<E> {
    expr: Expr<E>,
    mistake: Option<InvalidPattern>,
}

/// One event for which `fits` holds. In a match it is found by `name`, which several steps may share.
pub fn step<E>(name: &str, fits: impl Fn(&E) -> bool + Send + Sync + 'static) -> Part<E> {
    plain(name, Arc::new(move |event, _| fits(event)), true)
}

/// One event for which `fits` holds, given the events that were taken before it.
///
/// ```
/// use mizzle::pattern::{Pattern, step, step_if};
/// // A reading at least ten above the one before it.
/// let rise = step("low", |_: &i64| true)
///     .next(step_if("high", |now: &i64, before| now - before["low"] >= 10));
/// # let _ = Pattern::new(rise);
/// ```
pub fn step_if<E>(
    name: &str,
    fits: impl Fn(&E, &Bound<'_, E>) -> bool + Send + Sync + 'static,
) -> Part<E> {
    plain(name, Arc::new(fits), false)
}

/// Any event.
pub fn any_event<E>(name: &str) -> Part<E> {
    step(name, |_| true)
}

fn plain<E>(name: &str, condition: Condition<E>, alone: bool) -> Part<E> {
    let step = Step { name: name.into(), condition, alone, level: 0, max_pending: None };
    Part { expr: Expr::Step(step), mistake: None }
}

/// All of the parts, in any order; one event may fill several of them.
pub fn all_of<E>(parts: impl IntoIterator<Item = Part<E>>) -> Part<E> {
    several(parts, Expr::AllOf)
}

/// The part that is complete first; the others are given up then.
pub fn any_of<E>(parts: impl IntoIterator<Item = Part<E>>) -> Part<E> {
    several(parts, Expr::AnyOf)
}

/// Any of the parts, those named first preferred; each that is complete makes a match.
pub fn either<E>(parts: impl IntoIterator<Item = Part<E>>) -> Part<E> {
    several(parts, Expr::Either)
}

fn several<E>(
    parts: impl IntoIterator<Item = Part<E>>,
    of: impl FnOnce(Vec<Expr<E>>) -> Expr<E>,
) -> Part<E> {
    let mut mistake = None;
    let parts = parts.into_iter().map(|part| {
        mistake = mistake.take().or(part.mistake);
        part.expr
    });
    let expr = of(parts.collect());
    Part { expr, mistake }
}

/// `length` passes. Within [`all_of`], beside [`absent`], it is a quiet time.
///
/// ```
/// use std::time::Duration;
/// use mizzle::pattern::{Pattern, absent, all_of, step, wait};
/// // An order that is not paid within an hour.
/// let unpaid = step("order", |event: &&str| *event == "order")
///     .then(all_of([wait(Duration::from_secs(3600)), absent(step("paid", |event| *event == "paid"))]));
/// # let _ = Pattern::new(unpaid);
/// ```
pub fn wait<E>(length: Duration) -> Part<E> {
    Part { expr: Expr::Wait(length), mistake: None }
}

/// What must not be complete before the other parts of an [`all_of`] are.
pub fn absent<E>(part: Part<E>) -> Part<E> {
    Part { expr: Expr::Absent(Box::new(part.expr)), mistake: part.mistake }
}

impl<E> Part<E> {
    /// This, and `part` right behind it: no event between (strict contiguity; Flink's `next`).
    pub fn next(self, part: Part<E>) -> Self {
        self.link(Contiguity::Strict, part)
    }

    /// This, and then the first event that fits `part`: others between are passed over (relaxed
    /// contiguity; Flink's `followedBy`, Esper's `->`).
    pub fn then(self, part: Part<E>) -> Self {
        self.link(Contiguity::Relaxed, part)
    }

    /// This, and then any event that fits `part`: those that fit are taken and passed over as well, so
    /// that each makes a match (non-deterministic relaxed contiguity; Flink's `followedByAny`).
    pub fn then_any(self, part: Part<E>) -> Self {
        self.link(Contiguity::Any, part)
    }

    /// The very next event must not be `step`. Stands before another step, or at the end.
    pub fn not_next(self, step: Part<E>) -> Self {
        self.forbid(Negation::Next, step)
    }

    /// No event may be `step` before the step that follows; at the end, before the pattern's time is over.
    pub fn not_then(self, step: Part<E>) -> Self {
        self.forbid(Negation::Until, step)
    }

    fn link(self, contiguity: Contiguity, part: Part<E>) -> Self {
        let mistake = self.mistake.or(part.mistake);
        Self { expr: Expr::Sequence(behind(self.expr, Link::To(contiguity, part.expr))), mistake }
    }

    fn forbid(self, negation: Negation, step: Part<E>) -> Self {
        let mut mistake = self.mistake.or(step.mistake);
        let expr = match step.expr {
            Expr::Step(step) => Expr::Sequence(behind(self.expr, Link::Not(negation, step))),
            _ => {
                mistake = mistake.or(Some(InvalidPattern::NegationBefore));
                self.expr
            }
        };
        Self { expr, mistake }
    }

    /// This as often as `times` says: `2..=2`, `1..`, `..=3`. Events between that do not fit are passed
    /// over; [`consecutive`](Self::consecutive) and [`combinations`](Self::combinations) change that. All
    /// numbers of times that are possible make matches.
    pub fn times(self, times: impl RangeBounds<u32>) -> Self {
        Self { expr: Expr::Repeat(Box::new(self.expr), Times::new(times)), mistake: self.mistake }
    }

    /// This once or more often.
    pub fn one_or_more(self) -> Self {
        self.times(1..)
    }

    /// This as often as it comes, or not at all.
    pub fn zero_or_more(self) -> Self {
        self.times(0..)
    }

    /// This, or nothing.
    pub fn optional(mut self) -> Self {
        match &mut self.expr {
            Expr::Repeat(_, times) if times.min == 0 => self.blame(InvalidPattern::OptionalTwice),
            Expr::Repeat(_, times) if times.min == 1 => {
                times.min = 0;
                self
            }
            Expr::Repeat(_, times) => {
                let (preference, possessive) = (times.preference, times.possessive);
                let optional = Times { preference, possessive, ..Times::new(..=1) };
                Self { expr: Expr::Repeat(Box::new(self.expr), optional), mistake: self.mistake }
            }
            _ => self.times(..=1),
        }
    }

    /// Repetitions follow each other without an event between.
    pub fn consecutive(self) -> Self {
        self.repeated(|times| times.inner = Contiguity::Strict)
    }

    /// Repetitions pass over events that fit, too: any of those that fit, in their order.
    pub fn combinations(self) -> Self {
        self.repeated(|times| times.inner = Contiguity::Any)
    }

    /// Rather few repetitions than many.
    pub fn reluctant(self) -> Self {
        self.repeated(|times| times.preference = Preference::Reluctant)
    }

    /// Where the repetition could go on or stop, only the first that fits the next event happens. With this
    /// as many are taken as come (Flink's `greedy`); after [`reluctant`](Self::reluctant), as few.
    pub fn possessive(self) -> Self {
        self.repeated(|times| times.possessive = true)
    }

    /// The event for which `ends` holds ends the repetition: neither it nor a later one is taken in it.
    pub fn until(self, ends: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        let ends: Condition<E> = Arc::new(move |event, _| ends(event));
        self.repeated(|times| times.until = Some(ends.clone()))
    }

    /// Changes how this is repeated, and how it may be left out.
    fn repeated(mut self, change: impl Fn(&mut Times<E>)) -> Self {
        let mut expr = &mut self.expr;
        let mut changed = false;
        while let Expr::Repeat(of, times) = expr {
            change(times);
            changed = true;
            expr = of;
        }
        if changed { self } else { self.blame(InvalidPattern::NotRepeated) }
    }

    fn blame(mut self, mistake: InvalidPattern) -> Self {
        self.mistake = self.mistake.or(Some(mistake));
        self
    }

    /// This, again and again: it begins anew when it is complete, and when it has become impossible
    /// (Esper's `every`). For a pattern that begins [once](Pattern::once).
    pub fn every(self) -> Self {
        self.again(Again { complete: true, impossible: true })
    }

    /// This, again and again until it has become impossible.
    pub fn every_while_possible(self) -> Self {
        self.again(Again { complete: true, impossible: false })
    }

    /// This once; it begins anew as long as it becomes impossible.
    pub fn retry(self) -> Self {
        self.again(Again { complete: false, impossible: true })
    }

    fn again(self, when: Again) -> Self {
        Self { expr: Expr::Every(Box::new(self.expr), when), mistake: self.mistake }
    }

    /// This must be complete in less than `length`.
    pub fn within(self, length: Duration) -> Self {
        let limit = Limit::below(length);
        Self { expr: Expr::Within(Box::new(self.expr), limit), mistake: self.mistake }
    }

    /// An event that fits steps of several levels is kept from those of the lower ones, in all partial
    /// matches; steps have level 0 unless this is said (Esper's `@consume`).
    pub fn level(self, level: u8) -> Self {
        self.alone(|step| step.level = level)
    }

    /// At most so many partial matches of a key wait for this step; one more is dropped, and counted.
    pub fn max_pending(self, most: u32) -> Self {
        self.alone(|step| step.max_pending = Some(most))
    }

    fn alone(mut self, change: impl FnOnce(&mut Step<E>)) -> Self {
        match &mut self.expr {
            Expr::Step(step) => {
                change(step);
                self
            }
            _ => self.blame(InvalidPattern::NotAStep),
        }
    }
}

/// `link` behind what there is.
fn behind<E>(before: Expr<E>, link: Link<E>) -> Vec<Link<E>> {
    let mut links = match before {
        Expr::Sequence(links) => links,
        other => vec![Link::To(Contiguity::Relaxed, other)],
    };
    links.push(link);
    links
}

/// A part that is looked for, and what happens around it.
///
/// Unless it is said otherwise a match may begin with every event that fits the beginning, all matches are
/// reported as soon as they are complete, and nothing is dropped for them. That holds for Flink too.
#[must_use = "a pattern does nothing before a stream looks for it"]
pub struct Pattern<E> {
    pattern: cep::Pattern<E>,
    mistake: Option<InvalidPattern>,
}

impl<E> TryFrom<Pattern<E>> for Program<E> {
    type Error = InvalidPattern;

    /// What looks for the pattern.
    ///
    /// # Errors
    /// If there is no such pattern.
    fn try_from(pattern: Pattern<E>) -> Result<Self, InvalidPattern> {
        pattern.mistake.map_or_else(|| pattern.pattern.compile(), Err)
    }
}

impl<E> Pattern<E> {
    /// Looks for `part`; with every event that fits its beginning, it begins.
    pub fn new(part: Part<E>) -> Self {
        Self::with(part, cep::Starts::EachEvent)
    }

    /// Looks for `part`, which begins once per key, with the key's first event; parts of it, or all of it,
    /// may begin again by [`every`](Part::every) (Esper's patterns).
    pub fn once(part: Part<E>) -> Self {
        Self::with(part, cep::Starts::Once)
    }

    fn with(part: Part<E>, starts: cep::Starts) -> Self {
        Self { pattern: cep::Pattern::new(part.expr, starts), mistake: part.mistake }
    }

    /// A match takes less than `length`, from its first event to its last. A partial match whose time is
    /// over is a timeout.
    pub fn within(mut self, length: Duration) -> Self {
        self.pattern.within = Some(Limit::below(length));
        self
    }

    /// A match takes at most `length`.
    pub fn within_inclusive(mut self, length: Duration) -> Self {
        self.pattern.within = Some(Limit { length, inclusive: true });
        self
    }

    /// Less than `length` lies between an event of a match and the one before it.
    pub fn within_each(mut self, length: Duration) -> Self {
        self.pattern.within_each = Some(Limit::below(length));
        self
    }

    /// Which ways in which events match are reported, and when.
    pub fn report(mut self, report: Report) -> Self {
        self.pattern.report = report;
        self
    }

    /// Where matching goes on after a match.
    pub fn skip(mut self, skip: Skip) -> Self {
        self.pattern.skip = skip;
        self
    }

    /// No event is in two matches: a match drops the partial matches that have one of its events.
    pub fn consume(mut self) -> Self {
        self.pattern.consume = Consume::Matched;
        self
    }

    /// A key has at most `runs` partial matches.
    pub fn max_partial(mut self, runs: u32, at_cap: AtCap) -> Self {
        self.pattern.cap = Some(Cap { runs, at_cap });
        self
    }
}
