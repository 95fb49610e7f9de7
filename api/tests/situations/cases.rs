//! Every case of `cases/situations.jsonl`, through one interpreter.

use std::collections::{BTreeMap, BTreeSet};

use mizzle::situation::Closure;
use mizzle::{Event, Query};
use serde_json::{Value, json};

use super::common::{at, completed, engine, total};
use super::happening::{Happening, Types};
use super::spec::meaning;

struct Outcome {
    closures: Vec<Event<Closure<Happening>>>,
    refused: u64,
    types: Types,
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn run(spec: &Value, input: &[Value], workers: usize) -> Outcome {
    let types = Types::default();
    let engine = engine(workers);
    let query = Query::new("case");
    let (events, stream) = query.push_source("events", |event: &Event<Happening>| event.time);
    let found =
        stream.map(|event| event.value).situations(meaning(spec, &types)).together().collect();
    let handle = engine.submit(query).unwrap();
    for item in input {
        let time = at(item[0].as_i64().unwrap());
        match item[1].as_str().unwrap() {
            "@advance" => events.advance(time),
            name => {
                let attributes = item[2].as_object().cloned().unwrap_or_default();
                let event = Happening::new(types.number(name), attributes);
                events.push(Event::new(time, event)).expect("the query runs");
            }
        }
    }
    drop(events);
    completed(&handle);
    // The stream of a case stays open, here it ends: what only the end brought is not the case's.
    let last = at(input.last().expect("something comes in")[0].as_i64().unwrap());
    let closures = found.events().into_iter().filter(|closure| closure.time <= last).collect();
    Outcome { closures, refused: total(&handle, |stats| stats.given_up), types }
}

/// What was found, as cases say it: `like` says what of it is told.
fn told(time: mizzle::time::Timestamp, name: &str, found: &Happening, like: &Value) -> Value {
    let millis = time.as_micros() / 1000;
    let what = match like {
        Value::Object(like) if like.contains_key("at") => json!({ "at": millis }),
        Value::Object(like) => {
            let (name, value) = like.iter().next().expect("something is said");
            let whole = value.is_i64() || value.is_u64();
            let found = if whole { json!(found.value as i64) } else { json!(found.value) };
            json!({ name: found })
        }
        _ => json!(found.made_of),
    };
    json!([millis, name, what])
}

/// What is wrong, if anything is.
fn judge(case: &Value, outcome: &Outcome) -> Option<String> {
    let expected = &case["expected"];
    let detections = expected["detections"].as_array().expect("a case expects detections");
    let found = outcome.closures.iter().flat_map(|closure| {
        closure.value.found.iter().map(|(name, found)| (closure.time, name, found))
    });
    let mut got = Vec::new();
    for (n, (time, name, found)) in found.enumerate() {
        assert_eq!(**name, *outcome.types.name(found.of));
        got.push(told(time, name, found, detections.get(n).map_or(&Value::Null, |like| &like[2])));
    }
    if got != *detections {
        return Some(format!("found {got:?}"));
    }
    let reports = expected["reports"].as_array().into_iter().flatten();
    let reports: Vec<_> = reports.map(|report| report[1].clone()).collect();
    let together = outcome.closures.iter().map(|closure| {
        json!(closure.value.found.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>())
    });
    if !reports.is_empty() && reports != together.collect::<Vec<_>>() {
        return Some("not reported together".to_owned());
    }
    let refused = expected["rejected"].as_array().map_or(0, Vec::len) as u64;
    (refused != outcome.refused).then(|| format!("{} refused", outcome.refused))
}

#[test]
fn every_case_of_situations() {
    let cases = lines(include_str!("../cases/situations.jsonl"));
    let specs = lines(include_str!("../cases/situations_specs.jsonl"));
    let specs: BTreeMap<&str, &Value> =
        specs.iter().map(|spec| (spec["id"].as_str().unwrap(), &spec["spec"])).collect();
    let mut wrong = BTreeSet::new();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        for workers in [1, 2, 4] {
            let outcome = run(specs[id], case["input_events"].as_array().unwrap(), workers);
            if let Some(problem) = judge(case, &outcome) {
                println!("{id} ({workers} workers): {problem}");
                wrong.insert(id);
            }
        }
    }
    assert_eq!(cases.len(), 35);
    assert_eq!(wrong, BTreeSet::new());
}
