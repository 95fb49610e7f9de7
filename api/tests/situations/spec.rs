//! From the notation of `cases/situations_specs.jsonl` to the public builder.

use std::sync::atomic::{AtomicU64, Ordering};

use mizzle::situation::{
    Aggregate, AtCap, Lifespan, Operand, Situation, Situations, average, count, latest, max, min,
    operand, sum,
};
use serde_json::Value;

use super::common::{at, ms};
use super::happening::{Happening, Types, rules};

/// The rules that a specification means.
pub fn meaning(spec: &Value, types: &Types) -> Situations<Happening> {
    let mut set = rules();
    for of in list(&spec["lifespans"]) {
        set = set.lifespan(lifespan(of, types));
    }
    for of in list(&spec["situations"]) {
        set = set.situation(situation(of, types));
    }
    set
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

fn length(value: &Value) -> std::time::Duration {
    ms(value.as_u64().unwrap_or_else(|| panic!("{value} is not a time")))
}

fn lifespan(of: &Value, types: &Types) -> Lifespan<Happening> {
    let mut lifespan = Lifespan::new(text(&of["name"]));
    if of["start"] == true {
        lifespan = lifespan.from_start();
    }
    for by in list(&of["by"]) {
        lifespan = lifespan.opened_by(types.number(text(by)));
    }
    if let Some(by) = of["closed_by"]["of"].as_str() {
        lifespan = lifespan.closed_by(types.number(by));
        lifespan = match of["closed_by"]["which"].as_str() {
            Some("each") => lifespan.each(),
            Some("last") => lifespan.last(),
            _ => lifespan.first(),
        };
        if of["closed_by"]["discard"] == true {
            lifespan = lifespan.discards();
        }
    }
    if !of["after"].is_null() {
        lifespan = lifespan.closed_after(length(&of["after"]));
    }
    if of["adds"] == true {
        lifespan = lifespan.adds();
    }
    if of["opener_counts"] == true {
        lifespan = lifespan.opener_counts();
    }
    match of["max"].as_u64() {
        Some(most) => lifespan.max_open(most as u32, AtCap::RefuseNewest),
        None => lifespan,
    }
}

/// A condition on one event: an attribute above a number.
fn condition(of: &Value) -> impl Fn(&Happening) -> bool + Send + Sync + 'static {
    let attribute = text(&of["attr"]).to_owned();
    let above = of["above"].as_f64().expect("a condition has a bound");
    move |event| event.number(&attribute).is_some_and(|value| value > above)
}

fn an_operand(of: &Value, types: &Types) -> Operand<Happening> {
    let mut result = operand(types.number(text(&of["of"])));
    result = match of["which"].as_str() {
        Some("first") => result.first(),
        Some("last") => result.last(),
        Some("each") => result.each(),
        _ => result,
    };
    if of["absolute"] == true {
        result = result.absolute();
    }
    if of["relative"] == true {
        result = result.relative();
    }
    if !of["threshold"].is_null() {
        result = result.threshold(condition(&of["threshold"]));
    }
    if of["override"] == true {
        result = result.overrides_always();
    }
    if of["retain"] == true {
        result = result.retain_always();
    }
    if let Some(attribute) = of["weight"].as_str() {
        let attribute = attribute.to_owned();
        let weight = move |event: &Happening| event.attributes[&attribute].as_i64().unwrap();
        result = result.weight(weight);
    }
    match of["max"].as_u64() {
        Some(most) => result.max_candidates(most as u32, AtCap::RefuseNewest),
        None => result,
    }
}

fn aggregate(of: &Value) -> Aggregate<Happening> {
    let attribute = of["attr"].as_str().unwrap_or_default().to_owned();
    let value = move |event: &Happening| event.number(&attribute).unwrap_or(f64::NAN);
    match text(&of["how"]) {
        "count" => count(),
        "min" => min(value),
        "max" => max(value),
        "sum" => sum(value),
        "average" => average(value),
        "latest" => latest(value),
        other => panic!("what is {other:?}?"),
    }
}

fn situation(of: &Value, types: &Types) -> Situation<Happening> {
    let name = text(&of["name"]);
    let operands = list(&of["operands"]).iter().map(|of| an_operand(of, types));
    let mut operands: Vec<_> = operands.collect();
    let n = of["n"].as_i64().unwrap_or_default();
    let bound = of["bound"].as_f64().unwrap_or_default();
    let mut made = match text(&of["type"]) {
        "all" => Situation::all(name, operands),
        "sequence" => Situation::sequence(name, operands),
        "at_least" => Situation::at_least(name, n, operands),
        "at_most" => Situation::at_most(name, n, operands),
        "nth" => Situation::nth(name, n, operands),
        "at" => Situation::at(name, at(of["ms"].as_i64().unwrap())),
        "every" => Situation::every(name, length(&of["ms"])),
        "after" => Situation::after(name, length(&of["ms"]), operands.remove(0)),
        "report" => Situation::report(name, aggregate(of), operands.remove(0)),
        "percentage" => {
            Situation::percentage(name, bound, operands.remove(0), condition(&of["holds"]))
        }
        "crosses" => Situation::crosses(name, aggregate(of), bound, operands.remove(0)),
        "not" => Situation::not(name, operands),
        "unless" => {
            let absent = operands.remove(1);
            Situation::unless(name, operands.remove(0), absent)
        }
        other => panic!("what is {other:?}?"),
    };
    if of["deferred"] == true {
        made = made.deferred();
    }
    if let [one, other] = list(&of["same"]) {
        let (one, other) = (one.clone(), other.clone());
        made = made.when(move |found| {
            let of = |which: &Value| {
                let place = which[0].as_u64().unwrap() as usize;
                found[place].attributes.get(text(&which[1])).cloned()
            };
            of(&one) == of(&other)
        });
    }
    let (number, times) = (types.number(name), AtomicU64::new(0));
    let owned = name.to_owned();
    made.during(text(&of["in"])).derives(number, move |found| Happening {
        of: number,
        id: format!("{owned}#{}", times.fetch_add(1, Ordering::Relaxed) + 1),
        attributes: Default::default(),
        made_of: found.events().map(|event| event.id.clone()).collect(),
        value: found.value(),
    })
}
