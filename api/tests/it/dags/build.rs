//! A program as a query of the public API.

use std::time::Duration;

use mizzle::aggregate::{Aggregate, count, fold};
use mizzle::rule::{Counter, Crossing, Increase};
use mizzle::sink::Collected;
use mizzle::stream::Windowing;
use mizzle::time::{SignedDuration, Timestamp, Watermarks};
use mizzle::window::Updatable;
use mizzle::{
    BoxedStream, Build, Event, Phase, ProcessCx, ProcessOp, Query, Receiver, Stream, Trigger,
    WhenFull, Windowed, Windows, source,
};

use super::naive::Timed;
use super::program::*;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// As `naive::sequence`, in parts that can be merged (the hash and the factor of what came before),
/// and the sum.
fn add(acc: &mut (i64, i64, i64), value: &Value) {
    merge(acc, &(value.1 + 1, 1_009, value.1));
}

fn merge(acc: &mut (i64, i64, i64), later: &(i64, i64, i64)) {
    let hash = (acc.0 * later.1 + later.0) % 1_000_033;
    *acc = (hash, acc.1 * later.1 % 1_000_033, acc.2 + later.2);
}

/// The sum, or where events are in order a number that depends on their order. One type for both,
/// because every type of chain is compiled.
fn total(in_order: bool) -> impl Aggregate<Value, Out = i64> {
    let finish = move |acc: &(i64, i64, i64)| if in_order { acc.0 } else { acc.2 };
    fold(|| (0, 1, 0), add, merge, finish)
}

struct Described {
    delay: i64,
}

impl Described {
    fn say(cx: &mut ProcessCx<'_, u32, Value, Value>, reply: Reply) {
        reply.main.into_iter().for_each(|value| cx.emit(value));
        reply.side.into_iter().for_each(|value| cx.emit_side(value));
        reply.set.into_iter().for_each(|due| cx.set_timer(at(due)));
        reply.cancel.into_iter().for_each(|due| cx.cancel_timer(at(due)));
        reply.set_by_clock.into_iter().for_each(|due| cx.set_processing_timer(at(due)));
        if reply.clear {
            cx.clear();
        }
    }
}

impl ProcessOp<u32, Value> for Described {
    type State = i64;
    type Out = Value;
    type Side = Value;

    fn event(
        &self,
        cx: &mut ProcessCx<'_, u32, Value, Value>,
        state: &mut i64,
        (key, number): Value,
    ) {
        let reply = on_event(key, state, cx.time().as_micros(), number, self.delay);
        Self::say(cx, reply);
    }

    fn timer(&self, cx: &mut ProcessCx<'_, u32, Value, Value>, state: &mut i64, due: Timestamp) {
        let reply = on_timer(*cx.key(), state, cx.time().as_micros(), due.as_micros(), self.delay);
        Self::say(cx, reply);
    }

    fn processing_timer(
        &self,
        cx: &mut ProcessCx<'_, u32, Value, Value>,
        state: &mut i64,
        due: Timestamp,
    ) {
        self.timer(cx, state, due);
    }
}

fn key((key, _): &Value) -> u32 {
    *key
}

fn result<K>(of: impl Fn(K) -> u32) -> impl Fn(Windowed<K, (u64, i64)>) -> Value {
    move |Windowed { key, start, end, phase, value }| {
        let early = phase == Phase::Early;
        windowed(of(key), (start.as_micros(), end.as_micros()), early, value)
    }
}

/// Windows with what they give besides final results.
fn updating<B, K, KF, W: Updatable>(
    windows: Windowing<B, K, KF, W>,
    updates: Updates,
) -> Windowing<B, K, KF, W::Updating> {
    let mut windows = windows.allowed_lateness(us(updates.lateness));
    if updates.events > 0 {
        windows = windows.early(Trigger::events(updates.events));
    }
    if updates.interval > 0 {
        windows = windows.early(Trigger::interval(us(updates.interval)));
    }
    windows
}

