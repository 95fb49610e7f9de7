//! Faults that users of such systems met, as far as they can be said as situations, named by their ids.

use std::time::Duration;

use mizzle::situation::{Lifespan, Open, Operand, Situation, Situations, operand};
use mizzle::time::{ManualClock, Timestamp};
use mizzle::{Engine, Event, Query};

use super::common::{GUARD, at, completed, engine, eventually, ms};

/// A type, a key, a name.
type Thing = (u16, u8, String);
type Rule = Situation<Thing>;

const A: u16 = 0;
const B: u16 = 1;
const OTHER: u16 = 2;
const FOUND: u16 = 3;
const LOST: u16 = 4;

fn of(of: u16) -> Operand<Thing> {
    operand(of)
}

fn thing(of: u16, name: &str) -> Thing {
    (of, 0, name.to_owned())
}

/// What is found has the names of its events.
fn named(rule: Rule, of: u16) -> Rule {
    rule.derives(of, move |found| {
        let names: Vec<&str> = found.events().map(|thing| thing.2.as_str()).collect();
        let key = found.events().next().or(found.lifespan().opener()).map_or(0, |thing| thing.1);
        (of, key, names.join(" "))
    })
}

fn rules() -> Situations<Thing> {
    Situations::new(|thing: &Thing| thing.0)
}

/// What is found among events at times in milliseconds, up to the last time.
fn found(
    rules: &Situations<Thing>,
    things: &[(i64, Thing)],
    last: i64,
    workers: usize,
) -> Vec<(i64, Thing)> {
    let query = Query::new("fault");
    let (events, stream) = query.push_source("things", |event: &Event<Thing>| event.time);
    let found =
        stream.map(|event| event.value).key_by(|thing| thing.1).situations(rules.clone()).collect();
    let engine = engine(workers);
    let handle = engine.submit(query).unwrap();
    for (time, thing) in things {
        events.push(Event::new(at(*time), thing.clone())).unwrap();
    }
    events.advance(at(last));
    drop(events);
    completed(&handle);
    let found =
        found.events().into_iter().map(|event| (event.time.as_micros() / 1000, event.value));
    found.filter(|(time, _)| *time <= last).collect()
}

fn names(found: &[(i64, Thing)]) -> Vec<(i64, &str)> {
    found.iter().map(|(time, thing)| (*time, thing.2.as_str())).collect()
}

/// A, and within a time B.
fn answered(within: Duration) -> Situations<Thing> {
    let waiting = Lifespan::new("waiting").opened_by(A).closed_after(within);
    rules()
        .lifespan(waiting)
        .situation(named(Rule::nth("answered", 1, [of(B)]).during("waiting"), FOUND))
        .situation(named(Rule::not("lost", [of(B)]).during("waiting"), LOST))
}

#[test]
fn ce_01_what_does_not_come_is_noticed_without_an_event() {
    let query = Query::new("ce-01");
    let (events, stream) = query.push_source("things", |event: &Event<Thing>| event.time);
    let found = stream
        .map(|event| event.value)
        .key_by(|thing| thing.1)
        .situations(answered(ms(10)))
        .collect();
    let engine = Engine::builder().workers(2).build().unwrap();
    let handle = engine.submit(query).unwrap();
    for (time, kind, key) in [(0, A, 1), (5, OTHER, 2), (20, OTHER, 2)] {
        events.push(Event::new(at(time), (kind, key, String::new()))).unwrap();
    }
    // The stream stays open.
    eventually("the timeout", || !found.events().is_empty());
    assert_eq!(found.events(), [Event::new(at(10), (LOST, 1, String::new()))]);
    handle.cancel();
    handle.wait_timeout(GUARD);
}

