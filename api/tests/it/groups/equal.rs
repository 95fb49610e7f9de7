//! A group gives exactly what its members would give as queries of their own.
//!
//! Random events in phases; before each phase members come, go and change. Of each member there is a
//! query of its own, with a filter on its key, that gets the same events while the member is there.
//! Between phases everything is waited for, so that both sides see the same events under the same
//! parameters. The watermark moves between phases only; events behind it are late.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mizzle::aggregate::{count, sum};
use mizzle::sink::Collected;
use mizzle::stream::Member;
use mizzle::time::Watermarks;
use mizzle::{
    Build, Engine, Group, MemberId, ProcessCx, ProcessOp, PushHandle, Query, QueryHandle, Status,
    Stream, Windowed, Windows,
};
use proptest::prelude::*;

use crate::faults::{at, budget, eventually, ms};

/// Time in milliseconds, key, value.
pub(super) type Item = (i64, u8, i64);
/// What a template gives: when, and what.
pub(super) type Found = (i64, i64);

const PHASE: i64 = 100;

/// At this value templates panic.
pub(super) const PANIC: i64 = 97;

fn checked((factor, (time, _, value)): (i64, Item)) -> Found {
    assert_ne!(value, PANIC, "ninety-seven");
    (time, factor * value)
}

/// A template, for a group and for a query alike.
trait Template: Copy + Send + 'static {
    fn on<B: Build<Out = (i64, Item)>>(
        self,
        stream: Stream<B>,
        flag: bool,
    ) -> Stream<impl Build<Out = Found, Head = B::Head>>;
}

/// What members do, in a group and each in a query of its own.
pub(super) trait Kind: Copy {
    fn group<B: Build<Out = Item>>(
        self,
        items: Stream<B>,
        flag: bool,
    ) -> (Group<u8, i64, Found>, Collected<(MemberId, Found)>);

    /// With the parameter that `factor` gives.
    fn alone<B: Build<Out = Item>>(
        self,
        items: Stream<B>,
        factor: impl Fn() -> i64 + Send + Sync + 'static,
        flag: bool,
    ) -> Collected<Found>;
}

impl<T: Template> Kind for T {
    fn group<B: Build<Out = Item>>(
        self,
        items: Stream<B>,
        flag: bool,
    ) -> (Group<u8, i64, Found>, Collected<(MemberId, Found)>) {
        let (group, results) = items
            .key_by(|item| item.1)
            .group("group", |member: Member<i64, _>| self.on(member, flag));
        (group, results.collect())
    }

    fn alone<B: Build<Out = Item>>(
        self,
        items: Stream<B>,
        factor: impl Fn() -> i64 + Send + Sync + 'static,
        flag: bool,
    ) -> Collected<Found> {
        self.on(items.map(move |item| (factor(), item)), flag).collect()
    }
}

#[derive(Clone, Copy)]
struct Running;
#[derive(Clone, Copy)]
struct Tumbling;
#[derive(Clone, Copy)]
struct Hopping;
#[derive(Clone, Copy)]
struct Timers;

impl Template for Running {
    fn on<B: Build<Out = (i64, Item)>>(
        self,
        stream: Stream<B>,
        flag: bool,
    ) -> Stream<impl Build<Out = Found, Head = B::Head>> {
        stream
            .filter(|(factor, (_, _, value))| factor * value % 3 != 0)
            .map(checked)
            .apply_stateful(0, |sum: &mut i64, (time, value)| {
                *sum = (*sum * 31 + value) % 1_000_003;
                (time, *sum)
            })
            .in_order_if(flag)
            .flat_map(|found| [found, (found.0, -1)])
    }
}

impl Template for Tumbling {
    fn on<B: Build<Out = (i64, Item)>>(
        self,
        stream: Stream<B>,
        flag: bool,
    ) -> Stream<impl Build<Out = Found, Head = B::Head>> {
        stream
            .map(checked)
            .window(Windows::tumbling(ms(30)))
            .aggregate(sum(|found: &Found| found.1))
            .in_order_if(flag)
            .map(|window: Windowed<(), i64>| (window.end.as_millis(), window.value))
    }
}

