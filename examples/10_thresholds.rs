//! 460 queries on 23 dust sensors: each counts how often one sensor is above one threshold, and how
//! often it gets there from below. An index over the thresholds hands a reading only to the queries
//! that it concerns.
//!
//! The data (aberdeen-air, question 8) are not part of this repository: they are read from the folder
//! that the variable MIZZLE_DATA names, else from `../shared/data`. Without them this says so and ends.

use std::collections::BTreeMap;
use std::error::Error;

use mizzle::stream::Member;
use mizzle::time::Timestamp;
use mizzle::{Engine, Query, Span, Status, source};
use mizzle_examples::other_data;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
struct Reading {
    ts_ms: i64,
    sensor_id: u32,
    pm25: f64,
}

/// A line of the right answers.
#[derive(Debug, Deserialize, PartialEq)]
struct Answer {
    sensor_id: u32,
    threshold: u32,
    n_above: u64,
    n_upcrossings: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = other_data("aberdeen-air") else { return Ok(()) };
    let query = Query::new("dust");
    let mut files: Vec<_> = std::fs::read_dir(folder.join("sensors"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut sensors = Vec::new();
    let streams: Vec<_> = files
        .iter()
        .map(|file| {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let rows = source::csv_file(file, |r: &Reading| Timestamp::from_millis(r.ts_ms));
            sensors.push(name.parse::<u32>());
            Ok(query.source(&name, rows?).boxed())
        })
        .collect::<Result<_, Box<dyn Error>>>()?;
    let mut streams = streams.into_iter();
    let first = streams.next().ok_or("there are no sensors")?;

    // Each reading with the one before it of the same sensor, so that a query which only gets readings
    // above its threshold can tell whether the sensor was below it.
    let (counts, results) = first
        .union_all(streams)
        .key_by(|reading| reading.sensor_id)
        .apply_stateful(f64::MIN, |before: &mut f64, reading: Reading| {
            (std::mem::replace(before, reading.pm25), reading)
        })
        .in_order()
        .key_by(|(_, reading)| reading.sensor_id)
        .group_by_range(
            "above",
            |(_, reading)| reading.pm25,
            |member: Member<u32, _>| {
                member.apply_stateful(
                    (0, 0),
                    |(above, up): &mut (u64, u64), (threshold, (before, _))| {
                        *above += 1;
                        *up += u64::from(before <= f64::from(threshold));
                        (threshold, *above, *up)
                    },
                )
            },
        );
    let latest = results.map(|(member, counted)| (member, counted)).collect();
    let mut members = BTreeMap::new();
    for sensor in sensors {
        let sensor = sensor?;
        for threshold in (5..=100).step_by(5) {
            let id = counts.add((sensor, Span::above(f64::from(threshold))), threshold)?;
            members.insert(id, sensor);
        }
    }
    let engine = Engine::new()?;
    let running = engine.submit(query)?;
    assert_eq!(running.wait(), Status::Completed);

    // The last result of each query counts; one that never gave any has counted nothing.
    let mut counted: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (member, (threshold, above, up)) in latest.values() {
        counted.insert((members[&member], threshold), (above, up));
    }
    let mut right = 0;
    for answer in
        csv::Reader::from_path(folder.join("expected/q8_threshold_sweep.csv"))?.deserialize()
    {
        let answer: Answer = answer?;
        let found = counted.get(&(answer.sensor_id, answer.threshold)).copied().unwrap_or_default();
        assert_eq!(found, (answer.n_above, answer.n_upcrossings), "{answer:?}");
        right += 1;
    }
    assert_eq!(right, 460);
    let total = counts.stats().total();
    println!(
        "{} queries on {} readings, all {right} answers right; readings handed to queries: {} ({:.1} each)",
        members.len(),
        total.events,
        total.handed,
        total.handed as f64 / total.events as f64,
    );
    Ok(())
}
