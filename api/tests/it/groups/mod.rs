//! Groups of queries, as a user would use them.

mod equal;
mod sharing;

use std::collections::BTreeMap;
use std::time::Duration;

use mizzle::aggregate::count;
use mizzle::plan::Mode;
use mizzle::sink::Collected;
use mizzle::stream::Member;
use mizzle::time::Watermarks;
use mizzle::{
    Engine, Event, Group, GroupError, MemberFull, MemberId, PushHandle, Query, QueryHandle, Span,
    Windows, source,
};

use crate::faults::{at, budget, completed, engine, eventually, resident};

type Reading = (u32, i64);
/// A group of running sums, its source, and what its members found.
struct Sums {
    handle: QueryHandle,
    push: PushHandle<Reading>,
    group: Group<u32, i64, i64>,
    found: Collected<(MemberId, i64)>,
}

/// Members on sensors: a running sum of the values times the member's factor; -1 panics.
fn sums(engine: &Engine) -> Sums {
    let query = Query::new("sums");
    let (push, readings) = query.push_source("readings", |_: &Reading| at(0));
    let (group, results) =
        readings.key_by(|&(sensor, _)| sensor).group("sums", |member: Member<i64, _>| {
            member
                .map(|(factor, (_, value)): (i64, Reading)| {
                    assert_ne!(value, -1, "minus one");
                    factor * value
                })
                .apply_stateful(0, |sum: &mut i64, value| {
                    *sum += value;
                    *sum
                })
                .named("sum")
        });
    let found = results.collect();
    Sums { handle: engine.submit(query).unwrap(), push, group, found }
}

impl Sums {
    /// Waits until the lanes have had `events`.
    fn had(&self, events: u64) {
        eventually("the events", || self.group.stats().total().events == events);
    }

    fn of(&self, member: MemberId) -> Vec<i64> {
        self.found
            .values()
            .into_iter()
            .filter(|(id, _)| *id == member)
            .map(|(_, sum)| sum)
            .collect()
    }

    fn drained(self) -> Vec<(MemberId, i64)> {
        self.handle.drain();
        completed(&self.handle);
        self.found.values()
    }
}

#[test]
fn members_come_and_go_while_events_flow() {
    for workers in [1, 2, 4] {
        let engine = engine(workers);
        let sums = sums(&engine);
        let first = sums.group.add(7, 1).unwrap();
        sums.push.push((7, 5)).unwrap();
        sums.push.push((8, 5)).unwrap();
        sums.had(2);
        let second = sums.group.add(7, 10).unwrap();
        sums.push.push((7, 1)).unwrap();
        sums.had(3);
        sums.group.set_params(first, 100).unwrap();
        sums.push.push((7, 1)).unwrap();
        sums.had(4);
        let report = sums.group.inspect(first).unwrap().expect("it lives");
        assert_eq!(report.living, Some((7, 100)));
        assert_eq!((report.events, report.results), (3, 3));
        assert_eq!(report.state[0].json, "106");
        sums.group.remove(first).unwrap();
        sums.push.push((7, 1)).unwrap();
        sums.had(5);
        assert!(sums.group.inspect(first).unwrap().is_none());
        assert_eq!(sums.group.members().unwrap(), [second]);
        // The same key again: another member, which knows nothing.
        let third = sums.group.add(7, 1).unwrap();
        sums.push.push((7, 1)).unwrap();
        sums.had(6);
        eventually("the results", || sums.found.len() == 8);
        assert_eq!(sums.of(first), [5, 6, 106]);
        assert_eq!(sums.of(second), [10, 20, 30, 40]);
        assert_eq!(sums.of(third), [1]);
        assert_ne!(first, third);
        let total = sums.group.stats().total();
        assert_eq!((total.members, total.unmatched, total.handed), (2, 1, 8));
        let group = sums.group.clone();
        sums.drained();
        assert_eq!(group.add(1, 1), Err(GroupError::Closed("sums".into())));
        assert_eq!(group.inspect(second).unwrap_err(), GroupError::Closed("sums".into()));
    }
}

