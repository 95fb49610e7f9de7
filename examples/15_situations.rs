//! Situations: what is looked for within a lifespan, and is an event itself, of which further ones are made.
//!
//! Sensors raise alert triggers about targets. The engine asks sensors to track a target as soon as there is
//! a trigger about it; tracking says where it is, again and again. A target that is seen to come near, by its
//! latest distance, while its average speed is high, is judged hostile; when that has been confirmed by a second
//! sensor, an asset is chosen and an intercept order goes to its subsystem.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mizzle::situation::{
    AtCap, EventType, Lifespan, Situation, Situations, StatelessRule, average, latest, operand,
};
use mizzle::time::Timestamp;
use mizzle::{Engine, Query, Status, WhenFull, source};

/// What happens about a target.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    /// A sensor, whose place is in the north or not, has noticed something.
    Trigger { target: u32, north: bool },
    /// Where a target is, and how fast.
    TrackData { target: u32, distance: f64, speed: f64 },
    /// A sensor has looked at it.
    Confirmation { target: u32, hostile: bool },
    /// Somebody is told.
    Alert { target: u32 },
    /// Sensors are asked to track it.
    TrackRequest { target: u32 },
    /// A trigger, and where its target is.
    AlertTrack { target: u32, distance: f64 },
    /// It has come near.
    Near { target: u32 },
    /// It is fast, on average.
    Fast { target: u32, speed: f64 },
    /// It is judged hostile.
    Hostile { target: u32 },
    /// It is to be intercepted, by an asset.
    Intercept { target: u32, asset: &'static str },
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Trigger,
    TrackData,
    Confirmation,
    Alert,
    TrackRequest,
    AlertTrack,
    Near,
    Fast,
    Hostile,
    Intercept,
}

impl EventType for Kind {
    fn number(self) -> u16 {
        self as u16
    }
}

impl Event {
    fn kind(&self) -> Kind {
        match self {
            Event::Trigger { .. } => Kind::Trigger,
            Event::TrackData { .. } => Kind::TrackData,
            Event::Confirmation { .. } => Kind::Confirmation,
            Event::Alert { .. } => Kind::Alert,
            Event::TrackRequest { .. } => Kind::TrackRequest,
            Event::AlertTrack { .. } => Kind::AlertTrack,
            Event::Near { .. } => Kind::Near,
            Event::Fast { .. } => Kind::Fast,
            Event::Hostile { .. } => Kind::Hostile,
            Event::Intercept { .. } => Kind::Intercept,
        }
    }

    fn target(&self) -> u32 {
        match *self {
            Event::Trigger { target, .. }
            | Event::TrackData { target, .. }
            | Event::Confirmation { target, .. }
            | Event::Alert { target }
            | Event::TrackRequest { target }
            | Event::AlertTrack { target, .. }
            | Event::Near { target }
            | Event::Fast { target, .. }
            | Event::Hostile { target }
            | Event::Intercept { target, .. } => target,
        }
    }

    fn distance(&self) -> f64 {
        if let Event::TrackData { distance, .. } = self { *distance } else { f64::NAN }
    }

    fn speed(&self) -> f64 {
        if let Event::TrackData { speed, .. } = self { *speed } else { f64::NAN }
    }
}

type Rule = Situation<Event>;

/// The two rules of the published experiment.
fn alerts() -> Situations<Event> {
    let of = |kind| operand(kind).first().relative().max_candidates(10, AtCap::RefuseNewest);
    Situations::new(Event::kind)
        .lifespan(Lifespan::always("watch"))
        .situation(
            Rule::all(
                "alert track",
                [of(Kind::Trigger).named("trigger"), of(Kind::TrackData).named("track")],
            )
            .during("watch")
            .derives(Kind::AlertTrack, |found| Event::AlertTrack {
                target: found["trigger"].target(),
                distance: found["track"].distance(),
            }),
        )
        .situation(
            Rule::all("alert", [of(Kind::Trigger)])
                .during("watch")
                .derives(Kind::Alert, |found| Event::Alert { target: found[0].target() }),
        )
}

