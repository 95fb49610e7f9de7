//! Random queries as plain descriptions, and the user functions that both the engine's query and the
//! naive evaluation call.

use proptest::prelude::*;

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
}

#[derive(Clone, Copy, Debug)]
pub struct WindowSpec {
    pub size: u64,
    pub hop: u64,
    pub offset: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Apply,
    Reduce,
    Transition,
    /// As `Apply`, with a function that panics for some values, which resets the key.
    Moody,
    Window(WindowSpec),
    Rule(Rule, u64),
}

/// A rule with a length of time.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Distinct,
    Debounce,
    Throttle,
    Sort,
}

impl Kind {
    /// Whether it is keyed, if `wish` asks for it: to spare types of chains some have one form only.
    fn keyed(self, wish: bool) -> bool {
        match self {
            Kind::Apply | Kind::Window(_) => wish,
            Kind::Reduce => false,
            Kind::Transition | Kind::Moody => true,
            Kind::Rule(rule, _) => matches!(rule, Rule::Distinct | Rule::Debounce),
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
                stateful(Kind::Window(window), true, first),
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
pub fn new_time((key, number): &Value) -> i64 {
    number % 40 + i64::from(*key)
}

/// What a window's result becomes: everything in it shows in the number.
pub fn windowed(key: u32, start: i64, end: i64, (count, sum): (u64, i64)) -> Value {
    let parts = [start, end, count as i64, sum];
    (key, parts.into_iter().fold(7, |hash, part| (hash * 131 + part).rem_euclid(SMALL)))
}

/// What a process says to an event or a timer.
#[derive(Default)]
pub struct Reply {
    pub main: Vec<Value>,
    pub side: Vec<Value>,
    pub set: Vec<i64>,
    pub cancel: Vec<i64>,
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
    reply.clear = *state % 7 == 0;
    reply
}

// Strategies.

fn window() -> impl Strategy<Value = WindowSpec> {
    (1u64..12, 0u64..14, 0u64..5).prop_map(|(size, hop, offset)| WindowSpec {
        size,
        hop: if hop == 0 { size } else { hop },
        offset,
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![Just(Rule::Distinct), Just(Rule::Debounce), Just(Rule::Throttle), Just(Rule::Sort),]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Apply),
        1 => Just(Kind::Reduce),
        1 => Just(Kind::Transition),
        1 => Just(Kind::Moody),
        3 => window().prop_map(Kind::Window),
        2 => (rule(), 1u64..12).prop_map(|(rule, length)| Kind::Rule(rule, length)),
    ]
}

fn fused(shapes: u8) -> impl Strategy<Value = Fused> {
    (0..shapes, 0i64..6, window(), 1i64..9, any::<bool>(), any::<bool>()).prop_map(
        |(shape, number, window, delay, first, second)| Fused {
            shape,
            number,
            window,
            delay,
            first,
            second,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0i64..6).prop_map(Op::Map),
        2 => (0i64..6).prop_map(Op::Filter),
        1 => (0i64..6).prop_map(Op::FilterMap),
        1 => Just(Op::FlatMap),
        1 => Just(Op::Inspect),
        2 => (0i64..6).prop_map(Op::Picky),
        6 => (kind(), any::<bool>(), any::<bool>())
            .prop_map(|(kind, keyed, flag)| Op::Stateful { kind, keyed: kind.keyed(keyed), flag }),
        3 => (1i64..9, any::<bool>()).prop_map(|(delay, flag)| Op::Process { delay, flag }),
        2 => (0i64..6).prop_map(Op::Split),
        1 => (0i64..6, 0i64..6).prop_map(|(a, b)| Op::Branches(a, b)),
        1 => Just(Op::SplitLate),
        4 => (2usize..4).prop_map(Op::Share),
        1 => (0u64..60).prop_map(|slack| Op::Retime { slack }),
        6 => fused(SHAPES).prop_map(Op::Fused),
    ]
}

fn join() -> impl Strategy<Value = Join> {
    prop_oneof![
        // Narrow, so that there are not many pairs.
        3 => (-6i64..6, 0i64..3, any::<bool>())
            .prop_map(|(lower, width, full)| Join::Interval { lower, upper: lower + width, full }),
        1 => (0u64..20).prop_map(|age| Join::AsOf { age }),
        1 => Just(Join::Control),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0usize..8, op()).prop_map(|(at, op)| Step::One { at, op }),
        2 => prop::collection::vec(0usize..8, 2..4).prop_map(|at| Step::Union { at }),
        2 => ([0usize..8, 0usize..8], join(), any::<bool>())
            .prop_map(|(at, join, flag)| Step::Join { at, join, flag }),
    ]
}

fn source() -> impl Strategy<Value = SourceSpec> {
    let event = (0i64..4, 0u32..4);
    let events = prop_oneof![
        1 => Just(Vec::new()),
        9 => prop::collection::vec((event, 0i64..64), 0..70),
    ];
    // How far events step back, and what is declared: in half of the cases more than they do.
    let pushed = prop::option::of(prop_oneof![Just(1usize), 2usize..40]);
    (events, 0i64..8, 0u64..12, any::<bool>(), pushed, prop::option::of(fused(1))).prop_map(
        |(events, back, slack, declared, pushed, fused)| {
            let slack = declared.then_some(slack);
            let back = if slack.is_none() && back < 5 { 1 } else { back + 1 };
            let mut clock = -20;
            let events = events
                .into_iter()
                .enumerate()
                .map(|(index, ((by, key), jitter))| {
                    clock += by;
                    (clock - jitter % back, (key, index as i64 * 7 + jitter))
                })
                .collect();
            SourceSpec { events, slack, pushed, fused }
        },
    )
}

/// Any program.
pub fn program() -> impl Strategy<Value = Program> {
    let end = prop_oneof![
        1 => Just(End::Plain),
        1 => (1usize..20).prop_map(End::Channel),
        2 => Just(End::InOrder),
        2 => fused(2).prop_map(End::Fused),
    ];
    (
        prop::collection::vec(source(), 1..4),
        prop::collection::vec(step(), 0..9),
        prop::collection::vec(end, 1..4),
    )
        .prop_map(|(sources, steps, ends)| Program { sources, steps, ends })
}
