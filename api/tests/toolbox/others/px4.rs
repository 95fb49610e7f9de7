//! The log of a flight controller.

use std::collections::BTreeMap;
use std::time::Duration;

use mizzle::aggregate::{count, fold, max, mean, min};
use mizzle::{BoxedStream, Query, Windows};

use crate::questions::{Data, Row, ask, ask_lateness, collected, rows, secs};

const SET: &str = "px4-imu";

const TOPICS: [&str; 6] = [
    "sensor_combined",
    "vehicle_attitude",
    "vehicle_attitude_setpoint",
    "vehicle_local_position",
    "vehicle_status",
    "cpuload",
];

/// All messages as they were logged, up to 80.1 ms out of order.
fn log(data: &Data) -> Vec<Row> {
    let mut all: Vec<Row> = TOPICS.iter().flat_map(|topic| data.rows(topic)).collect();
    all.sort_by_key(|row| row.int("seq"));
    all
}

/// All messages: a source per topic, or the log.
fn messages(data: &Data, query: &Query, interleaved: bool) -> BoxedStream<Row> {
    if !interleaved {
        return rows(query, log(data), Duration::from_micros(80_100)).boxed();
    }
    let mut topics = TOPICS.iter().map(|topic| rows(query, data.rows(topic), Duration::ZERO));
    let first = topics.next().expect("there are topics");
    first.union_all(topics)
}

#[test]
fn q1_lateness_of_the_log() {
    ask_lateness(SET, "q1_lateness_merged", |data, _| log(data));
}

fn acceleration(row: &Row) -> f64 {
    let axes = [0, 1, 2].map(|axis| row.float(&format!("accelerometer_m_s2_{axis}")));
    axes.iter().map(|a| a * a).sum::<f64>().sqrt()
}

#[test]
fn q2_acceleration_per_second() {
    ask(SET, "q2_accel_1s", |data, query| {
        let seconds = rows(query, data.rows("sensor_combined"), Duration::ZERO)
            .map(|row| acceleration(&row))
            .window(Windows::tumbling(secs(1)))
            .aggregate((count(), mean(|a| *a), min(|a: &f64| *a), max(|a: &f64| *a)));
        let lines = seconds.map(|second| {
            let (n, mean, min, max) = second.value;
            let (start, min, max) = (second.start.as_micros(), min.unwrap(), max.unwrap());
            format!("{start},{n},{mean:.6},{min:.6},{max:.6}")
        });
        collected(lines.collect())
    });
}

#[test]
fn q3_gaps_of_the_sensor() {
    ask(SET, "q3_imu_gaps", |data, query| {
        let sensor = rows(query, data.rows("sensor_combined"), Duration::ZERO);
        let lines = sensor.pairwise().in_order().filter_map(|(before, now)| {
            let (from, to) = (before.time.as_micros(), now.time.as_micros());
            let gap = to - from;
            (gap > 20_000).then(|| format!("{from},{to},{gap}"))
        });
        collected(lines.collect())
    });
}

#[test]
fn q5_messages_per_topic_and_second() {
    for interleaved in [true, false] {
        ask(SET, "q5_union_1s", |data, query| {
            type Counts = BTreeMap<String, u64>;
            let add = |counts: &mut Counts, row: &Row| {
                *counts.entry(row.file.to_string()).or_default() += 1;
            };
            let merge = |counts: &mut Counts, more: &Counts| {
                more.iter().for_each(|(topic, n)| *counts.entry(topic.clone()).or_default() += n);
            };
            let seconds = messages(data, query, interleaved)
                .window(Windows::tumbling(secs(1)))
                .aggregate(fold(Counts::new, add, merge, Counts::clone));
            let lines = seconds.map(|second| {
                let counts = TOPICS.map(|topic| second.value.get(topic).map_or(0, |n| *n));
                let counts = counts.map(|n| n.to_string()).join(",");
                format!("{},{counts}", second.start.as_micros())
            });
            collected(lines.collect())
        });
    }
}
