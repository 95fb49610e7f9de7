//! Random queries as plain descriptions, and the user functions that both the engine's query and the
//! naive evaluation call.

use super::pace::Pace;

/// A key and a number.
pub type Value = (u32, i64);

/// Numbers stay below this, so that no sum can overflow.
const SMALL: i64 = 1_000_003;

/// A query: sources, and steps that take streams from a pool and put others back.
#[derive(Clone, Debug)]
pub struct Program {
    pub sources: Vec<SourceSpec>,
    pub steps: Vec<Step>,
    /// How the streams left in the pool end; cyclic.
    pub ends: Vec<End>,
}

/// Events in order of arrival, and what is declared about them.
#[derive(Clone, Debug)]
pub struct SourceSpec {
    pub events: Vec<(i64, Value)>,
    /// Declared in order, else bounded by this many microseconds.
    pub slack: Option<u64>,
    /// Pushed from another thread, so many events at a time; else read from a list.
    pub pushed: Option<usize>,
    /// Operators fused with the source: the first shape.
    pub fused: Option<Fused>,
}

/// One step; `at` is taken modulo the number of streams in the pool.
#[derive(Clone, Debug)]
pub enum Step {
    One {
        at: usize,
        op: Op,
    },
    Union {
        at: Vec<usize>,
    },
    /// Where one stream is left, it joins itself.
    Join {
        at: [usize; 2],
        join: Join,
        flag: bool,
    },
}

/// How a stream ends in a sink.
#[derive(Clone, Debug)]
pub enum End {
    /// As it is.
    Plain,
    /// In a channel with so much room, which another thread receives from.
    Channel(usize),
    /// Behind an operator in order.
    InOrder,
    /// Behind fused operators, in one chain with the sink: one of the first two shapes.
    Fused(Fused),
}

/// How two streams are joined.
#[derive(Clone, Copy, Debug)]
pub enum Join {
    /// By key and time; with rows that match nothing, or without.
    Interval { lower: i64, upper: i64, full: bool },
    /// With the latest of the same key, not older than this.
    AsOf { age: u64 },
    /// The second steers the first.
    Control,
    /// In windows; with rows of windows without the other side, or without.
    Window { spec: WindowSpec, full: bool },
}

#[derive(Clone, Copy, Debug)]
pub struct WindowSpec {
    pub size: u64,
    pub hop: u64,
    pub offset: u64,
}

/// Windows that are the same for every key.
#[derive(Clone, Copy, Debug)]
pub enum Laid {
    Hopping(WindowSpec),
    /// All from one start, each longer by a hop.
    Cumulative(WindowSpec),
    /// Begin by the clock on the wall, so many microseconds after midnight.
    Calendar(Zone, Unit, u64),
}

#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Day,
    Week,
    Month,
}

/// A time zone whose clocks changed once at `at`, and long before and after that not.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    pub name: &'static str,
    /// In seconds, as what the clocks are ahead of UTC.
    pub at: i64,
    pub before: i64,
    pub after: i64,
}

/// The clocks there went over a whole day, back and on at midnight, and back at two.
pub const ZONES: [Zone; 5] = [
    Zone { name: "UTC", at: 0, before: 0, after: 0 },
    Zone { name: "Pacific/Fakaofo", at: 1_325_242_800, before: -39_600, after: 46_800 },
    Zone { name: "Africa/Juba", at: 1_612_126_800, before: 10_800, after: 7_200 },
    Zone { name: "Asia/Pyongyang", at: 1_525_446_000, before: 30_600, after: 32_400 },
    Zone { name: "Europe/Volgograd", at: 1_609_020_000, before: 14_400, after: 10_800 },
];

/// What windows give besides final results; 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Updates {
    /// Early results after so many events, and whenever time comes to a multiple of this.
    pub events: u64,
    pub interval: u64,
    /// Nothing late comes to windows that allow it: when it does is not determined.
    pub lateness: u64,
}

impl Updates {
    pub fn are_early(&self) -> bool {
        self.events > 0 || self.interval > 0
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Apply,
    Reduce,
    Transition,
    /// As `Apply`, with a function that panics for some values, which resets the key.
    Moody,
    Window(Laid, Updates),
    /// Sessions with this gap.
    Session(u64, Updates),
    /// Windows of so many events, one every so many.
    Count(u64, u64),
    /// Windows from one event to another.
    Between(i64),
    /// The one window from 0 to this by a clock that stands still at 0.
    Clocked(u64),
    Rule(Rule, u64),
}

/// A rule with a length of time.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Distinct,
    Debounce,
    Throttle,
    Sort,
    Sample,
    Count,
    Aggregate,
    Reaches(u64),
    Edges(u64),
    Runs(u64),
    Edge {
        rising: bool,
    },
    Changes,
    Pairs,
    /// With a counter of so many bits, or one that is reset.
    Increase(Option<u32>),
    /// As `Apply`, with a state that expires.
    Expire,
}

