//! Events of the cases, and conditions on them as the cases write them.

use mizzle::pattern::Bound;
use serde_json::{Map, Value};

/// An event of a case.
#[derive(Clone, Debug)]
pub struct Happening {
    pub kind: String,
    pub attributes: Map<String, Value>,
}

impl Happening {
    pub fn id(&self) -> &str {
        self.attributes.get("id").and_then(Value::as_str).unwrap_or("")
    }

    fn get(&self, name: &str) -> Value {
        match name {
            "@type" => Value::from(self.kind.clone()),
            name => self.attributes.get(name).cloned().unwrap_or(Value::Null),
        }
    }
}

/// Whether an event fits, given those that were taken before it.
pub type Condition = Box<dyn Fn(&Happening, &Bound<'_, Happening>) -> bool + Send + Sync>;

fn compare(left: &Value, operator: &str, right: &Value) -> bool {
    if operator == "contains" {
        let texts = left.as_str().zip(right.as_str());
        return texts.is_some_and(|(left, right)| left.contains(right));
    }
    let order = match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left.partial_cmp(&right),
        _ => left.as_str().zip(right.as_str()).map(|(left, right)| left.cmp(right)),
    };
    let Some(order) = order else { return false };
    match operator {
        "=" | "eq" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" | "lt" => order.is_lt(),
        "<=" => order.is_le(),
        ">" | "gt" => order.is_gt(),
        ">=" => order.is_ge(),
        other => panic!("no comparison is called {other}"),
    }
}

/// `{attr, cmp, value | ref}`, of an event of a tree.
pub fn comparison(spec: &Value) -> Condition {
    let text = |name: &str| spec[name].as_str().map(str::to_owned);
    let attribute = text("attr").expect("a comparison has an attribute");
    let operator = text("cmp").expect("a comparison has an operator");
    match text("ref") {
        Some(other) => reference(attribute, operator, &other),
        None => {
            let value = spec["value"].clone();
            Box::new(move |event, _| compare(&event.get(&attribute), &operator, &value))
        }
    }
}

/// Compares with an attribute of an event that was taken: `a.price`.
fn reference(attribute: String, operator: String, other: &str) -> Condition {
    let (step, name) = other.split_once('.').expect("a reference names a step and an attribute");
    let (step, name) = (step.to_owned(), name.to_owned());
    Box::new(move |event, before| {
        let other = before.last(&step).map(|other| other.get(&name));
        other.is_some_and(|other| compare(&event.get(&attribute), &operator, &other))
    })
}

/// `{attr, eq | gt | lt | contains}`, `{all}`, `{some}`, `{sum_of_stage}` or null, of a stage.
pub fn staged(spec: &Value) -> Condition {
    if spec.is_null() {
        return Box::new(|_, _| true);
    }
    for (name, all) in [("all", true), ("some", false)] {
        if let Some(parts) = spec[name].as_array() {
            let parts: Vec<Condition> = parts.iter().map(staged).collect();
            return Box::new(move |event, before| {
                let mut fits = parts.iter().map(|part| part(event, before));
                if all { fits.all(|fits| fits) } else { fits.any(|fits| fits) }
            });
        }
    }
    if let Some(stage) = spec["sum_of_stage"].as_str() {
        let (stage, attribute) = (stage.to_owned(), spec["attr"].as_str().unwrap().to_owned());
        let limit = spec["lt"].as_f64().unwrap();
        return Box::new(move |event, before| {
            let number = |event: &Happening| event.get(&attribute).as_f64().unwrap_or(0.0);
            let sum: f64 = before.all(&stage).into_iter().map(number).sum();
            sum + number(event) < limit
        });
    }
    let attribute = spec["attr"].as_str().expect("a condition has an attribute").to_owned();
    let (operator, value) = ["eq", "gt", "lt", "contains"]
        .iter()
        .find_map(|operator| spec.get(operator).map(|value| (*operator, value.clone())))
        .unwrap_or_else(|| panic!("what does {spec} compare?"));
    Box::new(move |event, _| compare(&event.get(&attribute), operator, &value))
}

/// `type A`, `v = 1`, `v in (1,2)`, `v > A.v`, of a row pattern's variable.
pub fn defined(text: &str) -> Condition {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["type", kind] => {
            let kind = kind.to_owned();
            Box::new(move |event, _| event.kind == kind)
        }
        [attribute, "in", values] => {
            let attribute = attribute.to_owned();
            let values = values.trim_matches(['(', ')']).split(',');
            let values: Vec<Value> = values.map(value).collect();
            Box::new(move |event, _| {
                values.iter().any(|value| compare(&event.get(&attribute), "=", value))
            })
        }
        [attribute, operator, other] if other.parse::<f64>().is_err() && other.contains('.') => {
            reference(attribute.to_owned(), operator.to_owned(), other)
        }
        [attribute, operator, other] => {
            let (attribute, operator) = (attribute.to_owned(), operator.to_owned());
            let other = value(other);
            Box::new(move |event, _| compare(&event.get(&attribute), &operator, &other))
        }
        _ => panic!("what does {text:?} say?"),
    }
}

fn value(text: &str) -> Value {
    text.parse::<f64>().map_or_else(|_| Value::from(text), Value::from)
}
