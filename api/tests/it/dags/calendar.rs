//! Days, weeks and months in a time zone, by hand.

use super::program::{Unit, Zone};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// The unit that begins so much `later` than midnight and holds `time`, from one beginning to the next.
pub fn around(zone: Zone, unit: Unit, later: i64, time: i64) -> (i64, i64) {
    // The date there is at most a day off.
    let near = time.div_euclid(DAY);
    let beginnings = (near - 34..near + 35).filter(|day| begins(unit, *day));
    let at: Vec<i64> = beginnings.map(|day| shown(zone, day * DAY + later)).collect();
    let past = |at: &&i64| **at <= time;
    let start = at.iter().take_while(past).last().expect("one within a month before");
    (*start, *at.iter().find(|at| **at > time).expect("one within a month after"))
}

/// Whether a unit begins with this day after 1 January 1970, a Thursday.
fn begins(unit: Unit, day: i64) -> bool {
    match unit {
        Unit::Day => true,
        Unit::Week => day.rem_euclid(7) == 4,
        Unit::Month => day_of_month(day) == 0,
    }
}

/// Counted from 0, for days from 1970 on.
fn day_of_month(mut day: i64) -> i64 {
    // Every 400 years the calendar begins anew.
    day = day.rem_euclid(146_097);
    for year in 1970.. {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let february = if leap { 29 } else { 28 };
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if day < length {
                return day;
            }
            day -= length;
        }
    }
    unreachable!("a year is found")
}

/// The instant at which the clocks show `wall` for the first time, or a later time for the first time.
fn shown(zone: Zone, wall: i64) -> i64 {
    let change = zone.at * SECOND;
    let (before, after) = (wall - zone.before * SECOND, wall - zone.after * SECOND);
    if before < change { before } else { after.max(change) }
}
