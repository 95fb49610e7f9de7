//! In every way in which an operator may be driven, and what it holds.

use std::sync::Arc;

use crate::event::Event;
use crate::harness::{Element, Input, OperatorHarness, Outcome, Probe};
use crate::operator::join::Either;
use crate::operator::{
    Consumer, Cx, Nowhere, OneByOne, OpId, SituationMatch, SteeredSituations, Together,
};
use crate::situation::rule::{
    CloseBy, Closer, Form, LifespanType, Named, Opener, Operand, Set, Which,
};
use crate::situation::tests::*;
use crate::situation::{Act, Program};
use crate::state::Codec;
use crate::time::Timestamp;

/// The operator for two keys: the events in capitals, and the others.
type Matching<R, N> = SituationMatch<Text, bool, fn(&Text) -> bool, R, N, Nowhere<Act<Text>>>;

fn is_capital(event: &Text) -> bool {
    event.starts_with(char::is_uppercase)
}

fn compiled(set: &Set<Text>) -> Arc<Program<Text>> {
    Arc::new(set.compile().expect("the rules make sense"))
}

fn matching<R, N>(program: Arc<Program<Text>>, only: Option<bool>, next: N) -> Matching<R, N> {
    let key: fn(&Text) -> bool = is_capital;
    let codec = Some(Codec::new("situations"));
    SituationMatch::new(OpId(1), (key, only), program, codec, false, next, Nowhere::default())
}

/// ` ` lets a microsecond pass, `|` is a watermark, `$` the end. The other characters are events, numbered by
/// their times.
fn inputs(text: &str) -> Vec<Input<Text>> {
    let mut now = 0;
    let mut inputs = Vec::new();
    for what in text.chars() {
        match what {
            ' ' => now += 1,
            '|' => inputs.push(Input::Watermark(at(now))),
            '$' => inputs.push(Input::End),
            event => inputs.push(Input::Event(at(now), format!("{event}{now}"))),
        }
    }
    inputs
}

fn run(set: &Set<Text>, only: Option<bool>, text: &str) -> Outcome<Text> {
    let program = compiled(set);
    let build = |probe: Probe<Text>| matching::<OneByOne, _>(program.clone(), only, probe);
    OperatorHarness::new(build).ordered(true).restoring().run(&inputs(text))
}

fn told(outcome: &Outcome<Text>) -> Vec<String> {
    outcome.events().map(|(time, value)| format!("{}: {value}", time.as_micros())).collect()
}

/// What is found, in every mode.
fn found(set: &Set<Text>, text: &str) -> Vec<String> {
    told(&run(set, None, text))
}

/// For one key that is there from the start.
fn found_of_all(set: &Set<Text>, text: &str) -> Vec<String> {
    told(&run(set, Some(true), text))
}

#[test]
fn keys_have_their_own_lifespans() {
    let rules = set(vec![between('i', 'x', Some(9))], vec![situation('s', Form::All, "ab")]);
    assert_eq!(found(&rules, "i I a A b X B x"), ["4: s(a2 b4)"]);
}

#[test]
fn a_lifespan_ends_by_the_watermark_before_events_of_that_time_and_at_the_end() {
    let rules = set(vec![between('i', 'x', Some(3))], vec![situation('s', Form::Not, "a")]);
    assert_eq!(found(&rules, "i  |  |"), ["3: s()"]);
    assert_eq!(found(&rules, "i   a"), ["3: s()"]);
    assert_eq!(found(&rules, "i  a |"), [""; 0]);
    assert_eq!(found(&rules, "i$"), ["3: s()"], "what is due fires at the end");
    let by_event = set(vec![between('i', 'x', None)], vec![situation('s', Form::Not, "a")]);
    assert_eq!(found(&by_event, "i$"), [""; 0], "the end closes no lifespan");
}

