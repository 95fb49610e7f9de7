//! Faults of processing time, each test named after its id in `tests/cases/faults.jsonl`.

use std::time::Duration;

use mizzle::aggregate::count;
use mizzle::time::{ManualClock, Timestamp, WatermarkGenerator, Watermarks};
use mizzle::{ProcessCx, ProcessOp, Query, Status, Windows, source};

use crate::support::{GUARD, at, completed, engine_by, eventually, ms, sorted};

/// Sets a timer by the clock a minute ahead, and says when it fired.
struct InAMinute;

impl ProcessOp<i64, i64> for InAMinute {
    type State = ();
    type Out = i64;
    type Side = ();

    fn event(&self, cx: &mut ProcessCx<'_, i64, i64, ()>, (): &mut (), _: i64) {
        cx.set_processing_timer(cx.now() + Duration::from_secs(60));
    }

    fn processing_timer(&self, cx: &mut ProcessCx<'_, i64, i64, ()>, (): &mut (), due: Timestamp) {
        assert_eq!(due, Timestamp::from_secs(60));
        let key = *cx.key();
        cx.emit(key);
    }
}

#[test]
fn ti_08_timers_by_the_clock_fire_once_when_the_stream_ends() {
    for workers in [1, 2, 4] {
        for how in ["end", "drain", "stop"] {
            // The clock stands still: who waits for it waits for ever.
            let engine = engine_by(&ManualClock::default(), workers);
            let query = Query::new("reminders");
            let (handle, stream) = query.push_source("keys", |&key: &i64| at(key));
            let out = stream.key_by(|&key| key).process(InAMinute).0.collect();
            let query = engine.submit(query).unwrap();
            handle.push_all(vec![1, 2, 3]).unwrap();
            match how {
                "end" => drop(handle),
                "drain" => query.drain(),
                _ => query.stop(),
            }
            let ended = if how == "stop" { Status::Stopped } else { Status::Completed };
            assert_eq!(query.wait_timeout(GUARD), ended);
            let expected: &[i64] = if how == "stop" { &[] } else { &[1, 2, 3] };
            assert_eq!(sorted(out.values()), expected);
        }
    }
}

/// While nothing comes for a while, lets event time run on with the clock, from the newest event on.
#[derive(Clone)]
struct RunsOn {
    quiet: Duration,
    newest: Timestamp,
    /// When that event was seen first, by the clock.
    since: Option<Timestamp>,
    promised: Timestamp,
}

impl WatermarkGenerator<i64> for RunsOn {
    fn observe(&mut self, time: Timestamp, _: &i64) {
        self.newest = self.newest.max(time);
        self.promised = self.promised.max(self.newest);
        self.since = None;
    }

    fn watermark(&self) -> Timestamp {
        self.promised
    }

    fn tick(&mut self, now: Timestamp) {
        let quiet = now.since(*self.since.get_or_insert(now));
        if quiet >= self.quiet {
            self.promised = self.promised.max(self.newest + quiet);
        }
    }

    fn interval(&self) -> Option<Duration> {
        Some(ms(1))
    }
}

#[test]
fn wi_16_the_last_window_of_a_quiet_stream_closes_by_the_clock_if_asked() {
    for flushes in [true, false] {
        let clock = ManualClock::default();
        let engine = engine_by(&clock, 2);
        let query = Query::new("quiet");
        let (handle, stream) = query.push_source("times", |&time: &i64| at(time));
        let (newest, promised) = (Timestamp::MIN, Timestamp::MIN);
        let runs_on = RunsOn { quiet: ms(2), newest, since: None, promised };
        let strategy = if flushes { Watermarks::custom(runs_on) } else { Watermarks::ascending() };
        let out = stream
            .watermarks(strategy)
            .window(Windows::tumbling(ms(5)))
            .aggregate(count())
            .collect();
        let query = engine.submit(query).unwrap();
        handle.push_all(vec![1, 2, 3]).unwrap();
        eventually("the events", || query.chains()[0].stats.events_in == 3);
        if flushes {
            // The first tick is where the quiet begins, the next that of the end of it.
            clock.advance(ms(1));
            eventually("the window", || {
                clock.advance(ms(1));
                out.len() == 1
            });
        } else {
            clock.advance(ms(1_000));
        }
        assert_eq!(out.len(), usize::from(flushes));
        drop(handle);
        completed(&query);
        let windows: Vec<_> = out.values().iter().map(|w| (w.end.as_millis(), w.value)).collect();
        assert_eq!(windows, [(5, 3)]);
    }
}

#[test]
fn wi_23_a_window_by_the_clock_is_not_closed_a_tick_early() {
    for workers in [1, 2, 4] {
        let clock = ManualClock::default();
        let engine = engine_by(&clock, workers);
        let query = Query::new("wall clock");
        let (handle, stream) = query.push_source("times", |&time: &i64| at(time));
        let out =
            stream.processing_window(Windows::tumbling(ms(1_000))).aggregate(count()).collect();
        let query = engine.submit(query).unwrap();
        let taken = || query.chains().last().unwrap().stats.events_in;
        clock.advance(ms(999));
        handle.push(0).unwrap();
        eventually("the first event", || taken() == 1);
        // What is due by 999 is over before this query is.
        let beside = Query::new("beside");
        beside.source("n", source::from_iter([1i64], |&n| at(n))).for_each(|_| ());
        completed(&engine.submit(beside).unwrap());
        handle.push(7).unwrap();
        eventually("the second event", || taken() == 2);
        assert!(out.is_empty());
        clock.advance(ms(1));
        eventually("the window", || !out.is_empty());
        handle.push(8).unwrap();
        eventually("the third event", || taken() == 3);
        drop(handle);
        completed(&query);
        let windows: Vec<_> = out.values().iter().map(|w| (w.start.as_millis(), w.value)).collect();
        assert_eq!(windows, [(0, 2), (1_000, 1)]);
    }
}
