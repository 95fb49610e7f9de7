//! How late planes leave in how much wind: each departure with the weather of its hour.

use std::fmt;
use std::time::Duration;

use mizzle::aggregate::{count, mean, sum};
use mizzle::sink::Collected;
use mizzle::{Query, Windows};
use serde::Deserialize;

use super::{Answer, LATE, departures, weather};

/// From how much wind on the next figures are counted, in miles per hour.
const STEP: f64 = 5.0;
const HOUR: Duration = Duration::from_secs(3600);
/// One window holds both weeks.
const FOUR_WEEKS: Duration = Duration::from_secs(28 * 24 * 3600);

/// The departures in about as much wind.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Wind {
    /// At least so many miles per hour, and less than five more.
    pub wind_bucket_mph: i32,
    /// How many planes left.
    pub n: u64,
    /// How many minutes late they left on average.
    pub mean_dep_delay: f64,
    /// How many left an hour late or more.
    pub n_over_60: u64,
}

/// The query, and what it finds.
pub fn query(in_order: bool) -> (Query, Collected<Wind>) {
    let query = Query::new("by-wind");
    let weather = weather(&query);
    let found = departures(&query)
        .key_by(|departure| departure.origin.clone())
        .lookup(weather.key_by(|weather| weather.origin.clone()))
        // The weather of an hour stands until the next one begins.
        .no_older_than(HOUR - Duration::from_micros(1))
        .inner()
        .in_order_if(in_order)
        .name("weather")
        .filter_map(|(departure, weather)| {
            let bucket = (weather.wind_speed? / STEP).floor() * STEP;
            Some((bucket as i32, departure.dep_delay))
        })
        .key_by(|&(bucket, _)| bucket)
        .window(Windows::tumbling(FOUR_WEEKS))
        .aggregate((
            count(),
            mean(|&(_, delay): &(i32, i32)| delay),
            sum(|&(_, delay): &(i32, i32)| u64::from(delay >= LATE)),
        ))
        .map(|window| {
            let (n, mean_dep_delay, n_over_60) = window.value;
            Wind { wind_bucket_mph: window.key, n, mean_dep_delay, n_over_60 }
        })
        .collect();
    (query, found)
}

impl Answer for Wind {
    const EXPECTED: &'static str = include_str!("../data/expected/q5_delay_by_wind.csv");

    fn rank(&self) -> i64 {
        self.mean_dep_delay as i64
    }

    fn matches(&self, other: &Self) -> bool {
        // The expected means have six decimals.
        let difference = (self.mean_dep_delay - other.mean_dep_delay).abs();
        let rounded = difference <= 1e-5 * other.mean_dep_delay.abs();
        rounded && *self == Self { mean_dep_delay: self.mean_dep_delay, ..other.clone() }
    }
}

impl fmt::Display for Wind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wind_bucket_mph: from, n, mean_dep_delay, n_over_60 } = self;
        let to = from + STEP as i32;
        write!(
            f,
            "{from:>2} to {to:>2} mph  {n:>5} left, {mean_dep_delay:>5.1} min late, {n_over_60:>3} an hour late"
        )
    }
}
