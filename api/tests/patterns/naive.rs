//! Which matches a pattern has in a list of events: all ways in which steps can take events are listed,
//! and what is reported, skipped and consumed is worked out from that list.
//!
//! Written from `cep/README.md`; there is no automaton here, and a place in a pattern is the list of
//! what is still to be done.

use mizzle::pattern::{Report, Skip};

use super::program::{Fits, Gap, Happening, Link, Pat, Program, Times, described};

/// When something happens: its time, and how many events have come; what is due comes before the events of
/// that time. The end is behind all.
pub type Moment = (i64, usize);

const END: Moment = (i64::MAX, usize::MAX);

/// What comes out for a key.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    /// Matches with their times, unless the end brought them.
    pub matches: Vec<(Option<i64>, String)>,
    pub timeouts: Vec<(i64, String)>,
}

/// So many ways that working them out takes too long.
#[derive(Debug)]
pub struct TooMany;

/// What is to be done.
#[derive(Clone)]
enum Todo<'p> {
    /// A part that follows so, and what ends the repetitions it is in.
    Part(&'p Pat, Gap, Vec<u8>),
    /// A repetition of which so many have been done.
    More { of: &'p Pat, times: &'p Times, done: u32, gap: Gap, ends: Vec<u8> },
    /// What must not come before what follows; `true`: until it comes.
    Not(Fits, bool),
}

/// A way to go on from a place: a step, or the end of the pattern.
#[derive(Clone)]
struct Way<'p> {
    step: Option<(&'static str, Fits, Gap)>,
    ends: Vec<u8>,
    not_next: Vec<Fits>,
    not_then: Vec<Fits>,
    /// The choices that let only one way happen, and what was chosen in each.
    sides: Vec<(usize, usize)>,
    rest: Vec<Todo<'p>>,
}

impl<'p> Way<'p> {
    fn from(rest: Vec<Todo<'p>>) -> Self {
        let (not_next, not_then) = (Vec::new(), Vec::new());
        Self { step: None, ends: Vec::new(), not_next, not_then, sides: Vec::new(), rest }
    }

    fn is_guarded(&self) -> bool {
        !self.not_next.is_empty() || !self.not_then.is_empty()
    }

    fn and(&self, todo: impl IntoIterator<Item = Todo<'p>>) -> Self {
        let mut way = self.clone();
        way.rest.extend(todo);
        way
    }

    /// As `self`, with `side` chosen.
    fn on(mut self, choice: Option<usize>, side: usize) -> Self {
        self.sides.extend(choice.map(|choice| (choice, side)));
        self
    }

    /// All ways to go on, the preferred ones first.
    fn expand(mut self, choices: &mut usize, ways: &mut Vec<Self>) {
        let Some(todo) = self.rest.pop() else { return ways.push(self) };
        match todo {
            Todo::Not(fits, lasting) => {
                let list = if lasting { &mut self.not_then } else { &mut self.not_next };
                list.push(fits);
                self.expand(choices, ways);
            }
            Todo::Part(Pat::Step(name, fits), gap, ends) => {
                ways.push(Way { step: Some((name, *fits, gap)), ends, ..self });
            }
            Todo::Part(Pat::Sequence(first, links), gap, ends) => {
                let links = links.iter().rev().map(|link| match link {
                    Link::To(gap, to) => Todo::Part(to, *gap, ends.clone()),
                    Link::NotNext(fits) => Todo::Not(*fits, false),
                    Link::NotThen(fits) => Todo::Not(*fits, true),
                });
                let first = Todo::Part(first, gap, ends.clone());
                self.and(links.chain([first])).expand(choices, ways);
            }
            Todo::Part(Pat::Either(parts), gap, ends) => {
                for part in parts {
                    self.and([Todo::Part(part, gap, ends.clone())]).expand(choices, ways);
                }
            }
            Todo::Part(Pat::AnyOf(parts), gap, ends) => {
                *choices += 1;
                let choice = Some(*choices);
                for (side, part) in parts.iter().enumerate() {
                    let way = self.and([Todo::Part(part, gap, ends.clone())]);
                    way.on(choice, side).expand(choices, ways);
                }
            }
            Todo::Part(Pat::Repeat(of, times), gap, mut ends) => {
                ends.extend(times.until);
                self.and([Todo::More { of, times, done: 0, gap, ends }]).expand(choices, ways);
            }
            Todo::More { of, times, done, gap, ends } => {
                let may_stop = done >= times.min;
                let may_go_on = times.max.is_none_or(|max| done < max);
                let choice = (may_stop && may_go_on && times.possessive).then(|| {
                    *choices += 1;
                    *choices
                });
                let next = if done == 0 { gap } else { times.inner };
                let again = [
                    Todo::More { of, times, done: done + 1, gap, ends: ends.clone() },
                    Todo::Part(of, next, ends),
                ];
                let on = may_go_on.then(|| self.and(again).on(choice, 0));
                let out = may_stop.then(|| self.on(choice, 1));
                let order = if times.reluctant { [out, on] } else { [on, out] };
                order.into_iter().flatten().for_each(|way| way.expand(choices, ways));
            }
        }
    }
}

