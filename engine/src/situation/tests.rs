//! What a program does with the events of a key, and what it holds.

use std::sync::Arc;
use std::time::Duration;

use super::rule::{
    AtCap, Cap, CloseBy, Closer, Form, LifespanType, Named, Opener, Operand, Scope, Set, Situation,
    Test, Which,
};
use super::{Lives, Program, Room};
use crate::event::Event;
use crate::time::Timestamp;

/// An event is a letter, whose type is its place in the alphabet; small letters are the same types as capitals.
pub(crate) type Text = String;

pub(crate) fn of(letter: char) -> u16 {
    u16::from(letter.to_ascii_lowercase() as u8 - b'a')
}

pub(crate) fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Events that are capitals.
pub(crate) fn capital() -> Test<Text> {
    Named::new("capital", Arc::new(|event: &Text| event.starts_with(char::is_uppercase)))
}

pub(crate) fn operands(letters: &str) -> Vec<Operand<Text>> {
    letters.chars().map(|letter| Operand::new(of(letter))).collect()
}

/// A situation in lifespan "l" whose event is called `letter` and has the texts of its events.
pub(crate) fn situation(letter: char, form: Form<Text>, letters: &str) -> Situation<Text> {
    let express = move |found: &super::Detection<'_, Text>| {
        let events: Vec<&str> = found.events().map(String::as_str).collect();
        format!("{letter}({})", events.join(" "))
    };
    Situation {
        name: letter.to_string().into(),
        lifespan: "l".into(),
        form,
        deferred: None,
        operands: operands(letters),
        when: None,
        derives: Some((of(letter), Named::new("express", Arc::new(express)))),
        action: None,
    }
}

/// Lifespans called "l", which nothing opens yet.
pub(crate) fn lifespans() -> LifespanType<Text> {
    LifespanType {
        name: "l".into(),
        openers: Vec::new(),
        closers: Vec::new(),
        adds: false,
        opener_counts: false,
        cap: None,
    }
}

pub(crate) fn always() -> LifespanType<Text> {
    LifespanType { openers: vec![Opener::Start], ..lifespans() }
}

/// Opened by an event, closed by another or after a time.
pub(crate) fn between(opener: char, closer: char, length: Option<u64>) -> LifespanType<Text> {
    let by = CloseBy::Event(of(closer), None, Which::First);
    let mut closers = vec![Closer { by, discards: false }];
    closers.extend(length.map(|length| Closer { by: CloseBy::After(us(length)), discards: false }));
    LifespanType { openers: vec![Opener::Event(of(opener), None)], closers, ..lifespans() }
}

pub(crate) fn set(
    lifespans: Vec<LifespanType<Text>>,
    situations: Vec<Situation<Text>>,
) -> Set<Text> {
    Set {
        type_of: Arc::new(|event| of(event.chars().next().expect("an event has a letter"))),
        lifespans: lifespans.into_iter().map(Arc::new).collect(),
        situations: situations.into_iter().map(Arc::new).collect(),
        mappings: Vec::new(),
    }
}

fn program(lifespan: LifespanType<Text>, situations: Vec<Situation<Text>>) -> Program<Text> {
    set(vec![lifespan], situations).compile().expect("the rules make sense")
}

/// A key at work.
struct Key {
    program: Program<Text>,
    lives: Lives<Text>,
    room: Room<Text>,
    time: i64,
    events: usize,
}

impl Key {
    fn new(program: Program<Text>) -> Self {
        let lives = program.fresh(at(0));
        Self { program, lives, room: Room::default(), time: 0, events: 0 }
    }

    /// What comes of events, one a microsecond; they are numbered.
    fn take(&mut self, letters: &str) -> Vec<String> {
        for letter in letters.chars() {
            self.time += 1;
            self.program.clock(&mut self.lives, &mut self.room, (at(self.time), false));
            if letter != ' ' {
                self.events += 1;
                let event = Event::new(at(self.time), format!("{letter}{}", self.events));
                let kind = self.program.type_of(&event.value);
                self.program.event(&mut self.lives, &mut self.room, kind, event);
            }
        }
        self.room.said_by.drain(..).map(|said| said.value).collect()
    }
}

#[test]
fn what_was_used_is_not_held_any_more() {
    let mut key = Key::new(program(always(), vec![situation('s', Form::All, "ab")]));
    assert_eq!(key.take("aab"), ["s(a1 b3)"]);
    assert_eq!(key.lives.held(), 1);
    assert_eq!(key.take("b"), ["s(a2 b4)"]);
    assert_eq!(key.lives.held(), 0);
    assert!(key.program.is_fresh(&key.lives, Timestamp::MAX));
}

