//! Windows that members share: what members get, and what it costs.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::operator::aggregate::{Aggregate, Overflow};

/// The values of a window in the order of their arrival; 13 panics when it is added, a window of
/// exactly five values when it is finished. Counts what it is asked for, and what is kept of it.
#[derive(Clone, Default)]
struct Values {
    adds: Arc<Mutex<u64>>,
    finishes: Arc<Mutex<u64>>,
    kept: Arc<()>,
}

impl Values {
    /// How many accumulators there are.
    fn kept(&self) -> usize {
        Arc::strong_count(&self.kept) - 2
    }
}

impl Aggregate<Pair> for Values {
    type Acc = (Vec<i64>, Arc<()>);
    type Out = Vec<i64>;

    fn create(&self) -> Self::Acc {
        (Vec::new(), self.kept.clone())
    }

    fn add(&self, acc: &mut Self::Acc, &(_, value): &Pair) {
        assert_ne!(value, 13, "thirteen");
        *self.adds.lock() += 1;
        acc.0.push(value);
    }

    fn merge(&self, acc: &mut Self::Acc, later: &Self::Acc) {
        acc.0.extend(&later.0);
    }

    fn finish(&self, acc: &Self::Acc) -> Result<Vec<i64>, Overflow> {
        *self.finishes.lock() += 1;
        assert_ne!(acc.0.len(), 5, "five");
        if acc.0.len() == 6 { Err(Overflow) } else { Ok(acc.0.clone()) }
    }
}

/// The start of a window and its values.
type Found = (i64, Vec<i64>);

fn found<K>(window: Windowed<K, Vec<i64>>) -> Found {
    (window.start.as_micros() / 1_000_000, window.value)
}

fn key(pair: &Pair) -> &'static str {
    pair.0
}

type Shared = Windowed<&'static str, Vec<i64>>;
type Select = ByWindow<Pair, &'static str, fn(&Pair) -> &'static str, Values>;

/// Members that share their windows, each with `next` behind.
fn sharing<N: Consumer<Found>>(
    windows: Windows,
    values: &Values,
    ordered: bool,
    next: N,
) -> Lane<Members<Select, (), impl Consumer<((), Shared)>>, Pair, Found> {
    let select = ByWindow::new(OpId(1), windows, key as fn(&Pair) -> _, values.clone());
    let chain = Map::<_, _, _>::new(OpId(2), |((), window): ((), Shared)| found(window), next);
    lane::<_, (), _, Found>(select, chain, ordered)
}

/// Members that keep a window each.
fn apart<N: Consumer<Found>>(
    windows: Windows,
    ordered: bool,
    next: N,
) -> Lane<impl Consumer<Pair>, Pair, Found> {
    let next = Map::<_, _, _>::new(OpId(2), found::<()>, next);
    let window = Window::new(OpId(1), windows, |_: &Pair| (), Values::default(), None, next);
    let chain = Map::<_, _, _>::new(OpId(0), |((), pair): ((), Pair)| pair, window);
    lane::<_, (), _, Found>(by_name(), chain, ordered)
}

/// A template with timers of its own: how many results there are in 35 seconds.
fn counted() -> impl Consumer<Found> {
    let windows = Windows::tumbling(Duration::from_secs(35));
    let result = |window: Windowed<(), u64>| {
        (window.start.as_micros() / 1_000_000, vec![window.value as i64])
    };
    let next = Map::<_, _, _>::new(OpId(4), result, Results::<Found>::default());
    Window::new(OpId(3), windows, |_: &Found| (), count(), None, next)
}

fn tens() -> Windows {
    Windows::tumbling(Duration::from_secs(10))
}

fn thirty_by_ten() -> Windows {
    Windows::hopping(Duration::from_secs(30), Duration::from_secs(10))
}

fn enter(place: u32, on: &'static str) -> Change<&'static str, ()> {
    add(place, 0, on, ())
}

fn leave(place: u32) -> Change<&'static str, ()> {
    remove(place, 0)
}

#[test]
fn an_event_is_added_once_however_many_members_its_key_has() {
    let values = Values::default();
    let mut lane = sharing(tens(), &values, false, Results::default());
    (0..100).for_each(|place| lane.say(enter(place, "a")));
    lane.events([(1, ("a", 1)), (2, ("b", 2)), (3, ("a", 3))]);
    lane.watermark(10);
    assert_eq!((*values.adds.lock(), *values.finishes.lock(), values.kept()), (2, 1, 0));
    let mut expected: Vec<_> = (0..100).map(|place| Out(place, 9, (0, vec![1, 3]))).collect();
    expected.push(Watermark(10));
    assert_eq!(lane.seen(), expected);
    let LaneCounts { events, unmatched, handed, results, timers, .. } = lane.counts();
    assert_eq!((events, unmatched, handed, results, timers), (3, 1, 100, 100, 0));
}

