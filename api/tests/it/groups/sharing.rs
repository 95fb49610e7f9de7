//! Members that share the windows of their key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mizzle::aggregate::{Aggregate, count, fold, sum};
use mizzle::plan::{Mode, Plan};
use mizzle::sink::Collected;
use mizzle::stream::Member;
use mizzle::time::Watermarks;
use mizzle::{Build, Group, MemberId, Query, Stream, Windowed, Windows, source};
use proptest::prelude::*;

use super::equal::{Found, Item, Kind, PANIC, case, run};
use crate::faults::{at, budget, completed, engine, eventually, ms};

/// Over these windows, in the order in which the values came.
#[derive(Clone, Copy)]
struct Sharing(Windows);

fn values() -> impl Aggregate<Item, Out = Vec<i64>> {
    let add = |values: &mut Vec<i64>, &(_, _, value): &Item| {
        assert_ne!(value, PANIC, "ninety-seven");
        values.push(value);
    };
    let merge = |values: &mut Vec<i64>, later: &Vec<i64>| values.extend(later);
    fold(Vec::new, add, merge, Vec::clone)
}

/// Some results are passed over, and some few panic.
fn template<B: Build<Out = (i64, Windowed<u8, Vec<i64>>)>>(
    windows: Stream<B>,
) -> Stream<impl Build<Out = Found, Head = B::Head>> {
    windows
        .map(|(factor, window)| {
            let mixed = |mixed, value| (mixed * 31 + factor * value) % 1_000_003;
            (window.end.as_millis(), window.value.into_iter().fold(0, mixed))
        })
        .filter(|(_, mixed)| mixed % 5 != 0)
        .apply_stateful(0, |sum: &mut i64, (end, mixed)| {
            assert_ne!(mixed % 41, 7, "seven");
            *sum += mixed;
            (end, *sum)
        })
}

impl Kind for Sharing {
    fn group<B: Build<Out = Item>>(
        self,
        items: Stream<B>,
        flag: bool,
    ) -> (Group<u8, i64, Found>, Collected<(MemberId, Found)>) {
        let windows = items.key_by(|item| item.1).window(self.0).aggregate(values());
        let (group, results) =
            windows.in_order_if(flag).group("group", |member: Member<i64, _>| template(member));
        (group, results.collect())
    }

    fn alone<B: Build<Out = Item>>(
        self,
        items: Stream<B>,
        factor: impl Fn() -> i64 + Send + Sync + 'static,
        flag: bool,
    ) -> Collected<Found> {
        let windows = items.key_by(|item| item.1).window(self.0).aggregate(values());
        template(windows.in_order_if(flag).map(move |window| (factor(), window))).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: budget(32, 2000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn a_group_that_shares_gives_what_its_members_would(case in case(), size in 5u64..90, hop in 5u64..60) {
        run(&case, Sharing(Windows::hopping(ms(size), ms(hop))));
    }

    #[test]
    fn so_it_does_over_tumbling_windows(case in case(), size in 5u64..150) {
        run(&case, Sharing(Windows::tumbling(ms(size))));
    }
}

#[test]
fn a_hundred_members_on_a_key_add_an_event_once() {
    for workers in [1, 4] {
        let (adds, counter) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counted = adds.clone();
        let total = fold(
            || 0,
            move |sum: &mut i64, n: &i64| {
                counted.fetch_add(1, Ordering::SeqCst);
                *sum += n;
            },
            |sum: &mut i64, later: &i64| *sum += later,
            |sum: &i64| *sum,
        );
        let query = Query::new("hundred");
        let (limits, results) = query
            .source("numbers", source::from_iter(0..4000i64, |&n| at(n)))
            .key_by(|n| n % 4)
            .window(Windows::tumbling(ms(1000)))
            .aggregate(total)
            .group("limits", |member: Member<i64, _>| {
                member
                    .filter(|(limit, window)| window.value >= *limit)
                    .map(|(_, window)| window.value)
            });
        let seen = counter.clone();
        results.for_each(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
        });
        // Nobody is on key 3.
        let members = (0..300).map(|n| (n % 3, n / 3 * 10_000));
        limits.add_all(members).unwrap();
        let engine = engine(workers);
        completed(&engine.submit(query).unwrap());
        assert_eq!(adds.load(Ordering::SeqCst), 3000);
        let sums = |key: i64| {
            (0..4)
                .map(move |n| (0..1000).map(|i| 1000 * n + i).filter(|n| n % 4 == key).sum::<i64>())
        };
        let expected: usize =
            (0..3).flat_map(sums).map(|sum| (0..100).filter(|n| sum >= n * 10_000).count()).sum();
        assert_eq!(counter.load(Ordering::SeqCst), expected as u64);
        let total = limits.stats().total();
        assert_eq!((total.events, total.unmatched, total.handed), (4000, 1000, 1200));
    }
}

#[test]
fn the_plan_says_what_is_shared() {
    let plan = |flag: bool, keyed: bool| -> Plan {
        let query = Query::new("plan");
        let numbers = query
            .source("numbers", source::from_iter(0..10i64, |&n| at(n)))
            .watermarks(Watermarks::bounded(ms(1000)));
        let (tens, total) = (Windows::tumbling(ms(10)), count());
        if keyed {
            let windows =
                numbers.key_by(|n| n % 10).window(tens).aggregate(total).in_order_if(flag);
            let (_group, results) =
                windows.group("tens", |member: Member<(), _>| member.reduce(|_, last| last));
            results.collect();
        } else {
            let windows = numbers.window(tens).aggregate(total).in_order_if(flag);
            let (_group, results) = windows.group("tens", |member: Member<(), _>| member);
            results.collect();
        }
        query.plan(2)
    };
    let shared = "window per key, slices shared by members on the same key";
    for flag in [false, true] {
        let plan = plan(flag, true);
        let window =
            if flag { shared.replace("window", "window (in order)") } else { shared.into() };
        let (text, mermaid) = (plan.explain(), plan.explain_mermaid());
        for expected in [&*window, "group \"tens\"", "reduce per member"] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
            let expected = expected.replace('"', "&quot;");
            assert!(mermaid.contains(&expected), "{expected:?} is not in\n{mermaid}");
        }
        let lanes = plan.pieces().iter().find(|piece| !piece.ops.is_empty()).unwrap();
        let mode = if flag { Mode::Ordered } else { Mode::Parallel };
        assert_eq!((lanes.mode, lanes.shards, lanes.ops.len()), (mode, 8, 2));
    }
    let text = plan(false, false).explain();
    assert!(text.contains("window, slices shared by all members"), "{text}");
}

