//! Joins: each case through the harness, step by step, and through a running engine.

use std::collections::VecDeque;

use mizzle::time::{Inputs, SignedDuration, Timestamp, Watermarks};
use mizzle::{BoxedStream, Either, Engine, Interval, PushHandle, Query, Windows};
use mizzle_engine::harness::{Element, Input, OperatorHarness, Probe};
use mizzle_engine::operator::join::{Full, IntervalJoin, Pairs};
use mizzle_engine::operator::{Consumer, Cx, OpId, Window};
use mizzle_engine::state::{Cell, Codec, StateError, Visit};
use mizzle_engine::{Event, operator::Windowed};
use serde_json::{Value, json};

use super::Steps;
use super::values::{Item, Scale, Val};
use crate::faults::{completed, eventually, source_stats};

type Row = Either<Item, Item>;
type Pair = (Option<Item>, Option<Item>);

fn item(row: &Row) -> &Item {
    let (Either::Left(item) | Either::Right(item)) = row;
    item
}

fn interval(spec: &Value, scale: Scale) -> Interval {
    let bound = |name: &str| scale.time(&spec[name]).as_micros();
    let inward = i64::from(spec["exclusive"] == true);
    let micros = SignedDuration::from_micros;
    Interval::from(micros(bound("lower") + inward)..=micros(bound("upper") - inward))
}

/// What the join gets at each step: its watermark is the lower of both inputs', or follows from the
/// newest event of either where the spec gives a slack.
fn inputs(spec: &Value, scale: Scale, input: &[Value]) -> Vec<Vec<Input<Row>>> {
    let (mut both, mut promised) = (Inputs::new(2), Timestamp::MIN);
    let mut steps = Vec::new();
    for step in input {
        let mut fed = Vec::new();
        for (side, item) in scale.items(step) {
            let time = item.time;
            let row = if side == 0 { Either::Left(item) } else { Either::Right(item) };
            fed.push(if time < promised {
                Input::LateEvent(time, row)
            } else {
                Input::Event(time, row)
            });
            if let Some(slack) = spec.get("slack") {
                (0..2).for_each(|side| both.advance(side, time - scale.duration(slack)));
            }
        }
        if let Some(watermark) = step.get("watermark") {
            let side = step["in"].as_u64().expect("an input") as usize;
            both.advance(side, scale.watermark(watermark));
        }
        if both.watermark() > promised {
            promised = both.watermark();
            fed.push(Input::Watermark(promised));
        }
        steps.push(fed);
    }
    if spec["finish"] == true {
        steps.push(vec![Input::End]);
    }
    steps
}

/// Pairs as the case writes them.
fn show(spec: &Value, scale: Scale, time: Timestamp, (left, right): &Pair) -> Value {
    let time = time.as_micros().div_euclid(scale.time(&json!(1)).as_micros());
    let value = |item: &Option<Item>| item.as_ref().map_or(Value::Null, |item| item.value.json());
    let key = left.as_ref().or(right.as_ref()).expect("one side").key.json();
    match spec["shows"].as_str() {
        Some("keys") => json!({ "k": key, "v": [value(left), value(right)], "t": time }),
        _ => json!({ "l": value(left), "r": value(right), "t": time }),
    }
}

fn asked(spec: &Value, (left, right): &Pair) -> bool {
    let sides = spec["sides"].as_str().unwrap_or("inner");
    left.is_some() && right.is_some()
        || left.is_some() && matches!(sides, "left" | "full")
        || right.is_some() && matches!(sides, "right" | "full")
}

fn operator<N: Consumer<Pair>>(
    spec: &Value,
    scale: Scale,
    next: N,
) -> IntervalJoin<Val, Item, Item, impl Fn(&Row) -> Val + use<N>, Full, N> {
    let key = |row: &Row| item(row).key.clone();
    IntervalJoin::new(OpId(0), interval(spec, scale), key, Full, Some(Codec::new("rows")), next)
}