impl Template for Hopping {
    fn on<B: Build<Out = (i64, Item)>>(
        self,
        stream: Stream<B>,
        flag: bool,
    ) -> Stream<impl Build<Out = Found, Head = B::Head>> {
        stream
            .map(checked)
            .key_by(|found| found.1 % 2)
            .window(Windows::hopping(ms(40), ms(15)))
            .aggregate(count())
            .in_order_if(flag)
            .map(|window| (window.end.as_millis(), window.value as i64 + 100 * window.key))
    }
}

/// Emits the sum of a burst once nothing has come for 20 ms.
struct Quiet;

impl ProcessOp<(), Found> for Quiet {
    type State = (i64, i64);
    type Out = Found;
    type Side = ();

    fn event(&self, cx: &mut ProcessCx<'_, (), Found, ()>, state: &mut (i64, i64), found: Found) {
        let due = cx.time().as_millis() + 20;
        cx.cancel_timer(at(state.1));
        *state = (state.0 + found.1, due);
        cx.set_timer(at(due));
    }

    fn timer(
        &self,
        cx: &mut ProcessCx<'_, (), Found, ()>,
        state: &mut (i64, i64),
        due: mizzle::time::Timestamp,
    ) {
        cx.emit((due.as_millis(), state.0));
        state.0 = 0;
    }
}

impl Template for Timers {
    fn on<B: Build<Out = (i64, Item)>>(
        self,
        stream: Stream<B>,
        flag: bool,
    ) -> Stream<impl Build<Out = Found, Head = B::Head>> {
        let (main, _side) = stream.map(checked).key_by(|_| ()).process(Quiet);
        main.in_order_if(flag)
    }
}

/// What happens before a phase.
#[derive(Clone, Debug)]
enum Step {
    Add(u8, i64),
    Remove(usize),
    Params(usize, i64),
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    phases: Vec<(Vec<Step>, Vec<(i64, u8, i64)>)>,
    workers: usize,
    batch: usize,
    flag: bool,
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let step = prop_oneof![
        4 => (0..4u8, 1..5i64).prop_map(|(key, factor)| Step::Add(key, factor)),
        1 => (0..16usize).prop_map(Step::Remove),
        1 => (0..16usize, 1..5i64).prop_map(|(which, factor)| Step::Params(which, factor)),
    ];
    // Now and then an event of the phase before: late.
    let event = (-40..PHASE, 0..5u8, 0..100i64);
    let phase = (proptest::collection::vec(step, 0..4), proptest::collection::vec(event, 0..40));
    (proptest::collection::vec(phase, 1..5), 1..5usize, 1..70usize, any::<bool>())
        .prop_map(|(phases, workers, batch, flag)| Case { phases, workers, batch, flag })
}

/// A query of its own that does what a member does.
struct Single {
    id: MemberId,
    key: u8,
    factor: Arc<AtomicI64>,
    push: Option<PushHandle<Item>>,
    handle: QueryHandle,
    found: Collected<Found>,
    sent: u64,
}

impl Single {
    fn new(
        engine: &Engine,
        id: MemberId,
        key: u8,
        factor: i64,
        kind: impl Kind,
        flag: bool,
    ) -> Self {
        let query = Query::new("single");
        let (push, items) = query.push_source("items", |item: &Item| at(item.0));
        let factor = Arc::new(AtomicI64::new(factor));
        let current = factor.clone();
        let items = items.watermarks(Watermarks::bounded(ms(1_000_000)));
        let found = kind.alone(items, move || current.load(Ordering::SeqCst), flag);
        let handle = engine.submit(query).unwrap();
        Self { id, key, factor, push: Some(push), handle, found, sent: 0 }
    }
}

