//! A query per client of a network: 143 members of one group count their lines in six logs.
//!
//! The data (zeek-net, question 7) are not part of this repository: they are read from the folder that
//! the variable MIZZLE_DATA names, else from `../shared/data`. Without them this says so and ends.

use std::collections::BTreeMap;
use std::error::Error;

use mizzle::stream::Member;
use mizzle::time::Timestamp;
use mizzle::{Engine, Query, Status, source};
use mizzle_examples::other_data;
use serde::Deserialize;

/// The logs, in the order of the answer's columns.
const LOGS: [&str; 6] = ["dns", "tls", "rdp", "ntlm", "weird", "smtp"];

/// What all logs say.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    ts_us: i64,
    client: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = other_data("zeek-net") else { return Ok(()) };
    let mut expected = BTreeMap::new();
    for row in
        csv::Reader::from_path(folder.join("expected/q7_per_client_counts.csv"))?.deserialize()
    {
        let (client, counts): (String, [u64; 6]) = row?;
        expected.insert(client, counts);
    }
    let query = Query::new("clients");
    let streams: Vec<_> = LOGS
        .iter()
        .enumerate()
        .map(|(log, name)| {
            let file = folder.join(name).with_extension("csv");
            let lines = source::csv_file(file, |line: &Line| Timestamp::from_micros(line.ts_us));
            Ok(query.source(name, lines?).map(move |line| (log, line)).boxed())
        })
        .collect::<Result<_, Box<dyn Error>>>()?;
    let mut streams = streams.into_iter();
    let first = streams.next().ok_or("there are no logs")?;
    let (clients, results) = first
        .union_all(streams)
        .key_by(|(_, line)| line.client.clone())
        .group("lines", |member: Member<(), _>| {
            member.apply_stateful([0; LOGS.len()], |counts: &mut [u64; 6], ((), (log, line))| {
                counts[log] += 1;
                (line.client, *counts)
            })
        });
    // Who the clients are is known beforehand here; they could as well be added as they show up.
    clients.add_all(expected.keys().map(|client| (client.clone(), ())))?;
    let found = results.map(|(_, counted)| counted).collect();
    let engine = Engine::new()?;
    let running = engine.submit(query)?;
    assert_eq!(running.wait(), Status::Completed);
    // The last result of each client counts.
    let found: BTreeMap<_, _> = found.values().into_iter().collect();
    assert_eq!(found, expected);
    println!(
        "{} clients, every count right; lines of no client: {}",
        found.len(),
        clients.stats().total().unmatched
    );
    Ok(())
}