#[test]
fn what_is_due_at_one_time_comes_in_order_of_arrival_of_the_keys() {
    let rules = set(vec![between('i', 'x', Some(3))], vec![situation('s', Form::Not, "a")]);
    let by_key = |text: &str| {
        let outcome = run(&with_openers(&rules), None, text);
        told(&outcome)
    };
    assert_eq!(by_key("I i    |"), ["3: s(I0)", "4: s(i1)"]);
    assert_eq!(by_key("iI    |"), ["3: s(i0)", "3: s(I0)"]);
}

/// The rules, with the opener in what is found.
fn with_openers(rules: &Set<Text>) -> Set<Text> {
    let mut rules = rules.clone();
    let mut rule = situation('s', Form::Not, "a");
    let express = |found: &crate::situation::Detection<'_, Text>| {
        format!("s({})", found.lifespan().opener().expect("an event opens it"))
    };
    rule.derives = Some((of('s'), Named::new("express", Arc::new(express))));
    rules.situations = vec![Arc::new(rule)];
    rules
}

#[test]
fn it_ticks_while_it_is_open_and_once_at_the_end() {
    let rules =
        set(vec![between('i', 'x', Some(10))], vec![situation('s', Form::Every(us(3)), "")]);
    assert_eq!(found(&rules, " i           |"), ["4: s()", "7: s()", "10: s()"]);
    assert_eq!(found(&rules, "i    x       |"), ["3: s()"]);
    assert_eq!(found(&rules, "i    |$"), ["3: s()", "6: s()"]);
    assert_eq!(found(&rules, "i    $"), ["3: s()"], "what is set at the end never fires");
}

#[test]
fn a_time_that_opens_holds_for_keys_that_come_later() {
    let times = LifespanType {
        openers: vec![Opener::At(at(2))],
        closers: vec![Closer { by: CloseBy::At(at(6)), discards: false }],
        ..lifespans()
    };
    let rules = set(vec![times], vec![situation('s', Form::Not, "a")]);
    assert_eq!(found(&rules, "x      |"), [""; 0], "no rule names x, so no key is known");
    let rules = set(
        vec![LifespanType {
            openers: vec![Opener::At(at(2)), Opener::Event(of('x'), None)],
            closers: vec![Closer { by: CloseBy::At(at(6)), discards: false }],
            ..lifespans()
        }],
        vec![situation('s', Form::Not, "a")],
    );
    assert_eq!(found(&rules, "x         |"), ["6: s()"]);
    assert_eq!(found(&rules, "    x     |"), ["6: s()"]);
    assert_eq!(found(&rules, "    a     |"), [""; 0]);
    assert_eq!(found(&rules, "          x|"), [""; 0]);
    assert_eq!(
        found_of_all(&rules, "          |"),
        ["6: s()"],
        "the only key is known from the start"
    );
}

/// Lifespans that open at 5 and 12 and last for 10.
fn twice() -> LifespanType<Text> {
    let openers = vec![Opener::At(at(5)), Opener::At(at(12))];
    let closers = vec![Closer { by: CloseBy::After(us(10)), discards: false }];
    LifespanType { openers, closers, ..lifespans() }
}

#[test]
fn a_key_that_comes_late_finds_what_one_would_that_was_always_known() {
    let rules = set(vec![twice()], vec![situation('s', Form::All, "a")]);
    let late = |time: usize| found(&rules, &format!("{}a", " ".repeat(time)));
    assert_eq!(late(14), ["14: s(a14)"]);
    // The second one was not opened, as the first one was open.
    assert_eq!(late(20), [""; 0]);
    let rules =
        set(vec![LifespanType { adds: true, ..twice() }], vec![situation('s', Form::All, "a")]);
    let late = |time: usize| found(&rules, &format!("{}a", " ".repeat(time)));
    assert_eq!(late(14), ["14: s(a14)", "14: s(a14)"]);
    // Of three, the one that opens when the first is over.
    let mut three = twice();
    three.openers.push(Opener::At(at(16)));
    let rules_of_three = set(vec![three], vec![situation('s', Form::All, "a")]);
    assert_eq!(found(&rules_of_three, &format!("{}a", " ".repeat(20))), ["20: s(a20)"]);
    assert_eq!(late(20), ["20: s(a20)"]);
}

