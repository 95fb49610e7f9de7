//! Rules that change while events flow, as streams and as members of a group.

use mizzle::situation::{Lifespan, Rules, Situation, Situations, operand};
use mizzle::stream::Member;
use mizzle::{Engine, Event, Query, Status, source};

use super::common::{at, completed, engine};

/// A type and a number.
type Thing = (u16, i64);
type Rule = Situation<Thing>;

/// When so many of type 0 have come, their sum is of type `derives`.
fn so_many(name: &str, n: i64, derives: u16) -> Rule {
    Rule::at_least(name, n, [operand(0u16)])
        .during("always")
        .derives(derives, move |found| (derives, found.events().map(|thing| thing.1).sum()))
}

fn rules() -> Situations<Thing> {
    Situations::new(|thing: &Thing| thing.0)
        .lifespan(Lifespan::always("always"))
        .situation(so_many("threes", 3, 3))
        .situation(so_many("fives", 5, 5))
}

fn things() -> Vec<Event<Thing>> {
    (1..=12).map(|n| Event::new(at(n), (0, n))).collect()
}

/// What is found with `rules`, and with those of `changes` from their times on.
fn found(
    rules: Situations<Thing>,
    changes: Vec<(i64, Rules<Thing>)>,
    workers: usize,
) -> Vec<Thing> {
    let query = Query::new("changes");
    let things = query.source("things", source::events(things()));
    let changes = query
        .source("changes", source::from_iter(changes, |change| at(change.0)))
        .map(|change| change.1);
    let found = things.key_by(|_| 7).situations_steered(rules, changes).collect();
    let engine = engine(workers);
    completed(&engine.submit(query).unwrap());
    found.values()
}

#[test]
fn a_rule_that_is_replaced_begins_anew_and_the_others_go_on() {
    let all = [(3, 6), (5, 15), (3, 15), (3, 24), (5, 40), (3, 33)];
    for workers in [1, 2, 4] {
        assert_eq!(found(rules(), Vec::new(), workers), all);
        // From 5 on, 5 included, threes are fours, and count from there; fives go on.
        let base = rules();
        let fours = base.clone().replace(so_many("threes", 4, 4)).compile().unwrap();
        let changed = [(3, 6), (5, 15), (4, 26), (5, 40), (4, 42)];
        assert_eq!(found(base, vec![(5, fours)], workers), changed);
    }
}

#[test]
fn a_rule_that_goes_is_gone_and_comes_back_anew() {
    let base = rules();
    let without = base.clone().remove("fives").compile().unwrap();
    let changes = vec![(4, without), (8, base.compile().unwrap())];
    let expected = [(3, 6), (3, 15), (3, 24), (3, 33), (5, 50)];
    assert_eq!(found(base, changes, 2), expected);
}

#[test]
fn a_change_that_makes_no_sense_is_refused_when_it_is_made() {
    assert!(rules().remove("sevens").compile().is_err());
    assert!(rules().remove_lifespan("always").compile().is_err());
}

/// Nobody was told how many may wait.
#[test]
fn a_change_that_brings_an_action_fails_the_query() {
    let acting = so_many("twos", 2, 2).action(|_| ());
    let changed = rules().situation(acting).compile().unwrap();
    let query = Query::new("changes");
    let things = query.source("things", source::events(things()));
    let changes = query.source("changes", source::events(vec![Event::new(at(5), changed)]));
    let found = things.key_by(|_| 7).situations_steered(rules(), changes).collect();
    let engine = engine(2);
    let handle = engine.submit(query).unwrap();
    let Status::Failed(why) = handle.wait() else { panic!("{:?}", handle.status()) };
    assert!(why.message.contains("`.actions(capacity, when_full)`"), "{why}");
    assert!(why.operator == "situations" && why.location.contains("changes.rs:"), "{why}");
    drop(found);
}

#[test]
fn rules_in_a_groups_template_are_each_members_own() {
    let query = Query::new("group");
    let events: Vec<_> =
        (0..12i64).map(|n| Event::new(at(n), ((n % 2) as u8, (0u16, n)))).collect();
    let (group, results) = query
        .source("things", source::events(events))
        .key_by(|thing: &(u8, Thing)| thing.0)
        .group("sums", |member: Member<i64, _>| {
            // An event of a member is the thing and the member's factor.
            let rule = Situation::at_least("threes", 3, [operand(0u16)]).during("always").derives(
                3u16,
                |found: &mizzle::situation::Detection<'_, (i64, Thing)>| {
                    let sum: i64 = found.events().map(|(factor, thing)| factor * thing.1).sum();
                    (0, (3, sum))
                },
            );
            let set = Situations::new(|event: &(i64, Thing)| event.1.0)
                .lifespan(Lifespan::always("always"))
                .situation(rule);
            member.map(|(factor, (_, thing))| (factor, thing)).situations(set)
        });
    let even = group.add(0, 1).unwrap();
    let odd = group.add(1, 10).unwrap();
    let found = results.collect();
    let engine = Engine::builder().workers(2).build().unwrap();
    completed(&engine.submit(query).unwrap());
    let of = |member| {
        let values = found.values().into_iter();
        values.filter(|(id, _)| *id == member).map(|(_, event)| event.1.1).collect::<Vec<_>>()
    };
    assert_eq!((of(even), of(odd)), (vec![6, 24], vec![90, 270]));
}
