//! Operators: each case through the harness, step by step, and through a running engine.

use std::collections::BTreeMap;
use std::time::Duration;

use mizzle::aggregate::{Aggregate, Overflow};
use mizzle::time::{Timestamp, Watermarks, is_late};
use mizzle::{BoxedStream, Engine, ProcessCx, ProcessOp, Query, Windowed, Windows};
use mizzle_engine::harness::{Element, Input, OperatorHarness, Probe};
use mizzle_engine::operator::{
    Apply, ApplyKeyed, Branch, Consumer, Filter, Map, OpId, Predicate, Process, Window,
};
use mizzle_engine::state::Codec;
use serde_json::{Value, json};

use super::values::{Item, Row, Scale, Val};
use super::{Steps, rules};
use crate::faults::{completed, eventually, source_stats};

/// Keeps the values of a window, and makes of them what `of` says.
#[derive(Clone)]
pub struct Gather {
    of: String,
}

impl Aggregate<Item> for Gather {
    type Acc = Vec<Val>;
    type Out = Val;

    fn create(&self) -> Vec<Val> {
        Vec::new()
    }

    fn add(&self, acc: &mut Vec<Val>, item: &Item) {
        acc.push(item.value.clone());
    }

    fn merge(&self, acc: &mut Vec<Val>, other: &Vec<Val>) {
        acc.extend_from_slice(other);
    }

    fn finish(&self, acc: &Vec<Val>) -> Result<Val, Overflow> {
        Ok(match &*self.of {
            "list" => Val::List(acc.clone()),
            "sum" => Val::Int(acc.iter().map(Val::int).sum()),
            "max" => acc.iter().max().expect("a window has an event").clone(),
            "count" => Val::Int(acc.len() as i64),
            "counts" => {
                let mut counts = BTreeMap::new();
                for value in acc {
                    *counts.entry(value.text().to_owned()).or_insert(0) += 1;
                }
                Val::Map(counts.into_iter().map(|(text, n)| (text, Val::Int(n))).collect())
            }
            other => panic!("no aggregate: {other}"),
        })
    }
}

/// What `spec` says, as functions that both ways of running share.
#[derive(Clone)]
pub struct Code {
    pub spec: Value,
    pub scale: Scale,
}

impl Code {
    fn map(&self, item: Item) -> Row {
        let value = Val::List(vec![item.value, Val::read(&self.spec["pair_with"])]);
        Row::plain(item.key, value)
    }

    fn keeps(&self, item: &Item) -> bool {
        item.value.text().starts_with(self.spec["first_letter"].as_str().unwrap())
    }

    fn largest(state: &mut Val, item: Item) -> Val {
        let newer = item.value > *state;
        if newer {
            *state = item.value;
        }
        state.clone()
    }

    fn windows(&self) -> Windows {
        let size = self.scale.duration(&self.spec["size"]);
        let every = self.spec.get("every").map_or(size, |every| self.scale.duration(every));
        let offset = self.spec.get("offset").map_or(Duration::ZERO, |it| self.scale.duration(it));
        Windows::hopping(size, every).offset(offset)
    }

    pub fn gather(&self) -> Gather {
        Gather { of: self.spec["of"].as_str().unwrap().to_owned() }
    }

    /// Where the machine goes from `state` with a value: the first move that fits.
    fn moved(&self, state: i64, value: &Val) -> Option<i64> {
        let moves = self.spec["moves"].as_array().unwrap();
        let fits = |it: &&Value| it[0] == json!(state) && it[1] == json!(value.int());
        moves.iter().find(fits).and_then(|it| it[2].as_i64())
    }

    fn is_final(&self, state: i64) -> bool {
        self.spec["final"].as_array().unwrap().contains(&json!(state))
    }

    fn machine_row(item: Item, state: i64) -> Row {
        Row::plain(item.key, Val::List(vec![item.value, Val::Text(state.to_string())]))
    }

    fn branches(&self) -> Vec<usize> {
        let lengths = self.spec["shorter_than"].as_array().unwrap();
        lengths.iter().map(|length| length.as_u64().unwrap() as usize).collect()
    }
}

fn windowed(result: Windowed<Val, Val>) -> Row {
    let window = Some((result.start, result.end));
    Row { key: result.key, value: result.value, window, branch: None }
}