#[test]
fn what_can_never_be_used_is_not_held() {
    let rules = vec![
        situation('s', Form::All, "a"),
        situation('t', Form::Sequence, "ba"),
        situation('u', Form::Nth(5), "a"),
    ];
    let mut key = Key::new(program(always(), rules));
    assert_eq!(key.take("aaa"), ["s(a1)", "s(a2)", "s(a3)"]);
    assert_eq!(key.lives.held(), 0);
}

#[test]
fn an_event_of_several_situations_lies_once_and_as_long_as_one_holds_it() {
    let rules = vec![situation('s', Form::All, "ab"), situation('t', Form::All, "ac")];
    let mut key = Key::new(program(always(), rules));
    key.take("a");
    assert_eq!(key.lives.held(), 1);
    assert_eq!(key.take("b"), ["s(a1 b2)"]);
    assert_eq!(key.lives.held(), 1);
    assert_eq!(key.take("c"), ["t(a1 c3)"]);
    assert_eq!(key.lives.held(), 0);
}

#[test]
fn the_end_of_a_lifespan_lets_go_of_all_it_holds() {
    let mut deferred = situation('s', Form::AtLeast(1), "a");
    deferred.deferred = Some(true);
    let mut last = situation('t', Form::Nth(9), "a");
    last.deferred = Some(true);
    let rules = vec![deferred, last, situation('u', Form::After(us(4)), "a")];
    let mut key = Key::new(program(between('i', 'x', None), rules));
    assert_eq!(key.take("iaa"), [""; 0]);
    assert_eq!((key.lives.held(), key.lives.len()), (3, 1));
    assert_eq!(key.take("x"), ["s(a2 a3)"]);
    assert_eq!((key.lives.held(), key.lives.len()), (0, 0));
}

#[test]
fn a_cap_refuses_drops_or_fails() {
    let capped = |at_cap| {
        let mut rule = situation('s', Form::Sequence, "ab");
        rule.operands[0].cap = Some(Cap { most: 2, at_cap });
        Key::new(program(always(), vec![rule]))
    };
    let mut refuses = capped(AtCap::RefuseNewest);
    assert_eq!(refuses.take("aaabb"), ["s(a1 b4)", "s(a2 b5)"]);
    assert_eq!(refuses.room.dropped.count, 1);
    let mut drops = capped(AtCap::DropOldest);
    assert_eq!(drops.take("aaabb"), ["s(a2 b4)", "s(a3 b5)"]);
    assert_eq!((drops.room.dropped.count, drops.lives.held()), (1, 0));
    let mut fails = capped(AtCap::Fail);
    fails.take("aaa");
    let why = fails.room.dropped.fails.expect("it fails");
    assert!(why.contains("situation \"s\" has more candidates for operand 0"), "{why}");
}

#[test]
fn what_is_dropped_at_a_cap_does_not_count_any_more() {
    let mut rule = situation('s', Form::AtLeast(2), "ab");
    rule.operands[0].cap = Some(Cap { most: 1, at_cap: AtCap::DropOldest });
    let mut key = Key::new(program(always(), vec![rule]));
    assert_eq!(key.take("aaab"), ["s(a3 b4)"]);
}

#[test]
fn each_takes_all_combinations_and_then_they_are_gone() {
    let mut rule = situation('s', Form::Sequence, "abc");
    rule.operands.iter_mut().for_each(|operand| operand.which = Some(Which::Each));
    let mut key = Key::new(program(always(), vec![rule]));
    let all = ["s(a1 b3 c4)", "s(a2 b3 c4)"];
    assert_eq!(key.take("aabcc"), all);
    assert_eq!(key.lives.held(), 0);
}

#[test]
fn a_condition_looks_for_the_first_or_the_last_that_fits() {
    let same = |which| {
        let mut rule = situation('s', Form::All, "ab");
        let holds = |found: &super::Detection<'_, Text>| {
            found[0].starts_with('a') == found[1].starts_with('b')
        };
        rule.when = Some(Named::new("same", Arc::new(holds)));
        rule.operands[0].which = Some(which);
        Key::new(program(always(), vec![rule])).take("aAaAb")
    };
    assert_eq!(same(Which::First), ["s(a1 b5)"]);
    assert_eq!(same(Which::Last), ["s(a3 b5)"]);
    assert_eq!(same(Which::Each), ["s(a1 b5)", "s(a3 b5)"]);
}

