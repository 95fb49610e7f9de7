//! Questions about real data whose answers are joins, on one, two and four workers.

use std::path::Path;
use std::time::Duration;

use mizzle::aggregate::{count, fold, max, mean, sum};
use mizzle::time::{SignedDuration, Timestamp, Watermarks};
use mizzle::{Engine, Interval, Query, Windows, source};
use serde::Deserialize;

use super::{at, completed, late_unused, ms};
use crate::data::{close, rows, set};

/// Runs what `describe` puts into a query, on 1, 2 and 4 workers; its answers each time.
fn answers<T: Clone + Send + 'static>(
    describe: impl Fn(&Query) -> mizzle::sink::Collected<T>,
) -> Vec<Vec<T>> {
    let run = |workers| {
        let engine = Engine::builder().workers(workers).build().unwrap();
        let query = Query::new("question");
        let found = describe(&query);
        let handle = engine.submit(query).unwrap();
        completed(&handle);
        assert_eq!(late_unused(&handle), 0);
        found.values()
    };
    [1, 2, 4].map(run).into()
}

/// A mean that was rounded is compared last.
fn same<T>(mut got: Vec<(T, f64)>, mut expected: Vec<(T, f64)>)
where
    T: std::fmt::Debug + Ord,
{
    got.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    let (keys, means): (Vec<_>, Vec<_>) = got.into_iter().unzip();
    let (expected_keys, expected_means): (Vec<_>, Vec<_>) = expected.into_iter().unzip();
    assert_eq!(keys, expected_keys);
    for (key, (got, expected)) in keys.iter().zip(means.into_iter().zip(expected_means)) {
        assert!(close(got, expected), "{key:?}: {got} instead of {expected}");
    }
}

mod nyc_flights {
    use super::*;

    #[derive(Clone, Deserialize)]
    struct Departure {
        sched_ms: i64,
        origin: String,
        dep_delay: i64,
    }

    #[derive(Clone, Deserialize)]
    struct Weather {
        ts_ms: i64,
        origin: String,
        wind_speed: Option<f64>,
    }

    #[derive(Deserialize)]
    struct Expected {
        wind_bucket_mph: i64,
        n: u64,
        mean_dep_delay: f64,
        n_over_60: u64,
    }

    const HOUR: i64 = 3_600_000;

    #[test]
    fn question_5_delay_by_wind() {
        let Some(folder) = set("nyc-flights") else { return };
        let expected = rows::<Expected>(folder.join("expected/q5_delay_by_wind.csv"));
        assert_eq!(expected.len(), 6);
        let expected: Vec<_> = expected
            .iter()
            .map(|it| ((it.wind_bucket_mph, it.n, it.n_over_60), it.mean_dep_delay))
            .collect();
        for got in answers(|query| by_wind(query, &folder)) {
            same(got, expected.clone());
        }
    }

    /// The hour's weather is a table that changes every hour.
    fn by_wind(query: &Query, folder: &Path) -> mizzle::sink::Collected<((i64, u64, u64), f64)> {
        let departures = rows::<Departure>(folder.join("departures.csv"));
        let departures = query
            .source("departures", source::from_iter(departures, |it| at(it.sched_ms)))
            .watermarks(Watermarks::bounded(ms(810 * 60_000)));
        let weather = rows::<Weather>(folder.join("weather.csv"));
        let weather = query.source("weather", source::from_iter(weather, |it| at(it.ts_ms)));
        departures
            .key_by(|it| it.origin.clone())
            .lookup(weather.key_by(|it| it.origin.clone()))
            .no_older_than(ms(HOUR as u64 - 1))
            .inner()
            .map(|(departure, weather)| (weather.wind_speed, departure.dep_delay))
            .filter_map(|(wind, delay)| Some(((wind? / 5.0).floor() as i64 * 5, delay)))
            .key_by(|&(bucket, _)| bucket)
            .window(Windows::tumbling(ms(30 * 24 * HOUR as u64)).offset(ms(10 * 24 * HOUR as u64)))
            .aggregate((
                count(),
                sum(|&(_, delay): &(i64, i64)| u64::from(delay >= 60)),
                mean(|&(_, delay): &(i64, i64)| delay as f64),
            ))
            .map(|it| ((it.key, it.value.0, it.value.1), it.value.2))
            .collect()
    }
}

