//! What a program gives, worked out from sorted lists without any of the engine's code.

use std::collections::HashMap;

use super::pace::Pace;
use super::program::*;
use super::{joins, rules, windows};

/// An event with its time.
pub type Timed = (i64, Value);

/// How much of a stream is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Depends on the order in which workers happen to run.
    Nothing,
    /// Which events, but not in which order.
    Bag,
    /// Every event in its place.
    Exact,
}

/// A stream, as if everything were in order; `trust` says what of this must show.
#[derive(Clone, Debug)]
pub struct Naive {
    pub on_time: Vec<Timed>,
    pub late: Vec<Timed>,
    pub trust: Trust,
    /// The last watermark before the end.
    watermark: i64,
}

/// Splits events in order of arrival into those on time, sorted, and late ones.
fn judge(events: &[Timed], slack: i64) -> Naive {
    let (mut on_time, mut late) = (Vec::new(), Vec::new());
    let mut watermark = i64::MIN;
    for &(time, value) in events {
        if time < watermark {
            late.push((time, value));
        } else {
            on_time.push((time, value));
            watermark = watermark.max(time - slack);
        }
    }
    on_time.sort_by_key(|(time, _)| *time);
    Naive { on_time, late, trust: Trust::Bag, watermark }
}

impl Naive {
    /// What a source gives.
    pub fn source(spec: &SourceSpec) -> Self {
        judge(&spec.events, spec.slack.unwrap_or(0) as i64)
    }

    /// The union of streams, as written.
    pub fn union(inputs: Vec<Naive>) -> Self {
        let trust = inputs.iter().map(|input| input.trust).min().unwrap().min(Trust::Bag);
        // An event is a promise too.
        let newest = |input: &Naive| input.on_time.last().map_or(i64::MIN, |(time, _)| *time);
        let watermark = inputs.iter().map(|input| input.watermark.max(newest(input))).max();
        let (mut on_time, mut late) = (Vec::new(), Vec::new());
        for input in inputs {
            on_time.extend(input.on_time);
            late.extend(input.late);
        }
        on_time.sort_by_key(|(time, _)| *time);
        Naive { on_time, late, trust, watermark: watermark.unwrap() }
    }

    /// The join of this stream with another.
    pub fn joined(self, right: Naive, join: Join, flag: bool) -> Self {
        let late = !(self.late.is_empty() && right.late.is_empty());
        let known = self.trust.min(right.trust);
        let trust = match join {
            _ if flag => Trust::Exact,
            _ if late || known == Trust::Nothing => Trust::Nothing,
            Join::Interval { .. } | Join::Window { .. } => Trust::Bag,
            // Of several rows of one time the last counts.
            Join::AsOf { .. } | Join::Control if known < Trust::Exact => Trust::Nothing,
            Join::AsOf { .. } | Join::Control => Trust::Bag,
        };
        let made = joins::evaluate(&self.on_time, &right.on_time, join);
        let watermark = Naive::union(vec![self, right]).watermark;
        Naive { on_time: made, late: Vec::new(), trust, watermark }
    }

    /// The streams that `op` makes of this one.
    pub fn through(self, op: &Op) -> Vec<Naive> {
        match op {
            Op::Map(by) => vec![self.each(|value| vec![map(*by)(value)])],
            Op::Filter(by) => vec![self.keeping(keep(*by))],
            Op::FilterMap(by) => vec![self.each(|value| Vec::from_iter(filter_map(*by)(value)))],
            Op::FlatMap => vec![self.each(flat_map)],
            Op::Inspect => vec![self],
            Op::Picky(by) => {
                let taken = |value: &Value| !is_refused(*by, value);
                let mapped = self.keeping(taken).each(|value| vec![map(*by)(value)]);
                vec![mapped.keeping(taken).keeping(keep(*by))]
            }
            Op::Stateful { kind, keyed, flag } => vec![self.stateful(*kind, *keyed, *flag)],
            Op::Process { delay, flag } => self.process(*delay, *flag),
            Op::Split(by) => {
                let rest = self.clone().keeping(|value| !keep(*by)(value));
                vec![self.keeping(keep(*by)), rest]
            }
            Op::Branches(a, b) => {
                let second = |value: &Value| !keep(*a)(value) && keep(*b)(value);
                let rest = |value: &Value| !keep(*a)(value) && !keep(*b)(value);
                let (second, rest) = (self.clone().keeping(second), self.clone().keeping(rest));
                vec![self.keeping(keep(*a)), second, rest]
            }
            Op::SplitLate => {
                let on_time = Naive { late: Vec::new(), ..self.clone() };
                vec![on_time, Naive { on_time: Vec::new(), watermark: i64::MIN, ..self }]
            }
            Op::Share(readers) => vec![self; *readers],
            Op::Retime { slack, pace } => vec![self.retimed(*slack as i64, *pace)],
            Op::Fused(fused) => self.fused(fused),
        }
    }

