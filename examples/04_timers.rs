//! What did *not* happen: sensors that give no reading for ten minutes. The general operator has a
//! state per key, timers of event time, and a side output.

use std::error::Error;
use std::time::Duration;

use mizzle::time::Timestamp;
use mizzle::{Engine, ProcessCx, ProcessOp, Query, Status, source};

const TEN_MINUTES: Duration = Duration::from_secs(600);

type Reading = (&'static str, f64);

/// Reports silent sensors, and on the side those that came back.
struct Silence;

#[derive(Default)]
struct Sensor {
    due: Option<Timestamp>,
    silent: bool,
}

impl ProcessOp<&'static str, Reading> for Silence {
    type State = Sensor;
    type Out = &'static str;
    type Side = &'static str;

    fn event(
        &self,
        cx: &mut ProcessCx<'_, &'static str, Self::Out, Self::Side>,
        sensor: &mut Sensor,
        _: Reading,
    ) {
        if std::mem::take(&mut sensor.silent) {
            cx.emit_side(*cx.key());
        }
        if let Some(due) = sensor.due.replace(cx.time() + TEN_MINUTES) {
            cx.cancel_timer(due);
        }
        cx.set_timer(cx.time() + TEN_MINUTES);
    }

    fn timer(
        &self,
        cx: &mut ProcessCx<'_, &'static str, Self::Out, Self::Side>,
        sensor: &mut Sensor,
        _: Timestamp,
    ) {
        (sensor.due, sensor.silent) = (None, true);
        cx.emit(*cx.key());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let readings = [(0, "attic"), (1, "cellar"), (9, "attic"), (15, "attic"), (20, "cellar")];
    let readings = readings.map(|(minute, sensor)| (minute, (sensor, 20.0)));

    let query = Query::new("silence");
    let (silent, back) = query
        .source("readings", source::from_iter(readings, |r| Timestamp::from_secs(r.0 * 60)))
        .map(|(_, reading)| reading)
        .key_by(|reading| reading.0)
        .process(Silence);
    let silent = silent.in_order().collect();
    let back = back.collect();

    let engine = Engine::new()?;
    assert_eq!(engine.submit(query)?.wait(), Status::Completed);
    let minutes = |event: mizzle::Event<_>| (event.time.as_millis() / 60_000, event.value);
    let silent: Vec<_> = silent.take().into_iter().map(minutes).collect();
    let back: Vec<_> = back.take().into_iter().map(minutes).collect();
    println!("silent for ten minutes at {silent:?}, back at {back:?}");
    // The timers of minutes 25 and 30 fire when the stream ends: nothing came before they were due.
    assert_eq!(silent, [(11, "cellar"), (25, "attic"), (30, "cellar")]);
    assert_eq!(back, [(20, "cellar")]);
    Ok(())
}
