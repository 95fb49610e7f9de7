//! Four late departures running, of one airline at one airport.

use std::fmt;

use mizzle::Query;
use mizzle::sink::Collected;
use serde::Deserialize;

use super::{Answer, Departure, LATE, departures, minute};

/// The fourth of four late departures.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Run {
    /// When it should have left.
    pub sched_ms: i64,
    /// The departure.
    pub row: u32,
    /// The airport.
    pub origin: String,
    /// The airline.
    pub carrier: String,
}

/// The query, and what it finds.
///
/// The state of each airline at each airport is how many late departures it has had running; a
/// fourth is found once, and the next only after a departure on time.
pub fn query(in_order: bool) -> (Query, Collected<Run>) {
    let query = Query::new("four-in-a-row");
    let found = departures(&query)
        .key_by(|departure| (departure.origin.clone(), departure.carrier.clone()))
        .state_transition(0u32, count_late, |&running| running == 4)
        .in_order_if(in_order)
        .name("running")
        .map(|(fourth, _)| Run {
            sched_ms: fourth.sched_ms,
            row: fourth.row,
            origin: fourth.origin,
            carrier: fourth.carrier,
        })
        .collect();
    (query, found)
}

fn count_late(running: &u32, departure: &Departure) -> Option<u32> {
    Some(if departure.dep_delay >= LATE { running + 1 } else { 0 })
}

impl Answer for Run {
    const EXPECTED: &'static str = include_str!("../data/expected/q6_four_in_a_row.csv");

    fn rank(&self) -> i64 {
        -self.sched_ms
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, carrier, row, .. } = self;
        write!(f, "{}  {origin} {carrier}  row {row} is the fourth", minute(self.sched_ms))
    }
}
