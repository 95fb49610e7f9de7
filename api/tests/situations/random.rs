//! Random rules over random events, against the naive evaluator.

use std::collections::BTreeMap;

use mizzle::situation::{
    Aggregate, AtCap, InvalidRule, Lifespan, Operand, Rules, Situation, Situations, StatelessRule,
    Which, average, count, latest, max, min, operand, sum,
};
use mizzle::{Engine, Event, Query};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::common::{at, cases, completed, engine, ms, total};
use super::naive::{
    FormOf, How, Is, LifespanOf, Mapped, NOBODY, Naive, OperandOf, Plain, RulesOf, SituationOf,
    When, express,
};

/// The types of events from outside; those of what rules make come behind.
const OUTSIDE: u16 = 3;
/// How long a stream takes.
const LENGTH: i64 = 60;

fn is() -> impl Strategy<Value = Is> {
    prop_oneof![4 => Just(Is::Any), 1 => (0..3i64).prop_map(Is::Above), 1 => (0..4i64).prop_map(Is::Equal)]
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![3 => Just(Which::First), 1 => Just(Which::Last), 1 => Just(Which::Each)]
}

fn cap() -> impl Strategy<Value = Option<(usize, bool)>> {
    prop::option::weighted(0.3, (1..4usize, any::<bool>()))
}

/// An operand whose events are of a type below `below`.
fn an_operand(below: u16) -> impl Strategy<Value = OperandOf> {
    let rare = || prop::option::weighted(0.2, is());
    let parts = (0..below, is(), which(), rare(), rare());
    (parts, prop::bool::weighted(0.2), prop::bool::weighted(0.3), cap()).prop_map(
        |((of, threshold, which, overrides, retain), absolute, weighted, cap)| OperandOf {
            of,
            threshold,
            which,
            absolute,
            overrides,
            retain,
            weighted,
            cap,
        },
    )
}

fn how() -> impl Strategy<Value = How> {
    prop::sample::select(vec![How::Count, How::Min, How::Max, How::Sum, How::Average, How::Latest])
}

fn form() -> impl Strategy<Value = FormOf> {
    prop_oneof![
        4 => Just(FormOf::All),
        4 => Just(FormOf::Sequence),
        2 => (1..5i64).prop_map(FormOf::AtLeast),
        1 => (0..4i64).prop_map(FormOf::AtMost),
        1 => (1..5i64).prop_map(FormOf::Nth),
        1 => (0..LENGTH).prop_map(FormOf::At),
        1 => (1..20i64).prop_map(FormOf::Every),
        2 => (1..20i64).prop_map(FormOf::After),
        1 => how().prop_map(FormOf::Report),
        1 => (is(), 1..=100i64).prop_map(|(is, bound)| FormOf::Percentage(is, bound as f64)),
        1 => (how(), 0..6i64).prop_map(|(how, bound)| FormOf::Crosses(how, bound as f64)),
        1 => Just(FormOf::Not),
        1 => Just(FormOf::Unless),
    ]
}

fn lifespan() -> impl Strategy<Value = LifespanOf> {
    let types = 0..OUTSIDE + 2;
    let time = || (5..LENGTH, prop::bool::weighted(0.2));
    let event = (types.clone(), is(), which(), prop::bool::weighted(0.2));
    let opened = prop_oneof![
        3 => Just((true, None, None)),
        1 => (0..LENGTH).prop_map(|at| (false, Some(at), None)),
        4 => (types, is()).prop_map(|by| (false, None, Some(by))),
    ];
    let closed = (
        prop::option::weighted(0.4, event),
        prop::option::weighted(0.2, time()),
        prop::option::weighted(0.4, time()),
    );
    (opened, closed, any::<bool>(), prop::bool::weighted(0.2), cap()).prop_map(
        |((start, at, by), (closed_by, closed_at, closed_after), adds, opener_counts, cap)| {
            let closed_after = closed_after.filter(|_| !start);
            LifespanOf {
                start,
                at,
                by,
                closed_by,
                closed_at,
                closed_after,
                adds,
                opener_counts,
                cap,
            }
        },
    )
}

fn situation(number: u16, lifespans: usize) -> impl Strategy<Value = SituationOf> {
    let operands = prop::collection::vec(an_operand(OUTSIDE + number), 3);
    (
        form(),
        0..lifespans,
        prop::bool::weighted(0.3),
        1..4usize,
        operands,
        prop::bool::weighted(0.3),
    )
        .prop_map(move |(form, lifespan, deferred, width, operands, even)| {
            sensible(form, lifespan, deferred, operands[..width].to_vec(), even, number)
        })
}