#[test]
fn members_can_be_there_before_the_query_runs() {
    let query = Query::new("early");
    let (group, results) = query
        .source("numbers", source::from_iter(0..100u64, |_| at(0)))
        .key_by(|n| n % 10)
        .group("tens", |member: Member<(), _>| member.map(|((), n)| n));
    let found = results.collect();
    let all = group.add_all((0..10).map(|key| (key, ()))).unwrap();
    group.remove_all(&all[3..]).unwrap();
    assert_eq!(group.members(), Err(GroupError::NotRunning("tens".into())));
    let engine = engine(2);
    completed(&engine.submit(query).unwrap());
    let mut found: Vec<_> = found.values().into_iter().map(|(_, n)| n).collect();
    found.sort_unstable();
    assert_eq!(found, (0..100).filter(|n| n % 10 < 3).collect::<Vec<_>>());

    let query = Query::new("never");
    let (group, results) = query
        .source("numbers", source::from_iter(0..100u64, |_| at(0)))
        .key_by(|n| n % 10)
        .group("gone", |member: Member<(), _>| member);
    group.add(1, ()).unwrap();
    drop((query, results));
    assert_eq!(group.add(1, ()), Err(GroupError::Closed("gone".into())));
}

#[test]
fn a_panicking_member_fails_alone_and_is_named() {
    for workers in [1, 4] {
        let engine = engine(workers);
        let sums = sums(&engine);
        let members = sums.group.add_all((0..100).map(|sensor| (sensor, 1))).unwrap();
        let twin = sums.group.add(13, 2).unwrap();
        for round in 0..10 {
            for sensor in 0..100 {
                let value = if (sensor, round) == (13, 4) { -1 } else { 1 };
                sums.push.push((sensor, value)).unwrap();
            }
        }
        sums.had(1000);
        let failures = sums.group.failures();
        let mut failed: Vec<_> = failures.iter().map(|(id, _)| *id).collect();
        failed.sort_by_key(|id| id.place);
        let mut expected = vec![members[13], twin];
        expected.sort_by_key(|id| id.place);
        assert_eq!(failed, expected);
        let (_, failure) = &failures[0];
        assert!(failure.message.contains("minus one"), "{failure}");
        assert!(
            failure.location.contains("groups/mod.rs") && failure.operator == "map",
            "{failure}"
        );
        let total = sums.group.stats().total();
        assert_eq!((total.members, total.failed), (99, 2));
        let (healthy, other) = (members[12], members[13]);
        let found = sums.drained();
        let of =
            |id: MemberId| found.iter().filter(move |(other, _)| *other == id).map(|(_, sum)| *sum);
        assert!(of(healthy).eq(1..=10));
        assert!(of(other).eq(1..=4));
        assert_eq!(found.len(), 99 * 10 + 8);
    }
}

#[test]
fn a_member_with_a_channel_of_its_own_never_holds_its_lane() {
    for workers in [1, 4] {
        let engine = engine(workers);
        let sums = sums(&engine);
        let (drops, slow) = sums.group.add_with_channel(1, 1, 3, MemberFull::DropNewest).unwrap();
        let (fails, full) = sums.group.add_with_channel(1, 1, 3, MemberFull::Fail).unwrap();
        let shares = sums.group.add(1, 1).unwrap();
        sums.push.push_all(vec![(1, 1); 10]).unwrap();
        sums.had(10);
        let report = sums.group.inspect(drops).unwrap().expect("it lives");
        assert_eq!((report.results, report.dropped), (10, 7));
        let failures = sums.group.failures();
        assert_eq!(failures.len(), 1);
        assert!(failures[0].0 == fails && failures[0].1.message.contains("channel is full"));
        // What it took it keeps, and then it ends.
        assert!(full.iter().map(|event| event.value).eq(1..=3));
        assert!((1..=3).eq((0..3).filter_map(|_| slow.recv()).map(|event| event.value)));
        sums.group.remove(drops).unwrap();
        assert_eq!(slow.recv(), None);
        // Only the third feeds the stream of the group.
        let found = sums.drained();
        assert!(found.iter().all(|(id, _)| *id == shares) && found.len() == 10, "{found:?}");
    }
}