/// Sets an event-time timer for the time that a value says, or, with a period, one after another.
#[derive(Clone)]
struct Timer {
    scale: Scale,
    period: Option<Duration>,
}

impl ProcessOp<Val, Item> for Timer {
    type State = i64;
    type Out = Row;
    type Side = ();

    fn event(&self, cx: &mut ProcessCx<'_, Val, Row, ()>, _: &mut i64, item: Item) {
        cx.set_timer(self.scale.time(&item.value.json()));
    }

    fn timer(&self, cx: &mut ProcessCx<'_, Val, Row, ()>, fired: &mut i64, due: Timestamp) {
        *fired += 1;
        let key = cx.key().clone();
        match self.period {
            Some(period) => {
                cx.emit(Row::plain(key, Val::Int(*fired)));
                cx.set_timer(due + period);
            }
            None => cx.emit(Row::plain(key, Val::Text("event timer".to_owned()))),
        }
    }
}

fn timer(code: &Code) -> Timer {
    let period = code.spec.get("period").map(|period| code.scale.duration(period));
    Timer { scale: code.scale, period }
}

/// What goes into the operator at each step. Watermarks are those of the case, or follow from the
/// events where the spec gives a slack.
fn inputs(code: &Code, input: &[Value]) -> Vec<Vec<Input<Item>>> {
    let mut promised = Timestamp::MIN;
    let mut steps = Vec::new();
    let before = code.spec.get("before").and_then(Value::as_array).into_iter().flatten();
    for step in before.chain(input) {
        let mut fed = Vec::new();
        for (_, item) in code.scale.items(step) {
            let time = item.time;
            fed.push(match is_late(time, promised) {
                true => Input::LateEvent(time, item),
                false => Input::Event(time, item),
            });
            if let Some(slack) = code.spec.get("slack") {
                promised = promised.max(time - code.scale.duration(slack));
                fed.push(Input::Watermark(promised));
            }
        }
        let watermark = step.get("watermark").or(step.get("advance"));
        if let Some(watermark) = watermark {
            promised = promised.max(code.scale.watermark(watermark));
            fed.push(Input::Watermark(promised));
        }
        if step.get("end").is_some() {
            fed.push(Input::End);
        }
        steps.push(fed);
    }
    if code.spec["finish"] == true {
        steps.push(vec![Input::End]);
    }
    steps
}

/// Runs longer and longer beginnings of the input: what is new came out at the last step. Each run
/// is done item by item, batched, and with state saved and restored after every item.
pub fn by_steps<C: Consumer<Item>>(
    code: &Code,
    steps: &[Vec<Input<Item>>],
    ports: usize,
    build: impl Fn(Probe<Row>) -> C,
) -> Steps {
    let ordered = code.spec["ordered"] == true;
    let harness = OperatorHarness::new(build).ordered(ordered).restoring();
    let mut seen = vec![0; ports];
    let mut out = Vec::new();
    for end in 1..=steps.len() {
        let outcome = harness.run(&steps[..end].concat());
        let mut new = Vec::new();
        for (port, seen) in seen.iter_mut().enumerate() {
            let elements = outcome.port(port);
            new.extend(elements[*seen..].iter().filter_map(|element| show(code, port, element)));
            *seen = elements.len();
        }
        out.push(new);
    }
    out
}

fn show(code: &Code, port: usize, element: &Element<Row>) -> Option<Value> {
    match element {
        Element::Event(time, row, _) => Some(code.scale.show(*time, row)),
        Element::Watermark(watermark) => {
            let mut shown = json!({ "watermark": code.scale.show_watermark(*watermark) });
            if code.spec["op"] == "branch" {
                shown["branch"] = json!(port + 1);
            }
            Some(shown)
        }
        Element::End => None,
    }
}

