//! Watermarks of sources, and of several inputs together.

use std::time::Duration;

use mizzle::Event;
use mizzle::time::{
    Inputs, Merge, Status, Timestamp, Timing, Verdict, WatermarkGenerator, Watermarks,
};
use serde_json::{Value, json};

use super::Steps;
use super::values::{Item, Row, Scale, Val};

fn number(value: &Value) -> usize {
    value.as_u64().unwrap_or(1) as usize
}

/// Does to `inputs` what a step says about them.
fn tell(inputs: &mut Inputs, scale: Scale, step: &Value) {
    let input = |name: &str| step.get(name).and_then(Value::as_u64).map(|input| input as usize);
    if let Some(watermark) = step.get("watermark") {
        inputs.advance(input("in").unwrap_or(0), scale.watermark(watermark));
    }
    if let Some(input) = input("idle") {
        inputs.idle(input);
    }
    if let Some(input) = input("active").or(input("event")) {
        inputs.active(input);
    }
    if let Some(input) = input("end").or(input("remove")) {
        inputs.finish(input);
    }
}

/// What leaves when `step` is done to `inputs`: a watermark that rises, a status that changes.
fn leaving(inputs: &mut Inputs, scale: Scale, step: impl FnOnce(&mut Inputs)) -> Vec<Value> {
    let (watermark, idle) = (inputs.watermark(), inputs.status() == Status::Idle);
    step(inputs);
    let mut out = Vec::new();
    if inputs.watermark() > watermark && inputs.watermark() < Timestamp::MAX {
        out.push(json!({ "watermark": scale.show_watermark(inputs.watermark()) }));
    }
    match (idle, inputs.status() == Status::Idle) {
        (false, true) => out.push(json!({ "idle": true })),
        (true, false) => out.push(json!({ "active": true })),
        _ => {}
    }
    out
}

/// The watermark of several inputs together; with `state`, how they stand in the end.
pub fn merge(spec: &Value, scale: Scale, input: &[Value]) -> Steps {
    let mut inputs = Inputs::new(number(&spec["inputs"]));
    let mut steps: Steps = Vec::new();
    for step in input {
        steps.push(leaving(&mut inputs, scale, |inputs| tell(inputs, scale, step)));
    }
    if spec["state"] == true {
        let idle = inputs.status() == Status::Idle;
        let watermark = scale.show_watermark(inputs.watermark());
        return vec![vec![json!({ "watermark": watermark, "idle": idle })]];
    }
    steps
}

/// Partitions of a source, each with a watermark of its own, and that of the source.
pub fn partitions(spec: &Value, scale: Scale, input: &[Value]) -> Steps {
    let partitions = number(&spec["inputs"]);
    let mut timings: Vec<_> = (0..partitions).map(|_| strategy(spec, scale).start()).collect();
    let mut inputs = Inputs::new(partitions);
    let step = |step| {
        let mut out = Vec::new();
        for (partition, item) in scale.items(step) {
            out.extend(judged(&mut timings[partition], scale, &item));
            let watermark = timings[partition].watermark();
            out.extend(leaving(&mut inputs, scale, |inputs| inputs.advance(partition, watermark)));
        }
        out
    };
    input.iter().map(step).collect()
}

fn judged(timing: &mut Timing<Item>, scale: Scale, item: &Item) -> Option<Value> {
    let verdict = timing.observe(item.time, item, || Timestamp::EPOCH);
    let mut shown = scale.show(item.time, &Row::plain(item.key.clone(), item.value.clone()));
    match verdict {
        Verdict::OnTime => {}
        Verdict::Late => shown["late"] = json!(true),
        Verdict::Refused => return None,
    }
    Some(shown)
}