/// Takes away what would be refused.
fn sensible(
    form: FormOf,
    lifespan: usize,
    deferred: bool,
    mut operands: Vec<OperandOf>,
    even: bool,
    number: u16,
) -> SituationOf {
    let deferred = match form {
        FormOf::AtMost(_) | FormOf::Not | FormOf::Unless => true,
        FormOf::At(_) | FormOf::Every(_) | FormOf::After(_) | FormOf::Crosses(..) => false,
        _ => deferred,
    };
    match form {
        FormOf::At(_) | FormOf::Every(_) => operands.clear(),
        FormOf::After(_) | FormOf::Report(_) | FormOf::Percentage(..) | FormOf::Crosses(..) => {
            operands.truncate(1);
        }
        FormOf::Sequence | FormOf::Unless => {
            if operands.len() < 2 {
                operands.push(operands[0].clone());
            }
            if matches!(form, FormOf::Unless) {
                operands.truncate(2);
            }
        }
        _ => {}
    }
    let joins = matches!(form, FormOf::All | FormOf::Sequence);
    let counts = matches!(form, FormOf::AtLeast(_) | FormOf::AtMost(_) | FormOf::Nth(_));
    for (at, operand) in operands.iter_mut().enumerate() {
        let picks = joins || (matches!(form, FormOf::Unless) && at == 0);
        if !picks {
            (operand.which, operand.absolute) = (Which::First, false);
        }
        operand.absolute &= operand.which != Which::Each;
        if operand.absolute
            || matches!(form, FormOf::Not)
            || (matches!(form, FormOf::Unless) && at == 1)
        {
            operand.overrides = None;
        }
        if deferred || !(joins || matches!(form, FormOf::AtLeast(_))) {
            operand.retain = None;
        }
        operand.weighted &= counts;
    }
    let when = if even { When::Even } else { When::Always };
    SituationOf { form, lifespan, deferred, operands, when, derives: OUTSIDE + number }
}

fn mapping() -> impl Strategy<Value = Mapped> {
    (0..OUTSIDE, is(), 0..OUTSIDE).prop_map(|(of, test, derives)| Mapped {
        of: of.min(derives),
        test,
        derives: of.max(derives).max(of.min(derives) + 1),
    })
}

fn rules_of() -> impl Strategy<Value = RulesOf> {
    prop::collection::vec(lifespan(), 1..4).prop_flat_map(move |lifespans| {
        let several = lifespans.len();
        let situations = (1..4u16).prop_flat_map(move |many| {
            (0..many).map(|number| situation(number, several)).collect::<Vec<_>>()
        });
        let mappings = prop::collection::vec(mapping(), 0..2);
        (Just(lifespans), situations, mappings).prop_map(|(lifespans, situations, mappings)| {
            RulesOf { lifespans, situations, mappings }
        })
    })
}

fn lifespan_of(number: usize, of: &LifespanOf) -> Lifespan<Plain> {
    let mut lifespan = Lifespan::new(&format!("L{number}"));
    if of.start {
        lifespan = lifespan.from_start();
    }
    if let Some(time) = of.at {
        lifespan = lifespan.opened_at(at(time));
    }
    if let Some((by, is)) = of.by {
        lifespan = lifespan.opened_by_if(by, move |event| is.holds(event));
    }
    let discarding = |lifespan: Lifespan<Plain>, discards: bool| {
        if discards { lifespan.discards() } else { lifespan }
    };
    if let Some((by, is, which, discards)) = of.closed_by {
        lifespan = lifespan.closed_by_if(by, move |event, _| is.holds(event));
        lifespan = match which {
            Which::First => lifespan.first(),
            Which::Last => lifespan.last(),
            Which::Each => lifespan.each(),
        };
        lifespan = discarding(lifespan, discards);
    }
    if let Some((time, discards)) = of.closed_at {
        lifespan = discarding(lifespan.closed_at(at(time)), discards);
    }
    if let Some((length, discards)) = of.closed_after {
        lifespan = discarding(lifespan.closed_after(ms(length as u64)), discards);
    }
    if of.adds {
        lifespan = lifespan.adds();
    }
    if of.opener_counts {
        lifespan = lifespan.opener_counts();
    }
    match of.cap {
        Some((most, oldest)) => lifespan.max_open(most as u32, at_cap(oldest)),
        None => lifespan,
    }
}

fn at_cap(oldest: bool) -> AtCap {
    if oldest { AtCap::DropOldest } else { AtCap::RefuseNewest }
}

