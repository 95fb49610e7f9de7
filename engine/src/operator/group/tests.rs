mod windows;

use std::sync::Arc;

use super::*;
use crate::event::{Batch, Event};
use crate::operator::aggregate::count;
use crate::operator::{Apply, Consumer, Cx, Flow, Map, Note, OpId, Window, Windowed, Windows};
use crate::state::{StateError, Visit};
use crate::sync::Mutex;
use crate::time::Timestamp;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

/// What came out: results in order, watermarks, the end.
type Log<R> = Arc<Mutex<Vec<Seen<R>>>>;

#[derive(Clone, Debug, PartialEq)]
enum Seen<R> {
    Result(u32, i64, R),
    Watermark(i64),
    End,
}
use Seen::{End, Result as Out, Watermark};

struct Probe<R>(Log<R>);

impl<R: Send + 'static> Consumer<(MemberId, R)> for Probe<R> {
    type State = ();

    fn state(&self) {}

    fn event(&self, _: &mut (), _: &mut Cx, event: Event<(MemberId, R)>) {
        let (member, value) = event.value;
        self.0.lock().push(Out(member.place, event.time.as_micros() / 1_000_000, value));
    }

    fn watermark(&self, _: &mut (), _: &mut Cx, watermark: Timestamp) {
        self.0.lock().push(Watermark(watermark.as_micros() / 1_000_000));
    }

    fn end(&self, _: &mut (), _: &mut Cx) {
        self.0.lock().push(End);
    }

    fn flush(&self, _: &mut (), _: &mut Cx) {}

    fn next_timer(&self, _: &()) -> Option<Timestamp> {
        None
    }

    fn visit(&self, _: &mut (), _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}

#[derive(Default)]
struct Heard {
    counts: Mutex<LaneCounts>,
    failed: Mutex<Vec<(MemberId, String, u64)>>,
    removed: Mutex<Vec<MemberId>>,
}

impl Watch for Heard {
    fn counted(&self, _: u16, counts: &LaneCounts) {
        *self.counts.lock() = *counts;
    }

    fn failed(&self, member: MemberId, failure: Failure, events: u64) {
        self.failed.lock().push((member, failure.message, events));
    }

    fn removed(&self, members: &[MemberId]) {
        self.removed.lock().extend(members);
    }
}

/// A lane that is driven by hand.
struct Lane<C: Consumer<T>, T, R> {
    members: C,
    state: C::State,
    cx: Cx,
    log: Log<R>,
    heard: Arc<Heard>,
    types: std::marker::PhantomData<T>,
}

fn lane<S, P, C, R>(select: S, chain: C, ordered: bool) -> Lane<Members<S, P, C>, S::In, R>
where
    S: Select,
    P: Clone + Send + Sync + 'static,
    C: Consumer<(P, S::Event)>,
    R: Send + 'static,
{
    let (log, heard) = (Log::<R>::default(), Arc::<Heard>::default());
    let exits = Exits::new(Probe(log.clone()));
    let program = Program::new(OpId(9), 1, select, chain, exits, heard.clone());
    let members = Members::new(Arc::new(program), 0, 1);
    let state = members.state();
    let cx = Cx::new(ordered, 0);
    Lane { members, state, cx, log, heard, types: std::marker::PhantomData }
}

impl<C: Consumer<T>, T, R> Lane<C, T, R> {
    fn events(&mut self, events: impl IntoIterator<Item = (i64, T)>) {
        let mut batch = Batch::default();
        events.into_iter().for_each(|(secs, value)| batch.push(Event::new(at(secs), value), false));
        self.members.batch(&mut self.state, &mut self.cx, &mut batch);
        self.members.flush(&mut self.state, &mut self.cx);
    }

    fn late(&mut self, secs: i64, value: T) {
        let mut batch = Batch::default();
        batch.push(Event::new(at(secs), value), true);
        self.members.batch(&mut self.state, &mut self.cx, &mut batch);
        self.members.flush(&mut self.state, &mut self.cx);
    }

    fn watermark(&mut self, secs: i64) {
        self.members.watermark(&mut self.state, &mut self.cx, at(secs));
        self.members.flush(&mut self.state, &mut self.cx);
    }

    fn end(&mut self) {
        self.cx.flow = Flow::Ended;
        self.members.end(&mut self.state, &mut self.cx);
        self.members.flush(&mut self.state, &mut self.cx);
    }

    fn say<On: Send + 'static, P: Send + 'static>(&mut self, change: Change<On, P>) {
        let note: Note = Box::new(change);
        self.members.note(&mut self.state, &mut self.cx, note);
        self.members.flush(&mut self.state, &mut self.cx);
    }