/// The union of inputs that are each in order.
pub fn union(spec: &Value, scale: Scale, input: &[Value]) -> Steps {
    let many = number(&spec["inputs"]);
    let mut timings: Vec<_> = (0..many).map(|_| Watermarks::ascending().start()).collect();
    let mut merge: Merge<Item> = Merge::new(many);
    let mut step = |step: &Value| {
        let mut out = Vec::new();
        let before = merge.watermark();
        for (input, item) in scale.items(step) {
            let shown = judged(&mut timings[input], scale, &item).expect("there is no guard");
            if shown.get("late").is_some() {
                out.push(shown);
                continue;
            }
            merge.push(input, Event::new(item.time, item)).expect("it is on time");
        }
        tell(merge.inputs_mut(), scale, step);
        let mut released = Vec::new();
        merge.release(&mut released);
        for Event { time, value } in released {
            out.push(scale.show(time, &Row::plain(value.key, value.value)));
        }
        if merge.watermark() > before {
            out.push(json!({ "watermark": scale.show_watermark(merge.watermark()) }));
        }
        out
    };
    input.iter().map(&mut step).collect()
}

/// Rounds bounded watermarks down to multiples of a step.
#[derive(Clone)]
struct Rounded {
    slack: Duration,
    step: i64,
    watermark: Timestamp,
}

impl WatermarkGenerator<Item> for Rounded {
    fn observe(&mut self, time: Timestamp, _: &Item) {
        let watermark = (time - self.slack).as_micros();
        let rounded = watermark - watermark.rem_euclid(self.step);
        self.watermark = self.watermark.max(Timestamp::from_micros(rounded));
    }

    fn watermark(&self) -> Timestamp {
        self.watermark
    }
}

fn strategy(spec: &Value, scale: Scale) -> Watermarks<Item> {
    if spec["punctuated"] == true {
        return Watermarks::punctuated(|item: &Item| {
            matches!(&item.value, Val::Text(text) if text == "Watermark").then_some(item.time)
        });
    }
    let slack = scale.duration(&spec["slack"]);
    if spec["periodic"] == true {
        return Watermarks::periodic(slack, Duration::from_secs(1));
    }
    match spec.get("round") {
        Some(step) => {
            let (step, watermark) = (scale.time(step).as_micros(), Timestamp::MIN);
            Watermarks::custom(Rounded { slack, step, watermark })
        }
        None => Watermarks::bounded(slack),
    }
}

/// The watermark of a source as its events come.
pub fn of_source(spec: &Value, scale: Scale, input: &[Value]) -> Steps {
    let mut timing = strategy(spec, scale).start();
    let mut steps = vec![vec![json!({ "watermark": scale.show_watermark(timing.watermark()) })]];
    if spec.get("initial").is_none() {
        steps.clear();
    }
    for step in input {
        let (mut out, before) = (Vec::new(), timing.watermark());
        let step = match step.as_str().and_then(|text| text.split_once(':')) {
            Some((value, time)) => json!({ "t": time.parse::<i64>().unwrap(), "v": value }),
            None => step.clone(),
        };
        for (_, item) in scale.items(&step) {
            out.extend(judged(&mut timing, scale, &item));
        }
        if step.get("tick").is_some() {
            timing.tick(Timestamp::EPOCH);
        }
        if timing.watermark() > before {
            out.push(json!({ "watermark": scale.show_watermark(timing.watermark()) }));
        }
        steps.push(out);
    }
    steps
}

/// Whether declarations such as "period 1 delay 0" make sense. A negative one cannot be written.
pub fn declared(input: &[Value]) -> Steps {
    let check = |step: &Value| {
        let words: Vec<&str> = step["build"].as_str().unwrap().split(' ').collect();
        let millis = |name| {
            let position = words.iter().position(|&word| word == name);
            let number = position.map_or(1, |it| words[it + 1].parse::<i64>().unwrap());
            u64::try_from(number).map(Duration::from_millis)
        };
        let sound = match (millis("delay"), millis("period")) {
            (Ok(delay), Ok(period)) => Watermarks::<()>::periodic(delay, period).check().is_ok(),
            _ => false,
        };
        vec![json!(if sound { "accepted" } else { "rejected" })]
    };
    input.iter().map(check).collect()
}