#[test]
fn a_member_has_what_came_since_it_was_added() {
    let values = Values::default();
    let mut lane = sharing(thirty_by_ten(), &values, false, Results::default());
    lane.say(enter(0, "a"));
    lane.events([(5, ("a", 1)), (15, ("a", 2))]);
    lane.say(enter(1, "a"));
    lane.say(enter(2, "a"));
    // Into the older slice, after the younger one: members that see both have them by slices.
    lane.events([(6, ("a", 3))]);
    lane.say(enter(3, "a"));
    lane.watermark(10);
    let first = |place| Out(place, 9, (-20, vec![3]));
    assert_eq!(lane.seen(), [Out(0, 9, (-20, vec![1, 3])), first(1), first(2), Watermark(10)]);
    lane.watermark(20);
    let second = |place| Out(place, 19, (-10, vec![3]));
    assert_eq!(
        lane.seen(),
        [Out(0, 19, (-10, vec![1, 3, 2])), second(1), second(2), Watermark(20)]
    );
    lane.events([(25, ("a", 4))]);
    lane.end();
    let third = |place| Out(place, 29, (0, vec![3, 4]));
    let [all, last] = [39, 49].map(|at| {
        (0..4).map(move |place| {
            let before = if place == 0 && at == 39 { vec![2, 4] } else { vec![4] };
            Out(place, at, (at - 29, before))
        })
    });
    let thirds = [Out(0, 29, (0, vec![1, 3, 2, 4])), third(1), third(2), Out(3, 29, (0, vec![4]))];
    let expected: Vec<_> = thirds.into_iter().chain(all).chain(last).chain([End]).collect();
    assert_eq!(lane.seen(), expected);
}

#[test]
fn a_member_that_is_added_again_inherits_nothing_and_nothing_is_kept_for_nobody() {
    let values = Values::default();
    let mut lane = sharing(tens(), &values, false, Results::default());
    lane.say(enter(0, "a"));
    lane.events([(1, ("a", 1)), (1, ("b", 1))]);
    assert_eq!(values.kept(), 1);
    lane.say(leave(0));
    assert_eq!((values.kept(), lane.members.next_timer(&lane.state)), (0, None));
    lane.events([(2, ("a", 2))]);
    assert_eq!((values.kept(), lane.counts().unmatched), (0, 2));
    lane.say(enter(1, "a"));
    lane.events([(3, ("a", 3))]);
    lane.say(enter(2, "a"));
    lane.events([(4, ("a", 4))]);
    assert_eq!(values.kept(), 2);
    // Nobody else has seen what only the first one had.
    lane.say(leave(1));
    assert_eq!(values.kept(), 1);
    lane.watermark(10);
    assert_eq!(lane.seen(), [Out(2, 9, (0, vec![4])), Watermark(10)]);
    assert_eq!(values.kept(), 0);
}

#[test]
fn members_that_come_and_go_leave_no_layers_to_one_that_stays() {
    let values = Values::default();
    let mut lane = sharing(tens(), &values, false, Results::default());
    lane.say(enter(0, "a"));
    for place in 1..1000 {
        lane.say(enter(place, "a"));
        lane.events([(1, ("a", i64::from(place) + 100))]);
        lane.say(leave(place));
        assert!(values.kept() < 20, "{}", values.kept());
    }
    lane.say(enter(1000, "a"));
    lane.events([(1, ("a", 1))]);
    lane.watermark(10);
    let all = (101..1100).chain([1]).collect();
    let expected = [Out(0, 9, (0, all)), Out(1000, 9, (0, vec![1])), Watermark(10)];
    assert_eq!(lane.seen(), expected);
}

#[test]
fn time_visits_keys_that_are_due_and_no_others() {
    let values = Values::default();
    let mut lane = sharing(tens(), &values, false, Results::default());
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    (0..8).for_each(|place| lane.say(enter(place, names[place as usize])));
    lane.events([(1, ("c", 1)), (12, ("a", 2)), (3, ("b", 4))]);
    assert_eq!(lane.members.next_timer(&lane.state), Some(at(10)));
    lane.watermark(10);
    assert_eq!(lane.seen(), [Out(1, 9, (0, vec![4])), Out(2, 9, (0, vec![1])), Watermark(10)]);
    (11..200).for_each(|secs| lane.watermark(secs));
    assert_eq!(*values.finishes.lock(), 3);
}