fn operand_of(of: &OperandOf) -> Operand<Plain> {
    let (threshold, mut result) = (of.threshold, operand(of.of));
    // Left out it is as if it always held, and may go another way.
    if !matches!(threshold, Is::Any) {
        result = result.threshold(move |event: &Plain| threshold.holds(event));
    }
    result = match of.which {
        Which::First => result,
        Which::Last => result.last(),
        Which::Each => result.each(),
    };
    if of.absolute {
        result = result.absolute();
    }
    if let Some(is) = of.overrides {
        result = result.overrides(move |event| is.holds(event));
    }
    if let Some(is) = of.retain {
        result = result.retain(move |event| is.holds(event));
    }
    if of.weighted {
        result = result.weight(|event| event.value);
    }
    match of.cap {
        Some((most, oldest)) => result.max_candidates(most as u32, at_cap(oldest)),
        None => result,
    }
}

fn aggregate_of(how: How) -> Aggregate<Plain> {
    let value = |event: &Plain| event.value as f64;
    match how {
        How::Count => count(),
        How::Min => min(value),
        How::Max => max(value),
        How::Sum => sum(value),
        How::Average => average(value),
        How::Latest => latest(value),
    }
}

fn situation_of(of: &SituationOf) -> Situation<Plain> {
    let name = format!("S{}", of.derives);
    let mut operands = of.operands.iter().map(operand_of).collect::<Vec<_>>();
    let mut made = match of.form {
        FormOf::All => Situation::all(&name, operands),
        FormOf::Sequence => Situation::sequence(&name, operands),
        FormOf::AtLeast(n) => Situation::at_least(&name, n, operands),
        FormOf::AtMost(n) => Situation::at_most(&name, n, operands),
        FormOf::Nth(n) => Situation::nth(&name, n, operands),
        FormOf::At(time) => Situation::at(&name, at(time)),
        FormOf::Every(length) => Situation::every(&name, ms(length as u64)),
        FormOf::After(length) => Situation::after(&name, ms(length as u64), operands.remove(0)),
        FormOf::Report(how) => Situation::report(&name, aggregate_of(how), operands.remove(0)),
        FormOf::Percentage(is, bound) => {
            Situation::percentage(&name, bound, operands.remove(0), move |event| is.holds(event))
        }
        FormOf::Crosses(how, bound) => {
            Situation::crosses(&name, aggregate_of(how), bound, operands.remove(0))
        }
        FormOf::Not => Situation::not(&name, operands),
        FormOf::Unless => {
            let absent = operands.remove(1);
            Situation::unless(&name, operands.remove(0), absent)
        }
    };
    if of.deferred {
        made = made.deferred();
    }
    if let When::Even = of.when {
        made = made.when(|found| found.events().map(|event| event.value).sum::<i64>() % 2 == 0);
    }
    let derives = of.derives;
    made.during(&format!("L{}", of.lifespan)).derives(derives, move |found| {
        let events: Vec<&Plain> = found.events().collect();
        express(derives, &events, found.lifespan().opener(), found.value())
    })
}

/// The rules as a user writes them.
fn situations(rules: &RulesOf) -> Situations<Plain> {
    let mut set = Situations::new(|event: &Plain| event.of);
    for (number, of) in rules.lifespans.iter().enumerate() {
        set = set.lifespan(lifespan_of(number, of));
    }
    for of in &rules.situations {
        set = set.situation(situation_of(of));
    }
    for (number, of) in rules.mappings.iter().enumerate() {
        let test = of.test;
        let derives = of.derives;
        let rule = StatelessRule::new(&format!("M{number}"), of.of)
            .when(move |event: &Plain| test.holds(event))
            .derives(derives, move |event| Plain {
                of: derives,
                key: event.key,
                value: event.value,
                text: format!("m({})", event.text),
            });
        set = set.stateless(rule);
    }
    set
}

fn stream() -> impl Strategy<Value = Vec<(i64, Plain)>> {
    let event = (0..6i64, 0..2u8, 0..OUTSIDE, 0..4i64);
    prop::collection::vec(event, 1..60).prop_map(|events| {
        let mut time = 0;
        let numbered = events.into_iter().enumerate().map(|(n, (gap, key, of, value))| {
            time += gap / 3;
            (time, Plain { of, key, value, text: format!("{of}:{n}") })
        });
        numbered.collect()
    })
}

/// What was found, by keys in its order; and how much was refused at caps.
type Found = (BTreeMap<u8, Vec<(i64, Plain)>>, Option<u64>);

fn by_keys(all: impl Iterator<Item = (i64, Plain)>) -> BTreeMap<u8, Vec<(i64, Plain)>> {
    let mut keys: BTreeMap<u8, Vec<(i64, Plain)>> = BTreeMap::new();
    for (time, event) in all {
        keys.entry(event.key).or_default().push((time, event));
    }
    // Of several keys: the order among them is another matter.
    if let Some(of_nobody) = keys.get_mut(&NOBODY) {
        of_nobody.sort_by(|a, b| (a.0, &a.1.text).cmp(&(b.0, &b.1.text)));
    }
    keys
}

