//! A query per thermometer, all in one group: each with a limit of its own, which can be changed, and
//! results of its own. Members come and go while events flow.

use std::error::Error;
use std::time::Duration;

use mizzle::stream::Member;
use mizzle::time::Timestamp;
use mizzle::{Engine, MemberFull, Query, Status};

/// What a thermometer says.
#[derive(Clone)]
struct Reading {
    second: i64,
    room: &'static str,
    degrees: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let query = Query::new("thermometers");
    let (push, readings) =
        query.push_source("readings", |r: &Reading| Timestamp::from_secs(r.second));
    // What each member does, once. It gets its limit with every reading of its room.
    let (alerts, results) =
        readings.key_by(|r| r.room).group("too hot", |member: Member<f64, _>| {
            member
                .filter(|(limit, reading)| reading.degrees > *limit)
                .apply_stateful(0, |alerts: &mut u32, (_, reading)| {
                    *alerts += 1;
                    (reading.room, reading.degrees, *alerts)
                })
                .named("alerts")
        });
    let found = results.collect();
    let engine = Engine::new()?;
    let running = engine.submit(query)?;

    // Members are added before or after the query is submitted, for a key each; several for one if
    // need be. This one has a channel of its own.
    let attic = alerts.add("attic", 30.0)?;
    let (_, cellar) = alerts.add_with_channel("cellar", 15.0, 100, MemberFull::DropNewest)?;
    let reading = |second, room, degrees| Reading { second, room, degrees };
    push.push(reading(1, "attic", 31.0))?;
    push.push(reading(1, "cellar", 17.0))?;
    push.push(reading(2, "kitchen", 90.0))?; // there is no member for it
    assert_eq!(cellar.recv_timeout(Duration::from_secs(10)).map(|e| e.value.1), Some(17.0));
    while alerts.stats().total().events < 3 {
        std::thread::yield_now();
    }

    // Other parameters; the state stays.
    alerts.set_params(attic, 35.0)?;
    push.push(reading(3, "attic", 33.0))?;
    push.push(reading(4, "attic", 36.0))?;
    while alerts.stats().total().events < 5 {
        std::thread::yield_now();
    }
    let report = alerts.inspect(attic)?.ok_or("the member is gone")?;
    println!(
        "{attic}: {} events, {} results, state {:?}",
        report.events, report.results, report.state
    );
    assert_eq!((report.events, report.results), (3, 2));
    assert_eq!(report.state[0].json, "2");

    alerts.remove(attic)?;
    assert!(alerts.inspect(attic)?.is_none());
    drop(push);
    assert_eq!(running.wait(), Status::Completed);
    let expected = [(attic, ("attic", 31.0, 1)), (attic, ("attic", 36.0, 2))];
    assert_eq!(found.values(), expected);
    Ok(())
}
