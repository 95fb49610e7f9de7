//! From the neutral notation of the cases to the public builder.

use std::time::Duration;

use mizzle::pattern::{Part, Pattern, Report, Skip, absent, all_of, any_of, step_if, wait};
use serde_json::Value;

use super::conditions::{Happening, comparison, staged};
use super::row;

/// What a case's specification means.
pub struct Meaning {
    pub pattern: Pattern<Happening>,
    /// The attribute that is the key.
    pub key: Option<String>,
    /// The attribute that orders events of one time.
    pub ties: Option<String>,
    /// At most one event per these attributes, and for how long.
    pub distinct: Option<(Vec<String>, Duration)>,
}

/// Without an expiry: longer than any case.
const FOR_EVER: Duration = Duration::from_secs(86_400 * 36_500);

fn ms(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap_or_else(|| panic!("{value} is not a time")))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn parts(value: &Value) -> Vec<Part<Happening>> {
    value.as_array().expect("parts are a list").iter().map(part).collect()
}

pub fn meaning(spec: &Value) -> Meaning {
    let (pattern, key) = match spec["kind"].as_str() {
        Some("row_regex") => (rows(spec), text(&spec["partition"])),
        Some("staged_sequence") => (stages(spec), None),
        _ => (tree(spec), None),
    };
    let ties = text(&spec["tie_order"]).map(|order| {
        order.strip_suffix(" ascending").expect("ties are in ascending order").to_owned()
    });
    let distinct = (spec["op"] == "every_distinct").then(|| {
        let key = spec["key"].as_array().expect("a key is a list");
        let key = key.iter().filter_map(text).collect();
        (key, spec.get("expire_ms").map_or(FOR_EVER, ms))
    });
    Meaning { pattern, key, ties, distinct }
}

fn tree(spec: &Value) -> Pattern<Happening> {
    match spec["op"].as_str() {
        Some("discard_partials_on_match") => tree(&spec["of"]).consume(),
        // A limit around what is repeated limits each repetition.
        Some("within_total") if spec["of"]["op"] == "every" => {
            Pattern::once(part(&spec["of"]["of"]).within(ms(&spec["ms"])).every())
        }
        Some("within_total") => tree(&spec["of"]).within(ms(&spec["ms"])),
        Some("every_distinct") => Pattern::once(part(&spec["of"]).every()),
        _ => Pattern::once(part(spec)),
    }
}

fn part(spec: &Value) -> Part<Happening> {
    let of = || part(&spec["of"]);
    match spec["op"].as_str() {
        Some("event") => event(spec),
        Some("then") => {
            let pending = spec["max_pending"].as_array();
            let links = spec["parts"].as_array().expect("parts are a list").iter().enumerate();
            let links = links.map(|(at, link)| {
                // The arrows between the parts are numbered.
                let most = pending.and_then(|pending| pending.get(at.checked_sub(1)?));
                match most.and_then(Value::as_u64) {
                    Some(most) => limited(link, most as u32),
                    None => part(link),
                }
            });
            let strict = spec["strict"] == true;
            links
                .reduce(|before, link| if strict { before.next(link) } else { before.then(link) })
                .expect("a sequence has parts")
        }
        Some("all_of") => all_of(parts(&spec["parts"])),
        Some("any_of") => any_of(parts(&spec["parts"])),
        Some("every") => of().every(),
        Some("every_while_possible") => of().every_while_possible(),
        Some("retry") => of().retry(),
        Some("wait") => wait(ms(&spec["ms"])),
        Some("absent") => absent(of()),
        Some("within") => of().within(ms(&spec["ms"])),
        Some("repeat") => repeated(of(), spec),
        other => panic!("what is {other:?}?"),
    }
}

/// A part whose event at most so many partial matches wait for.
fn limited(spec: &Value, most: u32) -> Part<Happening> {
    match spec["op"].as_str() {
        Some("within") => limited(&spec["of"], most).within(ms(&spec["ms"])),
        _ => part(spec).max_pending(most),
    }
}

