//! What happens in a test.

use std::sync::{Arc, Mutex};

use mizzle::situation::Situations;
use serde_json::{Map, Value};

/// Something that happens, or a situation that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    pub of: u16,
    pub id: String,
    pub attributes: Map<String, Value>,
    /// Of a situation: the ids of its events.
    pub made_of: Vec<String>,
    /// Of a situation: its value.
    pub value: f64,
}

impl Happening {
    pub fn new(of: u16, attributes: Map<String, Value>) -> Self {
        let id = attributes.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { of, id, attributes, made_of: Vec::new(), value: 0.0 }
    }

    pub fn number(&self, attribute: &str) -> Option<f64> {
        self.attributes.get(attribute).and_then(Value::as_f64)
    }
}

/// The names of types of events, by their numbers.
#[derive(Clone, Default)]
pub struct Types(Arc<Mutex<Vec<String>>>);

impl Types {
    /// The number of the type called `name`.
    pub fn number(&self, name: &str) -> u16 {
        let mut names = self.0.lock().unwrap();
        let known = names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        }) as u16
    }

    pub fn name(&self, number: u16) -> String {
        self.0.lock().unwrap()[usize::from(number)].clone()
    }
}

/// No rules yet.
pub fn rules() -> Situations<Happening> {
    Situations::new(|event: &Happening| event.of)
}