#[test]
fn a_key_is_forgotten_when_nothing_is_to_open_for_it_any_more() {
    let rules = set(vec![twice()], vec![situation('n', Form::Not, "b")]);
    let mut driven = Driven::new(&rules);
    for (time, event, keys) in [(1, "b", 1), (13, "b", 1), (17, "B", 0), (40, "b", 0)] {
        driven.event(time, event);
        assert_eq!(driven.state.keys().len(), keys, "at {time}");
    }
}

#[test]
fn what_is_due_at_the_time_that_makes_a_key_known_comes_before_its_event() {
    let of_type = LifespanType {
        closers: vec![Closer { by: CloseBy::Event(of('x'), None, Which::First), discards: false }],
        ..always()
    };
    let rules = set(vec![of_type], vec![situation('s', Form::At(at(5)), "")]);
    assert_eq!(found(&rules, "     x |"), ["5: s()"]);
    assert_eq!(found(&rules, "      x |"), [""; 0]);
}

#[test]
fn a_restored_lifespan_goes_on_waiting() {
    let mut rule = situation('s', Form::After(us(60)), "a");
    rule.operands[0].overrides = Some(Named::new("always", Arc::new(|_| true)));
    let rules = set(vec![between('a', 'x', None)], vec![rule]);
    let rules = {
        let mut rules = rules;
        let of_type = LifespanType { opener_counts: true, ..between('a', 'x', None) };
        rules.lifespans = vec![Arc::new(of_type)];
        rules
    };
    let text = format!("a{}|{}|", " ".repeat(45), " ".repeat(20));
    assert_eq!(found(&rules, &text), ["60: s(a0)"]);
    let text = format!("a{}|", " ".repeat(90));
    assert_eq!(found(&rules, &text), ["60: s(a0)"]);
}

#[test]
fn one_closure_comes_together() {
    let rules = set(
        vec![always()],
        vec![
            situation('s', Form::All, "a"),
            situation('t', Form::All, "s"),
            situation('u', Form::All, "ab"),
        ],
    );
    let program = compiled(&rules);
    let build = |probe| matching::<Together, _>(program.clone(), None, probe);
    let outcome = OperatorHarness::new(build).ordered(true).restoring().run(&inputs("a b"));
    let found: Vec<Vec<(&str, &str)>> = outcome
        .values()
        .map(|closure| closure.found.iter().map(|(name, value)| (&**name, &**value)).collect())
        .collect();
    assert_eq!(found, [vec![("s", "s(a0)"), ("t", "t(s(a0))")], vec![("u", "u(a0 b1)")]]);
}

#[test]
fn what_is_due_at_one_time_comes_together() {
    let of_type = LifespanType { adds: true, ..between('i', 'x', Some(3)) };
    let rules =
        set(vec![of_type], vec![situation('s', Form::Not, "a"), situation('t', Form::Not, "b")]);
    let program = compiled(&rules);
    let build = |probe| matching::<Together, _>(program.clone(), None, probe);
    let outcome = OperatorHarness::new(build).ordered(true).restoring().run(&inputs("ii i    |"));
    let found: Vec<_> = outcome.values().map(|closure| closure.found.len()).collect();
    assert_eq!(found, [4, 2]);
}

#[test]
fn late_events_are_counted_and_change_nothing() {
    let rules = set(vec![always()], vec![situation('s', Form::All, "a")]);
    let program = compiled(&rules);
    let build = |probe: Probe<Text>| matching::<OneByOne, _>(program.clone(), None, probe);
    let inputs = [Input::Watermark(at(5)), Input::LateEvent(at(4), "a".to_owned())];
    let outcome = OperatorHarness::new(build).ordered(true).restoring().run(&inputs);
    assert_eq!((outcome.values().count(), outcome.counters.late), (0, 1));
}

