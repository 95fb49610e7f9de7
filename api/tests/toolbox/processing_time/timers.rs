//! Timers by the clock in `process`.

use std::time::Duration;

use mizzle::stream::Member;
use mizzle::time::{ManualClock, Timestamp};
use mizzle::{ProcessCx, ProcessOp, Query, WhenFull};

use crate::support::{GUARD, at, completed, engine_by, eventually, ms, sorted};

/// Says of a key that nothing was heard of it for 100 ms of the clock, once.
struct Silence;

impl ProcessOp<u8, (u8, i64)> for Silence {
    /// When it is to be missed.
    type State = Option<Timestamp>;
    type Out = (u8, i64);
    type Side = ();

    fn event(
        &self,
        cx: &mut ProcessCx<'_, u8, (u8, i64), ()>,
        missed: &mut Option<Timestamp>,
        _: (u8, i64),
    ) {
        if let Some(before) = missed.take() {
            cx.cancel_processing_timer(before);
        }
        let due = cx.now() + Duration::from_millis(100);
        cx.set_processing_timer(due);
        *missed = Some(due);
    }

    fn processing_timer(
        &self,
        cx: &mut ProcessCx<'_, u8, (u8, i64), ()>,
        _: &mut Option<Timestamp>,
        due: Timestamp,
    ) {
        let key = *cx.key();
        cx.emit((key, due.as_millis()));
        cx.clear();
    }
}

#[test]
fn what_did_not_happen_is_noticed_by_the_clock_though_nothing_comes() {
    for workers in [1, 2, 4] {
        for in_order in [true, false] {
            let clock = ManualClock::default();
            let engine = engine_by(&clock, workers);
            let query = Query::new("silence");
            let (handle, stream) = query.push_source("beats", |&(_, time): &(u8, i64)| at(time));
            let (missed, _) = stream.key_by(|&(key, _)| key).process(Silence);
            let out = missed.in_order_if(in_order).map(|missed| missed).collect();
            let query = engine.submit(query).unwrap();
            let mut beats = 0;
            let mut beat = |keys: &[u8]| {
                handle.push_all(keys.iter().map(|&key| (key, 0)).collect()).unwrap();
                beats += keys.len() as u64;
                eventually("the beats are heard", || {
                    let chains = query.chains();
                    let of = |name: &str| {
                        let with =
                            |it: &&mizzle::ChainReport| it.operators.iter().any(|op| op == name);
                        chains.iter().filter(with).map(|chain| chain.stats.events_in).sum::<u64>()
                    };
                    of("process") == beats
                });
            };
            beat(&[1, 2, 3, 4]);
            clock.advance(ms(60));
            beat(&[2, 4]);
            clock.advance(ms(39));
            beat(&[1]);
            clock.advance(ms(1));
            eventually("the first that is missed", || out.values() == [(3, 100)]);
            clock.advance(ms(1_000));
            eventually("the others", || out.len() == 4);
            // In order of time, and of arrival of their keys; on several shards, each by itself.
            let expected = [(3, 100), (2, 160), (4, 160), (1, 199)];
            assert_eq!(sorted(out.values()), sorted(expected.to_vec()));
            if in_order || workers == 1 {
                assert_eq!(out.values(), expected);
            }
            drop(handle);
            completed(&query);
            assert_eq!(out.len(), 4);
        }
    }
}

/// A periodic timer: sets itself again.
struct Every(Duration);

impl ProcessOp<(), i64> for Every {
    type State = bool;
    type Out = i64;
    type Side = ();

    fn event(&self, cx: &mut ProcessCx<'_, (), i64, ()>, begun: &mut bool, _: i64) {
        if !std::mem::replace(begun, true) {
            cx.set_processing_timer(cx.now() + self.0);
        }
    }

    fn processing_timer(&self, cx: &mut ProcessCx<'_, (), i64, ()>, _: &mut bool, due: Timestamp) {
        cx.emit(due.as_millis());
        // From now on: after a pause one makes up for all that were missed.
        cx.set_processing_timer(due.max(cx.now()) + self.0);
    }
}

#[test]
fn a_timer_that_sets_itself_again_is_periodic_and_ends_with_the_stream() {
    let clock = ManualClock::default();
    let engine = engine_by(&clock, 2);
    let query = Query::new("periodic");
    let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
    let ticks = stream.key_by(|_| ()).process(Every(ms(100))).0.channel(100, WhenFull::Wait);
    let query = engine.submit(query).unwrap();
    handle.push(1).unwrap();
    eventually("the event", || crate::support::processed(&query) == 1);
    let next = || ticks.recv_timeout(GUARD).map(|tick| tick.value);
    for (advance, tick) in [(100, 100), (100, 200), (5_000, 300), (100, 5_300)] {
        clock.advance(ms(advance));
        assert_eq!(next(), Some(tick));
    }
    drop(handle);
    // The one that is pending fires with the end, and sets none any more.
    assert_eq!(next(), Some(5_400));
    assert_eq!(next(), None);
    completed(&query);
}

#[test]
fn timers_wait_for_room_and_are_not_lost() {
    let clock = ManualClock::default();
    let engine = mizzle::Engine::builder()
        .workers(2)
        .inbox_capacity(1)
        .clock(clock.clone())
        .build()
        .unwrap();
    let query = Query::new("full");
    let (handle, stream) = query.push_source("beats", |&(_, time): &(u8, i64)| at(time));
    let missed = stream.key_by(|&(key, _)| key).process(Silence).0.channel(1, WhenFull::Wait);
    let query = engine.submit(query).unwrap();
    // It waits for room itself.
    let pushing = std::thread::spawn(move || {
        for key in 0..=200 {
            handle.push((key, 0)).unwrap();
            clock.advance(ms(3));
        }
        clock.advance(ms(1_000));
    });
    let mut keys = Vec::new();
    while let Some(event) = missed.recv_timeout(GUARD) {
        keys.push(event.value.0);
    }
    pushing.join().unwrap();
    completed(&query);
    assert_eq!(sorted(keys), (0..=200).collect::<Vec<_>>());
}

#[test]
fn a_member_that_sets_one_fails_alone_by_the_operators_name() {
    let clock = ManualClock::default();
    let engine = engine_by(&clock, 1);
    let query = Query::new("members");
    let (handle, stream) = query.push_source("beats", |&(_, time): &(u8, i64)| at(time));
    let (group, results) = stream.key_by(|&(key, _)| key).group("g", |member: Member<u8, _>| {
        member
            .filter(|(skipped, (key, _))| skipped != key)
            .map(|(_, beat)| beat)
            .key_by(|&(key, _)| key)
            .process(Silence)
            .0
            .name("silence")
    });
    results.for_each(|_| ());
    let (fails, goes_on) = (group.add(1, 0).unwrap(), group.add(2, 2).unwrap());
    let query = engine.submit(query).unwrap();
    handle.push_all(vec![(1, 0), (2, 0)]).unwrap();
    drop(handle);
    completed(&query);
    let failures = group.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    let (member, failure) = &failures[0];
    assert_eq!((*member, &*failure.operator), (fails, "silence"));
    assert!(failure.message.contains("have no processing time"), "{failure}");
    assert_ne!(fails, goes_on);
}