#[test]
fn a_late_event_counts_once_in_what_is_open() {
    for ordered in [false, true] {
        let mut lane = sharing(thirty_by_ten(), &Values::default(), ordered, Results::default());
        (0..3).for_each(|place| lane.say(enter(place, "a")));
        lane.watermark(25);
        lane.late(4, ("a", 1));
        lane.late(-10, ("a", 2));
        lane.watermark(100);
        let found = lane.seen().iter().filter(|seen| matches!(seen, Out(..))).count();
        let late = if ordered { 2 } else { 1 };
        assert_eq!((found, lane.cx.counters.late), (if ordered { 0 } else { 3 }, late));
    }
}

#[test]
fn a_panic_ends_those_whose_own_query_would_have_panicked() {
    let values = Values::default();
    let mut lane = sharing(tens(), &values, false, Results::default());
    for (place, name) in [(0, "a"), (1, "b"), (2, "a"), (3, "c")] {
        lane.say(enter(place, name));
    }
    // When it is added: all of its key.
    lane.events([(0, ("a", 1)), (1, ("b", 2)), (2, ("a", 13)), (3, ("a", 1)), (4, ("b", 3))]);
    let failed = |lane: &mut Lane<_, _, _>| {
        let failed: Vec<_> = lane.heard.failed.lock().drain(..).collect();
        assert!(failed.iter().all(|(_, why, _)| why.starts_with("panicked: ")), "{failed:?}");
        failed.iter().map(|(id, ..)| id.place).collect::<Vec<_>>()
    };
    assert_eq!((failed(&mut lane), values.kept()), (vec![0, 2], 1));
    // When it is finished: those who see all five.
    lane.events([(5, ("b", 4))]);
    lane.say(enter(4, "b"));
    lane.events([(5, ("b", 5)), (5, ("b", 6)), (5, ("c", 1))]);
    lane.watermark(10);
    assert_eq!(failed(&mut lane), [1]);
    let expected = [Out(4, 9, (0, vec![5, 6])), Out(3, 9, (0, vec![1])), Watermark(10)];
    assert_eq!(lane.seen(), expected);
    assert_eq!((lane.counts().members, lane.counts().failed), (2, 3));
    // What does not fit is no failure of a member.
    lane.events((0..6).map(|value| (11, ("b", value))));
    lane.watermark(20);
    assert_eq!(lane.seen(), [Watermark(20)]);
    assert_eq!((lane.cx.counters.failed, lane.counts().failed, values.kept()), (1, 3, 0));
}

#[test]
fn a_panic_in_a_template_ends_one_member() {
    let select = ByWindow::new(OpId(1), tens(), key, count());
    let check = |((), window): ((), Windowed<&'static str, u64>)| {
        assert_ne!(window.value, 2, "two");
        window.value
    };
    let chain = Map::<_, _, _>::new(OpId(2), check, Results::<u64>::default());
    let mut lane = lane::<_, (), _, u64>(select, chain, false);
    lane.say(enter(0, "a"));
    lane.events([(0, ("a", 1))]);
    lane.say(enter(1, "a"));
    lane.events([(0, ("a", 1)), (10, ("a", 1))]);
    lane.watermark(20);
    assert_eq!(lane.seen(), [Out(1, 9, 1), Out(1, 19, 1), Watermark(20)]);
    assert_eq!(lane.heard.failed.lock().len(), 1);
}

