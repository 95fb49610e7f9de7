//! Metrics of servers, a machine and roads.

use std::collections::VecDeque;
use std::time::Duration;

use mizzle::aggregate::{count, max, mean};
use mizzle::{BoxedStream, Query, Windows};

use crate::questions::{Data, Row, ask, ask_lateness, collected, rows, secs};

const SET: &str = "nab-fleet";

/// Longer than the whole set.
const ALL: Duration = Duration::from_secs(60 * 86_400);

/// The five processors' load: a source each, or one that reads file after file.
fn processors(data: &Data, query: &Query, interleaved: bool) -> BoxedStream<Row> {
    let files = data.files("cloud").into_iter().map(|file| data.rows(&file));
    let mut files = files.filter(|rows| rows[0].text("metric") == "cpu");
    if interleaved {
        let first = rows(query, files.next().expect("there are files"), Duration::ZERO);
        return first.union_all(files.map(|file| rows(query, file, Duration::ZERO)));
    }
    rows(query, files.flatten().collect(), ALL).boxed()
}

fn device(row: &Row) -> String {
    row.owned("device")
}

#[test]
fn q1_lateness_of_the_machine() {
    ask_lateness(SET, "q1_lateness", |data, machine| data.rows(&format!("{machine}/{machine}")));
}

#[test]
fn q2_hourly_load() {
    for interleaved in [true, false] {
        ask(SET, "q2_cpu_hourly", |data, query| {
            let value = |row: &Row| row.float("value");
            let hours = processors(data, query, interleaved)
                .key_by(device)
                .window(Windows::tumbling(secs(3_600)))
                .aggregate((count(), mean(value), max(value)));
            let lines = hours.map(|hour| {
                let (n, mean, max) = hour.value;
                let (start, max) = (hour.start.as_millis(), max.unwrap());
                format!("{start},{},{n},{mean:.6},{max:.6}", hour.key)
            });
            collected(lines.collect())
        });
    }
}

#[test]
fn q3_sustained_load() {
    for interleaved in [true, false] {
        ask(SET, "q3_cpu_sustained", |data, query| {
            let sustained = processors(data, query, interleaved)
                .key_by(device)
                .runs_of(3, |row| row.float("value") >= 95.0)
                .in_order();
            let line = |row: Row| {
                let value = row.float("value");
                format!("{},{},{value:.6}", row.text("ts_ms"), row.text("device"))
            };
            collected(sustained.map(line).collect())
        });
    }
}

/// Readings of a machine that is out: first, last, how many, lowest.
type Outage = (i64, i64, u64, f64);

/// The outage that ends with this reading, if one does.
fn outage(open: &mut Option<Outage>, row: Row) -> Option<Outage> {
    let (now, value) = (row.time.as_millis(), row.float("value"));
    if value >= 50.0 {
        return open.take();
    }
    let (first, _, n, lowest) = open.unwrap_or((now, now, 0, value));
    *open = Some((first, now, n + 1, lowest.min(value)));
    None
}

/// The state is given up after a silence, or at the end: an outage that is still open ends then.
#[test]
fn q4_outages_of_the_machine() {
    ask(SET, "q4_machine_outages", |data, query| {
        let outages = rows(query, data.rows("machine/machine"), secs(3_300))
            .key_by(device)
            .apply_stateful(None, outage)
            .expire_with(ALL, Some)
            .in_order()
            .filter_map(|outage| outage.filter(|outage| outage.2 >= 12));
        let lines = outages.map(|(first, last, n, low)| format!("{first},{last},{n},{low:.6}"));
        collected(lines.collect())
    });
}

/// A reading, and the mean of the twelve before it.
fn with_mean(before: &mut VecDeque<f64>, row: Row) -> (Row, Option<f64>) {
    let mean = (before.len() == 12).then(|| before.iter().sum::<f64>() / 12.0);
    before.push_back(row.float("value"));
    if before.len() > 12 {
        before.pop_front();
    }
    (row, mean)
}

#[test]
fn q6_spikes_of_requests() {
    ask(SET, "q6_elb_spike", |data, query| {
        let lines = rows(query, data.rows("cloud/elb-8c0756"), Duration::ZERO)
            .apply_stateful(VecDeque::new(), with_mean)
            .in_order()
            .filter_map(|(row, mean)| {
                let (value, mean) = (row.float("value"), mean?);
                let spike = value >= 3.0 * mean;
                spike.then(|| format!("{},{value},{mean:.6}", row.text("ts_ms")))
            });
        collected(lines.collect())
    });
}
