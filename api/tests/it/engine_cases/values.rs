//! What the cases are about: values, events and what comes out, from and to JSON.

use std::collections::BTreeMap;

use mizzle::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A value of an event.
#[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Hash, Serialize, Deserialize)]
pub enum Val {
    Nothing,
    Int(i64),
    Text(String),
    List(Vec<Val>),
    Map(BTreeMap<String, Val>),
}

impl Val {
    pub fn read(value: &Value) -> Self {
        match value {
            Value::Null => Val::Nothing,
            Value::Number(number) => Val::Int(number.as_i64().expect("a whole number")),
            Value::String(text) => Val::Text(text.clone()),
            Value::Array(values) => Val::List(values.iter().map(Val::read).collect()),
            other => panic!("no value of an event: {other}"),
        }
    }

    pub fn json(&self) -> Value {
        match self {
            Val::Nothing => Value::Null,
            Val::Int(number) => json!(number),
            Val::Text(text) => json!(text),
            Val::List(values) => values.iter().map(Val::json).collect(),
            Val::Map(entries) => Value::Object(
                entries.iter().map(|(key, value)| (key.clone(), value.json())).collect(),
            ),
        }
    }

    pub fn int(&self) -> i64 {
        match self {
            Val::Int(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Val::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }
}

/// An event of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    pub time: Timestamp,
    /// Its key, as it is written; all keys of a case are of one kind.
    pub key: Val,
    pub value: Val,
}

/// Something that came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Val,
    pub value: Val,
    pub window: Option<(Timestamp, Timestamp)>,
    pub branch: Option<usize>,
}

impl Row {
    pub fn plain(key: Val, value: Val) -> Self {
        Self { key, value, window: None, branch: None }
    }
}

/// A case's unit of time and its meaning of watermarks.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    micros: i64,
    /// Its watermark w says that nothing comes at w any more; ours, that nothing comes before.
    closed: bool,
}

impl Scale {
    pub fn of(spec: &Value) -> Self {
        let micros = match spec["unit"].as_str() {
            None => 1_000,
            Some("s") => 1_000_000,
            Some(other) => panic!("no unit: {other}"),
        };
        Self { micros, closed: spec["closed"] == true }
    }

    pub fn time(self, value: &Value) -> Timestamp {
        let time = value.as_i64().unwrap_or_else(|| panic!("no time: {value}"));
        Timestamp::from_micros(time * self.micros)
    }

    pub fn watermark(self, value: &Value) -> Timestamp {
        let closed = i64::from(self.closed) * self.micros;
        Timestamp::from_micros(self.time(value).as_micros() + closed)
    }

    pub fn duration(self, value: &Value) -> std::time::Duration {
        self.time(value).since(Timestamp::EPOCH)
    }

    fn back(self, time: Timestamp) -> i64 {
        time.as_micros().div_euclid(self.micros)
    }

    /// A watermark as the case would write it.
    pub fn show_watermark(self, watermark: Timestamp) -> Value {
        match watermark {
            Timestamp::MIN => json!("MIN"),
            watermark => json!(self.back(watermark) - i64::from(self.closed)),
        }
    }

    /// An event as the case would write it.
    pub fn show(self, time: Timestamp, row: &Row) -> Value {
        let mut shown = json!({ "t": self.back(time), "k": row.key.json(), "v": row.value.json() });
        if let Some((start, end)) = row.window {
            shown["w"] = json!([self.back(start), self.back(end)]);
        }
        if let Some(branch) = row.branch {
            shown["branch"] = json!(branch);
        }
        shown
    }

    /// The events of an input step: none if it is something else.
    pub fn items(self, step: &Value) -> Vec<(usize, Item)> {
        let item = |time: &Value, key: &Value, value: &Value| Item {
            time: if time.is_null() { Timestamp::EPOCH } else { self.time(time) },
            key: Val::read(key),
            value: Val::read(value),
        };
        if let Value::Array(event) = step {
            return vec![(0, item(&event[0], &event[1], &event[2]))];
        }
        if let Some(state) = step.get("restore_state") {
            // What was saved is what events of the same values would have left.
            return match state {
                Value::Object(keys) => {
                    let event =
                        |(key, value): (&String, _)| (0, item(&json!(0), &json!(key), value));
                    keys.iter().map(event).collect()
                }
                value => vec![(0, item(&json!(0), &Value::Null, value))],
            };
        }
        if let Some(Value::Array(items)) = step.get("items") {
            return items.iter().map(|it| (0, item(&it[0], &Value::Null, &it[1]))).collect();
        }
        let input = step.get("in").or(step.get("part")).and_then(Value::as_u64).unwrap_or(0);
        // A source's own time is the time of its event.
        let time = step.get("native").or(step.get("t"));
        let value = step.get("v").or(step.get("t")).unwrap_or(&Value::Null);
        let key = step.get("k").unwrap_or(&Value::Null);
        time.map(|time| (input as usize, item(time, key, value))).into_iter().collect()
    }
}