/// As for other operators: each step is what is new at the end of a longer and longer beginning.
fn through_harness(spec: &Value, scale: Scale, steps: &[Vec<Input<Row>>]) -> Steps {
    let harness =
        OperatorHarness::new(|probe: Probe<Pair>| operator(spec, scale, probe)).restoring();
    let (mut seen, mut out) = (0, Vec::new());
    for end in 1..=steps.len() {
        let elements = harness.run(&steps[..end].concat()).port(0);
        let new = elements[seen..].iter().filter_map(|element| match element {
            Element::Event(time, pair, _) if asked(spec, pair) => {
                Some(show(spec, scale, *time, pair))
            }
            _ => None,
        });
        out.push(new.collect());
        seen = elements.len();
    }
    out
}

/// Two streams that are pushed to and promised by hand.
struct Pushed {
    engine: Engine,
    query: Query,
    handles: [PushHandle<Item>; 2],
    streams: VecDeque<BoxedStream<Item>>,
}

impl Pushed {
    fn new(workers: usize) -> Self {
        let engine = Engine::builder().workers(workers).build().unwrap();
        let query = Query::new("case");
        let (handles, streams): (Vec<_>, _) = ["left", "right"]
            .map(|name| {
                let (handle, items) = query.push_source(name, |item: &Item| item.time);
                (handle, items.watermarks(Watermarks::punctuated(|_| None)).boxed())
            })
            .into_iter()
            .unzip();
        let handles = handles.try_into().unwrap_or_else(|_| unreachable!("two sources"));
        Self { engine, query, handles, streams }
    }
}

fn through_engine(
    spec: &Value,
    scale: Scale,
    steps: &[Vec<Input<Row>>],
    workers: usize,
) -> Vec<Value> {
    let Pushed { engine, query, handles, mut streams } = Pushed::new(workers);
    let mut stream = || streams.pop_front().expect("two").key_by(|item: &Item| item.key.clone());
    let (left, right) = (stream(), stream());
    let out = left.join(right).within(interval(spec, scale)).full().collect();
    let handle = engine.submit(query).unwrap();
    let mut taken = [0; 2];
    for fed in steps.concat() {
        match fed {
            Input::Event(_, row) | Input::LateEvent(_, row) => {
                let side = usize::from(matches!(row, Either::Right(_)));
                handles[side].push(item(&row).clone()).unwrap();
                taken[side] += 1;
                let name = ["left", "right"][side];
                eventually("the event", || source_stats(&handle, name).events_in == taken[side]);
            }
            Input::Watermark(watermark) => {
                for (side, name) in ["left", "right"].into_iter().enumerate() {
                    handles[side].advance(watermark);
                    let source = || source_stats(&handle, name);
                    eventually("the watermark", || source().watermark >= watermark);
                }
            }
            Input::Clock(_) => unreachable!("joins do not look at the clock"),
            Input::End => {}
        }
    }
    handle.drain();
    completed(&handle);
    let pairs = out.take().into_iter().filter(|event| asked(spec, &event.value));
    pairs.map(|event| show(spec, scale, event.time, &event.value)).collect()
}

pub fn run(spec: &Value, scale: Scale, input: &[Value]) -> Vec<Steps> {
    if spec["shows"] == "states" {
        return vec![vec![states(spec, scale, input)]];
    }
    let steps = inputs(spec, scale, input);
    let out = through_harness(spec, scale, &steps);
    // The engine's query is drained, so that all comes that is open.
    let mut ended = steps.clone();
    if spec["finish"] != true {
        ended.push(vec![Input::End]);
    }
    let mut all = through_harness(spec, scale, &ended).concat();
    for workers in [1, 4] {
        let mut engine = through_engine(spec, scale, &steps, workers);
        let text = |value: &Value| value.to_string();
        engine.sort_by_key(text);
        all.sort_by_key(text);
        assert_eq!(engine, all, "{}: the engine gives what the operator gives", spec["id"]);
    }
    vec![out]
}

/// The rows that are kept at each step that asks for them.
fn states(spec: &Value, scale: Scale, input: &[Value]) -> Vec<Value> {
    struct Json(Value);

    impl Visit for Json {
        fn state(&mut self, _: OpId, cell: &mut dyn Cell) -> Result<(), StateError> {
            self.0 = serde_json::from_str(&cell.json().expect("it has a name")).unwrap();
            Ok(())
        }
    }

    let operator = operator(spec, scale, Probe::new());
    let (mut state, mut cx): (_, Cx) = (operator.state(), Cx::default());
    let mut out = Vec::new();
    for (fed, step) in inputs(spec, scale, input).into_iter().zip(input) {
        for input in fed {
            match input {
                Input::Event(time, row) => {
                    operator.event(&mut state, &mut cx, Event::new(time, row))
                }
                Input::Watermark(watermark) => operator.watermark(&mut state, &mut cx, watermark),
                other => panic!("not in these cases: {other:?}"),
            }
        }
        if step.get("read_state").is_some() {
            let mut json = Json(Value::Null);
            operator.visit(&mut state, &mut json).unwrap();
            out.push(json!({ "left": kept(&json.0, "left"), "right": kept(&json.0, "right") }));
        }
    }
    out
}