#[test]
fn ce_03_what_is_over_is_given_up_though_nothing_ever_comes_of_it() {
    let long = std::env::var("MIZZLE_LONG").is_ok();
    let many = if long { 100_000 } else { 5_000 };
    let waiting = Lifespan::new("waiting").opened_by(A).adds().closed_after(ms(10));
    let rule = named(Rule::sequence("pair", [of(A), of(B)]).during("waiting"), FOUND);
    // A cap that would be reached if more than those of the last ten stayed.
    let capped = waiting.max_open(10, mizzle::situation::AtCap::Fail);
    let set = rules().lifespan(capped).situation(rule);
    let things: Vec<_> = (0..many).map(|time| (time, thing(A, "a"))).collect();
    assert_eq!(found(&set, &things, many, 1), []);
}

#[test]
fn ce_11_absences_do_not_influence_each_other() {
    let alone = |name: &str, of_type: u16, derives: u16| {
        let lifespan = Lifespan::new(name).opened_by(of_type).closed_after(ms(20));
        (lifespan, named(Rule::not(name, [of(of_type)]).during(name), derives))
    };
    let ((x, no_x), (y, no_y)) = (alone("x", A, FOUND), alone("y", B, LOST));
    let set = rules().lifespan(x).lifespan(y).situation(no_x).situation(no_y);
    let things = [(0, thing(A, "x")), (1, thing(B, "y"))];
    for workers in [1, 8] {
        for _ in 0..20 {
            let found = found(&set, &things, 50, workers);
            let found: Vec<_> = found.iter().map(|(time, thing)| (*time, thing.0)).collect();
            assert_eq!(found, [(20, FOUND), (21, LOST)]);
        }
    }
}

#[test]
fn ce_13_at_the_deadline_exactly_one_of_the_two() {
    let key = |time, kind, key| (time, (kind, key, "x".to_owned()));
    let things = [
        key(0, A, 1),
        key(0, A, 2),
        key(0, A, 3),
        key(0, A, 4),
        key(299, B, 2),
        key(300, B, 1),
        key(301, B, 3),
    ];
    let mut found: Vec<_> = found(&answered(ms(300)), &things, 1_000, 2)
        .into_iter()
        .map(|(time, thing)| (thing.1, time, thing.0))
        .collect();
    found.sort_unstable();
    // A lifespan is over at its end: what comes then is too late.
    assert_eq!(found, [(1, 300, LOST), (2, 299, FOUND), (3, 300, LOST), (4, 300, LOST)]);
}

#[test]
fn ce_16_which_pairs_are_found_is_said() {
    let things = [
        (1, thing(OTHER, "o")),
        (2, thing(A, "A1")),
        (3, thing(OTHER, "o")),
        (4, thing(A, "A2")),
        (6, thing(B, "B1")),
        (7, thing(OTHER, "o")),
        (9, thing(B, "B2")),
        (10, thing(A, "A3")),
        (12, thing(B, "B3")),
    ];
    let pairs = |a: Operand<Thing>, once: bool| {
        let rule = named(Rule::sequence("pair", [a, of(B)]).during("watch"), FOUND);
        let rule = if once { rule.during("once") } else { rule };
        let once = Lifespan::new("once").from_start().closed_by(FOUND);
        let set = rules().lifespan(Lifespan::always("watch")).lifespan(once).situation(rule);
        let found = found(&set, &things, 20, 1);
        found.into_iter().map(|(_, thing)| thing.2).collect::<Vec<_>>()
    };
    // A then B once: the first detection ends the lifespan.
    assert_eq!(pairs(of(A).first(), true), ["A1 B1"]);
    // Each A with its next B: a B takes all A that wait.
    assert_eq!(pairs(of(A).each(), false), ["A1 B1", "A2 B1", "A3 B3"]);
    // One A with all B.
    assert_eq!(pairs(of(A).first().absolute().retain_always(), false), ["A1 B1", "A1 B2", "A1 B3"]);
    // All with all.
    let all = ["A1 B1", "A2 B1", "A1 B2", "A2 B2", "A1 B3", "A2 B3", "A3 B3"];
    assert_eq!(pairs(of(A).each().retain_always(), false), all);
}

