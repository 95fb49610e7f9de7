//! Strategies for random programs.

use proptest::prelude::*;

use super::pace::Pace;
use super::program::*;

fn window() -> impl Strategy<Value = WindowSpec> {
    (1u64..12, 0u64..14, 0u64..5).prop_map(|(size, hop, offset)| WindowSpec {
        size,
        hop: if hop == 0 { size } else { hop },
        offset,
    })
}

fn updates() -> impl Strategy<Value = Updates> {
    let often = || prop_oneof![2 => Just(0u64), 1 => 1u64..9];
    (often(), often(), often()).prop_map(|(events, interval, lateness)| Updates {
        events,
        interval,
        lateness,
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        Just(Rule::Distinct),
        Just(Rule::Debounce),
        Just(Rule::Throttle),
        Just(Rule::Sort),
        Just(Rule::Sample),
        Just(Rule::Count),
        Just(Rule::Aggregate),
        (1u64..5).prop_map(Rule::Reaches),
        (1u64..5).prop_map(Rule::Edges),
        (1u64..4).prop_map(Rule::Runs),
        any::<bool>().prop_map(|rising| Rule::Edge { rising }),
        Just(Rule::Changes),
        Just(Rule::Pairs),
        prop::option::of(1u32..9).prop_map(Rule::Increase),
        Just(Rule::Expire),
    ]
}

fn laid() -> impl Strategy<Value = Laid> {
    let unit = prop_oneof![Just(Unit::Day), Just(Unit::Week), Just(Unit::Month)];
    let later = prop::sample::select(vec![0, 1_800, 21_600, 82_800, 84_600]);
    prop_oneof![
        2 => window().prop_map(Laid::Hopping),
        2 => window().prop_map(Laid::Cumulative),
        3 => (unit, later)
            .prop_map(|(unit, later)| Laid::Calendar(ZONES[0], unit, later * 1_000_000)),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    let none = Updates::default();
    prop_oneof![
        2 => Just(Kind::Apply),
        1 => Just(Kind::Reduce),
        1 => Just(Kind::Transition),
        1 => Just(Kind::Moody),
        2 => window().prop_map(move |window| Kind::Window(Laid::Hopping(window), none)),
        4 => (laid(), updates()).prop_map(|(laid, updates)| Kind::Window(laid, updates)),
        5 => (rule(), 1u64..12).prop_map(|(rule, length)| Kind::Rule(rule, length)),
        2 => (1u64..9, updates()).prop_map(|(gap, updates)| Kind::Session(gap, updates)),
        2 => (1u64..5, 1u64..6).prop_map(|(n, every)| Kind::Count(n, every)),
        1 => (0i64..6).prop_map(Kind::Between),
        1 => Just(Kind::Clocked(1)),
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
        1 => (0u64..60).prop_map(|slack| Op::Retime { slack, pace: Pace { unit: 1, from: 0 } }),
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
        2 => (window(), any::<bool>()).prop_map(|(spec, full)| Join::Window { spec, full }),
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

/// Around the moment at which the clocks of a zone change, within microseconds or within weeks.
fn pace() -> impl Strategy<Value = (Pace, Zone)> {
    let unit = prop_oneof![3 => Just(1), 1 => Just(19_000_000_000)];
    (unit, prop::sample::select(ZONES.to_vec()))
        .prop_map(|(unit, zone)| (Pace { unit, from: zone.at * 1_000_000 }, zone))
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
        pace(),
    )
        .prop_map(|(sources, steps, ends, (pace, zone))| {
            let mut program = Program { sources, steps, ends };
            program.stretch(pace, zone);
            program
        })
}
