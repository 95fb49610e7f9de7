use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::trials::*;
use super::*;
use crate::harness::{Element, Grammar, Input, OperatorHarness, Outcome, Probe};
use crate::operator::aggregate::{count, sum};
use crate::operator::window::{Phase, Trigger};
use crate::time::Timestamp;

fn run<L: Laid + Clone>(
    windows: &Aligned<L>,
    ordered: bool,
    inputs: &[Input<Event>],
) -> Outcome<Result> {
    let harness = OperatorHarness::new(|probe: Probe<Result>| {
        let total = (count(), sum(|event: &Event| event.1));
        let (key, codec) = (|event: &Event| event.0, Some(Codec::new("windows")));
        windows.clone().operator(OpId(1), key, total, codec, Grammar::new(probe))
    });
    harness.ordered(ordered).restoring().run(inputs)
}

fn events(times: &[i64]) -> Vec<Input<Event>> {
    times.iter().map(|&time| Input::Event(at(time), (0, 1))).collect()
}

fn rows(outcome: &Outcome<Result>) -> Vec<(i64, i64, Phase, u64)> {
    let row = |r: &Result| (r.start.as_micros(), r.end.as_micros(), r.phase, r.value.0);
    outcome.values().map(row).collect()
}

#[test]
fn cumulative_windows_grow_until_they_begin_anew() {
    let windows = Windows::cumulative(micros(30), micros(10));
    let mut inputs = events(&[1, 12, 3, 31, 69]);
    inputs.push(Input::End);
    let spans: Vec<_> =
        rows(&run(&windows, false, &inputs)).into_iter().map(|(s, e, _, n)| (s, e, n)).collect();
    assert_eq!(
        spans,
        [
            (0, 10, 2),
            (0, 20, 3),
            (0, 30, 3),
            (30, 40, 1),
            (30, 50, 1),
            (30, 60, 1),
            (60, 70, 1),
            (60, 80, 1),
            (60, 90, 1),
        ]
    );
    let odd = Windows::cumulative(micros(25), micros(10)).offset(micros(5));
    let mut inputs = events(&[4, 5]);
    inputs.push(Input::End);
    let ends: Vec<_> = rows(&run(&odd, true, &inputs)).into_iter().map(|it| it.1).collect();
    assert_eq!(ends, [5, 15, 25, 30]);
}

#[test]
fn wi_25_a_row_within_the_allowance_is_counted_and_shown() {
    let windows = Windows::tumbling(micros(60)).updated(|it| it.allow(micros(30)));
    let inputs = [
        Input::Event(at(0), (0, 1)),
        Input::Event(at(65), (0, 1)),
        Input::Watermark(at(65)),
        Input::LateEvent(at(50), (0, 1)),
        Input::Event(at(95), (0, 1)),
        Input::Watermark(at(95)),
        Input::LateEvent(at(40), (0, 1)),
        Input::End,
    ];
    for ordered in [false, true] {
        let outcome = run(&windows, ordered, &inputs);
        let (first, corrected) = ((0, 60, Phase::Final, 1), (0, 60, Phase::Corrected, 2));
        assert_eq!(rows(&outcome), [first, corrected, (60, 120, Phase::Final, 2)]);
        assert_eq!(outcome.counters.late, 1);
        // In an ordered chain it comes late to what follows, elsewhere the watermark waits for it.
        let late = outcome.port(0).iter().any(|it| matches!(it, Element::Event(_, _, true)));
        assert_eq!(late, ordered);
    }
    let held: Vec<_> = run(&windows, false, &inputs)
        .port(0)
        .into_iter()
        .filter_map(|it| if let Element::Watermark(held) = it { Some(held) } else { None })
        .collect();
    assert_eq!(held, [at(59), at(95)]);
}