    /// The main stream through all operators of a shape, and the side outputs met on the way.
    pub fn fused(self, fused: &Fused) -> Vec<Naive> {
        let (mut main, mut sides) = (self, Vec::new());
        for op in fused.ops() {
            let mut streams = main.through(&op).into_iter();
            main = streams.next().expect("every operator of a shape has an output");
            sides.extend(streams);
        }
        sides.insert(0, main);
        sides
    }

    fn each(self, f: impl Fn(Value) -> Vec<Value>) -> Self {
        let over = |events: Vec<Timed>| -> Vec<Timed> {
            let each = |(time, value)| f(value).into_iter().map(move |made| (time, made));
            events.into_iter().flat_map(each).collect()
        };
        Naive { on_time: over(self.on_time), late: over(self.late), ..self }
    }

    fn keeping(self, keep: impl Fn(&Value) -> bool) -> Self {
        self.each(|value| Vec::from_iter(Some(value).filter(&keep)))
    }

    fn retimed(self, slack: i64, pace: Pace) -> Self {
        let events: Vec<_> = self.on_time.iter().map(|(_, v)| (new_time(v, pace), *v)).collect();
        // In which order events come decides which are late.
        Naive { trust: Trust::Nothing, ..judge(&events, slack) }
    }

    fn stateful(mut self, kind: Kind, keyed: bool, flag: bool) -> Self {
        let (updates, laid) = match kind {
            Kind::Window(laid, updates) => (updates, Some(laid)),
            Kind::Session(_, updates) => (updates, None),
            _ => (Updates::default(), None),
        };
        if updates.lateness > 0 {
            self.late = Vec::new();
        }
        let trust = match kind {
            _ if flag => Trust::Exact,
            _ if !self.late.is_empty() || updates.are_early() => Trust::Nothing,
            Kind::Window(..) | Kind::Session(..) | Kind::Clocked(_) if keyed => {
                self.trust.min(Trust::Bag)
            }
            Kind::Window(..) => self.trust,
            // What is left at the end has the time of the newest event of its shard.
            Kind::Count(..) | Kind::Between(_) => Trust::Nothing,
            _ if self.trust < Trust::Exact => Trust::Nothing,
            _ if keyed => Trust::Bag,
            _ => Trust::Exact,
        };
        let made = self.made(kind, keyed, flag);
        let watermark = windows::held_back(self.watermark, laid, updates.lateness as i64);
        Naive { on_time: made, late: Vec::new(), trust, watermark }
    }

    fn made(&self, kind: Kind, keyed: bool, flag: bool) -> Vec<Timed> {
        let (events, watermark) = (&self.on_time, self.watermark);
        match kind {
            Kind::Window(laid, updates) => {
                windows::aligned(events, laid, updates, keyed, flag, watermark)
            }
            Kind::Session(gap, updates) => {
                windows::sessions(events, gap as i64, updates, flag, watermark)
            }
            Kind::Count(n, every) => windows::counts(events, n, every, flag, watermark),
            Kind::Between(by) => windows::between(events, by, flag, watermark),
            Kind::Clocked(end) => windows::clocked(events, end as i64, flag),
            Kind::Rule(rule, length) => rules::evaluate(events, rule, length as i64, flag),
            _ => {
                let mut states: HashMap<Option<u32>, Kept> = HashMap::new();
                let mut each = |(time, value): &Timed| {
                    let kept = states.entry(keyed.then_some(value.0)).or_default();
                    Some((*time, kept.step(kind, *value)?))
                };
                events.iter().filter_map(&mut each).collect()
            }
        }
    }

    fn process(self, delay: i64, flag: bool) -> Vec<Naive> {
        let mut process = Processing { delay, clock: i64::MIN, ..Processing::default() };
        for &(time, (key, number)) in &self.on_time {
            process.fire(time, false);
            process.clock = time;
            process.event(time, key, number);
            process.fire(time, false);
            process.fire_by_clock(0, false);
        }
        if self.watermark > i64::MIN {
            process.fire(self.watermark, false);
            process.clock = process.clock.max(self.watermark);
        }
        process.fire(i64::MAX, true);
        process.fire_by_clock(i64::MAX, true);
        let trust = if flag { Trust::Exact } else { Trust::Nothing };
        let stream = |on_time| Naive { on_time, late: Vec::new(), trust, ..self };
        vec![stream(process.main), stream(process.side)]
    }
}

/// The state of one of the simple operators.
#[derive(Default)]
struct Kept {
    number: i64,
    reduced: Option<Value>,
    state: u8,
}

impl Kept {
    fn step(&mut self, kind: Kind, value: Value) -> Option<Value> {
        match kind {
            Kind::Apply => Some(apply(&mut self.number, value)),
            Kind::Moody if is_refused(0, &value) => {
                self.number = 0;
                None
            }
            Kind::Moody => Some(apply(&mut self.number, value)),
            Kind::Reduce => {
                self.reduced = Some(self.reduced.map_or(value, |so_far| reduce(so_far, value)));
                self.reduced
            }
            Kind::Transition => {
                self.state = transition(&self.state, &value)?;
                is_final(&self.state).then(|| with_state((value, self.state)))
            }
            _ => unreachable!("others are evaluated as a whole"),
        }
    }
}

