//! In every way in which an operator may be driven, and what it holds.

use crate::cep::tests::*;
use crate::cep::{
    Again, AtCap, Bound, Cap, Consume, Contiguity, Expr, Pattern, Preference, Report, Skip, Starts,
    Times,
};
use crate::event::Event;
use crate::harness::{Element, Input, OperatorHarness, Outcome, Probe};
use crate::operator::{Consumer, Cx, OpId, PatternMatch, Select};
use crate::state::Codec;
use crate::time::Timestamp;

/// Says which events there are, with their times, for both outputs.
struct Told;

impl Select<char> for Told {
    type Out = String;
    type Side = String;

    const TIMEOUTS: bool = true;

    fn matched(&self, events: &Bound<'_, char>) -> String {
        let events = events.events().into_iter();
        let said = events.map(|taken| format!("{}{}", taken.value, taken.time.as_micros()));
        said.collect::<Vec<_>>().join(" ")
    }

    fn timed_out(&self, events: &Bound<'_, char>) -> Option<String> {
        Some(self.matched(events))
    }
}

type Matching = PatternMatch<char, bool, fn(&char) -> bool, Told, Probe<String>, Probe<String>>;

/// The operator, for two keys: the events in capitals, and the others.
fn matching(pattern: &Pattern<char>, probe: &Probe<String>) -> Matching {
    let program = pattern.compile().expect("the pattern can be");
    let key: fn(&char) -> bool = |event| event.is_uppercase();
    let codec = Some(Codec::new("pattern"));
    PatternMatch::new(OpId(1), key, program, Told, codec, false, probe.port(0), probe.port(1))
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Runs the operator in every mode; ` ` lets a microsecond pass, `|` is a watermark, `$` the end. The other
/// characters are events.
fn outcome(pattern: &Pattern<char>, text: &str) -> Outcome<String> {
    let mut now = 0;
    let mut inputs = Vec::new();
    for what in text.chars() {
        match what {
            ' ' => now += 1,
            '|' => inputs.push(Input::Watermark(at(now))),
            '$' => inputs.push(Input::End),
            event => inputs.push(Input::Event(at(now), event)),
        }
    }
    let build = |probe: Probe<String>| matching(pattern, &probe);
    OperatorHarness::new(build).ordered(true).restoring().run(&inputs)
}

/// What comes out at a port, with its times.
fn port(outcome: &Outcome<String>, port: usize) -> Vec<String> {
    let told = outcome.port(port).into_iter().filter_map(|element| match element {
        Element::Event(time, value, _) => Some(format!("{}: {value}", time.as_micros())),
        _ => None,
    });
    told.collect()
}

/// Matches and timeouts.
fn both(pattern: &Pattern<char>, text: &str) -> (Vec<String>, Vec<String>) {
    let outcome = outcome(pattern, text);
    (port(&outcome, 0), port(&outcome, 1))
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn a_then_b() -> Pattern<char> {
    pattern(sequence([then(one("aA")), then(one("bB"))]))
}

fn once(expr: Expr<char>) -> Pattern<char> {
    Pattern { starts: Starts::Once, ..pattern(expr) }
}

fn every(of: Expr<char>) -> Expr<char> {
    Expr::Every(Box::new(of), Again { complete: true, impossible: true })
}

#[test]
fn timeouts_come_at_the_side_by_watermark_and_at_the_end() {
    let whole = within(5, a_then_b());
    let (matches, timeouts) = both(&whole, "aA  b   |    |a   B$");
    assert_eq!(matches, ["2: a0 b2"]);
    assert_eq!(timeouts, ["5: A0", "14: a9"]);
    // The deadline is excluded, and comes before an event of its time.
    let (matches, timeouts) = both(&whole, "a     b");
    assert_eq!((matches, timeouts), (vec![], owned(&["5: a0"])));
    let (matches, timeouts) = both(&whole, "a    |b");
    assert_eq!((matches, timeouts), (owned(&["4: a0 b4"]), vec![]));
}

#[test]
fn timeouts_of_several_keys_come_in_order_of_time_then_of_arrival() {
    let (_, timeouts) = both(&within(5, a_then_b()), "A a aA|             |");
    assert_eq!(timeouts, ["5: A0", "6: a1", "7: A2", "7: a2"]);
}

#[test]
fn a_quiet_time_is_a_match_when_the_watermark_reaches_it() {
    let quiet = Expr::AllOf(vec![Expr::Wait(us(4)), absent(one("bB"))]);
    let whole = pattern(sequence([then(one("aA")), then(quiet)]));
    assert_eq!(both(&whole, "aA  b  |").0, ["4: A0"]);
    assert_eq!(both(&whole, "a    b|").0, ["4: a0"], "what is due comes first");
    assert_eq!(both(&whole, "a   b|         |").0, [""; 0]);
    assert_eq!(both(&whole, "a   $").0, ["4: a0"], "the end fires what waits");
}

#[test]
fn a_wait_that_begins_at_the_end_is_never_over() {
    let tick = once(every(Expr::Wait(us(3))));
    let ticks = both(&tick, "a       |$").0;
    assert_eq!(ticks.len(), 3, "{ticks:?}");
    assert_eq!(ticks[..2], ["3: ", "6: "]);
}

#[test]
fn what_begins_again_waits_for_the_next_event() {
    let whole = once(every(sequence([then(one("aA")), next(one("bB"))])));
    assert_eq!(both(&whole, "a a b a b").0, ["4: a3 b4"]);
    let whole = once(sequence([then(every(one("a"))), then(one("b"))]));
    assert_eq!(both(&whole, "a a b b").0, ["2: a0 b2", "2: a1 b2"]);
}

#[test]
fn all_and_any_of_several() {
    let all = pattern(Expr::AllOf(vec![one("a"), one("b"), one("c")]));
    let all = within(9, Pattern { skip: Skip::PastLast, ..all });
    assert_eq!(both(&all, "c a c b").0, ["3: c0 a1 b3"]);
    let ab = sequence([then(one("a")), then(one("b"))]);
    let any = once(Expr::AnyOf(vec![ab, one("c")]));
    assert_eq!(both(&any, "a c b").0, ["1: c1"]);
    let timed = once(Expr::Within(
        Box::new(sequence([then(one("a")), then(one("b"))])),
        crate::cep::Limit::below(us(3)),
    ));
    assert_eq!(both(&timed, "a  b").0, ["2: a0 b2"]);
    assert_eq!(both(&timed, "a   b").0, [""; 0]);
}

#[test]
fn of_ranked_matches_the_preferred_one_is_reported() {
    let some = |times| sequence([next(one("a")), next(repeat(one("b"), times)), next(one("bc"))]);
    let best = |expr| Pattern { report: Report::Best, skip: Skip::PastLast, ..pattern(expr) };
    let row = || Times { inner: Contiguity::Strict, ..Times::new(1..) };
    let greedy = best(some(row()));
    assert_eq!(both(&greedy, "a b b c a b b x").0, ["3: a0 b1 b2 c3", "7: a4 b5 b6"]);
    let reluctant = Times { preference: Preference::Reluctant, ..row() };
    assert_eq!(both(&best(some(reluctant)), "a b b c").0, ["2: a0 b1 b2"]);
    let at = Pattern { report: Report::BestAt(us(5)), ..greedy };
    assert_eq!(both(&at, "a b b c |  |").0, ["5: a0 b1 b2 c3"]);
    assert_eq!(both(&at, "a b b c$").0.len(), 1, "at the end it is decided");
}

#[test]
fn negations_at_the_end_are_decided_by_the_next_event_the_time_or_the_end() {
    let alone = pattern(sequence([then(one("a")), not_next("b")]));
    assert_eq!(both(&alone, "a b a c a$").0, ["3: a2", "4: a4"]);
    let never = within(3, pattern(sequence([then(one("a")), not_then("b")])));
    assert_eq!(both(&never, "a b a x  |"), (owned(&["5: a2"]), vec![]));
}

#[test]
fn caps_count_what_they_drop() {
    let capped = |at_cap| Pattern { cap: Some(Cap { runs: 2, at_cap }), ..a_then_b() };
    let refused = outcome(&capped(AtCap::RefuseNewest), "aaaAAb B");
    assert_eq!(port(&refused, 0), ["0: a0 b0", "0: a0 b0", "1: A0 B1", "1: A0 B1"]);
    assert_eq!(refused.counters.given_up, 1);
    let dropped = outcome(&capped(AtCap::DropOldest), "a a a b");
    assert_eq!(port(&dropped, 0), ["3: a1 b3", "3: a2 b3"]);
    assert_eq!(dropped.counters.given_up, 1);
}

#[test]
#[should_panic(expected = "more partial matches than its cap")]
fn a_cap_may_fail_the_query() {
    let cap = Some(Cap { runs: 1, at_cap: AtCap::Fail });
    outcome(&Pattern { cap, ..a_then_b() }, "aa");
}

#[test]
fn a_step_has_room_for_so_many() {
    let mut to = step("b");
    to.max_pending = Some(1);
    let pending = pattern(sequence([then(one("a")), then(Expr::Step(to))]));
    let seen = outcome(&pending, "a a b a b");
    assert_eq!(port(&seen, 0), ["2: a0 b2", "4: a3 b4"]);
    assert_eq!(seen.counters.given_up, 1);
}

#[test]
fn consumed_events_are_in_one_match() {
    let consuming = Pattern { consume: Consume::Matched, ..a_then_b() };
    assert_eq!(both(&consuming, "a a b b").0, ["2: a0 b2"]);
    let overlapping = pattern(sequence([then(one("a")), then(one("a"))]));
    assert_eq!(both(&overlapping, "a a a").0, ["1: a0 a1", "2: a1 a2"]);
    let consuming = Pattern { consume: Consume::Matched, ..overlapping };
    assert_eq!(both(&consuming, "a a a a").0, ["1: a0 a1", "3: a2 a3"]);
}

/// Feeds an operator by hand, with a key per number.
struct ByHand {
    operator: PatternMatch<(u64, char), u64, fn(&(u64, char)) -> u64, Quiet, Probe<()>, Probe<()>>,
    state: <PatternMatch<
        (u64, char),
        u64,
        fn(&(u64, char)) -> u64,
        Quiet,
        Probe<()>,
        Probe<()>,
    > as Consumer<(u64, char)>>::State,
    cx: Cx,
}

/// Says nothing of what it finds.
struct Quiet;

impl Select<(u64, char)> for Quiet {
    type Out = ();
    type Side = ();

    const TIMEOUTS: bool = false;

    fn matched(&self, _: &Bound<'_, (u64, char)>) {}

    fn timed_out(&self, _: &Bound<'_, (u64, char)>) -> Option<()> {
        None
    }
}

impl ByHand {
    fn new(expr: Expr<(u64, char)>, starts: Starts, within: Option<u64>) -> Self {
        let within = within.map(|length| crate::cep::Limit::below(us(length)));
        let program = Pattern { within, ..Pattern::new(expr, starts) }.compile().unwrap();
        let key: fn(&(u64, char)) -> u64 = |event| event.0;
        let (next, side) = (Probe::new(), Probe::new());
        let operator = PatternMatch::new(OpId(1), key, program, Quiet, None, false, next, side);
        let state = operator.state();
        let mut cx = Cx::default();
        cx.ordered = true;
        Self { operator, state, cx }
    }

    fn event(&mut self, time: i64, key: u64, what: char) {
        self.operator.event(&mut self.state, &mut self.cx, Event::new(at(time), (key, what)));
    }

    /// How many keys and alarms are held.
    fn held(&self) -> (usize, usize) {
        (self.state.keys().len(), self.state.keys().alarms())
    }
}

fn keyed(kinds: &'static str) -> Expr<(u64, char)> {
    Expr::Step(crate::cep::Step {
        name: kinds.into(),
        condition: std::sync::Arc::new(move |event: &(u64, char), _: &Bound<'_, (u64, char)>| {
            kinds.contains(event.1)
        }),
        alone: true,
        level: 0,
        max_pending: None,
    })
}

fn keyed_a_then_b() -> Expr<(u64, char)> {
    let to = |to| crate::cep::Link::To(crate::cep::Contiguity::Relaxed, to);
    Expr::Sequence(vec![to(keyed("a")), to(keyed("b"))])
}

#[test]
fn keys_at_rest_are_forgotten() {
    let mut each = ByHand::new(keyed_a_then_b(), Starts::EachEvent, Some(10));
    each.event(0, 1, 'x');
    assert_eq!(each.held(), (0, 0), "it begins nothing");
    each.event(1, 1, 'a');
    each.event(2, 2, 'a');
    assert_eq!(each.held(), (2, 2));
    each.event(3, 1, 'b');
    assert_eq!(each.held().0, 1, "its only partial match is complete");
    each.operator.watermark(&mut each.state, &mut each.cx, at(12));
    assert_eq!(each.held(), (0, 0), "its time is over");
    let again = Again { complete: true, impossible: true };
    let every = Expr::Every(Box::new(keyed_a_then_b()), again);
    let mut once = ByHand::new(every, Starts::Once, None);
    once.event(0, 1, 'a');
    assert_eq!(once.held().0, 1);
    once.event(1, 1, 'b');
    assert_eq!(once.held().0, 0, "it stands where a new key would");
}

#[test]
fn memory_is_flat_over_keys_whose_time_is_over() {
    let mut each = ByHand::new(keyed_a_then_b(), Starts::EachEvent, Some(10));
    for time in 0..50_000 {
        each.event(time, time as u64, 'a');
        // A key that has matched leaves its alarm behind; so does one that comes back.
        each.event(time, 1 << 40, 'a');
        each.event(time, 1 << 40, 'b');
        let (keys, alarms) = each.held();
        assert!(keys <= 11 && alarms <= 32, "at {time}: {keys} keys, {alarms} alarms");
    }
    each.operator.watermark(&mut each.state, &mut each.cx, at(60_000));
    assert_eq!(each.held(), (0, 0));
}

#[test]
fn alarms_of_keys_that_are_gone_do_not_stand_in_the_way_of_moving_the_others_together() {
    let mut each = ByHand::new(keyed_a_then_b(), Starts::EachEvent, Some(1_000_000));
    let keys = 20_000;
    // Several alarms per key, so that those of keys that are gone are never most of all.
    (0..3).for_each(|_| (0..keys).for_each(|key| each.event(0, key, 'a')));
    // From the newest on, so that the last places lie empty; a few stay.
    (0..keys).rev().filter(|key| key % 1_000 != 7).for_each(|key| each.event(1, key, 'b'));
    let (held, alarms) = each.held();
    assert_eq!(held, 20);
    assert!(alarms < 10_000, "{alarms} alarms for {held} keys");
    each.operator.watermark(&mut each.state, &mut each.cx, at(999_999));
    assert_eq!(each.held().0, 20);
    each.operator.watermark(&mut each.state, &mut each.cx, at(1_000_000));
    assert_eq!(each.held(), (0, 0));
}
