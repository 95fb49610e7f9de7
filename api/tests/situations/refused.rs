//! Rules that make no sense are refused with the rule, the field and the reason.

use std::time::Duration;

use mizzle::situation::{
    Aggregate, AtCap, Lifespan, Operand, Situation, Situations, StatelessRule, count, operand,
};
use mizzle::{Engine, Query, source};

use super::common::{at, ms};
use super::happening::{Happening, rules};

type Rule = Situation<Happening>;

fn a() -> Operand<Happening> {
    operand(0u16)
}

fn aggregate() -> Aggregate<Happening> {
    count()
}

fn derived(rule: Rule) -> Rule {
    rule.during("L").derives(9u16, |found| found[0].clone())
}

fn hour() -> Lifespan<Happening> {
    Lifespan::new("L").opened_by(7u16).closed_after(Duration::from_secs(3600))
}

/// Why a set is refused.
fn why(set: &Situations<Happening>) -> String {
    match set.compile() {
        Ok(_) => "it is not refused".to_owned(),
        Err(refused) => refused.to_string(),
    }
}

fn in_lifespan(lifespan: Lifespan<Happening>, rule: Rule) -> String {
    why(&rules().lifespan(lifespan).situation(derived(rule)))
}

fn in_hour(rule: Rule) -> String {
    in_lifespan(hour(), rule)
}

#[track_caller]
fn says(text: &str, field: &str, reason: &str) {
    let begins = format!("rule \"r\", {field}: ");
    assert!(text.starts_with(&begins) && text.contains(reason), "{text}");
}

#[test]
fn what_makes_sense_is_not_refused() {
    assert_eq!(in_hour(Rule::all("r", [a()])), "it is not refused");
}

#[test]
fn a_number_of_operands_that_cannot_be() {
    says(&in_hour(Rule::all("r", [])), "operands", "there are 0, and it has 1 to 64");
    says(&in_hour(Rule::sequence("r", [a()])), "operands", "there are 1, and it has 2 to 64");
}

#[test]
fn a_quantifier_where_nothing_is_picked() {
    let field = "quantifier of operand 0";
    says(&in_hour(Rule::at_least("r", 2, [a().last()])), field, "only a situation that joins");
    says(&in_hour(Rule::not("r", [a().first()])), field, "only a situation that joins");
    says(&in_hour(Rule::all("r", [a().each().absolute()])), field, "without absolute");
    let overrides = a().absolute().overrides_always();
    says(&in_hour(Rule::all("r", [overrides])), "override of operand 0", "absolute says already");
}

#[test]
fn retain_override_and_weight_that_say_nothing() {
    let field = "retain of operand 0";
    says(&in_hour(Rule::nth("r", 2, [a().retain_always()])), field, "nothing is used up");
    says(&in_hour(Rule::all("r", [a().retain_always()]).deferred()), field, "nothing stays");
    says(&in_hour(Rule::not("r", [a().overrides_always()])), "override of operand 0", "not undone");
    says(&in_hour(Rule::all("r", [a().weight(|_| 2)])), "weight of operand 0", "only at_least");
}

#[test]
fn detection_at_a_moment_or_at_an_end_that_cannot_be() {
    let always = || Lifespan::always("L");
    let never = "it never does";
    says(&in_lifespan(always(), Rule::not("r", [a()])), "detection", never);
    says(&in_lifespan(always(), Rule::at_most("r", 1, [a()])), "detection", never);
    says(&in_lifespan(always(), Rule::all("r", [a()]).deferred()), "detection", never);
    says(&in_hour(Rule::not("r", [a()]).immediate()), "detection", "only when the lifespan ends");
    let crosses = Rule::crosses("r", aggregate(), 2.0, a()).deferred();
    says(&in_hour(crosses), "detection", "cannot wait for the end");
    says(&in_hour(Rule::every("r", ms(5)).deferred()), "detection", "cannot wait for the end");
}

#[test]
fn quantities_and_intervals_that_cannot_be() {
    says(&in_hour(Rule::at_least("r", 0, [a()])), "quantity", "always there");
    says(&in_hour(Rule::nth("r", 0, [a()])), "quantity", "begins with the first");
    says(&in_hour(Rule::at_most("r", -1, [a()])), "quantity", "fewer than none");
    says(&in_hour(Rule::percentage("r", 101.0, a(), |_| true)), "percentage", "at most 100");
    says(&in_hour(Rule::crosses("r", aggregate(), f64::NAN, a())), "bound", "not a number");
    says(&in_hour(Rule::every("r", Duration::ZERO)), "interval", "zero");
    says(&in_hour(Rule::every("r", Duration::from_secs(3600))), "interval", "over by then");
    says(&in_hour(Rule::after("r", Duration::from_secs(7200), a())), "interval", "over by then");
    let start = in_lifespan(Lifespan::always("L"), Rule::every("r", ms(5)));
    says(&start, "interval", "open from the start");
    let till_five = Lifespan::new("L").opened_by(7u16).closed_at(at(5));
    says(&in_lifespan(till_five, Rule::at("r", at(5))), "time", "over by then");
}

#[test]
fn caps_that_decide_by_themselves() {
    let capped = || a().max_candidates(3, AtCap::RefuseNewest);
    says(&in_hour(Rule::at_least("r", 4, [capped()])), "max_candidates", "never hold");
    says(&in_hour(Rule::at_most("r", 3, [capped()])), "max_candidates", "always hold");
    let none = a().max_candidates(0, AtCap::DropOldest);
    says(&in_hour(Rule::all("r", [none])), "max_candidates of operand 0", "never be found");
}

