//! A first query: temperatures of two rooms, in Fahrenheit, become means per room and minute.

use std::error::Error;
use std::time::Duration;

use mizzle::aggregate::{count, mean};
use mizzle::time::Timestamp;
use mizzle::{Engine, Query, Status, Windows, source};

struct Reading {
    second: i64,
    room: &'static str,
    degrees: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let readings = [
        Reading { second: 0, room: "attic", degrees: 68.0 },
        Reading { second: 10, room: "cellar", degrees: 50.0 },
        Reading { second: 30, room: "attic", degrees: 86.0 },
        Reading { second: 45, room: "cellar", degrees: -999.0 }, // what a broken sensor sends
        Reading { second: 60, room: "attic", degrees: 77.0 },
    ];

    // A query is described from its source to its sink. Each event has a time of its own.
    let query = Query::new("room temperatures");
    let means = query
        .source("sensors", source::from_iter(readings, |r| Timestamp::from_secs(r.second)))
        .filter(|r| r.degrees > -100.0)
        .map(|r| Reading { degrees: (r.degrees - 32.0) / 1.8, ..r })
        .key_by(|r| r.room)
        .window(Windows::tumbling(Duration::from_secs(60)))
        .aggregate((mean(|r: &Reading| r.degrees), count()))
        .collect();

    // An engine runs it, beside all others that it hosts.
    let engine = Engine::new()?;
    let handle = engine.submit(query)?;
    assert_eq!(handle.wait(), Status::Completed);

    let mut results = means.values();
    // Rooms may be on different workers, so the rooms of a minute come in any order.
    results.sort_by_key(|window| (window.start, window.key));
    for window in &results {
        let (celsius, n) = window.value;
        println!("{}  {:<6}  {celsius:>4.1} °C  (n = {n})", window.start, window.key);
    }
    let figures: Vec<_> = results.iter().map(|w| (w.key, w.value.0.round(), w.value.1)).collect();
    assert_eq!(figures, [("attic", 25.0, 2), ("cellar", 10.0, 1), ("attic", 25.0, 1)]);
    Ok(())
}
