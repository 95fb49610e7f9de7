//! What MIST does with patterns: topics `cep` and `cep builder` of `cases/engine.jsonl`, through the interpreter
//! of the other pattern cases. Their limits are inclusive.

use std::collections::BTreeMap;

use mizzle::pattern::Bound;
use mizzle::{Event, Query, source};
use serde_json::{Map, Value, json};

use super::common::{at, completed, engine};
use super::conditions::Happening;
use super::spec::meaning;

const TOPICS: [&str; 2] = ["cep", "cep builder"];

fn by_id(lines: &str) -> BTreeMap<String, Value> {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    lines.map(|line| (line["id"].as_str().expect("an id").to_owned(), line)).collect()
}

/// The cases of these topics.
fn cases() -> BTreeMap<String, Value> {
    let mut cases = by_id(include_str!("../cases/engine.jsonl"));
    cases.retain(|_, case| TOPICS.iter().any(|topic| case["topic"] == *topic));
    cases
}

/// What `engine_specs.jsonl` says of patterns; the rest of that file is for the operators' cases.
fn specs() -> BTreeMap<String, Value> {
    let mut specs = by_id(include_str!("../cases/engine_specs.jsonl"));
    specs.retain(|_, spec| spec["op"] == "pattern");
    specs
}

/// `A1` is of type A.
fn event(input: &Value) -> Event<Happening> {
    let id = input["v"].as_str().expect("an event is called something");
    let kind = id.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let attributes = Map::from_iter([("id".to_owned(), json!(id))]);
    Event::new(
        at(input["t"].as_i64().expect("an event has a time")),
        Happening { kind, attributes },
    )
}

/// The ids by the names of their steps.
fn bound(events: &Bound<'_, Happening>) -> Value {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for taken in events.events() {
        names.entry(taken.step).or_default().push(taken.value.id());
    }
    json!(names)
}

/// The matches at each event.
fn matches(spec: &Value, input: &[Value], workers: usize) -> Value {
    let query = Query::new("case");
    let found = query
        .source("events", source::events(input.iter().map(event).collect::<Vec<_>>()))
        .pattern(meaning(&spec["spec"]).pattern, bound)
        .collect();
    completed(&engine(workers).submit(query).unwrap());
    let found = found.events();
    let at_step = |input: &Value| {
        let time = event(input).time;
        let of_step = found.iter().filter(|found| found.time == time);
        of_step.map(|found| json!({"t": input["t"], "match": found.value})).collect::<Vec<_>>()
    };
    let steps: Vec<_> = input.iter().map(at_step).collect();
    assert_eq!(steps.concat().len(), found.len(), "each at an event");
    json!(steps)
}

/// What a query with the pattern is refused for.
fn refusal(spec: &Value) -> Option<String> {
    let query = Query::new("case");
    query
        .source("events", source::events(Vec::<Event<Happening>>::new()))
        .pattern(meaning(&spec["spec"]).pattern, bound)
        .for_each(drop);
    engine(1).submit(query).err().map(|error| error.to_string())
}

#[test]
fn every_case_gives_what_is_right() {
    let specs = specs();
    let mut wrong = Vec::new();
    for (id, case) in cases() {
        let spec = specs.get(&id).unwrap_or_else(|| panic!("{id} is not run"));
        let input = case["input"].as_array().expect("steps");
        let expected = match case["mark"].as_str() {
            Some("bug") => &case["modern_expected"],
            _ => &case["expected"]["out"],
        };
        if case["topic"] == "cep builder" {
            assert_eq!(expected, "rejected");
            let why = spec["refused"].as_str().expect("a reason");
            if !refusal(spec).is_some_and(|refusal| refusal.contains(why)) {
                wrong.push(format!("{id}: {:?}", refusal(spec)));
            }
            continue;
        }
        for workers in [1, 2, 4] {
            let found = matches(spec, input, workers);
            if found != *expected {
                wrong.push(format!("{id}, {workers} workers\n  {found}\n  {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// So that a line of a pattern is not passed over as another topic's.
#[test]
fn every_line_is_of_a_case() {
    let cases = cases();
    for id in specs().keys() {
        assert!(cases.contains_key(id), "{id} is no case of a pattern");
    }
    assert_eq!(cases.len(), specs().len());
}