/// A driver by hand, to look at what is held.
struct Driven {
    operator: Matching<OneByOne, Probe<Text>>,
    state: <Matching<OneByOne, Probe<Text>> as Consumer<Text>>::State,
    cx: Cx,
}

impl Driven {
    fn new(set: &Set<Text>) -> Self {
        let operator = matching(compiled(set), None, Probe::new());
        let (state, mut cx) = (operator.state(), Cx::default());
        cx.ordered = true;
        Self { operator, state, cx }
    }

    fn event(&mut self, time: i64, event: &str) {
        let event = Event::new(at(time), event.to_owned());
        self.operator.event(&mut self.state, &mut self.cx, event);
    }
}

#[test]
fn keys_that_stand_where_new_ones_would_are_forgotten_with_their_alarms() {
    let rules = set(vec![between('i', 'x', Some(1_000))], vec![situation('s', Form::Not, "a")]);
    let mut driven = Driven::new(&rules);
    for time in 0..20_000 {
        driven.event(time, "i");
        assert_eq!(driven.state.keys().len(), 1);
        driven.event(time, "x");
        assert_eq!(driven.state.keys().len(), 0);
    }
    assert!(driven.state.keys().alarms() < 5_000, "{}", driven.state.keys().alarms());
    let rules = set(vec![always()], vec![situation('s', Form::All, "ab")]);
    let mut driven = Driven::new(&rules);
    for (event, keys) in [("a", 1), ("b", 0), ("B", 1), ("A", 0), ("q", 0)] {
        driven.event(0, event);
        assert_eq!(driven.state.keys().len(), keys, "{event}");
    }
}

#[test]
fn a_panic_resets_the_key_that_it_came_from() {
    let mut rule = situation('s', Form::All, "ab");
    let holds = |event: &Text| {
        assert_ne!(event, "a-bad", "bad");
        true
    };
    rule.operands[0].threshold = Some(Named::new("picky", Arc::new(holds)));
    let rules = set(vec![always()], vec![rule]);
    let key: fn(&Text) -> bool = is_capital;
    let build = |probe: Probe<Text>| -> Matching<OneByOne, _> {
        let codec = Some(Codec::new("situations"));
        let next = Nowhere::default();
        SituationMatch::new(OpId(1), (key, None), compiled(&rules), codec, true, probe, next)
    };
    let event = |time, text: &str| Input::Event(at(time), text.to_owned());
    let inputs = [
        event(0, "a"),
        event(1, "A"),
        event(2, "a-bad"),
        event(3, "b"),
        event(4, "B"),
        event(5, "a"),
    ];
    let outcome = OperatorHarness::new(build).ordered(true).restoring().run(&inputs);
    assert_eq!(told(&outcome), ["4: s(A B)", "5: s(a b)"]);
    assert_eq!(outcome.counters.failed, 1);
}

/// Runs with rules that change: an event, or the rules from then on.
fn steered(first: &Set<Text>, inputs: &[(i64, Either<&str, Arc<Program<Text>>>)]) -> Vec<String> {
    let probe = Probe::new();
    let operator = SteeredSituations(matching::<OneByOne, _>(compiled(first), None, probe.port(0)));
    let mut state = Consumer::<Either<Text, Arc<Program<Text>>>>::state(&operator);
    let mut cx = Cx::default();
    cx.ordered = true;
    for (time, input) in inputs {
        let input = match input {
            Either::Left(event) => Either::Left((*event).to_owned()),
            Either::Right(rules) => Either::Right(rules.clone()),
        };
        operator.event(&mut state, &mut cx, Event::new(at(*time), input));
    }
    let end = Timestamp::from_micros(1_000);
    Consumer::<Either<Text, Arc<Program<Text>>>>::watermark(&operator, &mut state, &mut cx, end);
    let told = probe.take().into_iter().filter_map(|element| match element {
        Element::Event(time, value, _) => Some(format!("{}: {value}", time.as_micros())),
        _ => None,
    });
    told.collect()
}

