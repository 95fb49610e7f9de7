//! Questions about the data sets whose answer is a window, with 1, 2 and 4 workers.

use std::path::Path;

use mizzle::aggregate::{count, distinct_count, max, mean, min, quantiles, sum, to_vec};
use mizzle::sink::Collected;
use mizzle::{BoxedStream, Query, Windowed, Windows};

use super::data::{Line, assert_answer, float, lines, source};
use super::{run, secs};
use crate::data::set;

type Rows = Collected<Vec<String>>;

/// Answers a question in every way and compares.
fn ask(folder: &Path, file: &str, describe: impl Fn(&Query) -> Rows) {
    for workers in [1, 2, 4] {
        let (rows, _) = run(workers, 1_024, &describe);
        assert_answer(folder, file, rows.values());
    }
}

fn start_ms<K, V>(window: &Windowed<K, V>) -> String {
    window.start.as_millis().to_string()
}

fn start_us<K, V>(window: &Windowed<K, V>) -> String {
    window.start.as_micros().to_string()
}

/// The sensors' files, each a source of its own, as one stream.
fn sensors(query: &Query, files: &[(String, Vec<Line>)]) -> BoxedStream<Line> {
    let mut streams = files.iter().map(|(name, lines)| source(query, name, lines, None));
    let first = streams.next().unwrap();
    first.union_all(streams)
}

fn sensor_files(folder: &Path) -> Vec<(String, Vec<Line>)> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join("sensors")).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let name = |file: &Path| file.file_stem().unwrap().to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), lines(file, 1_000))).collect()
}

const SENSOR: usize = 1;
const PM10: usize = 2;
const PM25: usize = 3;

#[test]
fn aberdeen_q2_hours_of_each_sensor() {
    let Some(folder) = set("aberdeen-air") else { return };
    let files = sensor_files(&folder);
    let hours = |lines: BoxedStream<Line>, in_order| {
        lines
            .key_by(|line| line.text(SENSOR))
            .window(Windows::tumbling(secs(3_600)))
            .aggregate((
                count(),
                mean(|line: &Line| line.number(PM25)),
                max(|line: &Line| line.number(PM10)),
            ))
            .in_order_if(in_order)
            .map(|window| {
                let (start, (n, mean, top)) = (start_ms(&window), window.value);
                vec![start, window.key, n.to_string(), float(mean), float(top.unwrap())]
            })
            .collect()
    };
    ask(&folder, "q2_hourly.csv", |query| hours(sensors(query, &files), false));
    ask(&folder, "q2_hourly.csv", |query| hours(sensors(query, &files), true));
    // One file after the other, up to five days late.
    let all: Vec<_> = files.iter().flat_map(|(_, lines)| lines.clone()).collect();
    ask(&folder, "q2_hourly.csv", |query| {
        hours(source(query, "all", &all, Some(432_000_000)), false)
    });
}

#[test]
fn aberdeen_q4_when_many_sensors_are_high() {
    let Some(folder) = set("aberdeen-air") else { return };
    let files = sensor_files(&folder);
    ask(&folder, "q4_city_alarm.csv", |query| {
        sensors(query, &files)
            .filter(|line| line.number(PM25) >= 20.0)
            .window(Windows::tumbling(secs(600)))
            .aggregate((distinct_count(|line: &Line| line.text(SENSOR)), count()))
            .filter(|window| window.value.0 >= 8)
            .map(|window| {
                let (sensors, readings) = window.value;
                vec![start_ms(&window), sensors.to_string(), readings.to_string()]
            })
            .collect()
    });
}

