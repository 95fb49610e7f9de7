//! An aircraft that leaves late twice running: the second delay may follow from the first.
//!
//! A query per aircraft: 2,601 members of one group.

use std::fmt;

use mizzle::Query;
use mizzle::sink::Collected;
use mizzle::stream::Member;
use serde::Deserialize;

use super::{Answer, Departure, LATE, departures, minute, tailnums};

/// The two departures may lie this far apart.
const TWELVE_HOURS_MS: i64 = 12 * 3_600_000;

/// Two late departures of one aircraft, one after the other.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct KnockOn {
    /// The aircraft.
    pub tailnum: String,
    /// The first departure.
    pub first_row: u32,
    /// The second departure.
    pub second_row: u32,
    /// When the second should have left.
    pub second_sched_ms: i64,
    /// How many minutes late the first left.
    pub first_delay: i32,
    /// How many minutes late the second left.
    pub second_delay: i32,
}

/// The query, with a member for every aircraft, and what they find.
pub fn query(in_order: bool) -> (Query, Collected<KnockOn>) {
    let query = Query::new("knock-on");
    let (aircraft, results) = departures(&query)
        .filter(|departure| departure.tailnum.is_some())
        .key_by(|departure| departure.tailnum.clone())
        .group("aircraft", |member: Member<(), _>| {
            member
                .map(|((), departure)| departure)
                .apply_stateful(None, follow)
                .in_order_if(in_order)
                .name("follow")
                .flat_map(|knock_on| knock_on)
        });
    let members = tailnums().into_iter().map(|tailnum| (Some(tailnum), ()));
    aircraft.add_all(members).expect("members can be added until the query is over");
    let found = results.map(|(_, knock_on)| knock_on).collect();
    (query, found)
}

/// Takes the next departure of an aircraft, with the one before it.
fn follow(last: &mut Option<Departure>, next: Departure) -> Option<KnockOn> {
    let first = last.replace(next.clone())?;
    let both_late = first.dep_delay >= LATE && next.dep_delay >= LATE;
    let close = next.sched_ms - first.sched_ms <= TWELVE_HOURS_MS;
    (both_late && close).then_some(KnockOn {
        tailnum: next.tailnum?,
        first_row: first.row,
        second_row: next.row,
        second_sched_ms: next.sched_ms,
        first_delay: first.dep_delay,
        second_delay: next.dep_delay,
    })
}

impl Answer for KnockOn {
    const EXPECTED: &'static str = include_str!("../data/expected/q4_knock_on.csv");

    fn rank(&self) -> i64 {
        (self.first_delay + self.second_delay).into()
    }
}

impl fmt::Display for KnockOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tailnum, first_delay, second_delay, .. } = self;
        let at = minute(self.second_sched_ms);
        write!(f, "{at}  {tailnum:<6}  {first_delay:>3} min late, then {second_delay:>3} min")
    }
}
