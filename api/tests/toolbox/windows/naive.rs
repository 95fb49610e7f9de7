//! Sessions and count windows against a naive evaluation, under disorder and with several workers.

use std::collections::BTreeMap;

use mizzle::Windows;
use mizzle::aggregate::{count, to_vec};
use mizzle::source;
use mizzle::time::Watermarks;
use proptest::prelude::*;

use super::{at, late_unused, ms, run};

/// A time, a key and a number of its own.
type Event = (i64, u8, usize);

fn events(steps: &[(i64, u8)], disorder: i64) -> Vec<Event> {
    let mut time = 0;
    let moved = steps.iter().enumerate().map(|(number, &(by, key))| {
        time += by;
        let back = (number as i64 * 31) % (disorder + 1);
        (time - back, key, number)
    });
    moved.collect()
}

fn by_key(events: &[Event]) -> BTreeMap<u8, Vec<Event>> {
    let mut keys = BTreeMap::<u8, Vec<Event>>::new();
    events.iter().for_each(|&event| keys.entry(event.1).or_default().push(event));
    keys
}

/// The sessions of all events together: cut wherever two are a gap apart.
fn sessions(events: &[Event], gap: i64) -> Vec<(u8, i64, i64, Vec<usize>)> {
    let mut all = Vec::new();
    for (key, mut own) in by_key(events) {
        own.sort();
        for part in own.chunk_by(|a, b| b.0 - a.0 < gap) {
            let mut numbers: Vec<_> = part.iter().map(|event| event.2).collect();
            numbers.sort_unstable();
            all.push((key, part[0].0, part[part.len() - 1].0 + gap, numbers));
        }
    }
    all
}

/// The count windows of each key's events in the order of their times.
fn counts(events: &[Event], n: usize, every: usize) -> Vec<(u8, Vec<usize>)> {
    let mut all = Vec::new();
    for (key, mut own) in by_key(events) {
        own.sort_by_key(|event| event.0);
        let numbers: Vec<_> = own.iter().map(|event| event.2).collect();
        let mut out = 0;
        for start in (0..numbers.len()).step_by(every) {
            let end = (start + n).min(numbers.len());
            if end - start == n || out < numbers.len() {
                all.push((key, numbers[start..end].to_vec()));
                out = end;
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn sessions_agree(
        steps in prop::collection::vec((0_i64..30, 0_u8..4), 1..120),
        gap in 1_i64..60,
        disorder in 0_i64..80,
        in_order: bool,
        workers in prop::sample::select(vec![1_usize, 2, 4]),
        batch in prop::sample::select(vec![1_usize, 7, 1_024]),
    ) {
        let events = events(&steps, disorder);
        let (out, query) = run(workers, batch, |query| {
            query
                .source("events", source::from_iter(events.clone(), |event| at(event.0)))
                .watermarks(Watermarks::bounded(ms(disorder as u64)))
                .key_by(|event| event.1)
                .window(Windows::session(ms(gap as u64)))
                .aggregate((count(), to_vec(|event: &Event| event.2)))
                .in_order_if(in_order)
                .collect()
        });
        prop_assert_eq!(late_unused(&query), 0);
        let mut seen: Vec<_> = out
            .values()
            .into_iter()
            .map(|window| {
                let (n, mut numbers) = window.value;
                assert_eq!(n as usize, numbers.len());
                numbers.sort_unstable();
                (window.key, window.start.as_millis(), window.end.as_millis(), numbers)
            })
            .collect();
        if in_order {
            prop_assert!(seen.is_sorted_by_key(|session| session.2));
        }
        seen.sort();
        prop_assert_eq!(seen, sessions(&events, gap));
    }

    #[test]
    fn count_windows_in_order_agree(
        steps in prop::collection::vec((0_i64..30, 0_u8..4), 1..120),
        n in 1_usize..6,
        every in 1_usize..6,
        disorder in 0_i64..80,
        workers in prop::sample::select(vec![1_usize, 2, 4]),
        batch in prop::sample::select(vec![1_usize, 7, 1_024]),
    ) {
        let every = every.min(n);
        let events = events(&steps, disorder);
        let (out, _) = run(workers, batch, |query| {
            query
                .source("events", source::from_iter(events.clone(), |event| at(event.0)))
                .watermarks(Watermarks::bounded(ms(disorder as u64)))
                .key_by(|event| event.1)
                .window(Windows::sliding_count(n as u64, every as u64))
                .aggregate(to_vec(|event: &Event| event.2))
                .in_order()
                .collect()
        });
        let mut seen: Vec<_> = out.values().into_iter().map(|it| (it.key, it.value)).collect();
        seen.sort_by_key(|window| window.0);
        prop_assert_eq!(seen, counts(&events, n, every));
    }
}