/// From the trigger to the intercept order.
fn chain(orders: &Arc<Mutex<Vec<String>>>) -> Situations<Event> {
    let orders = orders.clone();
    // A target is watched for a minute from the first trigger about it on, or until it is shown to be harmless.
    let watched = Lifespan::new("watched")
        .opened_by(Kind::Trigger)
        .closed_by_if(Kind::Confirmation, |event, _| {
            matches!(event, Event::Confirmation { hostile: false, .. })
        })
        .discards()
        .closed_after(Duration::from_secs(60));
    Situations::new(Event::kind)
        .lifespan(watched)
        .stateless(
            StatelessRule::<Event>::new("ask to track", Kind::Trigger)
                .derives(Kind::TrackRequest, |event| Event::TrackRequest {
                    target: event.target(),
                }),
        )
        .situation(
            Rule::crosses(
                "near",
                latest(|data: &Event| -data.distance()),
                -10.0,
                operand(Kind::TrackData),
            )
            .during("watched")
            .derives(Kind::Near, |found| Event::Near { target: found[0].target() }),
        )
        .situation(
            Rule::report("fast", average(Event::speed), operand(Kind::TrackData))
                .during("watched")
                .when(|found| found.value() > 200.0)
                .derives(Kind::Fast, |found| Event::Fast {
                    target: found[0].target(),
                    speed: found.value(),
                }),
        )
        .situation(
            // The latest speed counts; the trigger that opened the lifespan is known all the while.
            Rule::all("hostile", [operand(Kind::Near), operand(Kind::Fast).overrides_always()])
                .during("watched")
                .derives(Kind::Hostile, |found| Event::Hostile { target: found[0].target() }),
        )
        .situation(
            Rule::sequence(
                "intercept",
                [
                    operand(Kind::Hostile),
                    operand(Kind::Confirmation).threshold(|event| {
                        matches!(event, Event::Confirmation { hostile: true, .. })
                    }),
                ],
            )
            .during("watched")
            .derives(Kind::Intercept, |found| {
                let north =
                    matches!(found.lifespan().opener(), Some(Event::Trigger { north: true, .. }));
                let asset = if north { "northern battery" } else { "southern battery" };
                Event::Intercept { target: found[0].target(), asset }
            })
            .action(move |event| {
                if let Event::Intercept { target, asset } = event {
                    orders.lock().unwrap().push(format!("{asset}: intercept {target}"));
                }
            }),
        )
}

fn events() -> Vec<(i64, Event)> {
    let track = |target, distance, speed| Event::TrackData { target, distance, speed };
    vec![
        (0, Event::Trigger { target: 7, north: true }),
        (1, Event::Trigger { target: 8, north: false }),
        (2, track(7, 40.0, 250.0)),
        (3, track(8, 12.0, 30.0)),
        (10, track(7, 22.0, 260.0)),
        (11, track(8, 9.0, 40.0)),  // near, but slow
        (20, track(7, 8.0, 270.0)), // near, and fast
        (21, Event::Confirmation { target: 8, hostile: false }),
        (25, Event::Confirmation { target: 7, hostile: true }),
        (70, Event::Confirmation { target: 7, hostile: true }), // it is not watched any more
    ]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let query = Query::new("defence");
    let events = query
        .source("events", source::from_iter(events(), |event| Timestamp::from_secs(event.0)))
        .map(|event| event.1)
        .share();

    let alerts = events.clone().situations(alerts()).collect();

    let orders = Arc::default();
    let found = events
        .key_by(Event::target)
        .situations(chain(&orders))
        .actions(100, WhenFull::Wait)
        .collect();

    let engine = Engine::new()?;
    assert_eq!(engine.submit(query)?.wait(), Status::Completed);

    let alert = |target| Event::Alert { target };
    let alert_track = |target, distance| Event::AlertTrack { target, distance };
    let expected = [alert(7), alert(8), alert_track(7, 40.0), alert_track(8, 12.0)];
    assert_eq!(alerts.values(), expected);

    let found = found.events();
    for event in &found {
        println!("{:>3} s  {:?}", event.time.as_micros() / 1_000_000, event.value);
    }
    let of =
        |wanted: &Event| found.iter().find(|event| event.value == *wanted).map(|event| event.time);
    let at = |seconds| Some(Timestamp::from_secs(seconds));
    assert_eq!(of(&Event::TrackRequest { target: 7 }), at(0));
    assert_eq!(of(&Event::Near { target: 8 }), at(11));
    assert_eq!(of(&Event::Hostile { target: 7 }), at(20));
    assert_eq!(of(&Event::Hostile { target: 8 }), None);
    assert_eq!(of(&Event::Intercept { target: 7, asset: "northern battery" }), at(25));
    assert_eq!(*orders.lock().unwrap(), ["northern battery: intercept 7"]);
    println!("{}", orders.lock().unwrap()[0]);
    Ok(())
}