/// A number that depends on every number of a list and on their order.
pub fn sequence(numbers: &[i64]) -> i64 {
    numbers.iter().fold(0, |hash, number| (hash * 1_009 + number + 1) % 1_000_033)
}

#[derive(Default)]
struct Processing {
    delay: i64,
    clock: i64,
    /// State and number of arrival.
    keys: HashMap<u32, (i64, u64)>,
    /// Due time, number of arrival, key.
    timers: Vec<(i64, u64, u32)>,
    /// The same by a clock that stands still at 0.
    by_clock: Vec<(i64, u64, u32)>,
    arrivals: u64,
    main: Vec<Timed>,
    side: Vec<Timed>,
}

impl Processing {
    fn event(&mut self, time: i64, key: u32, number: i64) {
        let arrivals = &mut self.arrivals;
        let (state, _) = self.keys.entry(key).or_insert_with(|| {
            *arrivals += 1;
            (0, *arrivals)
        });
        let reply = on_event(key, state, time, number, self.delay);
        self.obey(time, key, reply, false);
    }

    fn fire(&mut self, clock: i64, ending: bool) {
        loop {
            self.timers.sort();
            if self.timers.first().is_none_or(|(due, ..)| *due > clock) {
                return;
            }
            let (due, _, key) = self.timers.remove(0);
            let time = due.max(self.clock);
            self.clock = time;
            let (state, _) = self.keys.get_mut(&key).expect("a key with a timer has a state");
            let reply = on_timer(key, state, time, due, self.delay);
            self.obey(time, key, reply, ending);
        }
    }

    /// What is due by the other clock, and timers that are set for the past meanwhile.
    fn fire_by_clock(&mut self, now: i64, ending: bool) {
        loop {
            self.by_clock.sort();
            if self.by_clock.first().is_none_or(|(due, ..)| *due > now) {
                return;
            }
            let (due, _, key) = self.by_clock.remove(0);
            let (state, _) = self.keys.get_mut(&key).expect("a key with a timer has a state");
            let reply = on_timer(key, state, self.clock, due, self.delay);
            self.obey(self.clock, key, reply, ending);
            if self.by_clock.iter().all(|(due, ..)| *due > now) && !ending {
                self.fire(self.clock, false);
            }
        }
    }

    /// Timers are set before they are cancelled, as the process says it.
    fn obey(&mut self, time: i64, key: u32, reply: Reply, ending: bool) {
        let arrival = self.keys[&key].1;
        let set = |timers: &mut Vec<_>, dues: Vec<i64>| {
            for due in dues.into_iter().filter(|_| !ending) {
                if !timers.contains(&(due, arrival, key)) {
                    timers.push((due, arrival, key));
                }
            }
        };
        set(&mut self.timers, reply.set);
        self.timers.retain(|(due, _, other)| *other != key || !reply.cancel.contains(due));
        set(&mut self.by_clock, reply.set_by_clock);
        if reply.clear {
            self.keys.remove(&key);
            self.timers.retain(|(_, _, other)| *other != key);
            self.by_clock.retain(|(_, _, other)| *other != key);
        }
        self.main.extend(reply.main.into_iter().map(|value| (time, value)));
        self.side.extend(reply.side.into_iter().map(|value| (time, value)));
    }
}

/// Joins that compare more pairs of rows than this are not worth it: a few joins of joins in a row, each of a stream
/// with itself, would not fit into any memory.
const PAIRS: usize = 4_000_000;

/// What must come out of every sink of `program`, unless that is far too much.
pub fn evaluate(program: &Program) -> Option<Vec<Naive>> {
    let mut pool = Vec::new();
    for spec in &program.sources {
        let source = Naive::source(spec);
        pool.extend(match &spec.fused {
            Some(fused) => source.fused(fused),
            None => vec![source],
        });
    }
    for step in &program.steps {
        match step {
            Step::One { at, op } => {
                let stream = pool.remove(at % pool.len());
                pool.extend(stream.through(op));
            }
            Step::Union { at } => {
                let mut inputs = Vec::new();
                for at in at {
                    if !pool.is_empty() {
                        inputs.push(pool.remove(at % pool.len()));
                    }
                }
                pool.push(Naive::union(inputs));
            }
            Step::Join { at: [left, right], join, flag } => {
                let left = pool.remove(left % pool.len());
                let right = match pool.len() {
                    0 => left.clone(),
                    len => pool.remove(right % len),
                };
                if left.on_time.len() * right.on_time.len() > PAIRS {
                    return None;
                }
                pool.push(left.joined(right, *join, *flag));
            }
        }
    }
    let mut sinks = Vec::new();
    for (index, stream) in pool.into_iter().enumerate() {
        match &program.ends[index % program.ends.len()] {
            End::Plain | End::Channel(_) => sinks.push(stream),
            End::InOrder => sinks.push(stream.stateful(Kind::Apply, false, true)),
            End::Fused(fused) => sinks.extend(stream.fused(fused)),
        }
    }
    Some(sinks)
}
