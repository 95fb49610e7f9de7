//! Patterns: events that follow one another, and events that do not come.
//!
//! Doors of a building report that they are opened, held open and closed. Three queries look for: a door that is
//! opened and closed again three times within a minute; a door that stays open for two minutes; and a door
//! that is forced: opened, though nobody has shown a badge since it was closed.

use std::time::Duration;

use mizzle::pattern::{Pattern, Skip, absent, all_of, step, wait};
use mizzle::time::Timestamp;
use mizzle::{Engine, Query, Status, source};

/// The second, the door, and what happens there.
type Report = (i64, &'static str, &'static str);

const REPORTS: [Report; 17] = [
    (0, "front", "badge"),
    (1, "front", "open"),
    (5, "front", "close"),
    (7, "back", "close"),
    (10, "back", "open"), // forced: no badge
    (12, "front", "badge"),
    (13, "front", "open"),
    (15, "front", "close"),
    (20, "front", "badge"),
    (21, "front", "open"),
    (24, "front", "close"), // three times in 23 seconds
    (60, "side", "badge"),
    (61, "side", "open"), // and nobody closes it until 181
    (100, "back", "close"),
    (150, "back", "badge"),
    (200, "side", "close"),
    (201, "back", "open"), // the stream ends: waits are over
];

fn is(what: &'static str) -> impl Fn(&Report) -> bool + Send + Sync + 'static {
    move |report| report.2 == what
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let query = Query::new("doors");
    let reports = query
        .source("reports", source::from_iter(REPORTS, |report| Timestamp::from_secs(report.0)))
        .share();

    let swing = step("open", is("open")).then(step("close", is("close")));
    let restless = reports
        .clone()
        .key_by(|report| report.1)
        .pattern(
            Pattern::new(swing.times(3..=3)).within(Duration::from_secs(60)).skip(Skip::PastLast),
            |events| (events["open"].1, events.all("open").len()),
        )
        .collect();

    let two_minutes = || wait(Duration::from_secs(120));
    let left_open =
        step("open", is("open")).then(all_of([two_minutes(), absent(step("close", is("close")))]));
    let open = reports
        .clone()
        .key_by(|report| report.1)
        .pattern(Pattern::new(left_open), |events| events["open"].1)
        .collect();

    let forced = step("close", is("close")).not_then(step("badge", is("badge")));
    let forced = reports
        .key_by(|report| report.1)
        .pattern(
            Pattern::new(forced.then(step("open", is("open")))).within(Duration::from_secs(86_400)),
            |events| (events["open"].1, events["open"].0),
        )
        .collect();

    println!("{}", query.plan(2).explain());
    let engine = Engine::builder().workers(2).build()?;
    assert_eq!(engine.submit(query)?.wait(), Status::Completed);

    println!("restless: {:?}", restless.values());
    assert_eq!(restless.values(), [("front", 3)]);
    // The back door is open from 10 to 100, and again when the reports end.
    println!("left open: {:?}", open.values());
    assert_eq!(open.values(), ["side", "back"]);
    println!("forced: {:?}", forced.values());
    assert_eq!(forced.values(), [("back", 10)]);
    Ok(())
}