#[test]
fn a_detection_contains_what_caused_it_though_others_would_do() {
    let mut rule = situation('s', Form::All, "aa");
    rule.operands.iter_mut().for_each(|operand| {
        operand.retain = Some(Named::new("always", Arc::new(|_| true)));
    });
    let mut key = Key::new(program(always(), vec![rule]));
    assert_eq!(key.take("aaa"), ["s(a1 a2)", "s(a1 a3)"]);
}

#[test]
fn retained_candidates_of_absolute_first_stay_the_only_ones() {
    let mut rule = situation('s', Form::All, "ab");
    (rule.operands[0].which, rule.operands[0].scope) = (Some(Which::First), Some(Scope::Absolute));
    rule.operands[0].retain = Some(capital());
    let mut key = Key::new(program(always(), vec![rule]));
    assert_eq!(key.take("Aabb"), ["s(A1 b3)", "s(A1 b4)"]);
    assert_eq!(key.lives.held(), 1);
}

#[test]
fn rules_that_feed_themselves_fail() {
    let mut key = Key::new(program(always(), vec![situation('a', Form::All, "a")]));
    let found = key.take("a").len();
    assert_eq!(found, 250);
    assert!(key.room.dropped.fails.take().is_some_and(|why| why.contains("feed themselves")));
    let twice = vec![situation('a', Form::All, "a"), situation('b', Form::All, "a")];
    let mut key = Key::new(program(always(), twice));
    key.take("a");
    assert!(key.room.dropped.fails.is_some());
    assert_eq!(key.lives.held(), 0);
}

#[test]
fn a_waiting_time_starts_again_with_an_override() {
    let mut rule = situation('s', Form::After(us(3)), "a");
    rule.operands[0].overrides = Some(Named::new("always", Arc::new(|_| true)));
    let mut key = Key::new(program(always(), vec![rule]));
    assert_eq!(key.take("a a    "), ["s(a2)"]);
    assert_eq!(key.lives.due(), None);
}

#[test]
fn many_lifespans_are_open_and_each_ends_in_its_time() {
    let mut of_type = between('i', 'x', Some(5));
    of_type.adds = true;
    let mut key = Key::new(program(of_type, vec![situation('s', Form::Not, "a")]));
    let mut found = 0;
    for _ in 0..10_000 {
        found += key.take("i").len();
        assert!(key.lives.len() <= 5);
        assert!(key.lives.held() <= 5);
    }
    assert_eq!(found, 10_000 - 5);
}

#[test]
fn what_was_to_have_no_second_one_is_not_held_when_that_has_come() {
    let rules = vec![situation('s', Form::Unless, "ab"), situation('t', Form::Unless, "ac")];
    let mut key = Key::new(program(between('i', 'x', None), rules));
    key.take("iaa");
    assert_eq!(key.lives.held(), 3);
    key.take("b");
    assert_eq!(key.lives.held(), 3, "the other rule holds them");
    key.take("ca");
    assert_eq!(key.lives.held(), 1, "only the opener");
    assert_eq!(key.take("x"), [""; 0]);
}

/// Also where a third operand makes it matter which of the two came first.
#[test]
fn what_a_terminator_brings_comes_before_it() {
    let inner = LifespanType { name: "m".into(), ..between('i', 't', None) };
    let mut deferred = situation('d', Form::AtLeast(1), "a");
    deferred.lifespan = "m".into();
    deferred.deferred = Some(true);
    let rules = vec![
        deferred,
        situation('q', Form::Sequence, "dtc"),
        situation('r', Form::Sequence, "tdc"),
    ];
    let program = set(vec![always(), inner], rules).compile().expect("the rules make sense");
    assert_eq!(Key::new(program).take("iatc"), ["d(a2)", "q(d(a2) t3 c4)"]);
}

#[test]
fn stateless_rules_that_feed_themselves_fail() {
    let mapping = super::rule::Mapping {
        name: "again".into(),
        of: of('a'),
        test: None,
        derives: Some((of('a'), Named::new("copy", Arc::new(|event: &Text| event.clone())))),
        action: None,
    };
    let mut rules = set(vec![always()], vec![situation('s', Form::All, "ab")]);
    rules.mappings.push(Arc::new(mapping));
    let mut key = Key::new(rules.compile().expect("the rules make sense"));
    key.take("a");
    let why = key.room.dropped.fails.take().expect("it fails");
    assert!(why.contains("stateless rules make more than 10,000"), "{why}");
}