/// A stateful operator, cut off behind.
fn stateful(stream: BoxedStream<Value>, kind: Kind, keyed: bool, flag: bool) -> BoxedStream<Value> {
    match (kind, keyed) {
        (Kind::Apply, false) => stream.apply_stateful(0, apply).in_order_if(flag).boxed(),
        (Kind::Apply, true) => {
            stream.key_by(key).apply_stateful(0, apply).in_order_if(flag).boxed()
        }
        (Kind::Moody, _) => {
            let moods = stream.key_by(key).apply_stateful(0, moody).reset_key_on_panic();
            moods.in_order_if(flag).boxed()
        }
        (Kind::Reduce, _) => stream.reduce(reduce).in_order_if(flag).boxed(),
        (Kind::Transition, _) => {
            let moved = stream.key_by(key).state_transition(0, transition, is_final);
            moved.in_order_if(flag).map(with_state).boxed()
        }
        (Kind::Rule(rule, length), _) => ruled(stream, rule, us(length), flag),
        (Kind::Window(laid, updates), _) => aligned(stream, laid, updates, keyed, flag),
        (Kind::Session(gap, updates), _) => {
            let stream = on_time(stream, updates);
            let sessions = stream.key_by(key).window(Windows::session(us(gap)));
            let sums = updating(sessions, updates).aggregate((count(), total(flag)));
            sums.in_order_if(flag).map(result(|key| key)).boxed()
        }
        (Kind::Count(n, every), _) => {
            let windows = stream.key_by(key).window(Windows::sliding_count(n, every));
            let sums = windows.aggregate((count(), total(flag))).in_order_if(flag);
            sums.map(result(|key| key)).boxed()
        }
        (Kind::Between(by), _) => {
            let windows = stream.key_by(key).window(Windows::between(opens(by), closes(by)));
            let sums = windows.aggregate((count(), total(flag))).in_order_if(flag);
            sums.map(result(|key| key)).boxed()
        }
        (Kind::Clocked(end), _) => {
            let windows = stream.key_by(key).processing_window(Windows::tumbling(us(end)));
            let sums = windows.aggregate((count(), total(flag))).in_order_if(flag);
            sums.map(result(|key| key)).boxed()
        }
    }
}

/// Without what is late, where windows would be corrected by it.
fn on_time(stream: BoxedStream<Value>, updates: Updates) -> BoxedStream<Value> {
    if updates.lateness > 0 { stream.split_late().0 } else { stream }
}

fn aligned(
    stream: BoxedStream<Value>,
    laid: Laid,
    updates: Updates,
    keyed: bool,
    flag: bool,
) -> BoxedStream<Value> {
    let stream = on_time(stream, updates);
    let total = (count(), total(flag));
    match laid {
        Laid::Hopping(spec) if !keyed => {
            let whole = stream.window(windows(spec)).aggregate(total);
            whole.in_order_if(flag).map(result(|()| 0)).boxed()
        }
        Laid::Hopping(spec) if updates == Updates::default() => {
            let sums = stream.key_by(key).window(windows(spec)).aggregate(total);
            sums.in_order_if(flag).map(result(|key| key)).boxed()
        }
        Laid::Hopping(spec) => {
            let windows = updating(stream.key_by(key).window(windows(spec)), updates);
            windows.aggregate(total).in_order_if(flag).map(result(|key| key)).boxed()
        }
        Laid::Cumulative(WindowSpec { size, hop, offset }) => {
            let windows = Windows::cumulative(us(size), us(hop)).offset(us(offset));
            let windows = updating(stream.key_by(key).window(windows), updates);
            windows.aggregate(total).in_order_if(flag).map(result(|key| key)).boxed()
        }
        Laid::Calendar(zone, unit, later) => {
            let windows = match unit {
                Unit::Day => Windows::daily(zone.name),
                Unit::Week => Windows::weekly(zone.name),
                Unit::Month => Windows::monthly(zone.name),
            };
            let windows = updating(stream.window(windows.offset(us(later))), updates);
            windows.aggregate(total).in_order_if(flag).map(result(|()| 0)).boxed()
        }
    }
}

