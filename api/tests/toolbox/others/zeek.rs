//! Logs of a network monitor, truly out of order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mizzle::aggregate::{count, fold};
use mizzle::stream::Member;
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{BoxedStream, Query, Windows};

use crate::questions::{Data, Row, ask, ask_lateness, collected, rows, secs};

const SET: &str = "zeek-net";

const STREAMS: [&str; 6] = ["dns", "tls", "rdp", "ntlm", "weird", "smtp"];

/// More than the most that any row is late.
const SLACK: Duration = Duration::from_secs(310);

/// The six streams, each from a source of its own, or one file after another from one.
fn union(data: &Data, query: &Query, interleaved: bool) -> BoxedStream<Row> {
    let mut files = STREAMS.iter().map(|file| data.rows(file));
    if interleaved {
        let first = rows(query, files.next().expect("there are files"), SLACK);
        return first.union_all(files.map(|file| rows(query, file, SLACK)));
    }
    rows(query, files.flatten().collect(), secs(700)).boxed()
}

fn client(row: &Row) -> String {
    row.owned("client")
}

#[test]
fn q1_lateness_of_each_log() {
    ask_lateness(SET, "q1_lateness", |data, file| data.rows(file));
}

#[test]
fn q2_rows_per_ten_seconds() {
    for interleaved in [true, false] {
        ask(SET, "q2_union_10s", |data, query| {
            type Counts = BTreeMap<String, u64>;
            let add = |counts: &mut Counts, row: &Row| {
                *counts.entry(row.file.to_string()).or_default() += 1;
            };
            let merge = |counts: &mut Counts, more: &Counts| {
                more.iter().for_each(|(file, n)| *counts.entry(file.clone()).or_default() += n);
            };
            let windows = union(data, query, interleaved)
                .window(Windows::tumbling(secs(10)))
                .aggregate((fold(Counts::new, add, merge, Counts::clone), count()));
            let lines = windows.map(|window| {
                let (counts, total) = window.value;
                let counts = STREAMS.map(|file| counts.get(file).map_or(0, |n| *n).to_string());
                format!("{},{},{total}", window.start.as_micros(), counts.join(","))
            });
            collected(lines.collect())
        });
    }
}

#[test]
fn q3_bursts_of_unknown_names() {
    ask(SET, "q3_nxdomain_burst", |data, query| {
        let lines = rows(query, data.rows("dns"), SLACK)
            .filter(|row| row.text("rcode") == "NXDOMAIN")
            .key_by(client)
            .count_reaches(10, secs(10))
            .in_order()
            .map(|row| {
                format!("{},{},{},10", row.text("ts_us"), row.text("seq"), row.text("client"))
            });
        collected(lines.collect())
    });
}

/// How long the run of failures is by now, and when the last three were.
type Failures = (u64, VecDeque<Timestamp>);

/// A success that follows at least three failures within ten seconds.
fn success_after((run, last): &mut Failures, row: Row) -> Option<String> {
    if row.text("established") != "T" {
        *run += 1;
        last.push_back(row.time);
        if last.len() > 3 {
            last.pop_front();
        }
        return None;
    }
    let (run, last) = (std::mem::take(run), std::mem::take(last));
    let first = *last.front().filter(|_| run >= 3)?;
    (row.time.since(first) <= secs(10)).then(|| {
        let cells =
            ["ts_us", "seq", "client", "server", "port"].map(|name| row.text(name)).join(",");
        format!("{cells},{},{run}", first.as_micros())
    })
}

#[test]
fn q4_success_after_failures() {
    ask(SET, "q4_tls_fail_then_success", |data, query| {
        let lines = rows(query, data.rows("tls"), SLACK)
            .key_by(|row| ["client", "server", "port"].map(|name| row.owned(name)))
            .apply_stateful(Failures::default(), success_after)
            .in_order()
            .filter_map(|line| line);
        collected(lines.collect())
    });
}

#[test]
fn q6_clients_that_sweep_servers() {
    ask(SET, "q6_rdp_sweep", |data, query| {
        let servers = fold(
            BTreeSet::new,
            |servers: &mut BTreeSet<String>, row: &Row| servers.extend([row.owned("server")]),
            |servers, more| servers.extend(more.iter().cloned()),
            |servers| servers.len(),
        );
        let sweeps = rows(query, data.rows("rdp"), SLACK)
            .key_by(client)
            .window(Windows::tumbling(secs(30)))
            .aggregate((servers, count()))
            .filter(|window| window.value.0 >= 3);
        let lines = sweeps.map(|window| {
            let (n_servers, n_events) = window.value;
            format!("{},{},{n_servers},{n_events}", window.start.as_micros(), window.key)
        });
        collected(lines.collect())
    });
}

/// A query per client, as members of a group.
#[test]
fn q7_a_query_per_client() {
    for interleaved in [true, false] {
        ask(SET, "q7_per_client_counts", |data, query| {
            let all = union(data, query, interleaved);
            let (clients, results) = all.key_by(client).group("client", |member: Member<(), _>| {
                member.map(|((), row)| (client(&row), row.file.to_string()))
            });
            let files = STREAMS.iter().flat_map(|file| data.rows(file));
            let known: BTreeSet<String> = files.map(|row| client(&row)).collect();
            let known: Vec<_> = known.into_iter().filter(|client| !client.is_empty()).collect();
            for client in &known {
                clients.add(client.clone(), ()).unwrap();
            }
            let results = results.collect();
            Box::new(move || {
                let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
                for (_, seen) in results.values() {
                    *counts.entry(seen).or_default() += 1;
                }
                let line = |client: String| {
                    let of = |file: &str| counts.get(&(client.clone(), file.to_owned()));
                    let counts = STREAMS.map(|file| of(file).map_or(0, |n| *n).to_string());
                    format!("{client},{}", counts.join(","))
                };
                known.into_iter().map(line).collect()
            })
        });
    }
}

#[test]
fn q8_rows_kept_and_dropped() {
    ask(SET, "q8_drop_late_10s", |data, query| {
        let mut parts = Vec::new();
        for (file, bound) in [("tls", 5u64), ("dns", 60)] {
            let (on_time, late) = rows(query, data.rows(file), secs(bound)).split_late();
            let late = late.assign_timestamps(|row| row.time, Watermarks::bounded(secs(700)));
            let ten = Windows::tumbling(secs(10));
            let kept = on_time.window(ten).aggregate(count()).collect();
            let dropped = late.window(ten).aggregate(count()).collect();
            parts.push((file, bound, kept, dropped));
        }
        Box::new(move || {
            let mut lines = Vec::new();
            for (file, bound, kept, dropped) in parts {
                let mut windows: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
                for window in kept.values() {
                    windows.entry(window.start.as_micros()).or_default().0 = window.value;
                }
                for window in dropped.values() {
                    windows.entry(window.start.as_micros()).or_default().1 = window.value;
                }
                let bound = bound * 1_000_000;
                lines.extend(windows.into_iter().map(|(start, (kept, dropped))| {
                    format!("{file},{bound},{start},{kept},{dropped}")
                }));
            }
            lines
        })
    });
}
