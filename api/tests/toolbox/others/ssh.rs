//! Strangers who guess user names.

use std::collections::BTreeSet;
use std::time::Duration;

use mizzle::aggregate::{count, fold};
use mizzle::{Build, Query, Stream, Windows};

use crate::questions::{Data, Row, ask, collected, rows, secs};

const SET: &str = "ssh-probes";

fn guesses(data: &Data, query: &Query) -> Stream<impl Build<Out = Row> + use<>> {
    rows(query, data.rows("auth"), Duration::ZERO).filter(|row| row.text("event") == "invalid_user")
}

fn host(row: &Row) -> String {
    row.owned("host")
}

#[test]
fn q1_guesses_per_ten_minutes() {
    ask(SET, "q1_invalid_per_10min", |data, query| {
        let users = fold(
            BTreeSet::new,
            |users: &mut BTreeSet<String>, row: &Row| users.extend([row.owned("user")]),
            |users, more| users.extend(more.iter().cloned()),
            |users| users.len(),
        );
        let busy = guesses(data, query)
            .key_by(host)
            .window(Windows::tumbling(secs(600)))
            .aggregate((count(), users))
            .filter(|window| window.value.0 >= 10);
        let lines = busy.map(|window| {
            let (n, n_users) = window.value;
            format!("{},{},{n},{n_users}", window.start.as_millis(), window.key)
        });
        collected(lines.collect())
    });
}

#[test]
fn q3_brute_force() {
    ask(SET, "q3_bruteforce", |data, query| {
        let lines =
            guesses(data, query).key_by(host).count_reaches(5, secs(60)).in_order().map(|row| {
                format!("{},{},{},5", row.text("ts_ms"), row.text("line"), row.text("host"))
            });
        collected(lines.collect())
    });
}

/// The same with the count at each event and the edge behind it: what `count_reaches` is short for.
#[test]
fn q3_brute_force_by_counts() {
    ask(SET, "q3_bruteforce", |data, query| {
        let lines = guesses(data, query)
            .key_by(host)
            .count_within(secs(60))
            .in_order()
            .key_by(|(row, _)| host(row))
            .rising_edge(|(_, count)| *count >= 5)
            .in_order()
            .map(|(row, count)| {
                format!("{},{},{},{count}", row.text("ts_ms"), row.text("line"), row.text("host"))
            });
        collected(lines.collect())
    });
}