/// What the naive evaluator finds. `None`: rules that feed themselves.
fn expected(rules: &RulesOf, stream: &[(i64, Plain)]) -> Option<Found> {
    let mut keys: BTreeMap<u8, Naive<'_>> = BTreeMap::new();
    for (time, event) in stream {
        if !Naive::reacts(rules, event.of) {
            continue;
        }
        let naive = keys.entry(event.key).or_insert_with(|| Naive::new(rules, *time));
        naive.advance(*time);
        naive.event(event.clone());
        if naive.runs_wild() {
            return None;
        }
    }
    let mut refused = 0;
    let mut found = Vec::new();
    for mut naive in keys.into_values() {
        naive.advance(LENGTH);
        if naive.runs_wild() {
            return None;
        }
        refused += naive.refused;
        found.extend(naive.found);
    }
    Some((by_keys(found.into_iter()), Some(refused)))
}

/// What the engine finds.
fn run(engine: &Engine, rules: &RulesOf, stream: &[(i64, Plain)]) -> Found {
    let query = Query::new("random");
    let (events, input) = query.push_source("events", |event: &Event<Plain>| event.time);
    let found = input
        .map(|event| event.value)
        .key_by(|event| event.key)
        .situations(situations(rules))
        .collect();
    let handle = engine.submit(query).unwrap();
    for (time, event) in stream {
        events.push(Event::new(at(*time), event.clone())).expect("the query runs");
    }
    events.advance(at(LENGTH));
    drop(events);
    completed(&handle);
    let found = found.events().into_iter();
    let found = found.map(|event| (event.time.as_micros() / 1000, event.value));
    let (in_time, at_end): (Vec<_>, Vec<_>) = found.partition(|(time, _)| *time <= LENGTH);
    // What the end brings may be refused too.
    let refused = at_end.is_empty().then(|| total(&handle, |stats| stats.given_up));
    (by_keys(in_time.into_iter()), refused)
}

fn compiled(rules: &RulesOf) -> Result<Rules<Plain>, InvalidRule> {
    situations(rules).compile()
}

fn check(
    engines: &[Engine],
    rules: &RulesOf,
    stream: &[(i64, Plain)],
) -> Result<(), TestCaseError> {
    if let Err(refused) = compiled(rules) {
        return Err(TestCaseError::reject(refused.to_string()));
    }
    let Some(expected) = expected(rules, stream) else {
        return Err(TestCaseError::reject("rules that feed themselves"));
    };
    for engine in engines {
        let (found, refused) = run(engine, rules, stream);
        prop_assert_eq!(&found, &expected.0);
        prop_assert!(
            refused.is_none_or(|refused| Some(refused) == expected.1),
            "{refused:?} {expected:?}"
        );
    }
    Ok(())
}

/// Situations about which so little is said that events take a short way.
fn short_rules() -> impl Strategy<Value = RulesOf> {
    let cap = || prop::option::weighted(0.4, (1..4usize).prop_map(|most| (most, false)));
    let short = (0..OUTSIDE, 1..OUTSIDE, prop::bool::weighted(0.7), any::<bool>(), cap(), cap());
    prop::collection::vec(short, 1..4).prop_map(|all| {
        let start = LifespanOf {
            start: true,
            at: None,
            by: None,
            closed_by: None,
            closed_at: None,
            closed_after: None,
            adds: false,
            opener_counts: false,
            cap: None,
        };
        let numbered = (0..).zip(all);
        let situations = numbered.map(|(number, (one, next, two, even, cap, other_cap))| {
            let operand = |of, cap| OperandOf {
                of,
                threshold: Is::Any,
                which: Which::First,
                absolute: false,
                overrides: None,
                retain: None,
                weighted: false,
                cap,
            };
            let mut operands = vec![operand(one, cap)];
            if two {
                operands.push(operand((one + next) % OUTSIDE, other_cap));
            }
            sensible(FormOf::All, 0, false, operands, even, number)
        });
        RulesOf { lifespans: vec![start], situations: situations.collect(), mappings: Vec::new() }
    })
}

fn try_all(rules: impl Strategy<Value = RulesOf>) {
    let engines = [1, 2, 4].map(engine);
    let cases = cases(1_000, 100_000);
    let config = Config {
        cases,
        max_global_rejects: 100 * cases,
        failure_persistence: None,
        ..Config::default()
    };
    let tried = TestRunner::new(config)
        .run(&(rules, stream()), |(rules, stream)| check(&engines, &rules, &stream));
    if let Err(error) = tried {
        panic!("{error:?}");
    }
}

#[test]
fn random_rules_find_what_their_description_says() {
    try_all(rules_of());
}

#[test]
fn the_short_way_leads_to_the_same() {
    try_all(short_rules());
}