fn through_harness(code: &Code, steps: &[Vec<Input<Item>>]) -> Steps {
    let op = OpId(0);
    let shared = || code.clone();
    match code.spec["op"].as_str().unwrap() {
        "map" => by_steps(code, steps, 1, |probe| {
            let code = shared();
            Map::<_, _, _, false>::new(op, move |item| code.map(item), probe)
        }),
        "filter" => by_steps(code, steps, 1, |probe| {
            let code = shared();
            let rows = Map::<_, _, _, false>::new(
                op,
                |item: Item| Row::plain(item.key, item.value),
                probe,
            );
            Filter::<_, _, false>::new(op, move |item: &Item| code.keeps(item), rows)
        }),
        "reduce" => by_steps(code, steps, 1, |probe| {
            let add = |sum: &mut i64, item: Item| {
                *sum += item.value.int();
                Some(Row::plain(item.key, Val::Int(*sum)))
            };
            let key = |item: &Item| item.key.clone();
            ApplyKeyed::new(op, key, 0, add, Some(Codec::new("sum")), false, probe)
        }),
        "largest" => by_steps(code, steps, 1, |probe| {
            let largest = |state: &mut Val, item: Item| {
                Some(Row::plain(item.key.clone(), Code::largest(state, item)))
            };
            Apply::new(op, Val::Nothing, largest, Some(Codec::new("largest")), probe)
        }),
        "machine" => by_steps(code, steps, 1, |probe| {
            let code = shared();
            let start = code.spec["start"].as_i64().unwrap();
            let step = move |state: &mut i64, item: Item| {
                *state = code.moved(*state, &item.value)?;
                code.is_final(*state).then(|| Code::machine_row(item, *state))
            };
            Apply::new(op, start, step, Some(Codec::new("state")), probe)
        }),
        "branch" => {
            let lengths = code.branches();
            let rest = lengths.len();
            by_steps(code, steps, rest, |probe| {
                let shorter = lengths.iter().copied().map(|length| {
                    Box::new(move |item: &Item| item.value.text().len() < length) as Predicate<Item>
                });
                let branch = |port| {
                    let row = move |item: Item| Row {
                        branch: Some(port + 1),
                        ..Row::plain(item.key, item.value)
                    };
                    Map::<_, _, _, false>::new(op, row, probe.port(port))
                };
                Branch::new(op, shorter.collect(), (0..=rest).map(branch).collect())
            })
        }
        "window" => by_steps(code, steps, 1, |probe| {
            let rows = Map::<_, _, _, false>::new(op, windowed, probe);
            let key = |item: &Item| item.key.clone();
            let codec = Some(Codec::new("windows"));
            Window::new(op, code.windows(), key, code.gather(), codec, rows)
        }),
        "timer" => by_steps(code, steps, 1, |probe| {
            let key = |item: &Item| item.key.clone();
            let nowhere = mizzle_engine::operator::Inspect::<_, _, false>::new(
                op,
                |_, (): &()| (),
                Probe::new(),
            );
            Process::new(op, key, timer(code), Some(Codec::new("timers")), false, probe, nowhere)
        }),
        "ttl" | "value" | "within" => rules::through_harness(code, steps),
        other => panic!("no operator: {other}"),
    }
}

/// The operator behind a stream.
fn stream(code: &Code, items: BoxedStream<Item>) -> BoxedStream<Row> {
    let shared = code.clone();
    let in_order = code.spec["in_order"] == true;
    match code.spec["op"].as_str().unwrap() {
        "map" => items.map(move |item| shared.map(item)).boxed(),
        "filter" => items
            .filter(move |item| shared.keeps(item))
            .map(|item| Row::plain(item.key, item.value))
            .boxed(),
        "reduce" => {
            let add = |sum: Item, item: Item| {
                let value = Val::Int(sum.value.int() + item.value.int());
                Item { value, ..item }
            };
            let sums = items.key_by(|item| item.key.clone()).reduce(add);
            sums.map(|item| Row::plain(item.key, item.value)).boxed()
        }
        "largest" => items
            .apply_stateful(Val::Nothing, |state, item| {
                Row::plain(item.key.clone(), Code::largest(state, item))
            })
            .boxed(),
        "machine" => {
            let (start, code) = (code.spec["start"].as_i64().unwrap(), code.clone());
            items
                .state_transition(
                    start,
                    move |&state, item| shared.moved(state, &item.value),
                    move |&state| code.is_final(state),
                )
                .map(|(item, state)| Code::machine_row(item, state))
                .boxed()
        }
        "branch" => {
            let mut branches = items.branches();
            let streams: Vec<_> = (code.branches().into_iter().enumerate())
                .map(|(branch, length)| {
                    let row = move |item: Item| Row {
                        branch: Some(branch + 1),
                        ..Row::plain(item.key, item.value)
                    };
                    branches.when(move |item| item.value.text().len() < length).map(row).boxed()
                })
                .collect();
            let mut streams = streams.into_iter();
            streams.next().expect("a branch").union_all(streams)
        }
        "window" => items
            .key_by(|item| item.key.clone())
            .window(code.windows())
            .aggregate(code.gather())
            .in_order_if(in_order)
            .map(windowed)
            .boxed(),
        "timer" => items.key_by(|item| item.key.clone()).process(timer(code)).0.boxed(),
        "ttl" | "value" | "within" => rules::stream(code, items),
        other => panic!("no operator: {other}"),
    }
}

