//! Dust sensors around Aberdeen, a file each.

use std::collections::BTreeSet;
use std::time::Duration;

use mizzle::aggregate::{count, fold, max, mean};
use mizzle::stream::Member;
use mizzle::{BoxedStream, Query, Windows};

use crate::questions::{Data, Row, ask, ask_lateness, collected, rows, secs};

const SET: &str = "aberdeen-air";

/// Longer than the whole set.
const ALL: Duration = Duration::from_secs(6 * 86_400);

/// All sensors' rows: a source per file, or one that reads file after file.
fn sensors(data: &Data, query: &Query, interleaved: bool) -> BoxedStream<Row> {
    let files = data.files("sensors").into_iter().map(|file| data.rows(&file));
    if interleaved {
        let mut streams = files.map(|file| rows(query, file, Duration::ZERO));
        let first = streams.next().expect("there are sensors");
        return first.union_all(streams);
    }
    rows(query, files.flatten().collect(), ALL).boxed()
}

fn sensor(row: &Row) -> i64 {
    row.int("sensor_id")
}

#[test]
fn q1_five_dusty_readings_running() {
    for interleaved in [true, false] {
        ask(SET, "q1_persistent_pm25", |data, query| {
            let dusty = sensors(data, query, interleaved)
                .key_by(sensor)
                .runs_of(5, |row| row.float("pm25") >= 15.0)
                .in_order();
            let line = |row: Row| {
                format!("{},{},{}", row.text("ts_ms"), row.text("sensor_id"), row.float("pm25"))
            };
            collected(dusty.map(line).collect())
        });
    }
}

#[test]
fn q2_hourly_means() {
    for interleaved in [true, false] {
        ask(SET, "q2_hourly", |data, query| {
            let hours = sensors(data, query, interleaved)
                .key_by(sensor)
                .window(Windows::tumbling(secs(3_600)))
                .aggregate((
                    count(),
                    mean(|row: &Row| row.float("pm25")),
                    max(|row: &Row| row.float("pm10")),
                ));
            let lines = hours.map(|hour| {
                let (n, mean, max) = hour.value;
                let (start, max) = (hour.start.as_millis(), max.unwrap());
                format!("{start},{},{n},{mean:.6},{max}", hour.key)
            });
            collected(lines.collect())
        });
    }
}

#[test]
fn q3_silences() {
    for interleaved in [true, false] {
        ask(SET, "q3_silence", |data, query| {
            let gaps = sensors(data, query, interleaved).key_by(sensor).pairwise().in_order();
            let lines = gaps.filter_map(|(before, now)| {
                let (from, to) = (before.time.as_millis(), now.time.as_millis());
                let gap = to - from;
                (gap > 600_000).then(|| format!("{},{from},{to},{gap}", sensor(&now)))
            });
            collected(lines.collect())
        });
    }
}

#[test]
fn q4_many_sensors_are_dusty() {
    ask(SET, "q4_city_alarm", |data, query| {
        let sensors_seen = fold(
            BTreeSet::new,
            |seen: &mut BTreeSet<i64>, row: &Row| seen.extend([sensor(row)]),
            |seen, more| seen.extend(more),
            |seen| seen.len(),
        );
        let alarms = sensors(data, query, true)
            .filter(|row| row.float("pm25") >= 20.0)
            .window(Windows::tumbling(secs(600)))
            .aggregate((sensors_seen, count()))
            .filter(|window| window.value.0 >= 8);
        let lines = alarms.map(|window| {
            let (n_sensors, n_readings) = window.value;
            format!("{},{n_sensors},{n_readings}", window.start.as_millis())
        });
        collected(lines.collect())
    });
}

#[test]
fn q5_dusty_hours_every_quarter() {
    ask(SET, "q5_hopping", |data, query| {
        let hours = sensors(data, query, true)
            .key_by(sensor)
            .window(Windows::hopping(secs(3_600), secs(900)))
            .aggregate((count(), mean(|row: &Row| row.float("pm25"))))
            .filter(|hour| hour.value.1 >= 20.0);
        let lines = hours.map(|hour| {
            let (n, mean) = hour.value;
            format!("{},{},{n},{mean:.6}", hour.start.as_millis(), hour.key)
        });
        collected(lines.collect())
    });
}

#[test]
fn q7_lateness_of_both_reading_orders() {
    ask_lateness(SET, "q7_lateness", |data, order| {
        let files = data.files("sensors").into_iter().map(|file| data.rows(&file));
        let mut all: Vec<Row> = files.flatten().collect();
        if order == "archive_order" {
            let day = |row: &Row| row.time.as_millis().div_euclid(86_400_000);
            all.sort_by_key(|row| (day(row), row.int("sensor_id")));
        }
        all
    });
}

/// A small query per sensor and threshold, as members of a group.
#[test]
fn q8_a_query_per_sensor_and_threshold() {
    ask(SET, "q8_threshold_sweep", |data, query| {
        let all = sensors(data, query, false).share();
        let (above, found_above) =
            all.clone().key_by(sensor).group("above", |member: Member<i64, _>| {
                let above = member.filter(|(limit, row)| row.float("pm25") > *limit as f64);
                above.map(|(limit, row)| (sensor(&row), limit))
            });
        let (edges, found_edges) =
            all.boxed().key_by(sensor).group("upcrossings", |member: Member<i64, _>| {
                let above = member.rising_edge(|(limit, row)| row.float("pm25") > *limit as f64);
                above.in_order().map(|(limit, row)| (sensor(&row), limit))
            });
        let mut sensors = Vec::new();
        for file in data.files("sensors") {
            let id = file.trim_start_matches("sensors/").parse::<i64>().unwrap();
            for limit in (5..=100).step_by(5) {
                above.add(id, limit).unwrap();
                edges.add(id, limit).unwrap();
                sensors.push((id, limit));
            }
        }
        let (found_above, found_edges) = (found_above.collect(), found_edges.collect());
        Box::new(move || {
            let (above, edges) = (found_above.values(), found_edges.values());
            let line = |(id, limit)| {
                let of =
                    |all: &[(_, (i64, i64))]| all.iter().filter(|it| it.1 == (id, limit)).count();
                format!("{id},{limit},{},{}", of(&above), of(&edges))
            };
            sensors.into_iter().map(line).collect()
        })
    });
}