#[test]
fn keys_that_come_and_go_leave_nothing_behind() {
    let windows = Windows::tumbling(micros(10)).updated(|it| {
        it.allow(micros(20));
        it.early(Trigger::interval(micros(3)));
    });
    let probe = Probe::<Windowed<u64, u64>>::default();
    let window = windows.operator(OpId(1), |key: &u64| *key, count(), None, probe);
    let (mut state, mut cx) = (Consumer::<u64>::state(&window), crate::operator::Cx::default());
    for key in 0..5_000 {
        let time = at(key as i64);
        window.event(&mut state, &mut cx, crate::Event::new(time, key));
        Consumer::<u64>::watermark(&window, &mut state, &mut cx, time);
        assert!(state.0.panes.len() <= 4);
    }
    Consumer::<u64>::watermark(&window, &mut state, &mut cx, at(6_000));
    assert!(state.0.panes.is_empty());
    assert_eq!(Consumer::<u64>::next_timer(&window, &state), None);
}

#[test]
fn what_is_kept_beyond_the_end_of_time_fires_all_the_same() {
    let windows = Windows::tumbling(micros(1_000)).updated(|it| it.allow(micros(2_000)));
    let time = i64::MAX - 1_750;
    let end = time - time % 1_000 + 1_000;
    let event = Input::Event(at(time), (2, 1));
    let inputs = [event, Input::Watermark(at(time + 100)), Input::Watermark(at(end))];
    let outcome = run(&windows, false, &inputs);
    assert_eq!(rows(&outcome), [(end - 1_000, end, Phase::Final, 1)]);
}

fn instant(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_microsecond()
}

/// The bounds of the window that holds an instant.
fn window_at(windows: &Aligned<Calendar>, text: &str) -> (String, String) {
    let layout = windows.windows.layout().unwrap();
    let bounds = layout.next(instant(text), i128::MIN).unwrap();
    let shown = |micros: i128| Timestamp::from_micros(micros as i64).to_string();
    (shown(bounds.start), shown(bounds.end))
}

#[test]
fn days_are_as_long_as_the_clocks_make_them() {
    let day = |text| window_at(&Windows::daily("Europe/Vienna"), text);
    let own = |start: &str, end: &str| (start.to_owned(), end.to_owned());
    // Summer time begins: 23 hours.
    let spring = own("2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z");
    assert_eq!(day("2024-03-30T23:00:00Z"), spring);
    assert_eq!(day("2024-03-31T21:59:59.999999Z"), spring);
    // It ends: 25 hours.
    let autumn = own("2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z");
    assert_eq!(day("2024-10-26T22:00:00Z"), autumn);
    assert_eq!(day("2024-10-27T22:59:59Z"), autumn);
    assert_eq!(day("2024-10-27T23:00:00Z").0, "2024-10-27T23:00:00Z");
    // The clock on the wall shows six once each day.
    let shifted = Windows::daily("Europe/Vienna").offset(Duration::from_secs(6 * 3600));
    let day = |text| window_at(&shifted, text);
    assert_eq!(day("2024-03-31T03:59:59Z"), own("2024-03-30T05:00:00Z", "2024-03-31T04:00:00Z"));
    assert_eq!(day("2024-03-31T04:00:00Z").1, "2024-04-01T04:00:00Z");
}

