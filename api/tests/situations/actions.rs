//! Actions: done outside, on the action thread of the engine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use mizzle::situation::{Lifespan, Situation, Situations, StatelessRule, operand};
use mizzle::{Engine, Event, Query, Status, WhenFull, source};

use super::common::{GUARD, at, completed, engine, eventually, total};

/// A type and a number.
type Thing = (u16, i64);

fn things(many: i64) -> Vec<Event<Thing>> {
    (1..=many).map(|n| Event::new(at(n), (0, n))).collect()
}

/// Each of type 0 is one of type 1, about which `act` does something.
fn acting(act: impl Fn(&Thing) + Send + Sync + 'static) -> Situations<Thing> {
    let rule = Situation::<Thing>::all("each", [operand(0u16)])
        .during("always")
        .derives(1u16, |found| (1, found[0].1))
        .action(act);
    Situations::new(|thing: &Thing| thing.0).lifespan(Lifespan::always("always")).situation(rule)
}

/// A door that opens once.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        let (open, _) = self.0.1.wait_timeout_while(open, GUARD, |open| !*open).unwrap();
        assert!(*open, "nobody opens the door");
    }
}

#[test]
fn actions_are_all_done_in_order_on_one_thread_before_the_query_is_over() {
    for workers in [1, 2, 4] {
        let engine = engine(workers);
        let done = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..3)
            .map(|number| {
                let done = done.clone();
                let rules = acting(move |thing| {
                    let name = std::thread::current().name().map(str::to_owned);
                    done.lock().unwrap().push((number, thing.1, name));
                });
                let query = Query::new("acts");
                let found = query
                    .source("things", source::events(things(1_000)))
                    .situations(rules)
                    .actions(10, WhenFull::Wait)
                    .collect();
                (engine.submit(query).unwrap(), found)
            })
            .collect();
        for (number, (handle, found)) in handles.iter().enumerate() {
            completed(handle);
            let done = done.lock().unwrap();
            let numbers: Vec<_> = done.iter().filter(|it| it.0 == number).map(|it| it.1).collect();
            assert!(numbers.iter().copied().eq(1..=1_000), "{}", numbers.len());
            assert_eq!(found.values().len(), 1_000);
            assert!(done.iter().all(|it| it.2.as_deref() == Some("mizzle-actions")));
        }
    }
}

#[test]
fn detection_goes_on_while_an_action_takes_long() {
    let (engine, door) = (engine(2), Door::default());
    let (entered, passes) = (Arc::new(AtomicUsize::new(0)), door.clone());
    let counted = entered.clone();
    let rules = acting(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        passes.pass();
    });
    let query = Query::new("acts");
    let found = query
        .source("things", source::events(things(100)))
        .situations(rules)
        .actions(1_000, WhenFull::Wait)
        .collect();
    let handle = engine.submit(query).unwrap();
    eventually("all that is found", || found.values().len() == 100);
    assert!(entered.load(Ordering::SeqCst) <= 1);
    assert_eq!(handle.status(), Status::Running);
    door.open();
    completed(&handle);
    assert_eq!(entered.load(Ordering::SeqCst), 100);
}

#[test]
fn what_is_too_much_is_dropped_and_counted() {
    for (when_full, kept) in [(WhenFull::DropNewest, 1), (WhenFull::DropOldest, 998)] {
        let engine = Engine::builder().workers(2).batch(10).build().unwrap();
        let (door, done) = (Door::default(), Arc::new(Mutex::new(Vec::new())));
        let (passes, does) = (door.clone(), done.clone());
        let rules = acting(move |thing| {
            passes.pass();
            does.lock().unwrap().push(thing.1);
        });
        let query = Query::new("acts");
        let (events, stream) = query.push_source("things", |event: &Event<Thing>| event.time);
        let found =
            stream.map(|event| event.value).situations(rules).actions(3, when_full).collect();
        let handle = engine.submit(query).unwrap();
        for event in things(1_000) {
            events.push(event).unwrap();
        }
        // The stream stays open: at its end the chain waits for its actions, and tells its counts afterwards.
        eventually("all that is found", || found.values().len() == 1_000);
        let out = || total(&handle, |stats| stats.dropped);
        eventually("most are dropped", || out() >= 990);
        door.open();
        drop(events);
        completed(&handle);
        let done = done.lock().unwrap();
        assert_eq!(done.len() as u64 + out(), 1_000);
        assert!(done.contains(&kept), "{done:?}");
    }
}

#[test]
fn a_panic_of_an_action_fails_the_query_and_no_other() {
    let engine = engine(2);
    let rules = || acting(|thing| assert_ne!(thing.1, 3, "three"));
    let query = Query::new("acts");
    let (events, stream) = query.push_source("things", |event: &Event<Thing>| event.time);
    let found = stream
        .map(|event| event.value)
        .situations(rules())
        .actions(10, WhenFull::Wait)
        .name("alarms")
        .collect();
    let handle = engine.submit(query).unwrap();
    for event in things(3) {
        events.push(event).unwrap();
    }
    // Nothing more comes, and yet it fails.
    let Status::Failed(failure) = handle.wait_timeout(GUARD) else { panic!("it does not fail") };
    assert!(failure.to_string().contains("action \"action\" panicked"), "{failure}");
    assert_eq!(failure.time, Some(at(3)));
    assert!(found.values().len() <= 3);
    let query = Query::new("other");
    let found = query
        .source("things", source::events(things(2)))
        .situations(rules())
        .actions(10, WhenFull::Wait)
        .collect();
    completed(&engine.submit(query).unwrap());
    assert_eq!(found.values().len(), 2);
}

#[test]
fn an_engine_ends_with_actions_that_wait() {
    let engine = engine(1);
    let entered = Arc::new(AtomicUsize::new(0));
    let counted = entered.clone();
    let rules = acting(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let query = Query::new("acts");
    let (events, stream) = query.push_source("things", |event: &Event<Thing>| event.time);
    let _found =
        stream.map(|event| event.value).situations(rules).actions(1, WhenFull::Wait).collect();
    engine.submit(query).unwrap();
    for event in things(5) {
        events.push(event).unwrap();
    }
    drop(engine);
    let done = entered.load(Ordering::SeqCst);
    assert!(done <= 5);
}

#[test]
fn a_stateless_rule_acts_on_its_event() {
    let done = Arc::new(Mutex::new(Vec::new()));
    let does = done.clone();
    let rule = StatelessRule::new("big", 0u16)
        .when(|thing: &Thing| thing.1 > 2)
        .action(move |thing| does.lock().unwrap().push(*thing));
    let rules = Situations::new(|thing: &Thing| thing.0).stateless(rule);
    let query = Query::new("acts");
    let found = query
        .source("things", source::events(things(4)))
        .situations(rules)
        .actions(10, WhenFull::Wait)
        .collect();
    completed(&engine(2).submit(query).unwrap());
    assert_eq!(*done.lock().unwrap(), [(0, 3), (0, 4)]);
    assert!(found.values().is_empty());
}
