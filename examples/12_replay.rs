//! JSON lines in and JSON lines out: what two rooms recorded, replayed an hour in a tenth of a second.
//! With `-` it reads standard input instead, as fast as that comes, and writes to standard output.

use std::error::Error;
use std::fs;
use std::io;
use std::time::Duration;

use mizzle::aggregate::{count, mean};
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{BoxedStream, Engine, Query, Status, Windows, sink, source};
use serde::{Deserialize, Serialize};

const ATTIC: &str = "\
{\"minute\": 0, \"room\": \"attic\", \"celsius\": 20.0}
{\"minute\": 50, \"room\": \"attic\", \"celsius\": 24.0}
{\"minute\": 45, \"room\": \"attic\", \"celsius\": 22.0}
{\"minute\": 70, \"room\": \"attic\", \"celsius\": \"hot\"}
{\"minute\": 110, \"room\": \"attic\", \"celsius\": 31.0}
";
const CELLAR: &str = "\
{\"minute\": 30, \"room\": \"cellar\", \"celsius\": 11.0, \"humidity\": 0.8}
{\"minute\": 80, \"room\": \"cellar\", \"celsius\": 12.5, \"humidity\": 0.7}
{\"minute\": 90, \"room\": \"cellar\", \"celsius\": 13.5}
";

#[derive(Clone, Deserialize)]
struct Reading {
    minute: i64,
    room: String,
    celsius: f64,
}

#[derive(Serialize)]
struct Hour {
    from: Timestamp,
    room: String,
    readings: u64,
    celsius: f64,
}

fn minute(reading: &Reading) -> Timestamp {
    Timestamp::from_secs(60 * reading.minute)
}

/// The mean of every hour and room.
fn hourly(readings: BoxedStream<Reading>) -> BoxedStream<Hour> {
    readings
        .key_by(|reading| reading.room.clone())
        .window(Windows::tumbling(Duration::from_secs(3_600)))
        .aggregate((count(), mean(|reading: &Reading| reading.celsius)))
        .in_order()
        .map(|hour| {
            let (readings, celsius) = hour.value;
            Hour { from: hour.start, room: hour.key, readings, celsius }
        })
        .boxed()
}

/// Readings are up to ten minutes out of order.
fn disorder() -> Watermarks<Reading> {
    Watermarks::bounded(Duration::from_secs(600))
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("-") { filter() } else { replay() }
}

/// From standard input to standard output.
fn filter() -> Result<(), Box<dyn Error>> {
    let query = Query::new("filter");
    // Its reads wait, so they have a thread of their own.
    let input = source::blocking(source::json_lines(io::stdin(), minute));
    let readings = query.source("stdin", input).watermarks(disorder()).boxed();
    hourly(readings).sink(sink::json_lines(io::stdout()));
    let engine = Engine::new()?;
    match engine.submit(query)?.wait() {
        Status::Failed(failure) => Err(failure.into()),
        _ => Ok(()),
    }
}

fn replay() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("mizzle-12-replay-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let rooms = [("attic.jsonl", ATTIC), ("cellar.jsonl", CELLAR)];
    let rooms = rooms.map(|(name, text)| (folder.join(name), text));
    for (path, text) in &rooms {
        fs::write(path, text)?;
    }
    let hours = folder.join("hours.jsonl");

    let query = Query::new("replay");
    let files = source::json_lines_files(rooms.iter().map(|(path, _)| path), minute)?;
    // Each file has a watermark of its own; both are replayed from the same minute on.
    let replay = source::paced_together(files, 36_000.0);
    let (readings, bad) = query.sources_with_rejects("rooms", replay);
    let readings = readings.watermarks(disorder()).boxed().share();
    let bad = bad.map(|line| (line.input, line.line)).collect();
    hourly(readings.clone().boxed()).sink(sink::json_lines_file(&hours)?);
    // By the clock, not by the readings' times: how many are replayed in 50 ms.
    let pace = readings
        .processing_window(Windows::tumbling(Duration::from_millis(50)))
        .aggregate(count())
        .collect();

    let engine = Engine::new()?;
    let handle = engine.submit(query)?;
    assert_eq!(handle.wait(), Status::Completed);

    let written = fs::read_to_string(&hours)?;
    fs::remove_dir_all(&folder)?;
    println!("{written}");
    let rows: Vec<_> = written.lines().collect();
    assert_eq!(rows.len(), 4);
    assert!(rows[0].ends_with("\"room\":\"attic\",\"readings\":3,\"celsius\":22.0}"));
    assert!(rows[1].ends_with("\"room\":\"cellar\",\"readings\":1,\"celsius\":11.0}"));
    assert!(rows[2].ends_with("\"room\":\"cellar\",\"readings\":2,\"celsius\":13.0}"));
    assert!(rows[3].ends_with("\"room\":\"attic\",\"readings\":1,\"celsius\":31.0}"));
    assert_eq!(bad.values(), [(0, 4)]);
    println!("replayed in {} windows of 50 ms", pace.len());
    assert_eq!(pace.values().iter().map(|window| window.value).sum::<u64>(), 7);
    Ok(())
}
