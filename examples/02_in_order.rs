//! What the in-order flag changes: steps of a counter whose readings arrive out of order.

use std::error::Error;
use std::time::Duration;

use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Engine, Query, Status, source};

/// Readings as they arrive: (second, counter). Two of them were overtaken on their way.
const READINGS: [(i64, i64); 6] = [(1, 100), (3, 130), (2, 110), (4, 135), (6, 150), (5, 140)];

/// How much the counter grew from each reading to the next.
fn growth(engine: &Engine, in_order: bool) -> Result<Vec<i64>, Box<dyn Error>> {
    let query = Query::new("growth");
    let growth = query
        .source("meter", source::from_iter(READINGS, |&(second, _)| Timestamp::from_secs(second)))
        // A reading may be overtaken by others that are up to two seconds younger.
        .watermarks(Watermarks::bounded(Duration::from_secs(2)))
        .map(|(_, counter)| counter)
        .apply_stateful(100, |last, counter| counter - std::mem::replace(last, counter))
        .in_order_if(in_order)
        .name("growth")
        .collect();

    let handle = engine.submit(query)?;
    assert_eq!(handle.wait(), Status::Completed);
    println!("{}", handle.plan().explain());
    Ok(growth.values())
}

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().workers(2).build()?;

    // Without the flag events are taken as they arrive: no waiting, and here nonsense.
    let unordered = growth(&engine, false)?;
    println!("as they arrive: {unordered:?}\n");
    assert_eq!(unordered, [0, 30, -20, 25, 15, -10]);

    // With it a reorder stage holds each reading until the watermark has reached it.
    let ordered = growth(&engine, true)?;
    println!("in order:       {ordered:?}");
    assert_eq!(ordered, [0, 10, 20, 5, 5, 10]);

    // Only operators that keep state can be flagged: for others order changes nothing, and
    // `.map(..).in_order()` does not compile.
    Ok(())
}