#[test]
fn a_panic_of_the_key_function_fails_one_event_of_shared_windows() {
    let key = |pair: &Pair| {
        assert_ne!(pair.1, 0, "zero");
        pair.0
    };
    let select = ByWindow::new(OpId(1), tens(), key, count());
    let chain = Map::<_, _, _>::new(
        OpId(2),
        |((), window): ((), Windowed<&'static str, u64>)| window.value,
        Results::<u64>::default(),
    );
    let mut lane = lane::<_, (), _, u64>(select, chain, false);
    lane.say(enter(0, "a"));
    lane.events([(0, ("a", 1)), (1, ("a", 0)), (2, ("a", 2))]);
    lane.watermark(10);
    assert_eq!(lane.seen(), [Out(0, 9, 2), Watermark(10)]);
    assert_eq!((lane.counts().unselected, lane.cx.counters.failed), (1, 1));
}

#[derive(Clone, Debug)]
enum Step {
    Enter(u8),
    Leave(usize),
    Events(Vec<(i64, u8, i64)>),
    Late(i64, u8, i64),
    Watermark(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event = || (0i64..40, 0u8..3, 0i64..40);
    let step = prop_oneof![
        4 => (0u8..3).prop_map(Step::Enter),
        2 => (0usize..16).prop_map(Step::Leave),
        6 => proptest::collection::vec(event(), 1..4).prop_map(Step::Events),
        2 => event().prop_map(|(by, key, value)| Step::Late(by, key, value)),
        3 => (0i64..25).prop_map(Step::Watermark),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Takes a lane through all steps: what came out, and who failed.
fn drive<C: Consumer<Pair>>(
    mut lane: Lane<C, Pair, Found>,
    steps: &[Step],
    ordered: bool,
) -> (Vec<Seen<Found>>, Vec<u32>) {
    let (mut clock, mut places, mut living) = (0, 0, Vec::new());
    let name = |key: u8| ["a", "b", "c"][key as usize];
    for step in steps {
        match step {
            Step::Enter(key) => {
                lane.say(enter(places, name(*key)));
                living.push(places);
                places += 1;
            }
            Step::Leave(which) if !living.is_empty() => {
                let place = living.remove(which % living.len());
                lane.say(leave(place));
            }
            Step::Leave(_) => {}
            Step::Events(events) => {
                let mut events: Vec<_> = events
                    .iter()
                    .map(|&(by, key, value)| (clock + by, (name(key), value)))
                    .collect();
                if ordered {
                    events.sort_by_key(|(time, _)| *time);
                    clock = events[events.len() - 1].0;
                }
                lane.events(events);
            }
            Step::Late(by, key, value) => lane.late(clock - 1 - by, (name(*key), *value)),
            Step::Watermark(by) => {
                clock += by;
                lane.watermark(clock);
            }
        }
    }
    lane.end();
    let mut failed: Vec<_> = lane.heard.failed.lock().iter().map(|(id, ..)| id.place).collect();
    failed.sort_unstable();
    (lane.seen(), failed)
}

/// What a member gave, and between which watermarks.
fn of(member: u32, seen: &[Seen<Found>]) -> Vec<Seen<Found>> {
    let own = seen.iter().filter(|seen| !matches!(seen, Out(place, ..) if *place != member));
    own.cloned().collect()
}

fn same(
    steps: &[Step],
    (shared, failed): (Vec<Seen<Found>>, Vec<u32>),
    (alone, failed_alone): (Vec<Seen<Found>>, Vec<u32>),
) -> Result<(), TestCaseError> {
    prop_assert_eq!(&failed, &failed_alone);
    let members = steps.iter().filter(|step| matches!(step, Step::Enter(_))).count() as u32;
    for member in 0..members {
        let (shared, alone) = (of(member, &shared), of(member, &alone));
        if failed.contains(&member) {
            // Alone it loses what its last visit gave, and at the end that is several windows.
            let results = |seen: &[Seen<Found>]| -> Vec<_> {
                seen.iter().filter(|seen| matches!(seen, Out(..))).cloned().collect()
            };
            prop_assert!(results(&shared).starts_with(&results(&alone)), "{shared:?} {alone:?}");
        } else {
            prop_assert_eq!(shared, alone);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each member gives what it would with a window of its own.
    #[test]
    fn sharing_shows_in_nothing_but_cost(
        steps in steps(), size in 1u64..40, hop in 1u64..20, ordered: bool, nested: bool
    ) {
        let windows = Windows::hopping(Duration::from_secs(size), Duration::from_secs(hop));
        let values = Values::default();
        let (shared, alone) = if nested {
            let shared = sharing(windows, &values, ordered, counted());
            let alone = apart(windows, ordered, counted());
            (drive(shared, &steps, ordered), drive(alone, &steps, ordered))
        } else {
            let shared = sharing(windows, &values, ordered, Results::default());
            let alone = apart(windows, ordered, Results::default());
            (drive(shared, &steps, ordered), drive(alone, &steps, ordered))
        };
        same(&steps, shared, alone)?;
    }
}

/// A window in the template is due at 70, and one that all share cannot be made at 71.
#[test]
fn what_was_due_before_a_member_failed_comes_out() {
    let event = |by| Step::Events(vec![(by, 1, 0)]);
    let steps = [
        Step::Enter(1),
        Step::Watermark(13),
        event(31),
        Step::Watermark(35),
        event(0),
        event(0),
        Step::Events(vec![(19, 1, 0), (0, 1, 0)]),
        Step::Watermark(5),
        Step::Watermark(18),
    ];
    let windows = Windows::hopping(Duration::from_secs(31), Duration::from_secs(4));
    let shared = sharing(windows, &Values::default(), false, counted());
    let (seen, failed) = drive(shared, &steps, false);
    assert_eq!(failed, [0]);
    assert!(seen.contains(&Out(0, 69, (35, vec![6]))), "{seen:?}");
    let alone = apart(windows, false, counted());
    same(&steps, (seen, failed), drive(alone, &steps, false)).unwrap();
}
