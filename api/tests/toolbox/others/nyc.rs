//! Departures from New York.

use std::time::Duration;

use mizzle::aggregate::{Aggregate, count, fold, max, mean};
use mizzle::{Build, Query, Stream, Windows};

use crate::questions::{Data, Row, ask, ask_lateness, collected, rows, secs};

const SET: &str = "nyc-flights";

/// The departures, whose schedules are up to 809 minutes out of order.
fn departures(data: &Data, query: &Query) -> Stream<impl Build<Out = Row> + use<>> {
    rows(query, data.rows("departures"), secs(809 * 60))
}

/// The departures by schedule, those of one minute by row.
fn sorted(data: &Data, query: &Query) -> Stream<impl Build<Out = Row> + use<>> {
    departures(data, query).sort_within(Duration::ZERO, |row| row.int("row")).in_order()
}

fn delay(row: &Row) -> i64 {
    row.int("dep_delay")
}

fn counting(holds: fn(&Row) -> bool) -> impl Aggregate<Row, Out = u64> {
    let add = move |n: &mut u64, row: &Row| *n += u64::from(holds(row));
    fold(|| 0, add, |n: &mut u64, more: &u64| *n += more, |n| *n)
}

#[test]
fn q1_lateness_of_departures() {
    ask_lateness(SET, "q1_lateness", |data, file| data.rows(file));
}

#[test]
fn q2_hourly_by_origin() {
    ask(SET, "q2_hourly_by_origin", |data, query| {
        let hours = departures(data, query)
            .key_by(|row| row.owned("origin"))
            .window(Windows::tumbling(secs(3_600)))
            .aggregate((
                count(),
                mean(|row| delay(row) as f64),
                counting(|r| delay(r) >= 60),
                max(delay),
            ));
        let lines = hours.map(|hour| {
            let (n, mean, n_over_60, max) = hour.value;
            let (start, max) = (hour.start.as_millis(), max.unwrap());
            format!("{start},{},{n},{mean:.6},{n_over_60},{max}", hour.key)
        });
        collected(lines.collect())
    });
}

#[test]
fn q3_storm() {
    ask(SET, "q3_storm", |data, query| {
        let cancelled = rows(query, data.rows("cancellations"), Duration::ZERO);
        let storm = departures(data, query)
            .union(cancelled)
            .key_by(|row| row.owned("origin"))
            .window(Windows::tumbling(secs(3 * 3_600)))
            .aggregate((count(), counting(|row| &*row.file == "cancellations")))
            .filter(|window| window.value.0 >= 10 && 2 * window.value.1 >= window.value.0);
        let lines = storm.map(|window| {
            let (n, n_cancelled) = window.value;
            format!("{},{},{n},{n_cancelled}", window.start.as_millis(), window.key)
        });
        collected(lines.collect())
    });
}

#[test]
fn q4_knock_on_delays() {
    ask(SET, "q4_knock_on", |data, query| {
        let lines = sorted(data, query)
            .filter(|row| !row.text("tailnum").is_empty())
            .key_by(|row| row.owned("tailnum"))
            .pairwise()
            .in_order()
            .filter(|(before, now)| delay(before) >= 60 && delay(now) >= 60)
            .filter(|(before, now)| now.time.since(before.time) <= secs(12 * 3_600))
            .map(|(before, now)| {
                let ends = [before.text("row"), now.text("row"), now.text("sched_ms")].join(",");
                format!("{},{ends},{},{}", now.text("tailnum"), delay(&before), delay(&now))
            });
        collected(lines.collect())
    });
}

#[test]
fn q6_four_late_in_a_row() {
    ask(SET, "q6_four_in_a_row", |data, query| {
        let lines = sorted(data, query)
            .key_by(|row| (row.owned("origin"), row.owned("carrier")))
            .runs_of(4, |row| delay(row) >= 60)
            .in_order()
            .map(|row| {
                ["sched_ms", "row", "origin", "carrier"].map(|name| row.text(name)).join(",")
            });
        collected(lines.collect())
    });
}
