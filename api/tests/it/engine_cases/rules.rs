//! State that expires, and what came in the last while.

use std::time::Duration;

use mizzle::BoxedStream;
use mizzle_engine::harness::{Input, Probe};
use mizzle_engine::operator::rule::{AggregateWithin, Expiring, Fold, Ruled};
use mizzle_engine::operator::{Map, OpId};
use mizzle_engine::state::Codec;
use serde_json::{Value, json};

use super::Steps;
use super::operators::{Code, by_steps};
use super::values::{Item, Row, Val};

/// How long a state lives. A case in which it still lives at that age says so: times are whole
/// microseconds, so that one more is the same.
fn ttl(code: &Code) -> Duration {
    match &code.spec["ttl"] {
        Value::String(max) if max == "max" => Duration::from_secs(u64::MAX),
        ttl => {
            let inclusive = u64::from(code.spec["inclusive"] == true);
            code.scale.duration(ttl) + Duration::from_micros(inclusive)
        }
    }
}

fn key(item: &Item) -> Val {
    item.key.clone()
}

/// The state of a key: what it is called, and what was summed up or written last.
type State = (Val, Val);

/// A running sum; or a value that is written, which gives nothing, and read.
fn step(code: &Code) -> impl Fn(&mut State, Item) -> Option<Row> + Send + Sync + Clone + 'static {
    let sums = code.spec["op"] == "ttl";
    move |(key, held), item| {
        *key = item.key;
        match (sums, item.value) {
            (true, value) => {
                let before = if *held == Val::Nothing { 0 } else { held.int() };
                *held = Val::Int(before + value.int());
            }
            (false, Val::Nothing) => {}
            (false, value) => {
                *held = value;
                return None;
            }
        }
        Some(Row::plain(key.clone(), held.clone()))
    }
}

/// What is to be said of a state that expires.
fn last(code: &Code) -> impl Fn(State) -> Option<Row> + Send + Sync + Clone + 'static {
    let word = code.spec.get("last").map(Val::read);
    move |(key, _)| word.clone().map(|word| Row::plain(key, word))
}

/// Reads and writes at a time become events.
pub fn steps(input: &[Value]) -> Vec<Value> {
    let mut now = json!(0);
    let step = |step: &Value| {
        if let Some(time) = step.get("proc_time") {
            now = time.clone();
            return json!({});
        }
        let written = step.get("write");
        let is_read = step.get("read").is_some();
        if written.is_some() || is_read {
            return json!([now, "k", written]);
        }
        step.clone()
    };
    input.iter().map(step).collect()
}

pub fn through_harness(code: &Code, steps: &[Vec<Input<Item>>]) -> Steps {
    let op = OpId(0);
    if code.spec["op"] == "within" {
        return by_steps(code, steps, 1, |probe: Probe<Row>| {
            let rows = Map::<_, _, _, false>::new(op, listed, probe);
            let rule = AggregateWithin::new(ttl(code), code.gather());
            Ruled::new(op, key, rule, Some(Codec::new("within")), false, rows)
        });
    }
    by_steps(code, steps, 1, |probe| {
        let fold = Fold::new((Val::Nothing, Val::Nothing), step(code));
        let rule = Expiring::new(fold, ttl(code), last(code));
        Ruled::new(op, key, rule, Some(Codec::new("state")), false, probe)
    })
}

fn listed((item, list): (Item, Val)) -> Row {
    Row::plain(item.key, list)
}

pub fn stream(code: &Code, items: BoxedStream<Item>) -> BoxedStream<Row> {
    let in_order = code.spec["ordered"] == true;
    let items = items.key_by(key);
    if code.spec["op"] == "within" {
        return items.aggregate_within(ttl(code), code.gather()).map(listed).boxed();
    }
    let step = step(code);
    items
        .apply_stateful((Val::Nothing, Val::Nothing), move |state, item| step(state, item))
        .expire_with(ttl(code), {
            let last = last(code);
            move |state| last(state).map(Some)
        })
        .in_order_if(in_order)
        .filter_map(|row| row)
        .boxed()
}
