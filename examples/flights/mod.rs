//! Departures from New York's three airports in the first half of February 2013, and five questions
//! about them. The data are embedded; `data/README.md` says where they are from and states the
//! questions.
//!
//! Each question is a module with a function `query` that describes the query, and the type of its
//! answers. The argument says whether the operator that answers it is flagged in-order.

pub mod by_wind;
pub mod four_in_a_row;
pub mod hourly;
pub mod knock_on;
pub mod storm;

use std::collections::BTreeSet;
use std::time::Duration;

use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Build, Query, Stream, source};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const DEPARTURES: &[u8] = include_bytes!("../data/departures.csv");
const CANCELLATIONS: &[u8] = include_bytes!("../data/cancellations.csv");
const WEATHER: &[u8] = include_bytes!("../data/weather.csv");

/// From how many minutes on a departure counts as late in all questions.
const LATE: i32 = 60;

/// A plane that left, in the order of leaving.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Departure {
    /// When it should have left.
    pub sched_ms: i64,
    /// When it did.
    pub dep_ms: i64,
    /// Its line in the set that the data are from; no two are equal.
    pub row: u32,
    /// The airport: EWR, JFK or LGA.
    pub origin: String,
    /// Where it went.
    pub dest: String,
    /// The airline.
    pub carrier: String,
    /// The flight's number.
    pub flight: u32,
    /// The aircraft, if it is known.
    pub tailnum: Option<String>,
    /// How many minutes late it left; negative if early.
    pub dep_delay: i32,
    /// How many minutes late it arrived, if it is known.
    pub arr_delay: Option<i32>,
    /// Minutes in the air, if it is known.
    pub air_time: Option<u32>,
    /// Miles.
    pub distance: u32,
}

/// A flight that never left, in the order of the schedule.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Cancellation {
    /// When it should have left.
    pub sched_ms: i64,
    /// Its line in the set that the data are from; no two are equal.
    pub row: u32,
    /// The airport: EWR, JFK or LGA.
    pub origin: String,
    /// Where it would have gone.
    pub dest: String,
    /// The airline.
    pub carrier: String,
    /// The flight's number.
    pub flight: u32,
    /// The aircraft, if it is known.
    pub tailnum: Option<String>,
}

/// The weather at an airport, every hour.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Weather {
    /// When the hour began.
    pub ts_ms: i64,
    /// The airport: EWR, JFK or LGA.
    pub origin: String,
    /// Miles per hour, if it is known.
    pub wind_speed: Option<f64>,
}

/// When a flight should have left, with ties broken by its row.
///
/// Planes that were to leave in the same minute leave in any order, and the questions want them by
/// row. Schedules are in whole minutes, so that a row's number in microseconds (at most an eighth of
/// a second) fits in between and changes neither an hour nor a window.
fn scheduled(sched_ms: i64, row: u32) -> Timestamp {
    Timestamp::from_millis(sched_ms) + Duration::from_micros(row.into())
}

/// The departures, up to 809 minutes out of order.
pub fn departures(query: &Query) -> Stream<impl Build<Out = Departure> + use<>> {
    let rows = source::csv(DEPARTURES, |d: &Departure| scheduled(d.sched_ms, d.row));
    query.source("departures", rows).watermarks(Watermarks::bounded(Duration::from_secs(810 * 60)))
}

/// The aircraft that left at least once.
pub fn tailnums() -> BTreeSet<String> {
    let rows = csv::Reader::from_reader(DEPARTURES).into_deserialize::<Departure>();
    rows.filter_map(|row| row.ok()?.tailnum).collect()
}

/// The cancellations, in order.
pub fn cancellations(query: &Query) -> Stream<impl Build<Out = Cancellation> + use<>> {
    let rows = source::csv(CANCELLATIONS, |c: &Cancellation| scheduled(c.sched_ms, c.row));
    query.source("cancellations", rows)
}

/// The weather, in order.
pub fn weather(query: &Query) -> Stream<impl Build<Out = Weather> + use<>> {
    let rows = source::csv(WEATHER, |w: &Weather| Timestamp::from_millis(w.ts_ms));
    query.source("weather", rows)
}

/// What a query finds: a row of its expected answer, which shows as one line for people.
pub trait Answer:
    DeserializeOwned + Clone + PartialEq + std::fmt::Display + Send + 'static
{
    /// The right answers, as lines of comma-separated values.
    const EXPECTED: &'static str;

    /// Whether both are the same answer: figures that were rounded when they were written down may
    /// differ a little.
    fn matches(&self, other: &Self) -> bool {
        self == other
    }

    /// How remarkable it is, for a report that shows only a few.
    fn rank(&self) -> i64;

    /// All right answers.
    fn expected() -> Vec<Self> {
        let rows = csv::Reader::from_reader(Self::EXPECTED.as_bytes()).into_deserialize();
        rows.map(|row| row.expect("the embedded answers can be read")).collect()
    }
}

/// How the answers of a query compare with the right ones, in whatever order they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Answers that are right.
    pub right: usize,
    /// Answers that should not be there.
    pub spurious: usize,
    /// Right answers that are not there.
    pub missing: usize,
}

impl Verdict {
    /// Compares `found` with what it should be.
    pub fn of<A: Answer>(found: &[A]) -> Self {
        let mut missing = A::expected();
        let mut right = 0;
        for answer in found {
            if let Some(place) = missing.iter().position(|other| answer.matches(other)) {
                missing.remove(place);
                right += 1;
            }
        }
        Self { right, spurious: found.len() - right, missing: missing.len() }
    }

    /// Whether nothing is missing and nothing spurious.
    pub fn is_right(&self) -> bool {
        self.spurious == 0 && self.missing == 0
    }
}

/// A schedule's time for people: date and minute, in UTC.
fn minute(ms: i64) -> String {
    Timestamp::from_millis(ms).to_string()[..16].replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_never_reach_the_next_minute() {
        let read = |csv: &'static [u8]| csv::Reader::from_reader(csv).into_deserialize();
        let departures: Vec<Departure> = read(DEPARTURES).map(Result::unwrap).collect();
        assert_eq!(departures.len(), 12_109);
        assert!(departures.iter().all(|d| d.sched_ms % 60_000 == 0 && d.row < 60_000_000));
        assert_eq!(departures.iter().filter(|d| d.arr_delay.is_none()).count(), 40);
    }

    #[test]
    fn a_verdict_counts_each_answer_once() {
        let mut found = four_in_a_row::Run::expected();
        assert!(Verdict::of(&found).is_right());
        found[0] = found[1].clone();
        assert_eq!(Verdict::of(&found), Verdict { right: 18, spurious: 1, missing: 1 });
    }
}