#[test]
fn members_on_ranges_and_sets_get_exactly_what_lies_there() {
    let events = || (0..5000i64).map(|n| Event::new(at(n), (n * 7 % 23, n * 31 % 101)));
    for workers in [1, 4] {
        let engine = engine(workers);
        let query = Query::new("ranges");
        let shared = query.source("numbers", source::events(events())).share();
        let (ranges, by_range) = shared.clone().group_by_range(
            "ranges",
            |&(_, value)| value,
            |m: Member<i64, _>| m.map(|(from, _)| from),
        );
        let (both, by_both) = shared.clone().key_by(|&(key, _)| key).group_by_range(
            "both",
            |&(_, value)| value,
            |m: Member<i64, _>| m.map(|(n, _)| n),
        );
        let (sets, by_set) = shared
            .key_by(|&(key, _)| key)
            .group_by_set("sets", |m: Member<i64, _>| m.map(|(n, _)| n));
        let found = [by_range.collect(), by_both.collect(), by_set.collect()];
        ranges.add_all((0..100).map(|from| (Span::new(from..from + from % 7 + 1), from))).unwrap();
        both.add_all((0..23).flat_map(|key| {
            (0..10).map(move |step| ((key, Span::above(step * 10)), key * 100 + step))
        }))
        .unwrap();
        sets.add_all((0..20).map(|n| (vec![n, n + 3, n], n))).unwrap();
        assert!(matches!(ranges.add(Span::new(7..7), 0), Err(GroupError::Selects { .. })));
        completed(&engine.submit(query).unwrap());
        let counted = |found: &Collected<(MemberId, i64)>| {
            let mut counts = BTreeMap::new();
            found.values().into_iter().for_each(|(_, n)| *counts.entry(n).or_insert(0) += 1);
            counts
        };
        let naive = |members: &mut dyn Iterator<Item = (i64, &dyn Fn(i64, i64) -> bool)>| {
            let count = |wants: &dyn Fn(i64, i64) -> bool| {
                events().filter(|event| wants(event.value.0, event.value.1)).count()
            };
            members
                .map(|(n, wants)| (n, count(wants)))
                .filter(|&(_, n)| n > 0)
                .collect::<BTreeMap<_, _>>()
        };
        let mut expected = BTreeMap::new();
        for from in 0..100 {
            let wants = move |_, value| (from..from + from % 7 + 1).contains(&value);
            expected
                .extend(naive(&mut std::iter::once((from, &wants as &dyn Fn(i64, i64) -> bool))));
        }
        assert_eq!(counted(&found[0]), expected);
        expected.clear();
        for (of, step) in (0..23).flat_map(|key| (0..10).map(move |step| (key, step))) {
            let wants = move |key, value| key == of && value > step * 10;
            let member = (of * 100 + step, &wants as &dyn Fn(i64, i64) -> bool);
            expected.extend(naive(&mut std::iter::once(member)));
        }
        assert_eq!(counted(&found[1]), expected);
        expected.clear();
        for n in 0..20 {
            let wants = move |key, _| key == n || key == n + 3;
            expected.extend(naive(&mut std::iter::once((n, &wants as &dyn Fn(i64, i64) -> bool))));
        }
        assert_eq!(counted(&found[2]), expected);
    }
}