fn ruled(
    stream: BoxedStream<Value>,
    rule: Rule,
    length: Duration,
    flag: bool,
) -> BoxedStream<Value> {
    let counted = |(value, count): (Value, u64)| with(value, count as i64);
    match rule {
        Rule::Throttle => {
            return stream.throttle_latest(length).in_order_if(flag).boxed();
        }
        Rule::Sort => {
            return stream.sort_within(length, |value| value.1).in_order_if(flag).boxed();
        }
        _ => {}
    }
    let keyed = stream.key_by(key);
    match rule {
        Rule::Throttle | Rule::Sort => unreachable!("not keyed"),
        Rule::Distinct => keyed.distinct_for(length).in_order_if(flag).boxed(),
        Rule::Debounce => keyed.debounce(length).in_order_if(flag).boxed(),
        Rule::Sample => keyed.sample(length).in_order_if(flag).boxed(),
        Rule::Count => keyed.count_within(length).in_order_if(flag).map(counted).boxed(),
        Rule::Aggregate => {
            let sums = keyed.aggregate_within(length, total(flag)).in_order_if(flag);
            sums.map(|(value, total)| with(value, total)).boxed()
        }
        Rule::Reaches(n) => keyed.count_reaches(n, length).in_order_if(flag).boxed(),
        Rule::Edges(n) => {
            let edges = keyed.count_edges(n, length).in_order_if(flag);
            let said = |crossing| match crossing {
                Crossing::Falling(value) => with(value, 1),
                Crossing::Rising(value) => with(value, 2),
            };
            edges.map(said).boxed()
        }
        Rule::Runs(n) => keyed.runs_of(n, holds).in_order_if(flag).boxed(),
        Rule::Edge { rising: true } => keyed.rising_edge(holds).in_order_if(flag).boxed(),
        Rule::Edge { rising: false } => keyed.falling_edge(holds).in_order_if(flag).boxed(),
        Rule::Changes => keyed.distinct_until_changed(third).in_order_if(flag).boxed(),
        Rule::Pairs => {
            let pairs = keyed.pairwise().in_order_if(flag);
            pairs.map(|(before, now)| joined(Some(before), Some(now))).boxed()
        }
        Rule::Increase(bits) => {
            let kind = bits.map_or(Counter::Resets, Counter::Wraps);
            let grown = keyed.increase(kind, |value| value.1 as u64).in_order_if(flag);
            let said = |it: Increase<Value>| {
                with(it.value, it.by as i64 * 31 + it.over.as_micros() as i64)
            };
            grown.map(said).boxed()
        }
        Rule::Expire => {
            let states = keyed.apply_stateful(0, apply).expire_with(length, last_word);
            states.in_order_if(flag).boxed()
        }
    }
}

fn windows(WindowSpec { size, hop, offset }: WindowSpec) -> Windows {
    Windows::hopping(us(size), us(hop)).offset(us(offset))
}

/// The operators of shape 0 in one segment.
fn first_shape<B: Build<Out = Value>>(
    stream: Stream<B>,
    fused: &Fused,
) -> Stream<impl Build<Out = Value> + use<B>> {
    let by = fused.number;
    let mapped = stream.map(map(by)).filter(keep(by));
    mapped.apply_stateful(0, apply).in_order_if(fused.first).map(map(by))
}

/// The operators of shape 1 in one segment.
fn second_shape(
    stream: BoxedStream<Value>,
    fused: &Fused,
) -> Stream<impl Build<Out = Value> + use<>> {
    let &Fused { number: by, window, first, second, .. } = fused;
    let keyed = stream.filter_map(filter_map(by)).key_by(key).window(windows(window));
    let made = keyed.aggregate((count(), total(first))).in_order_if(first);
    made.map(result(|key| key)).apply_stateful(0, apply).in_order_if(second)
}