#[test]
fn midnights_that_are_skipped_or_come_twice_are_borne() {
    // In Beirut the clocks go from 00:00 to 01:00, and in autumn from 00:00 back to 23:00.
    let day = |text| window_at(&Windows::daily("Asia/Beirut"), text);
    let own = |start: &str, end: &str| (start.to_owned(), end.to_owned());
    assert_eq!(day("2022-03-27T12:00:00Z"), own("2022-03-26T22:00:00Z", "2022-03-27T21:00:00Z"));
    assert_eq!(day("2022-10-29T20:30:00Z"), own("2022-10-28T21:00:00Z", "2022-10-29T22:00:00Z"));
    assert_eq!(day("2022-10-29T21:30:00Z").1, "2022-10-29T22:00:00Z");
    // Samoa had no 30 December 2011.
    let day = |text| window_at(&Windows::daily("Pacific/Apia"), text);
    assert_eq!(day("2011-12-30T09:59:59Z"), own("2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"));
    assert_eq!(day("2011-12-30T10:00:00Z").1, "2011-12-31T10:00:00Z");
    // A beginning within what is skipped: when the clock on the wall first shows a later time.
    let hour = Duration::from_secs(3600);
    let day = |text| window_at(&Windows::daily("Europe/Vienna").offset(hour * 5 / 2), text);
    assert_eq!(day("2024-03-31T00:59:59Z"), own("2024-03-30T01:30:00Z", "2024-03-31T01:00:00Z"));
    assert_eq!(day("2024-03-31T01:00:00Z"), own("2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"));
    let day = |text| window_at(&Windows::daily("Pacific/Apia").offset(hour * 6), text);
    assert_eq!(day("2011-12-30T09:00:00Z"), own("2011-12-29T16:00:00Z", "2011-12-30T10:00:00Z"));
    assert_eq!(day("2011-12-30T15:00:00Z"), own("2011-12-30T10:00:00Z", "2011-12-30T16:00:00Z"));
}