#[test]
fn members_on_windows_are_looked_into_changed_and_removed_as_others_are() {
    let query = Query::new("rooms");
    let (push, readings) = query.push_source("readings", |reading: &(i64, u32, i64)| at(reading.0));
    let (group, results) = readings
        .key_by(|reading| reading.1)
        .window(Windows::tumbling(ms(10)))
        .aggregate(sum(|reading: &(i64, u32, i64)| reading.2))
        .group("sums", |member: Member<i64, _>| {
            member
                .map(|(factor, window)| factor * window.value)
                .apply_stateful(0, |sum: &mut i64, value| {
                    *sum += value;
                    *sum
                })
                .named("sum")
        });
    let found = results.collect();
    let engine = engine(2);
    let handle = engine.submit(query).unwrap();
    let (first, twin) = (group.add(7, 1).unwrap(), group.add(7, 10).unwrap());
    push.push_all(vec![(1, 7, 5), (2, 8, 5), (3, 7, 1), (12, 7, 2)]).unwrap();
    eventually("the first window", || found.len() == 2);
    group.set_params(first, 100).unwrap();
    let again = group.add(7, 1).unwrap();
    group.members().unwrap();
    push.push_all(vec![(13, 7, 3), (20, 8, 0)]).unwrap();
    eventually("the second window", || found.len() == 5);
    let report = group.inspect(first).unwrap().expect("it lives");
    assert_eq!((report.living, report.events, report.results), (Some((7, 100)), 2, 2));
    assert_eq!(report.state[0].json, "506");
    group.remove(twin).unwrap();
    group.remove(first).unwrap();
    drop(push);
    completed(&handle);
    let expected = [(first, 6), (twin, 60), (first, 506), (twin, 110), (again, 3)];
    assert_eq!(found.values(), expected);
}

#[test]
fn windows_that_cannot_be_are_refused_by_name() {
    let query = Query::new("never");
    let (_group, results) = query
        .source("numbers", source::from_iter(0..10i64, |&n| at(n)))
        .window(Windows::tumbling(ms(0)))
        .aggregate(count())
        .group("gone", |member: Member<(), _>| member);
    results.collect();
    let error = engine(1).submit(query).err().expect("it is refused").to_string();
    assert!(error.contains("\"window\"") && error.contains("size is zero"), "{error}");
}
