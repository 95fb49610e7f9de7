//! Random patterns and streams against the naive matcher.

use std::collections::BTreeMap;

use mizzle::pattern::{Report, Skip};
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Engine, Query, Status, source};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use super::common::{GUARD, cases};
use super::naive::{self, Outcome};
use super::program::*;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The events in the order in which they arrive, and by how much their times may go back.
#[derive(Clone, Debug)]
struct Stream {
    events: Vec<Happening>,
    slack: i64,
}

fn kinds() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(1u8), 4 => Just(2u8), 2 => Just(4u8), 1 => Just(3u8), 1 => Just(6u8), 1 => Just(7u8)]
}

fn fits() -> impl Strategy<Value = Fits> {
    let name = || prop::sample::select(NAMES.to_vec());
    prop_oneof![
        6 => kinds().prop_map(Fits::Kinds),
        1 => (kinds(), name()).prop_map(|(kinds, name)| Fits::Above(kinds, name)),
        1 => (kinds(), name()).prop_map(|(kinds, name)| Fits::Differs(kinds, name)),
        1 => (kinds(), name(), 1..3usize).prop_map(|(kinds, name, n)| Fits::Fewer(kinds, name, n)),
    ]
}

fn gap() -> impl Strategy<Value = Gap> {
    prop_oneof![3 => Just(Gap::Relaxed), 2 => Just(Gap::Strict), 1 => Just(Gap::Any)]
}

fn step() -> impl Strategy<Value = Pat> {
    (prop::sample::select(NAMES.to_vec()), fits()).prop_map(|(name, fits)| Pat::Step(name, fits))
}

fn times() -> impl Strategy<Value = Times> {
    let range = prop_oneof![
        2 => Just((1, None)),
        1 => Just((0, None)),
        2 => Just((0, Some(1))),
        1 => Just((2, Some(2))),
        1 => Just((1, Some(3))),
        1 => Just((2, None)),
        1 => Just((0, Some(2))),
    ];
    let until = prop_oneof![4 => Just(None), 1 => kinds().prop_map(Some)];
    (range, gap(), prop::bool::weighted(0.25), prop::bool::weighted(0.25), until).prop_map(
        |((min, max), inner, reluctant, possessive, until)| Times {
            min,
            max,
            inner,
            reluctant,
            possessive,
            until,
        },
    )
}

/// A part of a sequence; `depth` more may lie within it.
fn unit(depth: u32) -> BoxedStrategy<Pat> {
    if depth == 0 {
        return step().boxed();
    }
    let inner = || unit(depth - 1);
    let body = || inner().prop_filter("needs an event", |of| !of.can_be_empty());
    let several = || prop::collection::vec(body(), 2..3);
    let steps = prop::collection::vec(step(), 2..4);
    prop_oneof![
        5 => step(),
        4 => (body(), times()).prop_map(|(of, times)| Pat::Repeat(Box::new(of), times)),
        1 => several().prop_map(Pat::Either),
        1 => steps.prop_map(Pat::AnyOf),
        1 => sequence(depth - 1, 1),
    ]
    .boxed()
}

fn sequence(depth: u32, links: usize) -> BoxedStrategy<Pat> {
    let to = move || (gap(), unit(depth)).prop_map(|(gap, to)| vec![Link::To(gap, to)]);
    let not = || prop_oneof![fits().prop_map(Link::NotNext), fits().prop_map(Link::NotThen)];
    let guarded = (not(), to()).prop_map(|(not, mut to)| {
        to.insert(0, not);
        to
    });
    let link = prop_oneof![5 => to(), 1 => guarded];
    (unit(depth), prop::collection::vec(link, 1..=links))
        .prop_map(|(first, links)| Pat::Sequence(Box::new(first), links.concat()))
        .boxed()
}