    fn seen(&self) -> Vec<Seen<R>> {
        std::mem::take(&mut *self.log.lock())
    }

    fn counts(&self) -> LaneCounts {
        *self.heard.counts.lock()
    }
}

fn id(place: u32, generation: u32) -> MemberId {
    MemberId { group: 1, place, generation }
}

fn add<On, P>(place: u32, generation: u32, on: On, params: P) -> Change<On, P> {
    Change::Add(vec![Addition { id: id(place, generation), on, params, own: None }])
}

fn remove<On, P>(place: u32, generation: u32) -> Change<On, P> {
    Change::Remove(vec![id(place, generation)])
}

type Pair = (&'static str, i64);

fn by_name() -> impl Select<In = Pair, Event = Pair, On = &'static str> {
    ByKey::new(|pair: &Pair| pair.0)
}

/// A running sum of the values times the parameter. 13 panics.
fn sums() -> impl Consumer<(i64, Pair)> {
    let next = Results::<i64>::default();
    let sum = Apply::new(
        OpId(1),
        0,
        |sum: &mut i64, value: i64| {
            Some({
                *sum += value;
                *sum
            })
        },
        None,
        next,
    );
    Map::<_, _, _>::new(
        OpId(0),
        |(factor, (_, value)): (i64, Pair)| {
            assert_ne!(value, 13, "thirteen");
            factor * value
        },
        sum,
    )
}