mod aberdeen_air {
    use super::*;

    #[derive(Clone, Deserialize)]
    struct Reading {
        ts_ms: i64,
        sensor_id: u32,
        pm25: f64,
    }

    #[derive(Clone, Deserialize)]
    struct Reference {
        ts_ms: i64,
        station: String,
        pm25: Option<i64>,
    }

    #[derive(Deserialize)]
    struct Expected {
        ts_ms: i64,
        sensor_id: u32,
        n: u64,
        mean_pm25: f64,
        ref_pm25: i64,
    }

    #[test]
    fn question_6_reference_join() {
        let Some(folder) = set("aberdeen-air") else { return };
        let expected = rows::<Expected>(folder.join("expected/q6_reference_join.csv"));
        assert_eq!(expected.len(), 13);
        let row = |it: &Expected| ((it.ts_ms, it.sensor_id, it.n, it.ref_pm25), it.mean_pm25);
        let expected: Vec<_> = expected.iter().map(row).collect();
        for got in answers(|query| above_reference(query, &folder)) {
            same(got, expected.clone());
        }
    }

    fn above_reference(
        query: &Query,
        folder: &Path,
    ) -> mizzle::sink::Collected<((i64, u32, u64, i64), f64)> {
        let files = std::fs::read_dir(folder.join("sensors")).unwrap();
        let sensors = files.map(|file| {
            let readings = rows::<Reading>(file.unwrap().path());
            query.source("sensor", source::from_iter(readings, |it| at(it.ts_ms))).boxed()
        });
        let mut sensors = sensors.collect::<Vec<_>>().into_iter();
        let first = sensors.next().unwrap();
        let hourly = first
            .union_all(sensors)
            .key_by(|it| it.sensor_id)
            .window(Windows::tumbling(ms(3_600_000)))
            .aggregate((count(), mean(|it: &Reading| it.pm25)));
        let reference = rows::<Reference>(folder.join("reference.csv"));
        let reference = query
            .source("reference", source::from_iter(reference, |it| at(it.ts_ms)))
            .filter(|it| it.station == "errol-place")
            .filter_map(|it| Some((it.ts_ms, it.pm25?)));
        // A window's result happens a microsecond before its end, which is the reference's stamp.
        let next = SignedDuration::from_micros(1);
        hourly
            .join(reference)
            .within(next..=next)
            .inner()
            .filter(|(hour, (_, reference))| hour.value.0 >= 15 && *reference >= 5)
            .filter(|(hour, (_, reference))| hour.value.1 >= 1.5 * *reference as f64)
            .map(|(hour, (ts_ms, reference))| {
                ((ts_ms, hour.key, hour.value.0, reference), hour.value.1)
            })
            .collect()
    }
}

mod nab_fleet {
    use super::*;

    #[derive(Clone, Debug, Deserialize)]
    struct Metric {
        ts_ms: i64,
        device: String,
        value: f64,
    }

    type Row = (i64, String, f64, i64, f64);

    #[test]
    fn question_5_congestion_as_of() {
        let Some(folder) = set("nab-fleet") else { return };
        let expected = rows::<Row>(folder.join("expected/q5_congestion_asof.csv"));
        assert_eq!(expected.len(), 54);
        for flagged in [false, true] {
            for mut got in answers(|query| congested(query, &folder, flagged)) {
                got.sort_by_key(|it| it.0);
                assert_eq!(got, expected);
            }
        }
    }