fn event(spec: &Value) -> Part<Happening> {
    let kind = text(&spec["type"]).expect("an event has a type");
    let wheres = spec["where_all"].as_array().into_iter().flatten();
    let wheres: Vec<_> = wheres.map(comparison).collect();
    let name = text(&spec["as"]).unwrap_or_default();
    let step = step_if(&name, move |event: &Happening, before| {
        event.kind == kind && wheres.iter().all(|holds| holds(event, before))
    });
    match spec["level"].as_u64() {
        Some(level) => step.level(level as u8),
        None => step,
    }
}

/// How often, how contiguous, and how eager: of stages, and of parts of a tree.
fn repeated(part: Part<Happening>, spec: &Value) -> Part<Happening> {
    let mut part = match spec["times"].as_array() {
        None => part,
        Some(times) => {
            let number = |at: usize| times[at].as_u64().map(|n| n as u32);
            match (number(0).unwrap_or(0), number(1)) {
                (min, None) => part.times(min..),
                (min, Some(max)) => part.times(min..=max),
            }
        }
    };
    part = match spec["inner"].as_str() {
        Some("strict") => part.consecutive(),
        Some("any") => part.combinations(),
        _ => part,
    };
    if !spec["until"].is_null() {
        let ends = &spec["until"];
        let (attribute, ends) = (ends["attr"].as_str().unwrap().to_owned(), ends.clone());
        part = part.until(move |event: &Happening| {
            let value = match attribute.as_str() {
                "@type" => Value::from(event.kind.clone()),
                name => event.attributes.get(name).cloned().unwrap_or(Value::Null),
            };
            if let Some(limit) = ends["gt"].as_f64() {
                value.as_f64().is_some_and(|value| value > limit)
            } else if let Some(equal) = ends["eq"].as_f64() {
                value.as_f64() == Some(equal)
            } else {
                value == ends["eq"]
            }
        });
    }
    if spec["optional"] == true {
        part = part.optional();
    }
    if spec["reluctant"] == true {
        part = part.reluctant();
    }
    if spec["greedy"] == true || spec["possessive"] == true {
        part = part.possessive();
    }
    part
}

fn stages(spec: &Value) -> Pattern<Happening> {
    let stages = spec["stages"].as_array().expect("stages are a list");
    let stage = |spec: &Value| {
        let name = text(&spec["name"]).expect("a stage has a name");
        repeated(step_if(&name, staged(&spec["where"])), spec)
    };
    let mut whole: Option<Part<Happening>> = None;
    for spec in stages {
        let stage = stage(spec);
        whole = Some(match (whole, spec["neg"].as_str(), spec["contiguity"].as_str()) {
            (None, ..) => stage,
            (Some(before), Some("next"), _) => before.not_next(stage),
            (Some(before), Some(_), _) => before.not_then(stage),
            (Some(before), None, Some("strict")) => before.next(stage),
            (Some(before), None, Some("any")) => before.then_any(stage),
            (Some(before), None, _) => before.then(stage),
        });
    }
    let mut pattern = Pattern::new(whole.expect("there are stages"));
    pattern = match spec.get("within_ms").filter(|within| !within.is_null()).map(ms) {
        None => pattern,
        Some(within) if spec["inclusive"] == true => pattern.within_inclusive(within),
        Some(within) => pattern.within(within),
    };
    pattern.skip(skip(&spec["skip"]["mode"], &spec["skip"]["stage"]))
}

fn rows(spec: &Value) -> Pattern<Happening> {
    let part = row::parse(spec["pattern"].as_str().expect("a pattern is text"), &spec["define"]);
    let pattern = Pattern::new(part).skip(skip(&spec["skip"], &Value::Null));
    match (spec.get("interval_ms").map(ms), spec["emit"].as_str()) {
        (Some(interval), Some("at_interval_end")) => pattern.report(Report::BestAt(interval)),
        (Some(interval), _) => pattern.report(Report::BestBy(interval)),
        (None, _) => pattern,
    }
}

fn skip(mode: &Value, stage: &Value) -> Skip {
    match mode.as_str() {
        None => Skip::None,
        Some("past_last") => Skip::PastLast,
        Some("to_next" | "to_next_row") => Skip::ToNext,
        Some("to_first") => Skip::ToFirst(text(stage).unwrap()),
        Some("to_last") => Skip::ToLast(text(stage).unwrap()),
        Some(other) => panic!("what skips {other:?}?"),
    }
}