#[test]
fn an_event_is_for_the_members_of_its_key_in_the_order_of_their_addition() {
    let mut lane = lane::<_, _, _, i64>(by_name(), sums(), false);
    lane.say(add(0, 0, "a", 1i64));
    lane.say(add(1, 0, "b", 1i64));
    lane.say(add(2, 0, "a", 10i64));
    lane.say(add(3, 0, "a", 100i64));
    lane.events([(0, ("a", 1)), (1, ("c", 5)), (1, ("b", 2)), (2, ("a", 3))]);
    let expected =
        [(0, 0, 1), (2, 0, 10), (3, 0, 100), (1, 1, 2), (0, 2, 4), (2, 2, 40), (3, 2, 400)];
    assert_eq!(lane.seen(), expected.map(|(member, secs, sum)| Out(member, secs, sum)));
    let LaneCounts { members, events, unmatched, handed, results, .. } = lane.counts();
    assert_eq!((members, events, unmatched, handed, results), (4, 4, 1, 7, 7));
    // One goes from the middle of the ring, then its tail, then the last.
    for (gone, left) in [(2, vec![0, 3]), (3, vec![0]), (0, vec![])] {
        lane.say(remove::<&str, i64>(gone, 0));
        lane.events([(3, ("a", 0))]);
        let places: Vec<_> = lane
            .seen()
            .iter()
            .map(|seen| match seen {
                Out(place, ..) => *place,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(places, left);
    }
}

#[test]
fn a_place_that_is_used_again_knows_nothing_of_the_one_before() {
    let mut lane = lane::<_, _, _, i64>(by_name(), sums(), false);
    lane.say(add(0, 0, "a", 1i64));
    lane.events([(0, ("a", 7))]);
    lane.say(remove::<&str, i64>(0, 0));
    lane.say(add(0, 1, "a", 1i64));
    lane.events([(1, ("a", 5))]);
    // Its old name means nobody.
    lane.say(remove::<&str, i64>(0, 0));
    lane.say(Change::<&str, i64>::Params(id(0, 0), 1000));
    lane.events([(2, ("a", 1))]);
    assert_eq!(lane.seen(), [Out(0, 0, 7), Out(0, 1, 5), Out(0, 2, 6)]);
    assert_eq!(*lane.heard.removed.lock(), [id(0, 0)]);
}

#[test]
fn parameters_change_and_state_stays() {
    let mut lane = lane::<_, _, _, i64>(by_name(), sums(), false);
    lane.say(add(0, 0, "a", 1i64));
    lane.events([(0, ("a", 7))]);
    lane.say(Change::<&str, i64>::Params(id(0, 0), 2));
    lane.events([(1, ("a", 7))]);
    assert_eq!(lane.seen(), [Out(0, 0, 7), Out(0, 1, 21)]);
}

#[test]
fn a_panic_ends_one_member_and_loses_nothing_of_the_others() {
    let mut lane = lane::<_, _, _, i64>(by_name(), sums(), false);
    for (place, key) in [(0, "a"), (1, "b"), (2, "a")] {
        lane.say(add(place, 0, key, 1i64));
    }
    // Both members of "a" panic at 13, each at its own copy; "b" goes on.
    lane.events([(0, ("a", 1)), (1, ("a", 13)), (2, ("b", 2)), (3, ("a", 1)), (4, ("b", 3))]);
    assert_eq!(lane.seen(), [Out(0, 0, 1), Out(2, 0, 1), Out(1, 2, 2), Out(1, 4, 5)]);
    let failed = lane.heard.failed.lock().clone();
    assert_eq!(failed.iter().map(|(id, ..)| id.place).collect::<Vec<_>>(), [0, 2]);
    assert!(
        failed.iter().all(|(_, why, events)| why.contains("thirteen") && *events == 2),
        "{failed:?}"
    );
    assert_eq!((lane.counts().members, lane.counts().failed), (1, 2));
    // What has failed can still be looked at and removed, and then its place is free.
    let found = Arc::new(Mutex::new(None));
    let answer = found.clone();
    lane.say(Change::<&str, i64>::Look(id(0, 0), Box::new(move |report| *answer.lock() = report)));
    let report = found.lock().take().expect("it is there");
    assert!(report.living.is_none() && report.failure.is_some_and(|why| why.contains("thirteen")));
    lane.say(remove::<&str, i64>(0, 0));
    assert_eq!(*lane.heard.removed.lock(), [id(0, 0)]);
    assert_eq!((lane.counts().members, lane.counts().failed), (1, 1));
}

#[test]
fn a_panic_of_the_key_function_fails_one_event() {
    let select = ByKey::new(|pair: &Pair| {
        assert_ne!(pair.1, 0, "zero");
        pair.0
    });
    let mut lane = lane::<_, _, _, i64>(select, sums(), false);
    lane.say(add(0, 0, "a", 1i64));
    lane.events([(0, ("a", 1)), (1, ("a", 0)), (2, ("a", 2)), (3, ("a", 0))]);
    assert_eq!(lane.seen(), [Out(0, 0, 1), Out(0, 2, 3)]);
    assert_eq!((lane.counts().unselected, lane.cx.counters.failed), (2, 2));
}

/// A value, one of whose copies panics: those made so far, and which.
struct Brittle(Arc<Mutex<u32>>, u32);

impl Clone for Brittle {
    fn clone(&self) -> Self {
        let mut copies = self.0.lock();
        *copies += 1;
        assert_ne!(*copies, self.1, "this copy");
        drop(copies);
        Self(self.0.clone(), self.1)
    }
}

#[test]
fn a_copy_that_panics_is_blamed_on_no_member() {
    // Two copies for three members; of the second event they are the third and the fourth in all.
    for (bad, misses) in [(3, 0), (4, 1)] {
        let next = Results::<u32>::default();
        let ones = Map::<_, _, _>::new(OpId(0), |(_, _): ((), Brittle)| 1, next);
        let mut lane = lane::<_, (), _, u32>(ByKey::new(|_: &Brittle| "a"), ones, false);
        (0..3).for_each(|place| lane.say(add(place, 0, "a", ())));
        let copies = Arc::<Mutex<u32>>::default();
        lane.events([0, 1].map(|time| (time, Brittle(copies.clone(), bad))));
        let mut all = vec![Out(0, 0, 1), Out(1, 0, 1), Out(2, 0, 1)];
        all.extend((0..3).filter(|place| *place != misses).map(|place| Out(place, 1, 1)));
        assert_eq!(lane.seen(), all);
        assert_eq!((lane.counts().members, lane.counts().failed), (3, 0));
        assert_eq!((lane.cx.counters.failed, lane.heard.failed.lock().len()), (1, 0));
    }
}

/// Counts in windows of ten seconds.
fn windows() -> impl Consumer<((), Pair)> {
    let windows = Windows::tumbling(std::time::Duration::from_secs(10));
    let result = |window: Windowed<(), u64>| (window.start.as_micros() / 1_000_000, window.value);
    let next = Map::<_, _, _>::new(OpId(2), result, Results::<(i64, u64)>::default());
    let key = |_: &Pair| ();
    let window = Window::new(OpId(1), windows, key, count(), None, next);
    Map::<_, _, _>::new(OpId(0), |((), pair): ((), Pair)| pair, window)
}

#[test]
fn time_visits_members_that_are_due_and_no_others() {
    let mut lane = lane::<_, _, _, (i64, u64)>(by_name(), windows(), false);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for (place, name) in names.into_iter().enumerate() {
        lane.say(add(place as u32, 0, name, ()));
    }
    lane.events([(1, ("c", 0)), (12, ("a", 0)), (13, ("a", 0))]);
    lane.watermark(9);
    assert_eq!(lane.seen(), [Watermark(9)]);
    assert_eq!(lane.counts().timers, 0);
    lane.watermark(10);
    assert_eq!(lane.seen(), [Out(2, 9, (0, 1)), Watermark(10)]);
    assert_eq!(lane.counts().timers, 1);
    for secs in 11..200 {
        lane.watermark(secs);
    }
    assert_eq!(lane.counts().timers, 2);
}

#[test]
fn a_late_event_counts_where_its_member_alone_would_count_it() {
    let mut lane = lane::<_, _, _, (i64, u64)>(by_name(), windows(), false);
    lane.say(add(0, 0, "a", ()));
    lane.say(add(1, 0, "b", ()));
    // Nothing of "a" is due, so it is not told that the window from 0 has closed; still it has.
    lane.watermark(15);
    lane.late(3, ("a", 0));
    lane.late(11, ("b", 0));
    lane.watermark(20);
    lane.end();
    let results: Vec<_> = lane.seen().into_iter().filter(|seen| matches!(seen, Out(..))).collect();
    assert_eq!(results, [Out(1, 19, (10, 1))]);
    assert_eq!(lane.cx.counters.late, 1);
}

#[test]
fn in_an_ordered_lane_the_time_of_each_event_fires_what_is_due_first() {
    let mut lane = lane::<_, _, _, (i64, u64)>(by_name(), windows(), true);
    for (place, name) in ["a", "b", "c"].into_iter().enumerate() {
        lane.say(add(place as u32, 0, name, ()));
    }
    lane.events([(1, ("a", 0)), (2, ("b", 0)), (21, ("c", 0)), (35, ("a", 0)), (44, ("c", 0))]);
    let expected = [Out(0, 9, (0, 1)), Out(1, 9, (0, 1)), Out(2, 29, (20, 1)), Out(0, 39, (30, 1))];
    assert_eq!(lane.seen(), expected);
    lane.end();
    assert_eq!(lane.seen(), [Out(2, 49, (40, 1)), End]);
}

#[test]
fn the_timers_of_members_that_are_gone_are_forgotten() {
    let mut lane = lane::<_, _, _, (i64, u64)>(by_name(), windows(), false);
    for generation in 0..10_000 {
        lane.say(add(0, generation, "a", ()));
        lane.events([(i64::from(generation) * 10, ("a", 0))]);
        lane.say(remove::<&str, ()>(0, generation));
    }
    assert!(lane.members.next_timer(&lane.state).is_none() || lane.counts().members == 0);
    lane.watermark(1_000_000);
    assert_eq!(lane.counts().timers, 0);
    assert_eq!(lane.seen(), [Watermark(1_000_000)]);
}

#[test]
fn members_on_intervals_and_on_sets_get_what_lies_in_them() {
    let value = ByRange::new(|pair: &Pair| pair.1);
    let mut lane = lane::<_, _, _, i64>(value, sums(), false);
    let span = |from: i64, to: i64| Span::new(from..to);
    lane.say(add(0, 0, span(0, 10), 1i64));
    lane.say(add(1, 0, span(5, 20), 1i64));
    lane.events([(0, ("a", 4)), (1, ("a", 10)), (2, ("a", 20))]);
    assert_eq!(lane.seen(), [Out(0, 0, 4), Out(1, 1, 10)]);
    lane.say(remove::<Span<i64>, i64>(0, 0));
    lane.events([(3, ("a", 5))]);
    assert_eq!(lane.seen(), [Out(1, 3, 15)]);

    let mut lane = self::lane::<_, _, _, i64>(BySet::new(|pair: &Pair| pair.0), sums(), false);
    lane.say(add(0, 0, vec!["a", "b", "a"], 1i64));
    lane.say(add(1, 0, vec!["b"], 1i64));
    lane.events([(0, ("a", 1)), (1, ("b", 2)), (2, ("c", 3))]);
    assert_eq!(lane.seen(), [Out(0, 0, 1), Out(0, 1, 3), Out(1, 1, 2)]);
    lane.say(remove::<Vec<&str>, i64>(0, 0));
    lane.events([(3, ("a", 1)), (4, ("b", 1))]);
    assert_eq!(lane.seen(), [Out(1, 4, 3)]);
}

#[test]
fn pages_that_nobody_lives_in_are_used_again() {
    let mut lane = lane::<_, _, _, i64>(by_name(), sums(), false);
    for round in 0..3 {
        let additions = (0..5000u32)
            .map(|place| Addition { id: id(place, round), on: "a", params: 1i64, own: None })
            .collect();
        lane.say(Change::Add(additions));
        assert_eq!(lane.counts().members, 5000);
        lane.events([(0, ("a", 1))]);
        assert_eq!(lane.seen().len(), 5000);
        lane.say(Change::<&str, i64>::Remove((0..5000).map(|place| id(place, round)).collect()));
        assert_eq!(lane.counts().members, 0);
    }
}