#[test]
fn aberdeen_q5_hopping_hours() {
    let Some(folder) = set("aberdeen-air") else { return };
    let files = sensor_files(&folder);
    ask(&folder, "q5_hopping.csv", |query| {
        sensors(query, &files)
            .key_by(|line| line.text(SENSOR))
            .window(Windows::hopping(secs(3_600), secs(900)))
            .aggregate((count(), mean(|line: &Line| line.number(PM25))))
            .filter(|window| window.value.1 >= 20.0)
            .map(|window| {
                let (start, (n, mean)) = (start_ms(&window), window.value);
                vec![start, window.key, n.to_string(), float(mean)]
            })
            .collect()
    });
}

#[test]
fn nab_q2_hours_of_each_machine() {
    let Some(folder) = set("nab-fleet") else { return };
    let names = ["ec2-77c1ca", "ec2-825cc2", "ec2-ac20cd", "ec2-c6585a", "rds-e47b3b"];
    let files = names.map(|name| lines(&folder.join(format!("cloud/{name}.csv")), 1_000));
    ask(&folder, "q2_cpu_hourly.csv", |query| {
        let mut streams =
            names.iter().zip(&files).map(|(name, lines)| source(query, name, lines, None));
        let first = streams.next().unwrap();
        first
            .union_all(streams)
            .key_by(|line| line.text(1))
            .window(Windows::tumbling(secs(3_600)))
            .aggregate((
                count(),
                mean(|line: &Line| line.number(3)),
                max(|line: &Line| line.number(3)),
            ))
            .map(|window| {
                let (start, (n, mean, max)) = (start_ms(&window), window.value);
                vec![start, window.key, n.to_string(), float(mean), float(max.unwrap())]
            })
            .collect()
    });
}

#[test]
fn nab_q6_a_reading_against_the_twelve_before() {
    let Some(folder) = set("nab-fleet") else { return };
    let requests = lines(&folder.join("cloud/elb-8c0756.csv"), 1_000);
    ask(&folder, "q6_elb_spike.csv", |query| {
        source(query, "elb", &requests, None)
            .window(Windows::sliding_count(13, 1))
            .aggregate(to_vec(Line::clone))
            .in_order()
            .filter_map(|window| {
                let (last, before) = window.value.split_last()?;
                let sum: f64 = before.iter().map(|line| line.number(3)).sum();
                let mean = sum / before.len() as f64;
                let value = last.number(3);
                let row = vec![last.text(0), format!("{value}"), float(mean)];
                (value >= 3.0 * mean).then_some(row)
            })
            .collect()
    });
}

#[test]
fn flights_q2_hours_by_origin() {
    let Some(folder) = set("nyc-flights") else { return };
    let departures = lines(&folder.join("departures.csv"), 1_000);
    let delay = |line: &Line| line.number(8) as i64;
    ask(&folder, "q2_hourly_by_origin.csv", |query| {
        source(query, "departures", &departures, Some(809 * 60_000))
            .key_by(|line| line.text(3))
            .window(Windows::tumbling(secs(3_600)))
            .aggregate((
                count(),
                mean(delay),
                sum(move |line: &Line| u64::from(delay(line) >= 60)),
                max(delay),
            ))
            .map(|window| {
                let (start, (n, mean, over, max)) = (start_ms(&window), window.value);
                let (over, max) = (over.to_string(), max.unwrap().to_string());
                vec![start, window.key, n.to_string(), float(mean), over, max]
            })
            .collect()
    });
}

#[test]
fn flights_q3_storm() {
    let Some(folder) = set("nyc-flights") else { return };
    let departures = lines(&folder.join("departures.csv"), 1_000);
    let cancelled = lines(&folder.join("cancellations.csv"), 1_000);
    ask(&folder, "q3_storm.csv", |query| {
        let left = source(query, "departures", &departures, Some(809 * 60_000))
            .map(|line| (line.text(3), false));
        let never = source(query, "cancellations", &cancelled, None).map(|it| (it.text(2), true));
        left.union(never)
            .key_by(|(origin, _)| origin.clone())
            .window(Windows::tumbling(secs(3 * 3_600)))
            .aggregate((count(), sum(|&(_, never): &(String, bool)| u64::from(never))))
            .filter(|window| window.value.0 >= 10 && 2 * window.value.1 >= window.value.0)
            .map(|window| {
                let (start, (n, never)) = (start_ms(&window), window.value);
                vec![start, window.key, n.to_string(), never.to_string()]
            })
            .collect()
    });
}