#[test]
fn ce_17_what_needs_no_event_and_has_no_end_is_refused() {
    let rule = named(Rule::not("nothing", [of(B)]).during("always"), FOUND);
    let refused = rules().lifespan(Lifespan::always("always")).situation(rule).compile();
    let why = refused.map(drop).unwrap_err().to_string();
    assert!(why.contains("\"nothing\"") && why.contains("it never does"), "{why}");
}

#[test]
fn ce_18_both_in_any_order_is_found_once() {
    let ten =
        || Lifespan::new("ten").opened_by(A).opened_by(B).opener_counts().closed_after(ms(10));
    let rule = |a| named(Rule::all("both", [a, of(B)]).during("ten"), FOUND);
    let set = |a| rules().lifespan(ten()).situation(rule(a));
    let first = set(of(A));
    let one = found(&first, &[(1, thing(A, "A1")), (2, thing(B, "B2"))], 20, 1);
    assert_eq!(names(&one), [(2, "A1 B2")]);
    let two = found(&first, &[(1, thing(B, "B1")), (2, thing(A, "A2"))], 20, 1);
    assert_eq!(names(&two), [(2, "A2 B1")]);
    let things = [(1, thing(A, "A1")), (2, thing(A, "A2")), (3, thing(B, "B3"))];
    assert_eq!(names(&found(&first, &things, 20, 1)), [(3, "A1 B3")]);
    let each = found(&set(of(A).each()), &things, 20, 1);
    assert_eq!(names(&each), [(3, "A1 B3"), (3, "A2 B3")]);
}

#[test]
fn ce_20_an_event_fills_one_place() {
    let things: Vec<_> = (1..=4).map(|n| (n, thing(A, &format!("X{n}")))).collect();
    let set = |situation: Rule| {
        let rule = named(situation.during("always"), FOUND);
        rules().lifespan(Lifespan::always("always")).situation(rule)
    };
    let pairs = [(2, "X1 X2"), (4, "X3 X4")];
    assert_eq!(names(&found(&set(Rule::sequence("two", [of(A), of(A)])), &things, 9, 1)), pairs);
    assert_eq!(names(&found(&set(Rule::all("two", [of(A), of(A)])), &things, 9, 1)), pairs);
    assert_eq!(names(&found(&set(Rule::at_least("two", 2, [of(A)])), &things, 9, 1)), pairs);
}

/// On for a minute: whoever is still on then.
fn on_for_a_minute() -> Situations<Thing> {
    let closes =
        |off: &Thing, open: &Open<'_, Thing>| open.opener().is_some_and(|on| on.1 == off.1);
    let on = Lifespan::new("on").opened_by(A).opener_counts().closed_by_if(B, closes);
    let rule = Rule::after("still on", ms(60), of(A).overrides_always()).during("on");
    rules().lifespan(on).situation(named(rule, FOUND))
}

/// Without a checkpoint: saved and restored it is a test of the operator.
#[test]
fn lc_05_a_rule_that_waits_is_not_disturbed_by_others() {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(2).clock(clock).build().unwrap();
    let query = Query::new("waits");
    let (events, stream) = query.push_source("things", |event: &Event<Thing>| event.time);
    let found = stream.map(|event| event.value).situations(on_for_a_minute()).collect();
    let handle = engine.submit(query).unwrap();
    events.push(Event::new(at(0), thing(A, "on"))).unwrap();
    events.advance(at(30));
    // Another one comes and goes meanwhile.
    let other = Query::new("other");
    let (others, stream) = other.push_source("things", |event: &Event<Thing>| event.time);
    let other_found = stream.map(|event| event.value).situations(on_for_a_minute()).collect();
    let other = engine.submit(other).unwrap();
    others.push(Event::new(at(1), thing(A, "other"))).unwrap();
    other.cancel();
    other.wait_timeout(GUARD);
    events.advance(at(60));
    eventually("the alert", || !found.events().is_empty());
    assert_eq!(found.events(), [Event::new(at(60), thing(FOUND, "on"))]);
    assert!(other_found.events().is_empty());
    drop(events);
    completed(&handle);
    assert_eq!(found.events().len(), 1);
    assert!(Timestamp::MIN < at(0));
}