/// Pushes the input into a running query, one element after the other, and returns what came out,
/// which is at least `rows`.
fn through_engine(
    code: &Code,
    steps: &[Vec<Input<Item>>],
    workers: usize,
    rows: usize,
) -> Vec<Value> {
    let engine = Engine::builder().workers(workers).build().unwrap();
    let query = Query::new("case");
    let (handle, items) = query.push_source("items", |item: &Item| item.time);
    let items = items.watermarks(Watermarks::punctuated(|_| None)).boxed();
    let out = stream(code, items).collect();
    let query = engine.submit(query).unwrap();
    let (mut taken, mut ended) = (0, false);
    for fed in steps.concat() {
        let source = || source_stats(&query, "items");
        match fed {
            Input::Event(_, item) | Input::LateEvent(_, item) => {
                handle.push(item).unwrap();
                taken += 1;
                eventually("the event", || source().events_in == taken);
            }
            Input::Watermark(watermark) => {
                handle.advance(watermark);
                eventually("the watermark", || source().watermark >= watermark);
            }
            Input::Clock(_) => panic!("the clock of a running engine is not moved here"),
            Input::End => ended = true,
        }
    }
    if ended {
        query.drain();
        completed(&query);
    } else {
        eventually("all results", || out.len() >= rows);
        query.stop();
        assert_eq!(query.wait(), mizzle::Status::Stopped);
    }
    out.take().into_iter().map(|event| code.scale.show(event.time, &event.value)).collect()
}

/// Both ways; the engine's output is cut into the steps of the harness's, which hold the same.
pub fn run(spec: &Value, scale: Scale, input: &[Value]) -> Vec<Steps> {
    let code = Code { spec: spec.clone(), scale };
    let steps = inputs(&code, input);
    if spec["in_order"] == true {
        return [1, 4].map(|workers| vec![through_engine(&code, &steps, workers, 0)]).into();
    }
    let mut out = through_harness(&code, &steps);
    let mut all: Vec<Value> = out.concat();
    all.retain(|shown| shown.get("watermark").is_none());
    for workers in [1, 4] {
        let mut engine = through_engine(&code, &steps, workers, all.len());
        let text = |value: &Value| value.to_string();
        engine.sort_by_key(text);
        all.sort_by_key(text);
        assert_eq!(engine, all, "{}: the engine gives what the operator gives", spec["id"]);
    }
    // What restores a state, or stands before a case, is not part of it.
    let before = spec.get("before").and_then(Value::as_array).map_or(0, Vec::len);
    out.drain(..before);
    for (step, out) in input.iter().zip(&mut out) {
        if step.get("restore_state").is_some() {
            out.clear();
        }
    }
    if spec["shows"] == "firings" {
        return vec![firings(&out)];
    }
    vec![out]
}

/// How often a timer had fired after each step.
fn firings(steps: &Steps) -> Steps {
    let mut fired = 0;
    let count = |step: &Vec<Value>| {
        fired += step.iter().filter(|shown| shown.get("v").is_some()).count();
        vec![json!(fired)]
    };
    steps.iter().map(count).collect()
}

/// The windows that hold each time: their bounds, or their numbers.
pub fn windows_of(spec: &Value, scale: Scale, input: &[Value]) -> Steps {
    let mut spec = spec.clone();
    spec["of"] = json!("count");
    spec["op"] = json!("window");
    let code = Code { spec, scale };
    let windows = |step: &Value| {
        let mut steps = inputs(&code, std::slice::from_ref(step));
        steps.push(vec![Input::End]);
        let rows = through_harness(&code, &steps).concat();
        let every = code.spec.get("numbered").and(code.spec["every"].as_i64());
        match every {
            Some(every) => {
                vec![rows.iter().map(|row| json!(row["w"][0].as_i64().unwrap() / every)).collect()]
            }
            None => rows.iter().map(|row| row["w"].clone()).collect(),
        }
    };
    input.iter().map(windows).collect()
}