/// The operators of a shape in one segment, and the side outputs as streams of their own.
fn fuse(stream: BoxedStream<Value>, fused: &Fused) -> Vec<BoxedStream<Value>> {
    let &Fused { number: by, delay, first, second, .. } = fused;
    match fused.shape {
        0 => vec![first_shape(stream, fused).boxed()],
        1 => vec![second_shape(stream, fused).boxed()],
        2 => {
            let (main, side) = stream.key_by(key).process(Described { delay });
            let reduced = main.in_order_if(first).map(map(by)).key_by(key).reduce(reduce);
            vec![reduced.in_order_if(second).boxed(), side]
        }
        3 => {
            let moved = stream.flat_map(flat_map).state_transition(0, transition, is_final);
            let looked = moved.in_order_if(first).map(with_state).inspect(|_, _| ());
            vec![looked.filter(keep(by)).boxed()]
        }
        _ => {
            let reduced = stream.map(map(by)).parallel().reduce(reduce).in_order_if(first);
            let moved = reduced.key_by(key).state_transition(0, transition, is_final);
            vec![moved.in_order_if(second).map(with_state).boxed()]
        }
    }
}

fn through(stream: BoxedStream<Value>, op: &Op) -> Vec<BoxedStream<Value>> {
    match op {
        Op::Map(by) => vec![stream.map(map(*by)).boxed()],
        Op::Filter(by) => vec![stream.filter(keep(*by)).boxed()],
        Op::FilterMap(by) => vec![stream.filter_map(filter_map(*by)).boxed()],
        Op::FlatMap => vec![stream.flat_map(flat_map).boxed()],
        Op::Inspect => vec![stream.inspect(|_, _| ()).boxed()],
        Op::Picky(by) => {
            let mapped = stream.map(picky_map(*by)).skip_panics();
            vec![mapped.filter(picky_keep(*by)).skip_panics().boxed()]
        }
        Op::Stateful { kind, keyed, flag } => vec![stateful(stream, *kind, *keyed, *flag)],
        Op::Process { delay, flag } => {
            let (main, side) = stream.key_by(key).process(Described { delay: *delay });
            vec![main.in_order_if(*flag).boxed(), side]
        }
        Op::Split(by) => {
            let (hits, rest) = stream.split(keep(*by));
            vec![hits, rest]
        }
        Op::Branches(a, b) => {
            let mut branches = stream.branches();
            let (first, second) = (branches.when(keep(*a)), branches.when(keep(*b)));
            vec![first, second, branches.rest()]
        }
        Op::SplitLate => {
            let (on_time, late) = stream.split_late();
            vec![on_time, late]
        }
        Op::Share(readers) => {
            let shared = stream.share();
            (0..*readers).map(|_| shared.clone().boxed()).collect()
        }
        Op::Retime { slack, pace } => {
            let (on_time, _) = stream.split_late();
            let (watermarks, pace) = (Watermarks::bounded(us(*slack)), *pace);
            vec![
                on_time
                    .assign_timestamps(move |value| at(new_time(value, pace)), watermarks)
                    .boxed(),
            ]
        }
        Op::Fused(fused) => fuse(stream, fused),
    }
}

fn joined_as(
    left: BoxedStream<Value>,
    right: BoxedStream<Value>,
    join: Join,
    flag: bool,
) -> BoxedStream<Value> {
    let micros = SignedDuration::from_micros;
    match join {
        Join::Interval { lower, upper, full } => {
            let both =
                left.key_by(key).join(right.key_by(key)).within(micros(lower)..=micros(upper));
            if full {
                let rows = both.full().in_order_if(flag);
                rows.map(|(left, right)| joined(left, right)).boxed()
            } else {
                let pair = |left: &Value, right: &Value| joined(Some(*left), Some(*right));
                both.inner_with(pair).in_order_if(flag).boxed()
            }
        }
        Join::AsOf { age } => {
            let found = left.key_by(key).as_of(right.key_by(key)).no_older_than(us(age));
            let rows = found.left().in_order_if(flag);
            rows.map(|(left, right)| joined(Some(left), right)).boxed()
        }
        Join::Control => {
            let steered = left.with_control(right, None, |latest, change| *latest = Some(change));
            steered.map(|latest, value| joined(Some(value), *latest)).in_order_if(flag).boxed()
        }
        Join::Window { spec, full } => {
            let both = left.key_by(key).join(right.key_by(key)).window(windows(spec));
            if full {
                let rows = both.full().in_order_if(flag).map(|window| window.value);
                rows.map(|(left, right)| joined(left, right)).boxed()
            } else {
                let rows = both.inner().in_order_if(flag).map(|window| window.value);
                rows.map(|(left, right)| joined(Some(left), Some(right))).boxed()
            }
        }
    }
}