#[test]
fn px4_q2_acceleration_by_second() {
    let Some(folder) = set("px4-imu") else { return };
    let imu = lines(&folder.join("sensor_combined.csv"), 1);
    let length = |line: &Line| {
        let [x, y, z] = [5, 6, 7].map(|column| line.number(column));
        (x * x + y * y + z * z).sqrt()
    };
    ask(&folder, "q2_accel_1s.csv", |query| {
        source(query, "imu", &imu, None)
            .map(move |line| length(&line))
            .window(Windows::tumbling(secs(1)))
            .aggregate((
                count(),
                mean(|v: &f64| *v),
                min(|v: &f64| *v),
                max(|v: &f64| *v),
                quantiles([0.0, 1.0], |v: &f64| *v),
            ))
            .map(|window| {
                let (start, (n, mean, min, max, ends)) = (start_us(&window), window.value);
                let (min, max) = (min.unwrap(), max.unwrap());
                assert_eq!(ends, Some([min, max]));
                vec![start, n.to_string(), float(mean), float(min), float(max)]
            })
            .collect()
    });
}

/// Counts per stream and window, of lines with the number of their stream.
fn per_stream(streams: Vec<BoxedStream<usize>>, size: std::time::Duration, total: bool) -> Rows {
    let n = streams.len();
    let mut streams = streams.into_iter();
    let first = streams.next().unwrap();
    first
        .union_all(streams)
        .window(Windows::tumbling(size))
        .aggregate(to_vec(usize::clone))
        .map(move |window| {
            let of = |stream| window.value.iter().filter(|&&it| it == stream).count();
            let mut row = vec![start_us(&window)];
            row.extend((0..n).map(|stream| of(stream).to_string()));
            row.extend(total.then(|| window.value.len().to_string()));
            row
        })
        .collect()
}

#[test]
fn px4_q5_messages_by_topic_and_second() {
    let Some(folder) = set("px4-imu") else { return };
    let topics = [
        "sensor_combined",
        "vehicle_attitude",
        "vehicle_attitude_setpoint",
        "vehicle_local_position",
        "vehicle_status",
        "cpuload",
    ];
    let files = topics.map(|topic| lines(&folder.join(format!("{topic}.csv")), 1));
    ask(&folder, "q5_union_1s.csv", |query| {
        let stream = |(number, lines): (usize, &Vec<Line>)| {
            source(query, topics[number], lines, None).map(move |_| number).boxed()
        };
        per_stream(files.iter().enumerate().map(stream).collect(), secs(1), false)
    });
}

#[test]
fn zeek_q2_lines_by_log_and_ten_seconds() {
    let Some(folder) = set("zeek-net") else { return };
    let logs = ["dns", "tls", "rdp", "ntlm", "weird", "smtp"];
    let files = logs.map(|log| lines(&folder.join(format!("{log}.csv")), 1));
    ask(&folder, "q2_union_10s.csv", |query| {
        let stream = |(number, lines): (usize, &Vec<Line>)| {
            source(query, logs[number], lines, Some(310_000)).map(move |_| number).boxed()
        };
        per_stream(files.iter().enumerate().map(stream).collect(), secs(10), true)
    });
}

#[test]
fn zeek_q6_clients_that_reach_many_servers() {
    let Some(folder) = set("zeek-net") else { return };
    let rdp = lines(&folder.join("rdp.csv"), 1);
    ask(&folder, "q6_rdp_sweep.csv", |query| {
        source(query, "rdp", &rdp, Some(14_000))
            .key_by(|line| line.text(2))
            .window(Windows::tumbling(secs(30)))
            .aggregate((distinct_count(|line: &Line| line.text(3)), count()))
            .filter(|window| window.value.0 >= 3)
            .map(|window| {
                let (start, (servers, n)) = (start_us(&window), window.value);
                vec![start, window.key, servers.to_string(), n.to_string()]
            })
            .collect()
    });
}

