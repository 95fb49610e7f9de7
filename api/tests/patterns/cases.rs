//! Every case of `cases/patterns.jsonl`, through one interpreter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mizzle::pattern::Bound;
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Event, PushHandle, Query};
use serde_json::{Map, Value, json};

use super::common::{at, completed, engine};
use super::conditions::Happening;
use super::spec::{Meaning, meaning};

/// Those that other systems answer otherwise than this one, each in the table of `cases/README.md`.
const DECLINED: [&str; 3] = ["esper-row-lazy-01", "flink-et-08", "flink-not-06"];

/// A match as cases describe it.
#[derive(Clone, Debug, PartialEq)]
struct Match {
    time: Timestamp,
    /// The ids of all events, in their order.
    ids: Vec<String>,
    /// The ids by the names of their steps.
    bind: BTreeMap<String, Vec<String>>,
    /// What was worked out from them.
    value: Map<String, Value>,
}

#[derive(Debug)]
struct Outcome {
    matches: Vec<Match>,
    timeouts: Vec<Vec<String>>,
    late: u64,
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn described(events: &Bound<'_, Happening>, value: &Value) -> Match {
    let mut found =
        Match { time: Timestamp::MIN, ids: Vec::new(), bind: BTreeMap::new(), value: Map::new() };
    for taken in events.events() {
        let id = taken.value.id().to_owned();
        found.ids.push(id.clone());
        found.bind.entry(taken.step.to_owned()).or_default().push(id);
    }
    for (name, of) in value.as_object().into_iter().flatten() {
        let (step, attribute) = (of[0].as_str().unwrap(), of[1].as_str().unwrap());
        let mut all = events.all(step).into_iter().map(|event| event.attributes[attribute].clone());
        let worked_out = match name.as_str() {
            "sum" => json!(all.by_ref().map(|value| value.as_i64().unwrap()).sum::<i64>()),
            _ => all.next_back().unwrap_or(Value::Null),
        };
        found.value.insert(name.clone(), worked_out);
    }
    found
}

/// Sends what a case says comes in.
fn send(events: &PushHandle<Event<Happening>>, input: &Value) {
    for (place, item) in input.as_array().unwrap().iter().enumerate() {
        let time = at(item[0].as_i64().unwrap());
        let kind = item[1].as_str().unwrap().to_owned();
        let attributes = item[2].as_object().cloned().unwrap_or_default();
        match kind.as_str() {
            "@flush" => {}
            "@advance" | "@watermark" if place > 0 => events.advance(time),
            // The clock is moved before anything comes: a query starts then, and a pattern begins with
            // its key's first event.
            _ => {
                if kind == "@watermark" {
                    events.advance(time);
                }
                let _ = events.push(Event::new(time, Happening { kind, attributes }));
            }
        }
    }
}

fn run(spec: &Value, value: &Value, input: &Value, workers: usize) -> Outcome {
    let Meaning { pattern, key, ties, distinct } = meaning(spec);
    let engine = engine(workers);
    let query = Query::new("case");
    let (events, stream) = query.push_source("events", |event: &Event<Happening>| event.time);
    let stream = stream
        .watermarks(Watermarks::bounded(Duration::from_secs(86_400 * 365)))
        .map(|event| event.value)
        .boxed();
    let stream = match ties {
        None => stream,
        Some(by) => stream
            .sort_within(Duration::from_micros(1), move |event: &Happening| {
                let tie = event.attributes.get(&by).and_then(Value::as_f64).unwrap_or(0.0);
                (tie * 1e6) as i64
            })
            .in_order()
            .boxed(),
    };
    let stream = match distinct {
        None => stream,
        Some((key, lifetime)) => stream
            .key_by(move |event| {
                let of = |name: &String| event.attributes.get(name).map(Value::to_string);
                key.iter().map(of).collect::<Vec<_>>()
            })
            .distinct_for(lifetime)
            .in_order()
            .boxed(),
    };
    let value = value.clone();
    let (matches, timeouts) = stream
        .key_by(move |event| {
            let key = key.as_ref().and_then(|key| event.attributes.get(key));
            key.map(Value::to_string)
        })
        .pattern(pattern, move |events| described(events, &value))
        .timeouts(|events| {
            let ids = events.events().into_iter().map(|taken| taken.value.id().to_owned());
            ids.collect::<Vec<String>>()
        });
    let (matches, timeouts) = (matches.collect(), timeouts.collect());
    let handle = engine.submit(query).unwrap();
    send(&events, input);
    drop(events);
    completed(&handle);
    // The stream of a case stays open, here it ends: what only the end brought is not the case's.
    let last = input.as_array().unwrap().iter().filter_map(|item| item[0].as_i64()).max();
    let last = at(last.expect("something comes in"));
    let found = matches.events().into_iter().filter(|event| event.time <= last);
    let found = found.map(|event| Match { time: event.time, ..event.value });
    let over = timeouts.events().into_iter().filter(|event| event.time <= last);
    Outcome {
        matches: found.collect(),
        timeouts: over.map(|event| event.value).collect(),
        late: handle
            .chains()
            .iter()
            .filter(|chain| chain.piece == 0)
            .map(|chain| chain.stats.late)
            .sum(),
    }
}

/// Whether a match is what the case says.
fn fits(found: &Match, expected: &Value, times: &BTreeMap<String, Timestamp>) -> bool {
    let list = |value: &Value| match value {
        Value::Null => Vec::new(),
        Value::String(one) => vec![one.clone()],
        many => serde_json::from_value(many.clone()).expect("ids are a list"),
    };
    if let Some(on) = expected["on"].as_str() {
        let time = match on.strip_prefix("@t=") {
            Some(clock) => at(clock.parse().unwrap()),
            None => times[on],
        };
        if found.time != time {
            return false;
        }
    }
    if let Some(bind) = expected["bind"].as_object() {
        let named: usize = bind.values().map(|ids| list(ids).len()).sum();
        let right = |(name, ids): (&String, &Value)| {
            found.bind.get(name).cloned().unwrap_or_default() == list(ids)
        };
        return named == found.ids.len() && bind.iter().all(right);
    }
    if let Some(value) = expected["value"].as_object() {
        return found.value == *value;
    }
    list(&expected["ids"]) == found.ids
}

/// What is wrong, if anything is.
fn judge(case: &Value, outcome: &Outcome) -> Option<String> {
    let mut times = BTreeMap::new();
    for item in case["input_events"].as_array().unwrap() {
        if let Some(id) = item[2]["id"].as_str() {
            times.insert(id.to_owned(), at(item[0].as_i64().unwrap()));
        }
    }
    if let Some(expected) = case["expected_matches"].as_array() {
        let mut left = outcome.matches.clone();
        for expected in expected {
            // In order where that is exact; else those of one step, or all, in any.
            let reach = match case["order"].as_str() {
                Some("exact") => left.len().min(1),
                Some("per_step") => {
                    let first = left.first().map(|found| found.time);
                    left.iter().take_while(|found| Some(found.time) == first).count()
                }
                _ => left.len(),
            };
            let found = left[..reach].iter().position(|found| fits(found, expected, &times));
            match found {
                Some(found) => drop(left.remove(found)),
                None => return Some(format!("missing {expected}")),
            }
        }
        if !left.is_empty() {
            return Some(format!("too much: {left:?}"));
        }
    }
    let sorted = |mut all: Vec<Vec<String>>| {
        all.sort();
        all
    };
    if let Some(expected) = case["expected_timeouts"].as_array() {
        let ids = |one: &Value| serde_json::from_value(one["ids"].clone()).unwrap();
        if sorted(expected.iter().map(ids).collect()) != sorted(outcome.timeouts.clone()) {
            return Some("other timeouts".to_owned());
        }
    }
    match case["expected_late"].as_array() {
        Some(late) if late.len() as u64 != outcome.late => Some("other late events".to_owned()),
        _ => None,
    }
}

#[test]
fn every_case_of_patterns() {
    let cases = lines(include_str!("../cases/patterns.jsonl"));
    let specs = lines(include_str!("../cases/patterns_specs.jsonl"));
    let specs: BTreeMap<&str, &Value> =
        specs.iter().map(|spec| (spec["id"].as_str().unwrap(), spec)).collect();
    let mut wrong = BTreeSet::new();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let (spec, value) = match specs.get(id) {
            Some(own) => (&own["spec"], &own["value"]),
            None => (&case["pattern_spec"], &Value::Null),
        };
        for workers in [1, 2, 4] {
            let tried =
                std::panic::catch_unwind(|| run(spec, value, &case["input_events"], workers));
            let problem = match tried {
                Ok(outcome) => {
                    judge(case, &outcome).map(|problem| format!("{problem}\n{outcome:?}"))
                }
                Err(_) => Some("cannot be run".to_owned()),
            };
            if let Some(problem) = problem {
                println!("{id} ({workers} workers): {problem}");
                wrong.insert(id);
            }
        }
    }
    assert_eq!(wrong, BTreeSet::from(DECLINED));
}