#[test]
fn rules_come_change_and_go_and_the_others_keep_what_they_have() {
    let mut first = set(vec![between('i', 'x', Some(60))], vec![situation('s', Form::All, "ab")]);
    first.situations.push(Arc::new(situation('n', Form::Not, "z")));
    first.situations.push(Arc::new(situation('t', Form::AtLeast(2), "c")));
    // `s` is replaced, `t` goes, `u` comes; `n` waits for the end all the while.
    let mut second = first.clone();
    second.situations[0] = Arc::new(situation('s', Form::All, "ab"));
    second.situations.remove(2);
    second.situations.insert(0, Arc::new(situation('u', Form::All, "bc")));
    let events = [(0, "i"), (1, "a"), (2, "c"), (40, "b"), (41, "c"), (42, "a")];
    let mut inputs: Vec<_> = events.map(|(time, event)| (time, Either::Left(event))).to_vec();
    assert_eq!(steered(&first, &inputs), ["40: s(a b)", "41: t(c c)", "60: n()"]);
    inputs.insert(3, (30, Either::Right(compiled(&second))));
    assert_eq!(steered(&first, &inputs), ["41: u(b c)", "42: s(a b)", "60: n()"]);
}

#[test]
fn a_type_of_lifespans_that_comes_opens_for_the_keys_that_are_there() {
    let first = set(vec![between('i', 'x', None)], vec![situation('s', Form::All, "ab")]);
    let mut second = first.clone();
    let times = LifespanType {
        name: "m".into(),
        openers: vec![Opener::At(at(10))],
        closers: vec![Closer { by: CloseBy::At(at(50)), discards: false }],
        ..lifespans()
    };
    let mut every = situation('t', Form::Every(us(15)), "");
    every.lifespan = "m".into();
    second.lifespans.insert(0, Arc::new(times));
    second.situations.push(Arc::new(every));
    let inputs = [
        (0, Either::Left("i")),
        (1, Either::Left("a")),
        (30, Either::Right(compiled(&second))),
        (31, Either::Left("b")),
    ];
    assert_eq!(steered(&first, &inputs), ["31: s(a b)", "40: t()"]);
}

#[test]
fn a_state_is_restored_under_other_rules_by_their_names() {
    let first = set(
        vec![between('i', 'x', Some(60))],
        vec![situation('s', Form::All, "ab"), situation('n', Form::Not, "z")],
    );
    let mut second = first.clone();
    second.situations.remove(0);
    second.situations.insert(0, Arc::new(situation('u', Form::AtLeast(2), "c")));
    second.situations.push(Arc::new(situation('s', Form::All, "ab")));
    let found =
        restored((&first, &[(0, "i"), (1, "a")]), (&second, &[(2, "c"), (3, "b"), (4, "c")]));
    assert_eq!(found, ["3: s(a b)", "4: u(c c)", "60: n()"]);
}

#[test]
fn what_is_restored_ends_and_counts_by_the_rules_that_hold_now() {
    let rules = |length, n| {
        let rules = vec![situation('n', Form::Not, "z"), situation('t', Form::Nth(n), "c")];
        set(vec![between('i', 'x', Some(length))], rules)
    };
    let first = rules(60, 3);
    let before = (&first, &[(0, "i"), (1, "c"), (10, "c")][..]);
    let after = |length, n| restored(before, (&rules(length, n), &[(12, "c"), (14, "c")]));
    assert_eq!(after(60, 3), ["12: t(c)", "60: n()"]);
    assert_eq!(after(30, 3), ["12: t(c)", "30: n()"]);
    assert_eq!(after(5, 3), ["10: n()"], "it was over by then, and ends at once");
    // The second one, counted from now on.
    assert_eq!(after(60, 2), ["14: t(c)", "60: n()"]);
}