/// Where a stream ends.
pub enum Out {
    Collected(Collected<Value>),
    Received(Receiver<Value>),
}

/// What pushes the events of a source.
pub type Feed = Box<dyn FnOnce() + Send>;

/// A stream of what the returned feed pushes, `at_a_time` events together.
fn pushed(
    query: &Query,
    name: &str,
    spec: &SourceSpec,
    at_a_time: usize,
) -> (Feed, BoxedStream<Value>) {
    let (handle, mut stream) = query.push_source(name, |(time, _): &Timed| at(*time));
    if let Some(slack) = spec.slack {
        stream = stream.watermarks(Watermarks::bounded(us(slack)));
    }
    let events = spec.events.clone();
    let feed = move || {
        for events in events.chunks(at_a_time) {
            // A query that has failed takes no more, which the comparison shows.
            let _ = match events {
                [event] => handle.push(*event).is_ok(),
                _ => handle.push_all(events.to_vec()).is_ok(),
            };
        }
    };
    (Box::new(feed), stream.map(|(_, value)| value).boxed())
}

/// The query of `program`, its sinks in the order of `naive::evaluate`, and what feeds it.
pub fn build(program: &Program) -> (Query, Vec<Out>, Vec<Feed>) {
    let query = Query::new("random");
    let (mut pool, mut feeds) = (Vec::new(), Vec::new());
    for (index, spec) in program.sources.iter().enumerate() {
        let name = format!("source {index}");
        if let Some(at_a_time) = spec.pushed {
            let (feed, stream) = pushed(&query, &name, spec, at_a_time);
            feeds.push(feed);
            pool.push(match &spec.fused {
                Some(fused) => first_shape(stream, fused).boxed(),
                None => stream,
            });
            continue;
        }
        let events: Vec<_> =
            spec.events.iter().map(|(time, value)| Event::new(at(*time), *value)).collect();
        let mut stream = query.source(&name, source::events(events));
        if let Some(slack) = spec.slack {
            stream = stream.watermarks(Watermarks::bounded(us(slack)));
        }
        match &spec.fused {
            Some(fused) => pool.push(first_shape(stream, fused).boxed()),
            None => pool.push(stream.boxed()),
        }
    }
    for step in &program.steps {
        match step {
            Step::One { at, op } => {
                let stream = pool.remove(at % pool.len());
                pool.extend(through(stream, op));
            }
            Step::Union { at } => {
                let mut inputs = Vec::new();
                for at in at {
                    if !pool.is_empty() {
                        inputs.push(pool.remove(at % pool.len()));
                    }
                }
                let first = inputs.remove(0);
                pool.push(first.union_all(inputs));
            }
            Step::Join { at: [left, right], join, flag } => {
                let left = pool.remove(left % pool.len());
                let joined = match pool.len() {
                    0 => {
                        let left = left.share();
                        joined_as(left.clone().boxed(), left.boxed(), *join, *flag)
                    }
                    len => joined_as(left, pool.remove(right % len), *join, *flag),
                };
                pool.push(joined);
            }
        }
    }
    let ends = pool.into_iter().enumerate().map(|(index, stream)| {
        Out::Collected(match &program.ends[index % program.ends.len()] {
            End::Channel(room) => return Out::Received(stream.channel(*room, WhenFull::Wait)),
            End::Plain => stream.collect(),
            End::InOrder => stream.apply_stateful(0, apply).in_order().collect(),
            End::Fused(fused) if fused.shape == 0 => first_shape(stream, fused).collect(),
            End::Fused(fused) => second_shape(stream, fused).collect(),
        })
    });
    let sinks = ends.collect();
    (query, sinks, feeds)
}

/// What came to a sink, as the naive evaluation has it.
pub fn seen(events: Vec<Event<Value>>) -> Vec<Timed> {
    events.into_iter().map(|event| (event.time.as_micros(), event.value)).collect()
}
