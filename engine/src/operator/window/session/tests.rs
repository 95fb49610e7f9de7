use proptest::prelude::*;

use super::super::trials::*;
use super::*;
use crate::harness::{Element, Grammar, Input, OperatorHarness, Outcome, Probe};
use crate::operator::aggregate::{count, sum};
use crate::operator::window::{Phase, Trigger};
use crate::state::Codec;

fn run(windows: Sessions, ordered: bool, inputs: &[Input<Event>]) -> Outcome<Result> {
    let harness = OperatorHarness::new(|probe: Probe<Result>| {
        let total = (count(), sum(|event: &Event| event.1));
        let (key, codec) = (|event: &Event| event.0, Some(Codec::new("sessions")));
        windows.operator(OpId(1), key, total, codec, Grammar::new(probe))
    });
    harness.ordered(ordered).restoring().run(inputs)
}

/// Start, end, how many events, their sum.
fn rows(outcome: &Outcome<Result>) -> Vec<(i64, i64, u64, i64)> {
    let row = |r: &Result| (r.start.as_micros(), r.end.as_micros(), r.value.0, r.value.1);
    outcome.values().map(row).collect()
}

fn events(times: &[i64]) -> Vec<Input<Event>> {
    times.iter().map(|&time| Input::Event(at(time), (0, time))).collect()
}

fn closed_at_100(times: &[i64]) -> Vec<(i64, i64, u64, i64)> {
    let mut inputs = events(times);
    inputs.push(Input::Watermark(at(100)));
    rows(&run(Windows::session(micros(5)), false, &inputs))
}

#[test]
fn wi_12_a_gap_exactly_equal_to_the_limit_starts_a_new_session() {
    assert_eq!(closed_at_100(&[0, 4]), [(0, 9, 2, 4)]);
    assert_eq!(closed_at_100(&[0, 6]), [(0, 5, 1, 0), (6, 11, 1, 6)]);
    assert_eq!(closed_at_100(&[0, 5]), [(0, 5, 1, 0), (5, 10, 1, 5)]);
    assert_eq!(closed_at_100(&[5, 0]), closed_at_100(&[0, 5]));
    let mut inputs = events(&[0]);
    inputs.push(Input::Watermark(at(4)));
    assert_eq!(rows(&run(Windows::session(micros(5)), false, &inputs)), []);
    inputs.push(Input::Watermark(at(5)));
    assert_eq!(rows(&run(Windows::session(micros(5)), false, &inputs)), [(0, 5, 1, 0)]);
}

#[test]
fn wi_13_a_bridging_event_makes_one_session_of_two() {
    assert_eq!(closed_at_100(&[0, 8, 4]), [(0, 13, 3, 12)]);
    assert_eq!(closed_at_100(&[8, 0, 4]), [(0, 13, 3, 12)]);
    assert_eq!(closed_at_100(&[0, 20, 8, 4]), [(0, 13, 3, 12), (20, 25, 1, 20)]);
}

#[test]
fn the_watermark_is_held_back_for_corrections() {
    let mut inputs = events(&[0]);
    inputs.push(Input::Watermark(at(20)));
    let windows = Windows::session(micros(5)).updated(|it| it.allow(micros(30)));
    let outcome = run(windows, false, &inputs);
    assert!(matches!(outcome.port(0)[1], Element::Watermark(held) if held == at(-10)));
    inputs.push(Input::LateEvent(at(3), (0, 3)));
    inputs.push(Input::Watermark(at(37)));
    inputs.push(Input::LateEvent(at(7), (0, 7)));
    let outcome = run(windows, false, &inputs);
    assert_eq!(rows(&outcome), [(0, 5, 1, 0), (0, 8, 2, 3), (0, 12, 3, 10)]);
    let phases: Vec<_> = outcome.values().map(|result| result.phase).collect();
    assert_eq!(phases, [Phase::Final, Phase::Corrected, Phase::Corrected]);
}

/// The sessions of a stream by definition, with one look at all of them for everything.
struct Naive {
    gap: i64,
    lateness: i64,
    every: Option<u64>,
    interval: Option<i64>,
    sessions: Vec<Held>,
    clock: i64,
    tick: Option<i64>,
    arrivals: usize,
    late: u64,
    out: Vec<Row>,
}

struct Held {
    key: u8,
    arrival: usize,
    times: Vec<i64>,
    sum: i64,
    pending: bool,
    given: bool,
    changed: bool,
}

impl Held {
    fn end(&self, gap: i64) -> i64 {
        self.times.iter().max().unwrap() + gap
    }

    fn row(&self, time: i64, gap: i64, phase: Phase) -> Row {
        let start = *self.times.iter().min().unwrap();
        (time, self.key, start, self.end(gap), phase, (self.times.len() as u64, self.sum))
    }
}

impl Naive {
    fn advance(&mut self, clock: i64) {
        loop {
            let gap = self.gap;
            let pending = self.sessions.iter_mut().filter(|held| held.pending);
            let first = pending.min_by_key(|held| (held.end(gap), held.arrival));
            let tick = self.tick.unwrap_or(i64::MAX);
            match first {
                Some(held) if held.end(gap) <= tick => {
                    let end = held.end(gap);
                    if end > clock {
                        break;
                    }
                    let phase = if held.given { Phase::Corrected } else { Phase::Final };
                    self.out.push(held.row(end - 1, gap, phase));
                    (held.pending, held.given, held.changed) = (false, true, false);
                }
                _ if tick <= clock && self.tick.is_some() => {
                    self.tick = None;
                    self.sessions.sort_by_key(|held| held.arrival);
                    for held in self.sessions.iter_mut().filter(|held| held.changed) {
                        held.changed = false;
                        self.out.push(held.row(tick, gap, Phase::Early));
                    }
                }
                _ => break,
            }
        }
        self.clock = self.clock.max(clock);
        let (gap, kept) = (self.gap, self.clock - self.lateness);
        self.sessions.retain(|held| held.pending || held.end(gap) > kept);
    }