#[test]
fn zeek_q8_what_is_kept_and_what_is_too_late() {
    let Some(folder) = set("zeek-net") else { return };
    let bounds = [("tls", 5_000), ("dns", 60_000)];
    let files = bounds.map(|(log, _)| lines(&folder.join(format!("{log}.csv")), 1));
    for workers in [1, 2, 4] {
        let (parts, _) = run(workers, 1_024, |query| {
            let mut parts = Vec::new();
            for ((log, bound), lines) in bounds.iter().zip(&files) {
                let (kept, late) = source(query, log, lines, Some(*bound)).split_late();
                for (stream, is_late) in [(kept, false), (late, true)] {
                    // Late lines have a time of their own again, which no window is closed by.
                    let lines = if is_late {
                        let far = mizzle::time::Watermarks::bounded(secs(1_000));
                        stream.assign_timestamps(|line| line.time, far).boxed()
                    } else {
                        stream
                    };
                    let windows = Windows::tumbling(secs(10));
                    let counts = lines.window(windows).aggregate(count()).collect();
                    parts.push((log, bound * 1_000, is_late, counts));
                }
            }
            parts
        });
        let mut rows = std::collections::BTreeMap::new();
        for (log, bound, is_late, counts) in parts {
            for window in counts.values() {
                let row = rows.entry((log, bound, window.start)).or_insert([0; 2]);
                row[usize::from(is_late)] += window.value;
            }
        }
        let row = |((log, bound, start), [kept, dropped]): ((&&str, u64, _), [u64; 2])| {
            let start: mizzle::time::Timestamp = start;
            let start = start.as_micros().to_string();
            vec![log.to_string(), bound.to_string(), start, kept.to_string(), dropped.to_string()]
        };
        assert_answer(&folder, "q8_drop_late_10s.csv", rows.into_iter().map(row).collect());
    }
}

const PROC_EVENT: usize = 4;
const HOST: usize = 5;
const USER: usize = 6;

#[test]
fn ssh_q1_invalid_users_by_host() {
    let Some(folder) = set("ssh-probes") else { return };
    let log = lines(&folder.join("auth.csv"), 1_000);
    ask(&folder, "q1_invalid_per_10min.csv", |query| {
        source(query, "auth", &log, None)
            .filter(|line| line.text(PROC_EVENT) == "invalid_user")
            .key_by(|line| line.text(HOST))
            .window(Windows::tumbling(secs(600)))
            .aggregate((count(), distinct_count(|line: &Line| line.text(USER))))
            .filter(|window| window.value.0 >= 10)
            .map(|window| {
                let (start, (n, users)) = (start_ms(&window), window.value);
                vec![start, window.key, n.to_string(), users.to_string()]
            })
            .collect()
    });
}

#[test]
fn ssh_q5_sessions_of_hosts() {
    let Some(folder) = set("ssh-probes") else { return };
    let log = lines(&folder.join("auth.csv"), 1_000);
    // What is half an hour apart is still together: half an hour and a second is not.
    let gap = secs(1_801);
    ask(&folder, "q5_sessions.csv", |query| {
        source(query, "auth", &log, None)
            .filter(|line| !line.text(HOST).is_empty())
            .key_by(|line| line.text(HOST))
            .window(Windows::session(gap))
            .aggregate(count())
            .filter(|window| window.value >= 100)
            .map(move |window| {
                let end = (window.end - gap).as_millis().to_string();
                vec![start_ms(&window), end, window.key, window.value.to_string()]
            })
            .collect()
    });
}