/// What is found with the second rules and events, in a state that was made by the first.
fn restored(
    before: (&Set<Text>, &[(i64, &str)]),
    after: (&Set<Text>, &[(i64, &str)]),
) -> Vec<String> {
    let mut driven = Driven::new(before.0);
    before.1.iter().for_each(|(time, event)| driven.event(*time, event));
    let mut saved = Saved(Vec::new());
    driven.operator.visit(&mut driven.state, &mut saved).expect("it is saved");
    let probe = Probe::new();
    let operator = matching::<OneByOne, _>(compiled(after.0), None, probe.port(0));
    let (mut state, mut cx) = (operator.state(), Cx::default());
    cx.ordered = true;
    operator.visit(&mut state, &mut Restored(saved.0)).expect("it is restored");
    for &(time, event) in after.1 {
        operator.event(&mut state, &mut cx, Event::new(at(time), event.to_owned()));
    }
    operator.watermark(&mut state, &mut cx, at(60));
    let told = probe.take().into_iter().filter_map(|element| match element {
        Element::Event(time, value, _) => Some(format!("{}: {value}", time.as_micros())),
        _ => None,
    });
    told.collect()
}

struct Saved(Vec<u8>);

impl crate::state::Visit for Saved {
    fn state(
        &mut self,
        _: OpId,
        cell: &mut dyn crate::state::Cell,
    ) -> Result<(), crate::state::StateError> {
        cell.save(&mut self.0)
    }
}

struct Restored(Vec<u8>);

impl crate::state::Visit for Restored {
    fn state(
        &mut self,
        _: OpId,
        cell: &mut dyn crate::state::Cell,
    ) -> Result<(), crate::state::StateError> {
        cell.restore(&self.0)
    }
}

#[test]
fn actions_are_handed_on_with_their_events() {
    let mut rule = situation('s', Form::All, "a");
    rule.action = Some(Named::new("warn", Arc::new(|_| ())));
    let rules = set(vec![always()], vec![rule, situation('t', Form::All, "a")]);
    let acts = Probe::<Act<Text>>::new();
    let key: fn(&Text) -> bool = is_capital;
    let operator: SituationMatch<_, _, _, OneByOne, _, _> = SituationMatch::new(
        OpId(1),
        (key, None),
        compiled(&rules),
        None,
        false,
        Probe::<Text>::new(),
        acts.port(0),
    );
    let (mut state, mut cx) = (operator.state(), Cx::default());
    operator.event(&mut state, &mut cx, Event::new(at(3), "a".to_owned()));
    let handed: Vec<_> = acts
        .take()
        .into_iter()
        .filter_map(|element| match element {
            Element::Event(time, act, _) => Some((time, act.action.name.to_string(), act.event)),
            _ => None,
        })
        .collect();
    assert_eq!(handed, [(at(3), "warn".to_owned(), "s(a)".to_owned())]);
}

#[test]
fn the_first_or_the_last_or_each_ends() {
    let ends = |which| {
        let by = CloseBy::Event(of('x'), None, which);
        let of_type = LifespanType {
            closers: vec![Closer { by, discards: false }],
            adds: true,
            ..between('i', 'x', None)
        };
        let mut rule = situation('s', Form::AtLeast(1), "");
        rule.operands = vec![Operand::new(of('a'))];
        rule.deferred = Some(true);
        found(&set(vec![of_type], vec![rule]), "i a i a x")
    };
    assert_eq!(ends(Which::First), ["4: s(a1 a3)"]);
    assert_eq!(ends(Which::Last), ["4: s(a3)"]);
    assert_eq!(ends(Which::Each), ["4: s(a1 a3)", "4: s(a3)"]);
}
