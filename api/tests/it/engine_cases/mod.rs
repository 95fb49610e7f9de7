//! What other engines do with small inputs (`tests/cases/engine.jsonl`), through one interpreter.
//!
//! A case's query is prose. Beside it, in `engine_specs.jsonl`, stands what it is here: an operator
//! and its parameters, and our answer where it differs, with the reason. What is not run stands in
//! `tests/cases/README.md`.

mod graph;
mod idle;
mod joins;
mod operators;
mod rules;
mod sched;
mod values;
mod watermarks;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use values::Scale;

const CASES: &str = include_str!("../../cases/engine.jsonl");
const SPECS: &str = include_str!("../../cases/engine_specs.jsonl");
const README: &str = include_str!("../../cases/README.md");

fn by_id(lines: &str) -> BTreeMap<String, Value> {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    lines.map(|line| (line["id"].as_str().expect("an id").to_owned(), line)).collect()
}

/// What came out after each step of a case.
type Steps = Vec<Vec<Value>>;

/// Runs a case as its spec says.
fn run(spec: &Value, input: &[Value]) -> Vec<Steps> {
    let scale = Scale::of(spec);
    match spec["op"].as_str().expect("an operator") {
        "merge" => vec![watermarks::merge(spec, scale, input)],
        "partitions" => vec![watermarks::partitions(spec, scale, input)],
        "union" => vec![watermarks::union(spec, scale, input)],
        "watermarks" => vec![watermarks::of_source(spec, scale, input)],
        "periodic" => vec![watermarks::declared(input)],
        "idle" => vec![idle::checks(spec, input)],
        "queries" => vec![graph::run(spec, input)],
        "structure" => vec![graph::structure(spec)],
        "interval_join" => joins::run(spec, scale, input),
        "window_join" => vec![joins::window_join(spec, scale, input)],
        "session_join" => joins::session_join(spec, scale, input),
        "zip" => vec![joins::zip(input)],
        "windows_of" => vec![operators::windows_of(spec, scale, input)],
        "value" => operators::run(spec, scale, &rules::steps(input)),
        _ => operators::run(spec, scale, input),
    }
}

/// Our answer, else the one that is called right, else the case's.
fn expected(case: &Value, spec: &Value) -> Vec<Value> {
    let answers = [spec.get("expect"), case.get("modern_expected"), case["expected"].get("out")];
    match answers.into_iter().flatten().next().expect("an answer") {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    }
}

/// Whether `got` is what was `wanted`, in all that this says.
fn matches(wanted: &Value, got: &Value, spec: &Value) -> bool {
    let ignored = |field: &str| {
        spec["without"].as_array().is_some_and(|fields| fields.iter().any(|it| it == field))
    };
    match wanted {
        Value::Object(fields) if got.is_object() => fields.iter().all(|(name, value)| {
            let got = match name.as_str() {
                // The number of a window that is as long as the hop between two.
                "win" => got["w"][0].as_i64().map(|start| start / spec["every"].as_i64().unwrap()),
                name => return ignored(name) || got.get(name) == Some(value),
            };
            got == value.as_i64()
        }),
        Value::Array(fields) if got.is_object() => {
            let names = ["t", "k", "v"];
            let names = &names[names.len() - fields.len()..];
            names.iter().zip(fields).all(|(name, value)| got.get(*name) == Some(value))
        }
        value if got.is_object() => got.get("v") == Some(value),
        value => value == got,
    }
}

fn same_sequence(wanted: &[Value], got: &[Value], spec: &Value) -> bool {
    wanted.len() == got.len() && wanted.iter().zip(got).all(|(w, g)| matches(w, g, spec))
}

fn same_multiset(wanted: &[Value], got: &[Value], spec: &Value) -> bool {
    let mut left: Vec<&Value> = got.iter().collect();
    let all = wanted.iter().all(|wanted| {
        let found = left.iter().position(|got| matches(wanted, got, spec));
        found.map(|position| left.swap_remove(position)).is_some()
    });
    all && left.is_empty()
}

/// Whether the steps that came out are those that were wanted, in the order that the case demands.
fn agrees(case: &Value, spec: &Value, wanted: &[Value], got: &Steps) -> bool {
    let order = spec.get("order").unwrap_or(&case["expected"]["order"]);
    let flat = || got.concat();
    match order.as_str().expect("an order") {
        "per_step" => {
            let within = case["expected"]["within_step"].as_str().unwrap_or("sequence");
            let same = if within.starts_with("multiset") { same_multiset } else { same_sequence };
            wanted.len() == got.len()
                && wanted
                    .iter()
                    .zip(got)
                    .all(|(wanted, got)| same(wanted.as_array().expect("a step"), got, spec))
        }
        "multiset" => same_multiset(wanted, &flat(), spec),
        "last_watermark" => {
            let all = flat();
            let last = all.iter().rev().find_map(|got| got.get("watermark"));
            last.is_some_and(|last| *last == wanted[0])
        }
        "final_state" => flat().last().is_some_and(|last| matches(&wanted[0], last, spec)),
        _ => same_sequence(wanted, &flat(), spec),
    }
}

/// Watermarks are compared where the answer has any.
fn comparable(wanted: &[Value], got: Steps) -> Steps {
    if Value::from(wanted).to_string().contains("watermark") || !wanted.iter().any(is_output) {
        return got;
    }
    let keep = |step: Vec<Value>| {
        step.into_iter().filter(|got| !got.is_object() || got.get("watermark").is_none()).collect()
    };
    got.into_iter().map(keep).collect()
}

fn is_output(wanted: &Value) -> bool {
    wanted.is_array() || wanted.is_object()
}

#[test]
fn every_case_gives_our_answer() {
    let cases = by_id(CASES);
    let mut wrong = Vec::new();
    for (id, spec) in by_id(SPECS) {
        if spec["op"] == "pattern" {
            // `patterns/mist.rs` runs all of these, through its own interpreter.
            continue;
        }
        let case = &cases[&id];
        let wanted = expected(case, &spec);
        let input = case["input"].as_array().expect("steps");
        let Ok(runs) = std::panic::catch_unwind(|| run(&spec, input)) else {
            wrong.push(format!("{id}: see the panic above"));
            continue;
        };
        for got in runs {
            let got = comparable(&wanted, got);
            if !agrees(case, &spec, &wanted, &got) {
                let (wanted, got) = (Value::from(wanted.clone()), serde_json::json!(got));
                wrong.push(format!("{id}\n  wanted {wanted}\n  got    {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} runs went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_case_is_run_or_listed() {
    let specs = by_id(SPECS);
    let cases = by_id(CASES);
    let written =
        [include_str!("sched.rs"), include_str!("../../toolbox/processing_time/other_engines.rs")];
    let listed: BTreeSet<&str> =
        README.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
    for id in specs.keys() {
        assert!(cases.contains_key(id), "{id} is no case");
    }
    for id in cases.keys() {
        let name = format!("fn {}_", id.replace('-', "_"));
        let by_hand = written.iter().any(|file| file.contains(&name));
        let run = specs.contains_key(id) || by_hand;
        assert!(run || listed.contains(id.as_str()), "{id} is neither run nor listed");
    }
    for (id, spec) in &specs {
        let ours = ["expect", "without", "order"].iter().any(|field| spec.get(field).is_some());
        assert!(!ours || listed.contains(id.as_str()), "{id} differs, and is not in the README");
    }
}