/// The values of a side's rows in a saved state, of one key.
fn kept(state: &Value, side: &str) -> Vec<i64> {
    let mut rows = Vec::new();
    for slot in state["keys"].as_array().expect("places") {
        let of_side = &slot["state"][side];
        rows.extend(of_side["Few"].as_object().map(|row| row["value"].clone()));
        rows.extend(
            of_side["Many"].as_array().into_iter().flatten().map(|row| row["value"].clone()),
        );
    }
    let value = |item: Value| serde_json::from_value::<Item>(item).expect("an item").value.int();
    rows.into_iter().map(value).collect()
}

/// Rows of two sides in one window, joined on a key that each has.
pub fn window_join(spec: &Value, scale: Scale, input: &[Value]) -> Steps {
    let places = spec["key_at"].as_array().expect("where the keys are");
    let mut fed = Vec::new();
    for row in input[0]["items"].as_array().expect("rows") {
        let (is_left, values) = match row.get("left") {
            Some(left) => (true, left),
            None => (false, &row["right"]),
        };
        let key = &values[places[usize::from(!is_left)].as_u64().unwrap() as usize];
        let (time, key, value) = (scale.time(&row["t"]), Val::read(key), Val::read(values));
        let item = Item { time, key, value };
        let row = if is_left { Either::Left(item) } else { Either::Right(item) };
        fed.push(Input::Event(time, row));
    }
    fed.push(Input::End);
    let windows = Windows::tumbling(scale.duration(&spec["size"]));
    let harness = OperatorHarness::new(|probe: Probe<Windowed<Val, Vec<_>>>| {
        let key = |row: &Row| item(row).key.clone();
        let pairs = Pairs::new(mizzle_engine::operator::join::Inner);
        Window::new(OpId(0), windows, key, pairs, Some(Codec::new("rows")), probe)
    });
    let outcome = harness.restoring().run(&fed);
    let pairs =
        outcome.values().flat_map(|window: &Windowed<Val, Vec<(Item, Item)>>| &window.value);
    vec![pairs.map(|(left, right)| json!([left.value.json(), right.value.json()])).collect()]
}

/// The first of one stream with the first of the other, and so on: a join on their numbers.
pub fn zip(input: &[Value]) -> Steps {
    let zipped = [1, 4].map(|workers| {
        let Pushed { engine, query, handles, mut streams } = Pushed::new(workers);
        let mut stream = || {
            let numbered =
                streams.pop_front().expect("two").apply_stateful(0u64, |n, item: Item| {
                    *n += 1;
                    (*n, item.value)
                });
            numbered.key_by(|&(number, _)| number)
        };
        let (left, right) = (stream(), stream());
        let ever = SignedDuration::MIN..=SignedDuration::MAX;
        let out = left.join(right).within(ever).inner().collect();
        let handle = engine.submit(query).unwrap();
        for step in input.iter().filter(|step| step.get("v").is_some()) {
            let side = step["in"].as_u64().unwrap() as usize;
            let (time, key) = (Timestamp::EPOCH, Val::Nothing);
            handles[side].push(Item { time, key, value: Val::read(&step["v"]) }).unwrap();
        }
        drop(handles);
        completed(&handle);
        let mut pairs = out.values();
        pairs.sort();
        let right: Vec<_> = pairs.iter().map(|(_, right)| right.1.json()).collect();
        let in_step = pairs.iter().all(|(left, right)| left.1 == Val::Int(right.0 as i64 - 1));
        assert!(in_step, "{pairs:?}");
        json!({ "pairs": pairs.len(), "right_used": right })
    });
    assert_eq!(zipped[0], zipped[1]);
    vec![vec![zipped[0].clone()]]
}