#[test]
fn rules_that_are_not_whole_or_not_alone() {
    let set = rules().lifespan(hour()).situation(Rule::all("r", [a()]).during("L"));
    says(&why(&set), "derives", "not said what event");
    let set = rules().situation(derived(Rule::all("r", [a()])));
    says(&why(&set), "lifespan", "no type of lifespans is called \"L\"");
    let twice = || derived(Rule::all("r", [a()]));
    let set = rules().lifespan(hour()).situation(twice()).situation(twice());
    says(&why(&set), "name", "another one has this name");
    let set = rules().stateless(StatelessRule::new("r", 3u16));
    says(&why(&set), "event", "does nothing");
    says(&why(&rules().remove("r")), "remove", "no such rule");
    says(&why(&rules().remove_lifespan("r")), "remove_lifespan", "no such type");
}

#[test]
fn lifespans_that_cannot_be() {
    let refused = |lifespan: Lifespan<Happening>| why(&rules().lifespan(lifespan));
    says(&refused(Lifespan::new("r")), "opened", "nothing opens it");
    let opened = || Lifespan::new("r").opened_by(0u16);
    says(&refused(opened().max_open(0, AtCap::DropOldest)), "max_open", "none may be open");
    says(&refused(opened().closed_after(Duration::ZERO)), "closed_after", "as soon as");
    let start = Lifespan::always("r").closed_after(ms(5));
    says(&refused(start), "closed_after", "open from the start");
    let backwards = Lifespan::new("r").opened_at(at(5)).closed_at(at(5));
    says(&refused(backwards), "closed_at", "before it opens");
    says(&refused(opened().discards()), "discards", "right after the closer");
    says(
        &refused(opened().closed_after(ms(5)).each()),
        "first, last, each",
        "right after closed_by",
    );
    says(&refused(opened().called("opens")), "called and cost", "right after the function");
}

#[test]
fn lifespans_that_contradict_themselves() {
    let of = |lifespan: Lifespan<Happening>| in_lifespan(lifespan, Rule::all("r", [a()]));
    let starts = || Lifespan::new("L").from_start().closed_by(8u16);
    let says = |text: String, field: &str, reason: &str| {
        let begins = format!("rule \"L\", {field}: ");
        assert!(text.starts_with(&begins) && text.contains(reason), "{text}");
    };
    says(of(starts().adds()), "adds", "never a second one");
    says(of(starts().opener_counts()), "opener_counts", "no event opens it");
    says(
        of(hour().max_open(3, AtCap::RefuseNewest)),
        "max_open",
        "unless it is said that it `adds`",
    );
    assert_eq!(of(hour().adds().max_open(3, AtCap::RefuseNewest)), "it is not refused");
    let times = || Lifespan::new("L").opened_at(at(5_000)).closed_at(at(9_000));
    let with = |rule| in_lifespan(times(), rule);
    let says = super::refused::says;
    says(&with(Rule::every("r", ms(4_000))), "interval", "over by then");
    says(&with(Rule::after("r", ms(4_000), a())), "interval", "over by then");
    says(&with(Rule::at("r", at(4_999))), "time", "not been opened by then");
    assert_eq!(
        why(&rules()
            .lifespan(times())
            .situation(Rule::every("r", ms(3_999)).during("L").derives(9u16, |_| unreachable!()))),
        "it is not refused"
    );
}

#[test]
fn a_count_of_several_operands_is_not_taken_back_for_one() {
    let newest = || a().overrides_always();
    says(
        &in_hour(Rule::nth("r", 3, [newest(), a()])),
        "override of operand 0",
        "counts all operands together",
    );
    assert_eq!(in_hour(Rule::nth("r", 3, [newest()])), "it is not refused");
}

#[test]
fn what_is_said_of_a_function_shows_in_the_rules() {
    let hot = a().threshold(|event| event.value > 3.0).called("hot").cost(Duration::from_nanos(40));
    let rule = derived(Rule::all("r", [hot])).called("copy").cost(Duration::from_nanos(90));
    let compiled = rules().lifespan(hour()).situation(rule).compile().unwrap();
    let situation = &compiled.as_data().situations[0];
    let threshold = situation.operands[0].threshold.as_ref().unwrap();
    assert_eq!((&*threshold.name, threshold.cost), ("hot", Some(Duration::from_nanos(40))));
    let (of, express) = situation.derives.as_ref().unwrap();
    assert_eq!((*of, &*express.name, express.cost), (9, "copy", Some(Duration::from_nanos(90))));
}

#[test]
fn a_query_is_refused_with_the_operator_and_the_line() {
    let query = Query::new("refused");
    let events: [Happening; 0] = [];
    let found = query
        .source("events", source::from_iter(events, |_| at(0)))
        .situations(rules().lifespan(hour()).situation(derived(Rule::nth("r", 0, [a()]))))
        .collect();
    let refused = Engine::new().unwrap().submit(query).map(drop).unwrap_err().to_string();
    assert!(refused.contains("situations") && refused.contains("refused.rs:"), "{refused}");
    assert!(refused.contains("counting begins with the first"), "{refused}");
    assert!(found.values().is_empty());
}

#[test]
fn actions_want_to_be_told_how_many_may_wait() {
    let query = Query::new("actions");
    let events: [Happening; 0] = [];
    let rule = derived(Rule::all("r", [a()])).action(|_| ());
    let found = query
        .source("events", source::from_iter(events, |_| at(0)))
        .situations(rules().lifespan(hour()).situation(rule))
        .collect();
    let refused = Engine::new().unwrap().submit(query).map(drop).unwrap_err().to_string();
    assert!(refused.contains("`.actions(capacity, when_full)`"), "{refused}");
    drop(found);
}