impl Kind {
    /// Whether it is keyed, if `wish` asks for it: to spare types of chains some have one form only.
    pub fn keyed(self, wish: bool) -> bool {
        match self {
            Kind::Apply => wish,
            Kind::Window(Laid::Hopping(_), updates) => updates != Updates::default() || wish,
            Kind::Window(Laid::Calendar(..), _) | Kind::Reduce => false,
            Kind::Rule(rule, _) => !matches!(rule, Rule::Throttle | Rule::Sort),
            _ => true,
        }
    }
}

/// An operator, or a cut.
#[derive(Clone, Debug)]
pub enum Op {
    Map(i64),
    Filter(i64),
    FilterMap(i64),
    FlatMap,
    Inspect,
    /// As `Map` and `Filter`, with functions that panic for some values, which are skipped.
    Picky(i64),
    Stateful {
        kind: Kind,
        keyed: bool,
        flag: bool,
    },
    Process {
        delay: i64,
        flag: bool,
    },
    Split(i64),
    Branches(i64, i64),
    SplitLate,
    Share(usize),
    Retime {
        slack: u64,
        pace: Pace,
    },
    Fused(Fused),
}

/// Operators within one segment: one of a few shapes, with parameters.
#[derive(Clone, Copy, Debug)]
pub struct Fused {
    pub shape: u8,
    pub number: i64,
    pub window: WindowSpec,
    pub delay: i64,
    pub first: bool,
    pub second: bool,
}

/// How many shapes there are. A few, because each becomes many types of chains.
pub const SHAPES: u8 = 5;

impl Fused {
    /// The operators of the shape, in order. `build` fuses the same ones.
    pub fn ops(&self) -> Vec<Op> {
        let &Self { number, window, delay, first, second, .. } = self;
        let stateful = |kind, keyed, flag| Op::Stateful { kind, keyed, flag };
        match self.shape {
            0 => vec![
                Op::Map(number),
                Op::Filter(number),
                stateful(Kind::Apply, false, first),
                Op::Map(number),
            ],
            1 => vec![
                Op::FilterMap(number),
                stateful(Kind::Window(Laid::Hopping(window), Updates::default()), true, first),
                stateful(Kind::Apply, false, second),
            ],
            2 => vec![
                Op::Process { delay, flag: first },
                Op::Map(number),
                stateful(Kind::Reduce, true, second),
            ],
            3 => vec![
                Op::FlatMap,
                stateful(Kind::Transition, false, first),
                Op::Inspect,
                Op::Filter(number),
            ],
            _ => vec![
                Op::Map(number),
                stateful(Kind::Reduce, false, first),
                stateful(Kind::Transition, true, second),
            ],
        }
    }
}

// What users would write.

pub fn map(by: i64) -> impl Fn(Value) -> Value + Clone + Send + Sync + 'static {
    move |(key, number)| (key, (number * 3 + by).rem_euclid(SMALL))
}

pub fn keep(by: i64) -> impl Fn(&Value) -> bool + Clone + Send + Sync + 'static {
    move |(_, number)| (number + by) % 3 != 0
}

/// Whether a picky function panics.
pub fn is_refused(by: i64, (_, number): &Value) -> bool {
    (number + by) % 5 == 1
}

/// A panic that prints nothing.
fn refuse() -> ! {
    std::panic::resume_unwind(Box::new("refused"))
}

pub fn picky_map(by: i64) -> impl Fn(Value) -> Value + Clone + Send + Sync + 'static {
    move |value| if is_refused(by, &value) { refuse() } else { map(by)(value) }
}

pub fn picky_keep(by: i64) -> impl Fn(&Value) -> bool + Clone + Send + Sync + 'static {
    move |value| if is_refused(by, value) { refuse() } else { keep(by)(value) }
}

/// Changes the state before it panics: what is left of it must not count.
pub fn moody(state: &mut i64, value: Value) -> Value {
    let made = apply(state, value);
    if is_refused(0, &value) { refuse() } else { made }
}

pub fn filter_map(by: i64) -> impl Fn(Value) -> Option<Value> + Clone + Send + Sync + 'static {
    move |(key, number)| (number % 4 != by % 4).then(|| ((key + 1) % 5, number + by))
}