    fn congested(query: &Query, folder: &Path, flagged: bool) -> mizzle::sink::Collected<Row> {
        let metrics = |files: [&str; 2]| {
            let [first, second] = files.map(|file| {
                let metrics = rows::<Metric>(folder.join("traffic").join(file));
                query.source(file, source::from_iter(metrics, |it| at(it.ts_ms)))
            });
            first.union(second)
        };
        let speeds = metrics(["6005.csv", "t4013.csv"]).filter(|it| it.value < 55.0);
        let occupancies = metrics(["6005-occ.csv", "t4013-occ.csv"]);
        speeds
            .key_by(|it| it.device.clone())
            .as_of(occupancies.key_by(|it| it.device.clone()))
            .no_older_than(ms(600_000))
            .inner()
            .in_order_if(flagged)
            .filter(|(_, occupancy)| occupancy.value >= 12.0)
            .map(|(speed, occupancy)| {
                (speed.ts_ms, speed.device, speed.value, occupancy.ts_ms, occupancy.value)
            })
            .collect()
    }
}

mod px4_imu {
    use super::*;

    #[derive(Clone, Deserialize)]
    struct Attitude {
        ts_us: i64,
        q_0: f64,
        q_1: f64,
        q_2: f64,
        q_3: f64,
    }

    #[derive(Clone, Deserialize)]
    struct Setpoint {
        ts_us: i64,
        roll_body: f64,
    }

    type Expected = (i64, u64, f64, f64);

    #[test]
    fn question_4_roll_error() {
        let Some(folder) = set("px4-imu") else { return };
        let expected = rows::<Expected>(folder.join("expected/q4_roll_error_1s.csv"));
        assert_eq!(expected.len(), 70);
        for flagged in [false, true] {
            for mut got in answers(|query| roll_errors(query, &folder, flagged)) {
                got.sort_by_key(|it| it.0);
                assert_eq!(got.len(), expected.len());
                for (got, expected) in got.iter().zip(&expected) {
                    assert_eq!((got.0, got.1), (expected.0, expected.1));
                    let all_close = close(got.2, expected.2) && close(got.3, expected.3);
                    assert!(all_close, "{got:?} instead of {expected:?}");
                }
            }
        }
    }

    fn roll_errors(
        query: &Query,
        folder: &Path,
        flagged: bool,
    ) -> mizzle::sink::Collected<Expected> {
        let micros = Timestamp::from_micros;
        let attitudes = rows::<Attitude>(folder.join("vehicle_attitude.csv"));
        let attitudes = source::from_iter(attitudes, move |it| micros(it.ts_us));
        let setpoints = rows::<Setpoint>(folder.join("vehicle_attitude_setpoint.csv"));
        let setpoints = source::from_iter(setpoints, move |it| micros(it.ts_us));
        query
            .source("attitudes", attitudes)
            .as_of(query.source("setpoints", setpoints))
            .no_older_than(ms(50))
            .inner()
            .in_order_if(flagged)
            .map(|(attitude, setpoint)| {
                let Attitude { q_0, q_1, q_2, q_3, .. } = attitude;
                let (x, y) = (2.0 * (q_0 * q_1 + q_2 * q_3), 1.0 - 2.0 * (q_1 * q_1 + q_2 * q_2));
                (x.atan2(y) - setpoint.roll_body).abs()
            })
            .window(Windows::tumbling(ms(1_000)))
            .aggregate((count(), mean(|error: &f64| *error), max(|error: &f64| *error)))
            .map(|it| {
                let (n, mean, max) = it.value;
                (it.start.as_micros(), n, mean, max.unwrap())
            })
            .collect()
    }
}

mod ssh_probes {
    use super::*;

    #[derive(Clone, Deserialize)]
    struct Line {
        ts_ms: i64,
        line: u32,
        pid: u32,
        event: String,
        host: String,
    }

    type Attack = (i64, u32, i64, u32, String);