#[test]
fn the_plan_says_how_a_group_runs() {
    let plan = |flag: bool, global: bool, workers| {
        let query = Query::new("plan");
        let (_group, results) = query
            .source("numbers", source::from_iter(0..10i64, |&n| at(n)))
            .watermarks(Watermarks::bounded(Duration::from_secs(1)))
            .key_by(|n| n % 10)
            .group("tens", |member: Member<(), _>| {
                member.apply_stateful(0, |_, ((), n)| n).in_order_if(flag)
            });
        results.apply_stateful(0, |_, (_, n)| n).in_order_if(global).collect();
        query.plan(workers)
    };
    let lanes = |plan: &mizzle::plan::Plan| {
        let piece = plan.pieces().iter().find(|it| !it.ops.is_empty()).expect("the template");
        (piece.mode, piece.shards)
    };
    assert_eq!(lanes(&plan(false, false, 1)), (Mode::Parallel, 1));
    assert_eq!(lanes(&plan(false, false, 2)), (Mode::Parallel, 8));
    assert_eq!(lanes(&plan(true, false, 2)), (Mode::Ordered, 8));
    assert_eq!(lanes(&plan(false, true, 2)), (Mode::Ordered, 1));
    let text = plan(true, false, 2).explain();
    for expected in [
        "[1] ordered in 8 shards: \"apply_stateful\" of the template is flagged in-order",
        "reorder: a stage that holds events",
        "group \"tens\"",
        "apply_stateful (in order) per member",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
}

#[test]
fn a_sink_that_all_members_share_can_ask_for_the_order_of_all() {
    for workers in [1, 4] {
        let query = Query::new("global");
        let (group, results) = query
            .source("numbers", source::from_iter(0..2000i64, |&n| at(n ^ 7)))
            .watermarks(Watermarks::bounded(Duration::from_millis(10)))
            .key_by(|n| n % 16)
            .group("windows", |member: Member<i64, _>| {
                member.window(Windows::tumbling(Duration::from_millis(50))).aggregate(count())
            });
        let last = results
            .apply_stateful(at(0), |last, (_, window)| {
                let before = std::mem::replace(last, window.end);
                (before, window.end, window.value)
            })
            .in_order()
            .collect();
        group.add_all((0..16).map(|key| (key, 0))).unwrap();
        let engine = engine(workers);
        completed(&engine.submit(query).unwrap());
        let last = last.values();
        assert!(last.iter().all(|(before, end, _)| before <= end));
        assert_eq!(last.iter().map(|(.., count)| count).sum::<u64>(), 2000);
    }
}

/// Says everything twice, the second time aside.
struct Aside;

impl mizzle::ProcessOp<(), i64> for Aside {
    type State = ();
    type Out = i64;
    type Side = i64;

    fn event(&self, cx: &mut mizzle::ProcessCx<'_, (), i64, i64>, _: &mut (), value: i64) {
        cx.emit(value);
        cx.emit_side(value);
    }
}

#[test]
fn a_side_output_in_a_template_is_refused_by_name() {
    let query = Query::new("aside");
    let mut side = None;
    let (_group, results) = query
        .source("numbers", source::from_iter(0..10i64, |_| at(0)))
        .key_by(|n| n % 10)
        .group("tens", |member: Member<(), _>| {
            let (main, aside) = member.map(|((), n)| n).key_by(|_| ()).process(Aside);
            side = Some(aside);
            main
        });
    results.collect();
    side.expect("the template was described").collect();
    let error = engine(1).submit(query).err().expect("it is refused").to_string();
    assert!(error.contains("\"process\"") && error.contains("side output"), "{error}");
}

#[test]
fn an_id_of_another_group_is_refused() {
    let engine = engine(1);
    let (a, b) = (sums(&engine), sums(&engine));
    let member = a.group.add(1, 1).unwrap();
    let foreign = GroupError::Foreign { id: member, group: "sums".into() };
    assert_eq!(b.group.remove(member), Err(foreign.clone()));
    assert_eq!(b.group.set_params(member, 1), Err(foreign.clone()));
    assert_eq!(b.group.inspect(member).unwrap_err(), foreign);
    a.drained();
    b.drained();
}

/// By how many bytes this process has grown since it held `before`; none where the system does not tell.
fn grown(before: Option<u64>) -> u64 {
    before.zip(resident()).map_or(0, |(before, now)| now.saturating_sub(before))
}

#[test]
fn lc_01_members_that_come_and_go_under_load_leave_nothing_behind() {
    let engine = engine(2);
    let sums = sums(&engine);
    let cycles = budget(60, 1000);
    let cycle = |round: usize| {
        let members = sums.group.add_all((0..2000).map(|sensor| (sensor, 1))).unwrap();
        sums.push.push_all((0..2000).map(|sensor| (sensor, round as i64)).collect()).unwrap();
        sums.group.remove_all(&members).unwrap();
        sums.group.members().unwrap()
    };
    (0..10).for_each(|round| drop(cycle(round)));
    let before = resident();
    (0..cycles).for_each(|round| drop(cycle(round)));
    assert_eq!(sums.group.members().unwrap(), []);
    assert_eq!(sums.group.stats().total().members, 0);
    // The sums that were found are kept by the sink: sixteen bytes and a name each.
    let kept = sums.found.len() as u64 * 48;
    let grown = grown(before).saturating_sub(2 * kept);
    assert!(grown < 16 << 20, "{grown} bytes more after {cycles} cycles");
    sums.drained();
}

/// Notes when a switch has been on for a minute.
struct OnForAMinute;

impl mizzle::ProcessOp<(), bool> for OnForAMinute {
    type State = ();
    type Out = ();
    type Side = ();

    fn event(&self, cx: &mut mizzle::ProcessCx<'_, (), (), ()>, _: &mut (), on: bool) {
        if on {
            cx.set_timer(at(cx.time().as_millis() + 60_000));
        }
    }

    fn timer(
        &self,
        cx: &mut mizzle::ProcessCx<'_, (), (), ()>,
        _: &mut (),
        _: mizzle::time::Timestamp,
    ) {
        cx.emit(());
    }
}

/// The run without a restart: state is not durable yet.
#[test]
fn lc_05_a_timer_fires_whatever_becomes_of_the_other_members() {
    let query = Query::new("switches");
    let (push, switches) = query.push_source("switches", |&(secs, _): &(i64, u32)| at(secs * 1000));
    let (group, results) =
        switches.key_by(|&(_, switch)| switch).group("on", |member: Member<(), _>| {
            member.map(|_| true).key_by(|_| ()).process(OnForAMinute).0
        });
    let found = results.collect();
    let engine = engine(2);
    let handle = engine.submit(query).unwrap();
    let watched = group.add(7, ()).unwrap();
    push.push((0, 7)).unwrap();
    eventually("the event", || group.stats().total().events == 1);
    let others = group.add_all((0..500).map(|switch| (switch, ()))).unwrap();
    push.push((30, 8)).unwrap();
    group.set_params(others[7], ()).unwrap();
    group.remove_all(&others).unwrap();
    group.members().unwrap();
    push.push((59, 1)).unwrap();
    eventually("the events", || group.stats().total().events == 3);
    assert!(found.is_empty());
    push.push((60, 1)).unwrap();
    eventually("the alert", || found.len() == 1);
    drop(push);
    completed(&handle);
    let alerts: Vec<_> = found.events().iter().map(|event| (event.time, event.value.0)).collect();
    assert_eq!(alerts, [(at(60_000), watched)]);
}

#[test]
fn st_03_windows_that_have_closed_keep_nothing() {
    let query = Query::new("pages");
    type Page = (i64, u32, std::sync::Arc<[u8]>);
    let (push, pages) = query.push_source("pages", |page: &Page| at(page.0));
    let (group, results) = pages.key_by(|page| page.1).group("sizes", |member: Member<(), _>| {
        member
            .window(Windows::tumbling(Duration::from_millis(10)))
            .aggregate(mizzle::aggregate::sum(|((), page): &((), Page)| page.2.len() as i64))
            .map(|window| window.value)
    });
    let found = results.collect();
    group.add_all((0..2000).map(|key| (key, ()))).unwrap();
    let engine = engine(2);
    let handle = engine.submit(query).unwrap();
    let bytes: std::sync::Arc<[u8]> = vec![0; 1024].into();
    let before = resident();
    for n in 0..budget(20, 1000) as i64 {
        let pages = (0..2000).map(|key| (n % 10, key, bytes.clone())).collect();
        push.push_all(pages).unwrap();
    }
    push.advance(at(10));
    let events = 2000 * budget(20, 1000);
    eventually("the sums", || found.len() == 2000);
    // Nobody holds a page any more but this test.
    eventually("the pages", || std::sync::Arc::strong_count(&bytes) == 1);
    let sum: i64 = found.values().iter().map(|(_, sum)| sum).sum();
    assert_eq!(sum, 1024 * events as i64);
    let grown = grown(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    handle.cancel();
    handle.wait();
}

#[test]
fn one_hot_key_does_not_keep_the_others_from_going_on() {
    let engine = engine(2);
    let sums = sums(&engine);
    sums.group.add_all((0..1000).map(|sensor| (sensor, 1))).unwrap();
    let (hot, push) = (sums.push.clone(), sums.push.clone());
    std::thread::scope(|scope| {
        scope.spawn(move || (0..200).for_each(|_| hot.push_all(vec![(3, 1); 500]).unwrap()));
        scope.spawn(move || (0..1000).for_each(|sensor| push.push((sensor, 1)).unwrap()));
    });
    sums.had(101_000);
    let found = sums.drained();
    assert_eq!(found.iter().map(|(_, sum)| *sum).max(), Some(100_001));
    assert_eq!(
        found.iter().map(|(id, _)| id).collect::<std::collections::HashSet<_>>().len(),
        1000
    );
}
