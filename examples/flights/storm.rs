//! The storm: three hours in which at least half of an airport's flights were cancelled.

use std::fmt;
use std::time::Duration;

use mizzle::aggregate::{count, sum};
use mizzle::sink::Collected;
use mizzle::{Query, Windows};
use serde::Deserialize;

use super::{Answer, cancellations, departures, minute};

/// A flight on the schedule.
struct Scheduled {
    origin: String,
    cancelled: bool,
}

/// Three hours of an airport.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Storm {
    /// When they began.
    pub window_start_ms: i64,
    /// The airport.
    pub origin: String,
    /// How many flights were on the schedule.
    pub n_scheduled: u64,
    /// How many of them were cancelled.
    pub n_cancelled: u64,
}

/// The query, and what it finds.
pub fn query(in_order: bool) -> (Query, Collected<Storm>) {
    let query = Query::new("storm");
    let left =
        departures(&query).map(|flight| Scheduled { origin: flight.origin, cancelled: false });
    let found = cancellations(&query)
        .map(|flight| Scheduled { origin: flight.origin, cancelled: true })
        .union(left)
        .key_by(|flight| flight.origin.clone())
        .window(Windows::tumbling(Duration::from_secs(3 * 3600)))
        .aggregate((count(), sum(|flight: &Scheduled| u64::from(flight.cancelled))))
        .in_order_if(in_order)
        .name("three hours")
        .map(|window| Storm {
            window_start_ms: window.start.as_millis(),
            origin: window.key,
            n_scheduled: window.value.0,
            n_cancelled: window.value.1,
        })
        .filter(|hours| hours.n_scheduled >= 10 && 2 * hours.n_cancelled >= hours.n_scheduled)
        .collect();
    (query, found)
}

impl Answer for Storm {
    const EXPECTED: &'static str = include_str!("../data/expected/q3_storm.csv");

    fn rank(&self) -> i64 {
        (100 * self.n_cancelled / self.n_scheduled) as i64
    }
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, n_scheduled, n_cancelled, .. } = self;
        let at = minute(self.window_start_ms);
        write!(f, "{at}  {origin}     {n_cancelled:>3} of {n_scheduled:>3} flights cancelled")
    }
}
