//! The delays of each airport, hour by hour.

use std::fmt;
use std::time::Duration;

use mizzle::aggregate::{count, max, mean, sum};
use mizzle::sink::Collected;
use mizzle::{Query, Windows};
use serde::Deserialize;

use super::{Answer, Departure, LATE, departures, minute};

/// An hour of an airport.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Hour {
    /// When it began.
    pub window_start_ms: i64,
    /// The airport.
    pub origin: String,
    /// How many planes of that hour left.
    pub n: u64,
    /// How many minutes late they left on average.
    pub mean_dep_delay: f64,
    /// How many left an hour late or more.
    pub n_over_60: u64,
    /// How many minutes late the last one left.
    pub max_dep_delay: i32,
}

/// The query, and what it finds.
pub fn query(in_order: bool) -> (Query, Collected<Hour>) {
    let query = Query::new("hourly");
    let found = departures(&query)
        .key_by(|departure| departure.origin.clone())
        .window(Windows::tumbling(Duration::from_secs(3600)))
        .aggregate((
            count(),
            mean(|departure: &Departure| departure.dep_delay),
            sum(|departure: &Departure| u64::from(departure.dep_delay >= LATE)),
            max(|departure: &Departure| departure.dep_delay),
        ))
        .in_order_if(in_order)
        .name("hour")
        .filter_map(|window| {
            let (n, mean_dep_delay, n_over_60, max_dep_delay) = window.value;
            Some(Hour {
                window_start_ms: window.start.as_millis(),
                origin: window.key,
                n,
                mean_dep_delay,
                n_over_60,
                max_dep_delay: max_dep_delay?,
            })
        })
        .collect();
    (query, found)
}

impl Answer for Hour {
    const EXPECTED: &'static str = include_str!("../data/expected/q2_hourly_by_origin.csv");

    fn rank(&self) -> i64 {
        self.mean_dep_delay as i64
    }

    fn matches(&self, other: &Self) -> bool {
        // The expected means have six decimals, which counts near zero.
        let difference = (self.mean_dep_delay - other.mean_dep_delay).abs();
        let rounded = difference <= 1e-5 * other.mean_dep_delay.abs().max(0.1);
        rounded && *self == Self { mean_dep_delay: self.mean_dep_delay, ..other.clone() }
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, n, mean_dep_delay, max_dep_delay, .. } = self;
        let at = minute(self.window_start_ms);
        write!(
            f,
            "{at}  {origin}     {n:>3} left, {mean_dep_delay:>5.1} min late, worst {max_dep_delay:>3}"
        )
    }
}