    fn event(&mut self, time: i64, (key, value): Event) {
        let gap = self.gap;
        let (mut own, others): (Vec<_>, Vec<_>) = self.sessions.drain(..).partition(|held| {
            let start = *held.times.iter().min().unwrap();
            held.key == key && start < time + gap && time < held.end(gap)
        });
        self.sessions = others;
        if own.is_empty() {
            if time + gap + self.lateness <= self.clock {
                self.late += 1;
                return;
            }
            self.arrivals += 1;
        }
        let arrival = own.iter().map(|held| held.arrival).min().unwrap_or(self.arrivals);
        let mut merged = Held {
            key,
            arrival,
            times: own.iter_mut().flat_map(|held| held.times.drain(..)).collect(),
            sum: own.iter().map(|held| held.sum).sum::<i64>() + value,
            pending: true,
            given: own.iter().any(|held| held.given),
            changed: own.iter().any(|held| held.changed),
        };
        merged.times.push(time);
        let end = merged.end(gap);
        let now = time.max(self.clock);
        if end <= self.clock {
            (merged.pending, merged.given) = (false, true);
            self.out.push(merged.row(end - 1, gap, Phase::Corrected));
        } else if self.every.is_some_and(|every| (merged.times.len() as u64).is_multiple_of(every))
        {
            merged.changed = false;
            self.out.push(merged.row(now, gap, Phase::Early));
        } else if let Some(interval) = self.interval {
            merged.changed = true;
            let tick = (now.div_euclid(interval) + 1) * interval;
            self.tick = Some(self.tick.map_or(tick, |armed| armed.min(tick)));
        }
        self.sessions.push(merged);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn agrees_with_the_definition(
        gap in 1_i64..12,
        lateness in prop_oneof![Just(0), 1_i64..30],
        every in prop::option::of(1_u64..4),
        interval in prop::option::of(1_i64..8),
        ordered: bool,
        steps in prop::collection::vec((0_u8..9, -15_i64..15, 0_u8..3), 0..60),
    ) {
        let windows = Windows::session(micros(gap)).updated(|it| {
            it.allow(micros(lateness));
            every.into_iter().for_each(|every| it.early(Trigger::events(every)));
            interval.into_iter().for_each(|it2| it.early(Trigger::interval(micros(it2))));
        });
        let inputs = stream(ordered, &steps);
        let outcome = run(windows, ordered, &inputs);
        let mut naive = Naive {
            gap, lateness, every, interval,
            sessions: Vec::new(), clock: i64::MIN / 2, tick: None, arrivals: 0, late: 0, out: Vec::new(),
        };
        for input in &inputs {
            match *input {
                Input::Event(time, value) => {
                    if ordered {
                        naive.advance(time.as_micros());
                    }
                    naive.event(time.as_micros(), value);
                }
                Input::LateEvent(..) if ordered && lateness == 0 => naive.late += 1,
                Input::LateEvent(time, value) => naive.event(time.as_micros(), value),
                Input::Watermark(watermark) => naive.advance(watermark.as_micros()),
                Input::Clock(_) => unreachable!("these windows go by event time"),
                Input::End => {
                    naive.tick = None;
                    naive.advance(i64::MAX / 2);
                }
            }
        }
        let seen = seen(&outcome);
        prop_assert_eq!(seen, naive.out);
        prop_assert_eq!(outcome.counters.late, naive.late);
    }
}

#[test]
fn keys_that_come_and_go_leave_nothing_behind() {
    let windows = Windows::session(micros(5));
    let probe = Probe::<Windowed<u64, u64>>::default();
    let window = windows.operator(OpId(1), |key: &u64| *key, count(), None, probe.port(0));
    let (mut state, mut cx) = (Consumer::<u64>::state(&window), crate::operator::Cx::default());
    for key in 0..20_000 {
        let time = at(key as i64);
        window.event(&mut state, &mut cx, crate::Event::new(time, key));
        Consumer::<u64>::watermark(&window, &mut state, &mut cx, time);
        assert!(state.0.keys.len() <= 6);
    }
    assert_eq!(probe.take().len(), 20_000 - 5 + 20_000);
    Consumer::<u64>::watermark(&window, &mut state, &mut cx, at(30_000));
    assert!(state.0.keys.is_empty());
    assert_eq!(Consumer::<u64>::next_timer(&window, &state), None);
}

#[test]
fn a_session_at_the_end_of_time_closes_with_the_stream() {
    let mut inputs: Vec<_> =
        [i64::MAX - 1, i64::MAX].map(|time| Input::Event(at(time), (0, 1))).into();
    inputs.push(Input::Watermark(at(i64::MAX)));
    inputs.push(Input::End);
    for ordered in [false, true] {
        let outcome = run(Windows::session(micros(5)), ordered, &inputs);
        assert_eq!(outcome.values().count(), 1, "{outcome:?}");
    }
}

#[test]
fn a_window_behind_one_that_waits_for_late_events_is_due_when_it_hears_of_it() {
    a_second_window_is_due_when_it_hears_of_it(
        Windows::session(micros(5)).updated(|it| it.allow(micros(7))),
    );
}