pub fn flat_map((key, number): Value) -> Vec<Value> {
    (0..number % 3).map(|i| (key, (number * 5 + i).rem_euclid(SMALL))).collect()
}

pub fn apply(state: &mut i64, (key, number): Value) -> Value {
    *state = (*state * 17 + number + 1).rem_euclid(SMALL);
    (key, *state)
}

pub fn reduce((_, so_far): Value, (key, number): Value) -> Value {
    (key, (so_far * 31 + number + 1).rem_euclid(SMALL))
}

pub fn transition(state: &u8, (_, number): &Value) -> Option<u8> {
    (number % 4 != 0).then(|| (i64::from(*state) + number).rem_euclid(3) as u8)
}

pub fn is_final(state: &u8) -> bool {
    *state != 1
}

pub fn with_state(((key, number), state): (Value, u8)) -> Value {
    (key, (number * 4 + i64::from(state)).rem_euclid(SMALL))
}

/// What becomes of two rows that match, or of one that nothing matches.
pub fn joined(left: Option<Value>, right: Option<Value>) -> Value {
    let (key, _) = left.or(right).expect("one of them");
    let number = |row: Option<Value>| row.map_or(5, |(_, number)| number + 11);
    (key, (number(left) * 31 + number(right) * 7).rem_euclid(SMALL))
}

/// The new time of a value.
pub fn new_time((key, number): &Value, pace: Pace) -> i64 {
    pace.at(number % 40 + i64::from(*key))
}

/// What is said of a value with another number.
pub fn with((key, number): Value, other: i64) -> Value {
    (key, (number * 13 + other).rem_euclid(SMALL))
}

/// What a rule looks at.
pub fn third((_, number): &Value) -> i64 {
    number % 3
}

pub fn holds((_, number): &Value) -> bool {
    number % 3 != 0
}

/// Whether a window between events opens, or closes.
pub fn opens(by: i64) -> impl Fn(&Value) -> bool + Clone + Send + Sync + 'static {
    move |(_, number)| (number + by) % 3 == 0
}

pub fn closes(by: i64) -> impl Fn(&Value) -> bool + Clone + Send + Sync + 'static {
    move |(_, number)| (number + by) % 4 == 1
}

/// The last word about a state that expires.
pub fn last_word(state: i64) -> Option<Value> {
    (state % 2 == 0).then_some((2, state))
}

/// What a window's result becomes: everything in it shows in the number.
pub fn windowed(
    key: u32,
    (start, end): (i64, i64),
    early: bool,
    (count, sum): (u64, i64),
) -> Value {
    let parts = [start, end, i64::from(early), count as i64, sum];
    (key, parts.into_iter().fold(7, |hash, part| (hash * 131 + part).rem_euclid(SMALL)))
}

/// What a process says to an event or a timer.
#[derive(Default)]
pub struct Reply {
    pub main: Vec<Value>,
    pub side: Vec<Value>,
    pub set: Vec<i64>,
    pub cancel: Vec<i64>,
    /// Timers by a clock that stands still at 0.
    pub set_by_clock: Vec<i64>,
    pub clear: bool,
}

pub fn on_event(key: u32, state: &mut i64, time: i64, number: i64, delay: i64) -> Reply {
    *state = (*state * 7 + number + 1).rem_euclid(SMALL);
    let mut reply = Reply { main: vec![(key, *state)], ..Reply::default() };
    if number % 2 == 0 {
        reply.set.push(time + delay);
    }
    if number % 11 == 0 {
        reply.set.push(time - 3);
    }
    if number % 5 == 0 {
        reply.cancel.push(time + delay - 1);
    }
    if number % 3 == 0 {
        reply.side.push((key, number));
    }
    if number % 7 == 0 {
        // For the past, at once, or for when the stream ends.
        reply.set_by_clock.push(number % 4 - 1);
    }
    reply.clear = number % 13 == 0;
    reply
}

pub fn on_timer(key: u32, state: &mut i64, time: i64, due: i64, delay: i64) -> Reply {
    *state = (*state * 5 + 1).rem_euclid(SMALL);
    let number = (*state * 3 + time * 7 + due).rem_euclid(SMALL);
    let mut reply = Reply { main: vec![(key, number)], ..Reply::default() };
    if *state % 3 != 0 {
        reply.set.push(due + delay);
        reply.set.push(due + 1);
    }
    if *state % 4 == 0 {
        reply.side.push((key, number));
    }
    if *state % 5 == 0 {
        reply.set_by_clock.push(1 + *state % 3);
    }
    reply.clear = *state % 7 == 0;
    reply
}