fn skip() -> impl Strategy<Value = Skip> {
    let name = || prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned);
    prop_oneof![
        4 => Just(Skip::None),
        1 => Just(Skip::PastLast),
        1 => Just(Skip::ToNext),
        1 => name().prop_map(Skip::ToFirst),
        1 => name().prop_map(Skip::ToLast),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    prop_oneof![
        5 => Just(Report::Each),
        3 => Just(Report::Best),
        1 => (1..12i64).prop_map(|length| Report::BestBy(us(length))),
        1 => (1..12i64).prop_map(|length| Report::BestAt(us(length))),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    let last = prop_oneof![
        6 => Just(None),
        1 => fits().prop_map(|fits| Some(Link::NotNext(fits))),
        1 => fits().prop_map(|fits| Some(Link::NotThen(fits))),
    ];
    let within = prop::option::of((1..14i64, any::<bool>()));
    let each = prop::option::weighted(0.25, 1..8i64);
    let whole = (sequence(2, 3), last);
    (whole, within, each, report(), skip(), prop::bool::weighted(0.2)).prop_filter_map(
        "cannot be",
        |((pat, last), within, within_each, report, skip, consume)| {
            let unending = matches!(last, Some(Link::NotThen(_))) && within.is_none();
            let unknown = match &skip {
                Skip::ToFirst(name) | Skip::ToLast(name) => !pat.has(name),
                _ => false,
            };
            let refused = pat.can_be_empty() || unending || unknown;
            let pat = match (pat, last) {
                (Pat::Sequence(first, mut links), Some(last)) => {
                    links.push(last);
                    Pat::Sequence(first, links)
                }
                (pat, _) => pat,
            };
            (!refused).then_some(Program { pat, within, within_each, report, skip, consume })
        },
    )
}

fn stream() -> impl Strategy<Value = Stream> {
    let slack = prop_oneof![2 => Just(0i64), 1 => 1..9i64];
    let kind = prop_oneof![3 => Just(0u8), 3 => Just(1u8), 2 => Just(2u8)];
    let event = (0..2u8, kind, -1..3i8, 0..4i64, 0..=8i64);
    (prop::collection::vec(event, 0..24), slack).prop_map(|(made, slack)| {
        let mut time = 0;
        let mut events: Vec<(i64, Happening)> = Vec::new();
        for (key, kind, value, gap, late) in made {
            time += gap;
            let id = events.len();
            events.push((time + late.min(slack), Happening { id, key, time, kind, value }));
        }
        events.sort_by_key(|(arrives, _)| *arrives);
        let events = events.into_iter().map(|(_, event)| event).collect();
        Stream { events, slack }
    })
}

/// What comes out, by key.
fn run(engine: &Engine, program: &Program, stream: &Stream) -> BTreeMap<u8, Outcome> {
    let query = Query::new("random");
    let at = |event: &Happening| Timestamp::from_micros(event.time);
    let (matches, timeouts) = query
        .source("events", source::from_iter(stream.events.clone(), at))
        .watermarks(Watermarks::bounded(us(stream.slack)))
        .key_by(|event| event.key)
        .pattern(program.pattern(), told)
        .timeouts(told);
    let (matches, timeouts) = (matches.collect(), timeouts.collect());
    let handle = engine.submit(query).expect("the pattern can be");
    let status = handle.wait_timeout(GUARD);
    assert_eq!(status, Status::Completed, "{}", handle.plan().explain());
    let mut outcomes: BTreeMap<u8, Outcome> = BTreeMap::new();
    for event in matches.events() {
        let (key, told) = event.value;
        outcomes.entry(key).or_default().matches.push((Some(event.time.as_micros()), told));
    }
    for event in timeouts.events() {
        let (key, told) = event.value;
        outcomes.entry(key).or_default().timeouts.push((event.time.as_micros(), told));
    }
    outcomes
}

/// Compares what came out with what should. The time of what only the end brings is not looked at.
fn check(engine: &Engine, program: &Program, stream: &Stream) -> Result<(), TestCaseError> {
    let mut by_key: BTreeMap<u8, Vec<Happening>> = BTreeMap::new();
    let mut sorted = stream.events.clone();
    sorted.sort_by_key(|event| event.time);
    sorted.into_iter().for_each(|event| by_key.entry(event.key).or_default().push(event));
    let mut wanted = BTreeMap::new();
    for (key, events) in &by_key {
        match naive::outcome(program, events) {
            Ok(outcome) => drop(wanted.insert(*key, outcome)),
            Err(naive::TooMany) => return Ok(()),
        }
    }
    let mut seen = run(engine, program, stream);
    for (key, wanted) in wanted {
        let mut seen = seen.remove(&key).unwrap_or_default();
        for (seen, wanted) in seen.matches.iter_mut().zip(&wanted.matches) {
            if wanted.0.is_none() {
                seen.0 = None;
            }
        }
        prop_assert_eq!(&seen, &wanted, "key {} of {:?}", key, by_key[&key]);
    }
    prop_assert!(seen.is_empty(), "{:?}", seen);
    Ok(())
}

fn engines() -> Vec<Engine> {
    let settings = [(1, 1024), (1, 1), (2, 3), (4, 2)];
    settings
        .map(|(workers, batch)| Engine::builder().workers(workers).batch(batch).build().unwrap())
        .into()
}

/// A thread on which deep strategies have room.
fn with_room(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(work);
    if let Err(panic) = thread.expect("a thread starts").join() {
        std::panic::resume_unwind(panic);
    }
}

fn try_all(programs: impl Strategy<Value = Program>) {
    let engines = engines();
    let config = ProptestConfig {
        cases: cases(1_000, 300_000),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    };
    let inputs = (programs, stream(), 0..engines.len());
    let checked = TestRunner::new(config)
        .run(&inputs, |(program, stream, engine)| check(&engines[engine], &program, &stream));
    match checked {
        Ok(()) => {}
        Err(TestError::Fail(why, input)) => panic!("{why}\n{input:?}"),
        Err(aborted) => panic!("{aborted}"),
    }
}

#[test]
fn any_sequence_matches_as_all_ways_of_matching_say() {
    with_room(|| try_all(program()));
}