    /// The log; lines of one second are told apart by their number, in microseconds.
    fn log(query: &Query, folder: &Path) -> mizzle::Shared<Line> {
        let lines = rows::<Line>(folder.join("auth.csv"));
        let time = |it: &Line| at(it.ts_ms) + Duration::from_micros(it.line.into());
        query.source("log", source::from_iter(lines, time)).share()
    }

    /// Of each left line the first of its partners, in a stream in order.
    fn is_first(seen: &mut Option<u32>, line: u32) -> bool {
        seen.replace(line) != Some(line)
    }

    #[test]
    fn question_2_probe_then_attack() {
        let Some(folder) = set("ssh-probes") else { return };
        let expected = rows::<Attack>(folder.join("expected/q2_probe_then_attack.csv"));
        assert_eq!(expected.len(), 413);
        for mut got in answers(|query| attacks(query, &folder)) {
            got.sort_by_key(|it| it.1);
            assert_eq!(got, expected);
        }
    }

    /// Each probe with the first attack after it: of all pairs the earliest for each probe.
    fn attacks(query: &Query, folder: &Path) -> mizzle::sink::Collected<Attack> {
        let log = log(query, folder);
        let probes = log.clone().filter(|it| it.event == "no_ident");
        let attacks = log.filter(|it| it.event == "invalid_user");
        probes
            .key_by(|it| it.host.clone())
            .join(attacks.key_by(|it| it.host.clone()))
            // A second's lines lie within a tenth of a second here.
            .within(Interval::after(ms(600_100)))
            .inner()
            .filter(|(probe, attack)| attack.ts_ms - probe.ts_ms <= 600_000)
            .key_by(|(probe, _)| probe.line)
            .apply_stateful(None, |seen, (probe, attack)| {
                is_first(seen, probe.line).then_some((
                    probe.ts_ms,
                    probe.line,
                    attack.ts_ms,
                    attack.line,
                    probe.host,
                ))
            })
            .in_order()
            .filter_map(|attack| attack)
            .collect()
    }

    #[test]
    fn question_4_pid_join() {
        let Some(folder) = set("ssh-probes") else { return };
        let expected = rows::<(i64, u64)>(folder.join("expected/q4_pid_join_lag_histogram.csv"));
        assert_eq!(expected, [(0, 1_189), (1, 233), (5, 1)]);
        for mut lags in answers(|query| lags(query, &folder)) {
            lags.sort_unstable();
            let of = |lag| (lag, lags.iter().filter(|&&it| it == lag).count() as u64);
            assert_eq!([0, 1, 5].map(of).to_vec(), expected);
            assert_eq!(lags.len(), 1_423);
        }
    }

    fn lags(query: &Query, folder: &Path) -> mizzle::sink::Collected<i64> {
        let log = log(query, folder);
        let invalid = log.clone().filter(|it| it.event == "invalid_user");
        let gone = log.filter(|it| it.event == "disconnect");
        invalid
            .key_by(|it| it.pid)
            .join(gone.key_by(|it| it.pid))
            .within(Interval::after(ms(60_100)))
            .inner_with(|invalid, gone| (invalid.line, (gone.ts_ms - invalid.ts_ms) / 1_000))
            .filter(|&(_, lag)| lag <= 60)
            .key_by(|&(line, _)| line)
            .apply_stateful(None, |seen, (line, lag)| is_first(seen, line).then_some(lag))
            .in_order()
            .filter_map(|lag| lag)
            .collect()
    }
}