/// The ways that one took before another are ordered by these, one for each place.
type Rank = Vec<(usize, usize)>;

/// Ways to go on that wait at a place.
struct Stand {
    taken: Vec<(&'static str, usize)>,
    /// When its time is over.
    over: Option<i64>,
    /// Whether it has been a match before.
    matched: bool,
    /// Each way's rank, whether it is the end, and until when it waits.
    waits: Vec<(Rank, bool, Moment)>,
}

/// Events that make a match.
#[derive(Clone)]
struct Complete {
    taken: Vec<(&'static str, usize)>,
    rank: Rank,
    at: Moment,
}

/// All ways in which the events of a key match.
struct Ways<'a> {
    program: &'a Program,
    events: &'a [Happening],
    stands: Vec<Stand>,
    complete: Vec<Complete>,
}

impl<'a> Ways<'a> {
    fn holds(&self, fits: Fits, taken: &[(&'static str, usize)], event: usize) -> bool {
        fits.holds(&self.events[event], |name| {
            let of = taken.iter().filter(|(step, _)| *step == name);
            of.map(|&(_, at)| self.events[at].value).collect()
        })
    }

    fn moment(&self, event: usize) -> Moment {
        (self.events[event].time, event + 1)
    }

    /// When the time of what has taken these is over.
    fn over(&self, taken: &[(&'static str, usize)]) -> Option<i64> {
        let (first, last) = (taken.first()?.1, taken.last()?.1);
        let within = self.program.within.map(|(length, included)| length + i64::from(included));
        let whole = within.map(|length| self.events[first].time + length);
        let each = self.program.within_each.map(|length| self.events[last].time + length);
        whole.into_iter().chain(each).min()
    }

    fn is_ranked(&self) -> bool {
        self.program.report != Report::Each
    }

    /// At one place `way` was chosen and took `event`. Among the ways of one event what takes it comes before
    /// what passes it over; where only the preferred one counts, the way that is preferred comes first.
    fn rank(&self, rank: &Rank, way: usize, event: usize) -> Rank {
        let own = if self.is_ranked() { (way, event) } else { (event, way) };
        rank.iter().copied().chain([own]).collect()
    }

    /// What comes of having taken `taken`, of which the last was event `next - 1`, with `rest` to do. Where
    /// nothing has been taken only event `next` is looked at.
    fn go_on(
        &mut self,
        rest: Vec<Todo<'a>>,
        taken: Vec<(&'static str, usize)>,
        next: usize,
        rank: &Rank,
        matched: bool,
    ) -> Result<(), TooMany> {
        if self.stands.len() + self.complete.len() > 1500 {
            return Err(TooMany);
        }
        let mut ways = Vec::new();
        Way::from(rest).expand(&mut 0, &mut ways);
        let is_end = |way: &Way<'_>| way.step.is_none() && !way.is_guarded();
        if self.is_ranked()
            && let Some(end) = ways.iter().position(is_end)
        {
            // What is less preferred than a match is not tried.
            ways.truncate(end + 1);
        }
        let matched = matched || !self.is_ranked() && ways.iter().any(is_end);
        let over = self.over(&taken);
        let until = over.map_or(END, |over| (over, 0));
        let mut waits = vec![Some(until); ways.len()];
        for at in (0..ways.len()).filter(|&at| is_end(&ways[at])) {
            let (rank, at_event) = (self.rank(rank, at, next), self.moment(next - 1));
            self.complete.push(Complete { taken: taken.clone(), rank, at: at_event });
            waits[at] = None;
        }
        let mut begun = ways.iter().map(|_| None).collect::<Vec<Option<Moment>>>();
        for event in next..self.events.len() {
            if self.moment(event) > until || taken.is_empty() && event > next {
                break;
            }
            let mut given_up = Vec::new();
            for (at, way) in ways.iter().enumerate() {
                let waiting = waits[at] == Some(until) && begun[at].is_none();
                if !waiting || given_up.contains(&at) {
                    continue;
                }
                let ended = way.ends.iter().any(|&kinds| {
                    let fits = Fits::Kinds(kinds);
                    self.holds(fits, &taken, event)
                });
                let first = event == next;
                let mut forbidden =
                    way.not_then.iter().chain(way.not_next.iter().filter(|_| first));
                if ended || forbidden.any(|&fits| self.holds(fits, &taken, event)) {
                    begun[at] = Some(self.moment(event));
                    continue;
                }
                let rank = self.rank(rank, at, event);
                let differs = |other: &Way<'_>| {
                    let mut sides = other.sides.iter();
                    sides.any(|(choice, side)| {
                        way.sides.iter().any(|(own, mine)| own == choice && mine != side)
                    })
                };
                let rivals = (0..ways.len()).filter(|&at| differs(&ways[at]));
                match way.step {
                    None if way.not_then.is_empty() => {
                        let at_event = self.moment(event);
                        self.complete.push(Complete { taken: taken.clone(), rank, at: at_event });
                        begun[at] = Some(self.moment(event));
                        given_up.extend(rivals);
                    }
                    None => {}
                    Some((name, fits, gap)) if self.holds(fits, &taken, event) => {
                        if gap != Gap::Any {
                            begun[at] = Some(self.moment(event));
                        }
                        given_up.extend(rivals);
                        let taken = taken.iter().copied().chain([(name, event)]).collect();
                        self.go_on(way.rest.clone(), taken, event + 1, &rank, matched)?;
                    }
                    Some((_, _, Gap::Strict)) => begun[at] = Some(self.moment(event)),
                    Some(_) => {}
                }
            }
            for at in given_up {
                begun[at] = begun[at].or(Some(self.moment(event)));
            }
        }
        if taken.is_empty() {
            return Ok(());
        }
        let waits =
            ways.iter().enumerate().filter(|(at, _)| waits[*at].is_some()).map(|(at, way)| {
                let rank = self.rank(rank, at, usize::MAX);
                (rank, way.step.is_none(), begun[at].unwrap_or(until))
            });
        let waits = waits.collect();
        self.stands.push(Stand { taken, over, matched, waits });
        Ok(())
    }

    /// What still waits when its time is over is a match if it only waited for something not to come.
    fn spare(&mut self) {
        for stand in &self.stands {
            let until = stand.over.map_or(END, |over| (over, 0));
            let spared = stand.waits.iter().find(|(_, is_end, to)| *is_end && *to == until);
            if let Some((rank, ..)) = spared {
                let (taken, rank) = (stand.taken.clone(), rank.clone());
                self.complete.push(Complete { taken, rank, at: until });
            }
        }
    }
}

/// What a match dropped.
struct Cut {
    at: Moment,
    began: Box<dyn Fn(usize) -> bool>,
    consumed: Vec<usize>,
}

/// Matches are reported one after another, and drop others.
struct Reporting<'a> {
    ways: Ways<'a>,
    cuts: Vec<Cut>,
    outcome: Outcome,
    /// Whether something was reported of those that began with an event, or it is too late for that.
    decided: Vec<bool>,
    /// The rank of the preferred match so far of those that began with an event.
    limits: Vec<Option<Rank>>,
}

impl Reporting<'_> {
    /// Whether a match before has dropped what took these.
    fn is_dropped(&self, taken: &[(&'static str, usize)]) -> bool {
        let began = taken[0].1;
        self.cuts.iter().any(|cut| {
            let by_then = |event: usize| self.ways.moment(event) <= cut.at;
            let mut then = taken.iter().filter(|(_, event)| by_then(*event));
            by_then(began)
                && ((cut.began)(began) || then.any(|(_, event)| cut.consumed.contains(event)))
        })
    }

    fn told(&self, taken: &[(&'static str, usize)]) -> String {
        described(taken.iter().map(|&(step, at)| (self.ways.events[at].id, step)))
    }

    fn report(&mut self, taken: &[(&'static str, usize)], at: Moment) {
        let time = (at != END).then_some(at.0);
        self.outcome.matches.push((time, self.told(taken)));
        let of = |name: &String| {
            let of = taken.iter().filter(move |(step, _)| step == name);
            of.map(|(_, event)| *event).collect::<Vec<_>>()
        };
        let before = |event: Option<usize>| -> Box<dyn Fn(usize) -> bool> {
            Box::new(move |began| event.is_some_and(|event| began < event))
        };
        let (first, last) = (taken[0].1, taken[taken.len() - 1].1);
        let began: Box<dyn Fn(usize) -> bool> = match &self.ways.program.skip {
            Skip::None => Box::new(|_| false),
            Skip::PastLast => Box::new(move |began| began <= last),
            Skip::ToNext => Box::new(move |began| began == first),
            Skip::ToFirst(name) => before(of(name).first().copied()),
            Skip::ToLast(name) => before(of(name).last().copied()),
        };
        let consumed = if self.ways.program.consume { taken.to_vec() } else { Vec::new() };
        let consumed = consumed.into_iter().map(|(_, event)| event).collect();
        self.cuts.push(Cut { at, began, consumed });
    }

    /// What is complete at this moment, in the order in which it began.
    fn each(&mut self, at: Moment) {
        let complete = self.ways.complete.iter().filter(|complete| complete.at == at).cloned();
        let mut complete: Vec<_> = complete.collect();
        complete.sort_by_key(|complete| (complete.taken[0].1, complete.rank.clone()));
        for Complete { taken, .. } in complete {
            if !self.is_dropped(&taken) {
                self.report(&taken, at);
            }
        }
    }

    /// The preferred match of those that began with an event, as known at a moment. From now on what is less
    /// preferred is given up.
    fn best(&mut self, began: usize, at: Moment) -> Option<Complete> {
        let of = self.ways.complete.iter().filter(|complete| complete.taken[0].1 == began);
        let best = of
            .filter(|complete| complete.at <= at && !self.is_dropped(&complete.taken))
            .filter(|complete| !self.is_given_up(&complete.taken, &complete.rank))
            .min_by_key(|complete| complete.rank.clone())
            .cloned();
        if let Some(best) = &best {
            self.limits[began] = Some(best.rank.clone());
        }
        best
    }

    /// Whether a match of the same beginning was preferred.
    fn is_given_up(&self, taken: &[(&'static str, usize)], rank: &Rank) -> bool {
        self.limits[taken[0].1].as_ref().is_some_and(|limit| rank > limit)
    }

    /// Whether something that began with an event and has not been given up may still come.
    fn is_awaited(&self, began: usize, at: Moment) -> bool {
        let of = self.ways.stands.iter().filter(|stand| stand.taken[0].1 == began);
        of.filter(|stand| self.ways.moment(stand.taken.last().unwrap().1) <= at)
            .filter(|stand| !self.is_dropped(&stand.taken))
            .any(|Stand { taken, waits, .. }| {
                waits.iter().any(|(rank, _, to)| *to > at && !self.is_given_up(taken, rank))
            })
    }

    /// What can be decided at this moment, in the order in which it began.
    fn decide(&mut self, at: Moment) {
        let (by, waits) = match self.ways.program.report {
            Report::BestBy(length) => (Some(length), false),
            Report::BestAt(length) => (Some(length), true),
            _ => (None, false),
        };
        let mut held_up = false;
        for began in 0..self.ways.events.len() {
            if self.ways.moment(began) > at || self.decided[began] {
                continue;
            }
            let best = self.best(began, at);
            if held_up {
                continue;
            }
            let start = self.ways.events[began].time;
            let over = by.is_some_and(|length| start + length.as_micros() as i64 <= at.0);
            let over = over || at == END;
            let open = self.is_awaited(began, at);
            match best {
                Some(Complete { taken, .. }) if over || !open && !waits => {
                    self.decided[began] = true;
                    self.report(&taken, at);
                }
                _ if over => self.decided[began] = true,
                None if !open => {}
                _ if self.ways.program.skip == Skip::None => {}
                _ => held_up = true,
            }
        }
    }

    /// Partial matches whose time is over.
    fn time_out(&mut self, at: Moment) {
        let mut over = Vec::new();
        for stand in &self.ways.stands {
            let began = stand.taken[0].1;
            let still = |(rank, _, to): &&(Rank, bool, Moment)| {
                *to == at && !self.is_given_up(&stand.taken, rank)
            };
            let mut waits = stand.waits.iter().filter(still);
            let Some((rank, ..)) = waits.next() else { continue };
            let spared = stand.waits.iter().filter(still).any(|(_, is_end, _)| *is_end);
            let ended = spared || stand.matched || self.decided[began];
            if stand.over == Some(at.0) && !ended && !self.is_dropped(&stand.taken) {
                let rank = if self.ways.is_ranked() {
                    rank.clone()
                } else {
                    let mut rank = rank.clone();
                    *rank.last_mut().unwrap() = (usize::MAX, 0);
                    rank
                };
                over.push((began, rank, self.told(&stand.taken)));
            }
        }
        over.sort();
        self.outcome.timeouts.extend(over.into_iter().map(|(.., told)| (at.0, told)));
    }
}

/// What `program` makes of the events of one key, in their order.
pub fn outcome(program: &Program, events: &[Happening]) -> Result<Outcome, TooMany> {
    let mut ways = Ways { program, events, stands: Vec::new(), complete: Vec::new() };
    for first in 0..events.len() {
        let rest = vec![Todo::Part(&program.pat, Gap::Relaxed, Vec::new())];
        ways.go_on(rest, Vec::new(), first, &Rank::new(), false)?;
    }
    ways.spare();
    let mut moments: Vec<Moment> = (0..events.len()).map(|event| ways.moment(event)).collect();
    moments.extend(ways.stands.iter().filter_map(|stand| stand.over).map(|over| (over, 0)));
    if let Report::BestBy(length) | Report::BestAt(length) = program.report {
        moments.extend(events.iter().map(|event| (event.time + length.as_micros() as i64, 0)));
    }
    moments.push(END);
    moments.sort_unstable();
    moments.dedup();
    let ranked = ways.is_ranked();
    let decided = vec![false; events.len()];
    let limits = vec![None; events.len()];
    let (cuts, outcome) = (Vec::new(), Outcome::default());
    let mut reporting = Reporting { ways, cuts, outcome, decided, limits };
    for at in moments {
        reporting.time_out(at);
        if ranked {
            reporting.decide(at);
        } else {
            reporting.each(at);
        }
    }
    Ok(reporting.outcome)
}