fn taken(handle: &QueryHandle) -> u64 {
    handle.chains().iter().map(|chain| chain.stats.events_in).next().unwrap_or(0)
}

/// Nothing waits in any inbox, and everything taken in has been let out.
fn quiet(handle: &QueryHandle, sent: u64) -> bool {
    let chains = handle.chains();
    let idle = chains.iter().all(|chain| {
        chain.stats.inbox_depth == 0
            && chain.stats.held == 0
            && matches!(chain.state, "idle" | "done")
    });
    handle.status().is_over() || (idle && taken(handle) >= sent)
}

pub(super) fn run(case: &Case, kind: impl Kind) {
    let engine = Engine::builder().workers(case.workers).batch(case.batch).build().unwrap();
    let alone = crate::faults::engine(1);
    let query = Query::new("group");
    let (push, items) = query.push_source("items", |item: &Item| at(item.0));
    let items = items.watermarks(Watermarks::bounded(ms(1_000_000)));
    let (group, found) = kind.group(items, case.flag);
    let handle = engine.submit(query).unwrap();
    let (mut living, mut gone): (Vec<Single>, Vec<Single>) = (Vec::new(), Vec::new());
    let mut sent = 0;
    for (phase, (steps, events)) in case.phases.iter().enumerate() {
        let begin = phase as i64 * PHASE;
        push.advance(at(begin));
        living
            .iter()
            .filter_map(|single| single.push.as_ref())
            .for_each(|push| push.advance(at(begin)));
        eventually("the group", || quiet(&handle, sent));
        for single in &living {
            eventually("a query of its own", || quiet(&single.handle, single.sent));
        }
        for step in steps {
            match *step {
                Step::Add(key, factor) => {
                    let id = group.add(key, factor).unwrap();
                    let single = Single::new(&alone, id, key, factor, kind, case.flag);
                    single.push.as_ref().unwrap().advance(at(begin));
                    living.push(single);
                }
                Step::Remove(which) if !living.is_empty() => {
                    let single = living.remove(which % living.len());
                    group.remove(single.id).unwrap();
                    single.handle.cancel();
                    single.handle.wait();
                    gone.push(single);
                }
                Step::Params(which, factor) if !living.is_empty() => {
                    let single = &living[which % living.len()];
                    group.set_params(single.id, factor).unwrap();
                    single.factor.store(factor, Ordering::SeqCst);
                }
                Step::Remove(_) | Step::Params(..) => {}
            }
        }
        group.members().unwrap();
        for &(offset, key, value) in events {
            let item = (begin + offset, key, value);
            push.push(item).unwrap();
            sent += 1;
            for single in living.iter_mut().filter(|single| single.key == key) {
                if single.push.as_ref().is_some_and(|push| push.push(item).is_ok()) {
                    single.sent += 1;
                }
            }
        }
    }
    drop(push);
    assert_eq!(handle.wait(), Status::Completed);
    let found: Vec<(MemberId, Found)> = found.values();
    for mut single in living.into_iter().chain(gone) {
        single.push = None;
        let status = single.handle.wait();
        let ours: Vec<_> =
            found.iter().filter(|(id, _)| *id == single.id).map(|(_, found)| *found).collect();
        let alone = single.found.values();
        if matches!(status, Status::Failed(_)) {
            // The query loses its whole batch; the member only the event it failed at.
            assert!(ours.starts_with(&alone), "{:?}: {ours:?} but alone {alone:?}", single.id);
        } else {
            assert_eq!(ours, alone, "{:?} {status:?}\n{}", single.id, handle.plan().explain());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: budget(24, 2000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn running(case in case()) {
        run(&case, Running);
    }

    #[test]
    fn tumbling(case in case()) {
        run(&case, Tumbling);
    }

    #[test]
    fn hopping(case in case()) {
        run(&case, Hopping);
    }

    #[test]
    fn timers(case in case()) {
        run(&case, Timers);
    }
}