mod zeek_net {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Clone, Deserialize)]
    struct Dns {
        ts_us: i64,
        seq: u32,
        client: String,
        name: String,
        qtype: String,
        rcode: String,
    }

    #[derive(Clone, Deserialize)]
    struct Tls {
        ts_us: i64,
        seq: u32,
        client: String,
        server_name: Option<String>,
    }

    /// A row of TLS with how many partners it has, and the latest: its time and number.
    #[derive(Clone, Debug, PartialEq)]
    struct Named {
        ts_us: i64,
        seq: u32,
        client: String,
        name: String,
        latest: Option<(i64, u32)>,
        pairs: u64,
    }

    const SECOND: u64 = 1_000;

    #[test]
    fn question_5_dns_and_tls() {
        let Some(folder) = set("zeek-net") else { return };
        let by_client =
            rows::<(String, u64, u64, u64)>(folder.join("expected/q5_dns_tls_join_by_client.csv"));
        let first = rows::<(i64, u32, String, String, i64, u32, i64, u64)>(
            folder.join("expected/q5_dns_tls_asof_first200.csv"),
        );
        assert_eq!((by_client.len(), first.len()), (89, 200));
        for mut named in answers(|query| named(query, &folder)) {
            named.sort_by_key(|it| (it.ts_us, it.seq));
            let matched = named.iter().filter_map(|it| {
                let (dns_us, dns_seq) = it.latest?;
                let (client, name) = (it.client.clone(), it.name.clone());
                Some((it.ts_us, it.seq, client, name, dns_us, dns_seq, it.ts_us - dns_us, it.pairs))
            });
            assert_eq!(matched.take(200).collect::<Vec<_>>(), first);
            let mut clients = BTreeMap::<String, (u64, u64, u64)>::new();
            for it in &named {
                let counts = clients.entry(it.client.clone()).or_default();
                counts.0 += 1;
                counts.1 += u64::from(it.pairs > 0);
                counts.2 += it.pairs;
            }
            let clients = clients.into_iter().map(|(client, (n, m, p))| (client, n, m, p));
            let mut expected = by_client.clone();
            expected.sort();
            assert_eq!(clients.collect::<Vec<_>>(), expected);
        }
    }

    /// The pairs of each row of TLS all happen at its own time, and so does the row without any: a window
    /// of a microsecond holds them.
    fn named(query: &Query, folder: &Path) -> mizzle::sink::Collected<Named> {
        let micros = Timestamp::from_micros;
        let slack = Watermarks::bounded(ms(310 * SECOND));
        let tls = rows::<Tls>(folder.join("tls.csv"));
        let tls = query
            .source("tls", source::from_iter(tls, move |it| micros(it.ts_us)))
            .watermarks(Watermarks::bounded(ms(310 * SECOND)))
            .filter(|it| it.server_name.is_some());
        let dns = rows::<Dns>(folder.join("dns.csv"));
        let dns = query
            .source("dns", source::from_iter(dns, move |it| micros(it.ts_us)))
            .watermarks(slack)
            .filter(|it| it.qtype == "A" && it.rcode == "NOERROR");
        tls.key_by(|it| (it.client.clone(), it.server_name.clone().unwrap_or_default()))
            .join(dns.key_by(|it| (it.client.clone(), it.name.clone())))
            .within(Interval::before(ms(5 * SECOND)))
            .left()
            .key_by(|(tls, _)| tls.seq)
            .window(Windows::tumbling(Duration::from_micros(1)))
            .aggregate(fold(
                || None,
                |all: &mut Option<Named>, (tls, dns): &(Tls, Option<Dns>)| {
                    let partner = dns.as_ref().map(|dns| (dns.ts_us, dns.seq));
                    let all = all.get_or_insert_with(|| Named {
                        ts_us: tls.ts_us,
                        seq: tls.seq,
                        client: tls.client.clone(),
                        name: tls.server_name.clone().unwrap_or_default(),
                        latest: None,
                        pairs: 0,
                    });
                    all.latest = all.latest.max(partner);
                    all.pairs += u64::from(partner.is_some());
                },
                |all, other| {
                    let Some(other) = other else { return };
                    match all {
                        Some(all) => {
                            all.latest = all.latest.max(other.latest);
                            all.pairs += other.pairs;
                        }
                        None => *all = Some(other.clone()),
                    }
                },
                |all: &Option<Named>| all.clone().expect("a window has a row"),
            ))
            .map(|window| window.value)
            .collect()
    }
}
