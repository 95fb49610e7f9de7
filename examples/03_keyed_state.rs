//! State per key: balances of accounts, and a machine of three states that watches each of them.

use std::error::Error;

use mizzle::time::Timestamp;
use mizzle::{Engine, Query, Status, source};

#[derive(Clone, Copy)]
struct Booking {
    minute: i64,
    account: &'static str,
    amount: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Watch {
    Calm,
    Suspicious,
    Alarm,
}

/// A tiny payment and then a big one, as thieves do who try a card out first.
fn watch(now: &Watch, booking: &Booking) -> Option<Watch> {
    match (now, booking.amount) {
        (Watch::Calm | Watch::Alarm, 0..5) => Some(Watch::Suspicious),
        (Watch::Suspicious, 500..) => Some(Watch::Alarm),
        (Watch::Suspicious, 0..5) => None, // stay
        _ => Some(Watch::Calm),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let bookings = [("ada", 20), ("bob", 2), ("ada", 700), ("bob", 900), ("ada", 1), ("ada", 50)];
    let bookings =
        (0..).zip(bookings).map(|(minute, (account, amount))| Booking { minute, account, amount });
    let at = |b: &Booking| Timestamp::from_secs(b.minute * 60);

    // A stream that several operators follow is shared.
    let query = Query::new("accounts");
    let bookings = query.source("bookings", source::from_iter(bookings, at)).share();

    // Each value together with the state of its key becomes another value.
    let balances = bookings
        .clone()
        .key_by(|b| b.account)
        .apply_stateful(1_000, |balance, b| {
            *balance -= b.amount;
            (b.account, *balance)
        })
        .in_order()
        .collect();

    // What leads to a final state goes on, with that state.
    let alarms = bookings
        .key_by(|b| b.account)
        .state_transition(Watch::Calm, watch, |&now| now == Watch::Alarm)
        .in_order()
        .map(|(booking, _)| (booking.account, booking.amount))
        .collect();

    let engine = Engine::new()?;
    assert_eq!(engine.submit(query)?.wait(), Status::Completed);
    println!("balances {:?}", balances.values());
    println!("alarms   {:?}", alarms.values());
    assert_eq!(balances.values()[4..], [("ada", 279), ("ada", 229)]);
    assert_eq!(alarms.values(), [("bob", 900)]);
    Ok(())
}
