//! What peers carry: an event of the benchmarks in a type that they can also send.

use mizzle_benches::Data;
use serde::{Deserialize, Serialize};

/// An event: 24 bytes, like those that Mizzle reads.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Row {
    /// When it happened, in microseconds.
    pub time: i64,
    /// Which sensor.
    pub key: u64,
    /// What it measured.
    pub value: i64,
}

/// The event at `at`.
#[inline]
pub fn row(data: &Data, at: usize) -> Option<Row> {
    let event = data.get(at)?;
    Some(Row { time: event.time.as_micros(), key: event.value.key, value: event.value.value })
}

/// All events, in order of arrival.
pub fn rows(data: &Data) -> impl Iterator<Item = Row> + Send + 'static {
    let data = data.clone();
    let mut next = 0;
    std::iter::from_fn(move || {
        let row = row(&data, next);
        next += 1;
        row
    })
}