#[test]
fn weeks_and_months_follow_the_calendar() {
    let own = |start: &str, end: &str| (start.to_owned(), end.to_owned());
    let weeks = Windows::weekly("America/New_York");
    let week = own("2024-03-04T05:00:00Z", "2024-03-11T04:00:00Z");
    assert_eq!(window_at(&weeks, "2024-03-04T05:00:00Z"), week);
    assert_eq!(window_at(&weeks, "2024-03-11T03:59:59Z"), week);
    let months = Windows::monthly("UTC");
    let february = own("2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
    assert_eq!(window_at(&months, "2024-02-29T23:59:59Z"), february);
    let midmonth = months.offset(Duration::from_secs(14 * 86_400));
    let shifted = own("2024-02-15T00:00:00Z", "2024-03-15T00:00:00Z");
    assert_eq!(window_at(&midmonth, "2024-02-29T23:59:59Z"), shifted);
}

#[test]
fn what_the_calendar_does_not_reach_is_in_a_window_too() {
    let windows = Windows::daily("Europe/Vienna");
    let mut inputs = events(&[i64::MIN, FIRST_DAY, 0, LAST_DAY, i64::MAX]);
    inputs.push(Input::End);
    for ordered in [false, true] {
        let outcome = run(&windows, ordered, &inputs);
        let spans = rows(&outcome);
        assert_eq!(spans.iter().map(|it| it.3).sum::<u64>(), 5);
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
    }
}

/// In the first and the last year of the calendar.
const FIRST_DAY: i64 = -377_000_000_000_000_000;
const LAST_DAY: i64 = 252_999_999_999_999_999;

#[test]
fn what_cannot_be_is_refused_by_name() {
    fn text<L: Laid>(windows: Aligned<L>) -> String {
        WindowKind::<Event, u8>::check(&windows).unwrap_err().to_string()
    }
    assert_eq!(text(Windows::cumulative(micros(0), micros(1))), "the window size is zero");
    assert_eq!(text(Windows::cumulative(micros(1), micros(0))), "the window step is zero");
    let long = Windows::daily("UTC").offset(Duration::from_secs(86_400));
    assert_eq!(text(long), "the window offset 86400s is not less than the shortest window");
    let never = Windows::tumbling(micros(1)).updated(|it| it.early(Trigger::events(0)));
    assert_eq!(text(never), "the window trigger is zero");
}

/// The windows of a stream by definition.
struct Naive {
    windows_of: Box<dyn Fn(i64) -> Vec<(i64, i64)>>,
    nested: bool,
    lateness: i64,
    every: Option<u64>,
    interval: Option<i64>,
    /// By end and start; keys in order of arrival.
    windows: BTreeMap<(i64, i64), Vec<Held>>,
    clock: i64,
    tick: Option<i64>,
    late: u64,
    out: Vec<Row>,
}

struct Held {
    key: u8,
    count: u64,
    sum: i64,
    news: bool,
    /// The place among those that have changed.
    changed: Option<usize>,
}

fn row(time: i64, (end, start): (i64, i64), held: &Held, phase: Phase) -> Row {
    (time, held.key, start, end, phase, (held.count, held.sum))
}

impl Naive {
    fn advance(&mut self, clock: i64) {
        loop {
            let end = self.windows.keys().map(|it| it.0).find(|&end| end > self.clock);
            let tick = self.tick.unwrap_or(i64::MAX);
            match end {
                Some(end) if end <= tick && end <= clock => {
                    self.clock = end;
                    for (&bounds, keys) in self.windows.iter().filter(|it| it.0.0 == end) {
                        let finals = keys.iter().map(|it| row(end - 1, bounds, it, Phase::Final));
                        self.out.extend(finals);
                    }
                }
                _ if tick <= clock && self.tick.is_some() => {
                    self.tick = None;
                    for (&bounds, keys) in self.windows.range_mut((self.clock + 1, i64::MIN)..) {
                        let mut changed: Vec<_> =
                            keys.iter_mut().filter(|held| held.changed.is_some()).collect();
                        changed.sort_by_key(|held| held.changed);
                        for held in changed {
                            held.changed = None;
                            if std::mem::take(&mut held.news) {
                                self.out.push(row(tick, bounds, held, Phase::Early));
                            }
                        }
                    }
                }
                _ => break,
            }
        }
        self.clock = self.clock.max(clock);
        let kept = self.clock - self.lateness;
        self.windows.retain(|&(end, _), _| end > kept);
    }

    fn event(&mut self, time: i64, (key, value): Event) {
        let all = (self.windows_of)(time);
        let kept: Vec<_> =
            all.iter().filter(|it| it.1 > self.clock - self.lateness).copied().collect();
        self.late += u64::from(kept.is_empty() && !all.is_empty());
        let now = time.max(self.clock);
        let place = kept.iter().map(|it| it.1).find(|&end| end > self.clock);
        for (start, end) in kept {
            let place = if end <= self.clock { end } else { place.unwrap() };
            let early = !self.nested || end == place;
            let keys = self.windows.entry((end, start)).or_default();
            let position = keys.iter().position(|held| held.key == key).unwrap_or_else(|| {
                let new = Held { key, count: 0, sum: 0, news: false, changed: None };
                keys.push(new);
                keys.len() - 1
            });
            let order = keys.iter().filter_map(|held| held.changed).max().map_or(0, |it| it + 1);
            let held = &mut keys[position];
            held.count += 1;
            held.sum += value;
            if end <= self.clock {
                self.out.push(row(end - 1, (end, start), held, Phase::Corrected));
                continue;
            }
            held.news |= early;
            if early && self.every.is_some_and(|every| held.count.is_multiple_of(every)) {
                held.news = false;
                self.out.push(row(now, (end, start), held, Phase::Early));
            } else if let Some(interval) = self.interval.filter(|_| early) {
                held.changed = held.changed.or(Some(order));
                let tick = (now.div_euclid(interval) + 1) * interval;
                self.tick = Some(self.tick.map_or(tick, |armed| armed.min(tick)));
            }
        }
    }

    fn run(&mut self, ordered: bool, inputs: &[Input<Event>]) {
        for input in inputs {
            match *input {
                Input::Event(time, value) => {
                    if ordered {
                        self.advance(time.as_micros());
                    }
                    self.event(time.as_micros(), value);
                }
                Input::LateEvent(..) if ordered && self.lateness == 0 => self.late += 1,
                Input::LateEvent(time, value) => self.event(time.as_micros(), value),
                Input::Watermark(watermark) => self.advance(watermark.as_micros()),
                Input::Clock(_) => unreachable!("these windows go by event time"),
                Input::End => {
                    self.tick = None;
                    self.advance(i64::MAX / 2);
                }
            }
        }
    }
}

/// What is compared: with nested windows the order of keys in a window is not.
fn sorted(nested: bool, mut rows: Vec<Row>) -> Vec<Row> {
    if nested {
        rows.sort_by_key(|&(time, key, start, end, phase, value)| {
            (time, end, start, phase as u8, key, value)
        });
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn agrees_with_the_definition(
        nested: bool,
        size in 1_i64..20,
        hop in 1_i64..12,
        offset in 0_i64..20,
        lateness in prop_oneof![Just(0), 1_i64..30],
        every in prop::option::of(1_u64..4),
        interval in prop::option::of(1_i64..8),
        ordered: bool,
        steps in prop::collection::vec((0_u8..9, -15_i64..15, 0_u8..3), 0..50),
    ) {
        let update = |it: &mut Updates| {
            it.allow(micros(lateness));
            every.into_iter().for_each(|every| it.early(Trigger::events(every)));
            interval.into_iter().for_each(|each| it.early(Trigger::interval(micros(each))));
        };
        let inputs = stream(ordered, &steps);
        let outcome = if nested {
            let windows = Windows::cumulative(micros(size), micros(hop)).offset(micros(offset));
            run(&windows.updated(update), ordered, &inputs)
        } else {
            let windows = Windows::hopping(micros(size), micros(hop)).offset(micros(offset));
            run(&windows.updated(update), ordered, &inputs)
        };
        let windows_of = move |time: i64| -> Vec<(i64, i64)> {
            let all = (time - 2 * size..=time).filter(|start| {
                (start - offset).rem_euclid(if nested { size } else { hop }) == 0
            });
            let ends = |start: i64| match nested {
                true => (1..=size).map(|n| (n * hop).min(size)).map(|n| (start, start + n)).collect(),
                false => vec![(start, start + size)],
            };
            let mut all: Vec<_> = all.flat_map(ends).filter(|it| it.1 > time).collect();
            all.dedup();
            all.sort_by_key(|it| it.1);
            all
        };
        let mut naive = Naive {
            windows_of: Box::new(windows_of), nested, lateness, every, interval,
            windows: BTreeMap::new(), clock: i64::MIN / 2, tick: None, late: 0, out: Vec::new(),
        };
        naive.run(ordered, &inputs);
        let seen = seen(&outcome);
        prop_assert_eq!(sorted(nested, seen), sorted(nested, naive.out));
        prop_assert_eq!(outcome.counters.late, naive.late);
    }
}

/// A late event brings an early result: where order is promised that is late too.
#[test]
fn an_early_result_for_a_late_event_is_late() {
    let windows = Windows::tumbling(micros(10)).updated(|it| {
        it.allow(micros(5));
        it.early(Trigger::events(1));
    });
    let inputs = [
        Input::Event(at(1), (0, 1)),
        Input::Watermark(at(5)),
        Input::LateEvent(at(2), (0, 1)),
        Input::End,
    ];
    let outcome = run(&windows, true, &inputs);
    let late: Vec<_> = outcome
        .port(0)
        .into_iter()
        .filter_map(|element| match element {
            Element::Event(_, row, late) => Some((row.phase, row.value.0, late)),
            _ => None,
        })
        .collect();
    assert_eq!(late, [(Phase::Early, 1, false), (Phase::Early, 2, true), (Phase::Final, 2, false)]);
}

#[test]
fn a_window_behind_one_that_waits_for_late_events_is_due_when_it_hears_of_it() {
    a_second_window_is_due_when_it_hears_of_it(
        Windows::tumbling(micros(5)).updated(|it| it.allow(micros(7))),
    );
}
