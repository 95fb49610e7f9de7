//! First steps that queries have in common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mizzle::time::Watermarks;
use mizzle::{BuildError, Engine, Query, QueryHandle, SharedSource, Status, source};

use super::{Seen, at, completed, engine, eventually, noting, numbers, over};

const EVENTS: i64 = 1_000;

/// The numbers that `by` divides, squared.
fn squares(engine: &Engine, of: &SharedSource<i64>, by: i64) -> SharedSource<i64> {
    let steps = engine.shared_steps("squares", of, by, |numbers, &by| {
        numbers.filter(move |n| n % by == 0).map(|n| n * n)
    });
    steps.unwrap()
}

fn squared(by: i64) -> Vec<i64> {
    (0..EVENTS).filter(|n| n % by == 0).map(|n| n * n).collect()
}

fn seen(seen: &Seen) -> Vec<i64> {
    seen.lock().unwrap().clone()
}

#[test]
fn queries_with_equal_steps_run_them_once() {
    static RUN: AtomicU64 = AtomicU64::new(0);
    for workers in [1, 2, 4] {
        RUN.store(0, Ordering::Relaxed);
        let engine = engine(workers, 64);
        let numbers = numbers(&engine, EVENTS);
        let counted = || {
            let steps = engine.shared_steps("counted", &numbers, (), |numbers, ()| {
                numbers.map(|n| {
                    RUN.fetch_add(1, Ordering::Relaxed);
                    n + 1
                })
            });
            noting(&engine, &steps.unwrap())
        };
        let queries: Vec<_> = (0..3).map(|_| counted()).collect();
        numbers.start();
        for (query, notes) in &queries {
            completed(query);
            assert_eq!(seen(notes), (1..=EVENTS).collect::<Vec<_>>());
        }
        assert_eq!(RUN.load(Ordering::Relaxed), EVENTS as u64, "{workers} workers");
    }
}

#[test]
fn other_parameters_are_other_steps() {
    let engine = engine(2, 64);
    let numbers = numbers(&engine, EVENTS);
    let queries = [2, 3, 2].map(|by| (by, noting(&engine, &squares(&engine, &numbers, by))));
    assert_eq!(numbers.subscribers().len(), 2);
    numbers.start();
    for (by, (query, notes)) in &queries {
        completed(query);
        assert_eq!(seen(notes), squared(*by));
    }
}

#[test]
fn one_name_for_different_steps_is_refused() {
    let engine = engine(1, 64);
    let numbers = numbers(&engine, EVENTS);
    let kept = squares(&engine, &numbers, 2);
    let other = engine.shared_steps("squares", &numbers, 2_i64, |numbers, _| numbers.map(|n| n));
    let Err(BuildError::Operator { operator, reason, .. }) = other else { panic!("accepted") };
    assert_eq!(operator, "squares");
    assert!(reason.contains("have that name") && reason.contains("steps.rs"), "{reason}");
    drop(kept);
    // Once nobody has them the name is free.
    engine.shared_steps("squares", &numbers, 2_i64, |numbers, _| numbers.map(|n| -n)).unwrap();
}

#[test]
fn steps_that_make_no_sense_are_refused_by_name() {
    let engine = engine(1, 64);
    let numbers = numbers(&engine, EVENTS);
    let other = super::engine(1, 64);
    let foreign = other.shared_steps("none", &numbers, (), |numbers, ()| numbers.map(|n| n));
    assert!(foreign.is_err_and(|error| error.to_string().contains("another engine")));
    let zero = engine.shared_steps("zero", &numbers, (), |numbers, ()| {
        numbers.key_by(|n| n % 2).distinct_for(Duration::from_nanos(1))
    });
    assert!(zero.is_err_and(|error| error.to_string().contains("distinct_for")));
}

fn is_listed(engine: &Engine, name: &str) -> bool {
    engine.queries().iter().any(|query| query.name() == name)
}

#[test]
fn steps_end_with_the_last_who_has_them_and_begin_again() {
    let engine = engine(2, 64);
    let (push, numbers) = engine.shared_push_source("numbers", |&n: &i64| at(n));
    let numbers = numbers.open().unwrap();
    numbers.start();
    let name = "numbers/squares";
    for round in 0..3 {
        let steps = squares(&engine, &numbers, 1);
        let (first, a) = noting(&engine, &steps);
        let (second, b) = noting(&engine, &squares(&engine, &numbers, 1));
        drop(steps);
        push.push(round).unwrap();
        eventually("both have seen it", || [&a, &b].iter().all(|it| seen(it) == [round * round]));
        first.cancel();
        over(&first);
        push.push(round).unwrap();
        eventually("the other goes on", || seen(&b) == [round * round; 2]);
        assert_eq!(seen(&a).len(), 1);
        assert!(is_listed(&engine, name));
        second.cancel();
        over(&second);
        eventually("the steps are over", || !is_listed(&engine, name));
        eventually("they have left", || numbers.subscribers().is_empty());
    }
}

#[test]
fn a_failure_in_the_steps_fails_all_and_one_behind_them_only_its_own() {
    let engine = engine(2, 1);
    let numbers = numbers(&engine, EVENTS);
    let fragile = || {
        let steps = engine.shared_steps("fragile", &numbers, 500, |numbers, &limit| {
            numbers.inspect(move |_, n| assert!(*n < limit, "too high")).name("check")
        });
        steps.unwrap()
    };
    let watched = fragile();
    let sturdy = noting(&engine, &watched);
    let query = Query::new("weak");
    query.subscribe(&fragile()).for_each(|event| assert!(event.value < 10, "mine"));
    let weak = engine.submit(query).unwrap();
    let (other, all) = noting(&engine, &numbers);
    numbers.start();
    let failure = |query: &QueryHandle| match over(query) {
        Status::Failed(failure) => failure.to_string(),
        status => panic!("{status:?}"),
    };
    assert!(failure(&weak).contains("mine"));
    let of_all = failure(&sturdy.0);
    assert!(of_all.contains("numbers/fragile") && of_all.contains("check"), "{of_all}");
    assert!(failure(watched.query()).contains("too high"));
    completed(&other);
    assert_eq!(seen(&all).len() as i64, EVENTS);
}

/// Events that step back by two, as far as is declared.
fn disordered(engine: &Engine) -> SharedSource<i64> {
    let events = (0..EVENTS).map(|n| if n % 3 == 0 { n + 2 } else { n - 1 });
    let events = source::from_iter(events, |&n| at(n));
    let source = engine.shared_source("numbers", events);
    source.watermarks(Watermarks::bounded(Duration::from_millis(3))).open().unwrap()
}

#[test]
fn order_is_kept_where_the_source_has_it_and_mended_where_not() {
    for workers in [1, 2, 4] {
        for in_order in [true, false] {
            let engine = engine(workers, 7);
            let numbers = if in_order { numbers(&engine, EVENTS) } else { disordered(&engine) };
            let query = Query::new("sum");
            let sums = query
                .subscribe(&squares(&engine, &numbers, 1))
                .apply_stateful(0_i64, |last: &mut i64, n: i64| {
                    let grows = n >= *last;
                    *last = n;
                    grows
                })
                .in_order()
                .collect();
            let query = engine.submit(query).unwrap();
            let plan = query.plan().explain();
            assert_eq!(plan.contains("a stage that holds"), !in_order, "{plan}");
            numbers.start();
            completed(&query);
            assert_eq!(sums.values(), vec![true; EVENTS as usize], "{workers} workers\n{plan}");
        }
    }
}

/// Stateful steps: per key they are split unless they are flagged, and only then in order behind.
#[test]
fn stateful_steps_run_once_too() {
    for workers in [1, 2, 4] {
        let engine = engine(workers, 16);
        let numbers = numbers(&engine, EVENTS);
        let sums = engine.shared_steps("sums", &numbers, 7, |numbers, &keys| {
            numbers.key_by(move |n| n % keys).reduce(|a, b| a + b)
        });
        let flagged = engine.shared_steps("flagged", &numbers, 7, |numbers, &keys| {
            numbers.key_by(move |n| n % keys).reduce(|a, b| a + b).in_order()
        });
        let queries = [sums, flagged].map(|steps| noting(&engine, &steps.unwrap()));
        numbers.start();
        let mut sums = [0; 7];
        let expected: Vec<_> = (0..EVENTS)
            .map(|n| {
                sums[n as usize % 7] += n;
                sums[n as usize % 7]
            })
            .collect();
        let [mut unordered, ordered] = queries.map(|(query, notes)| {
            completed(&query);
            seen(&notes)
        });
        assert_eq!(ordered, expected);
        let mut sorted = expected;
        unordered.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(unordered, sorted);
    }
}

#[test]
fn one_key_of_what_steps_give_keeps_them_running() {
    let engine = engine(2, 64);
    let numbers = numbers(&engine, EVENTS);
    let one = squares(&engine, &numbers, 1).key_by(|n| n % 10).at(4);
    let query = Query::new("fours");
    let fours = query.subscribe(&one).collect();
    drop(one);
    let query = engine.submit(query).unwrap();
    numbers.start();
    completed(&query);
    let expected: Vec<_> = squared(1).into_iter().filter(|n| n % 10 == 4).collect();
    assert_eq!(fours.values(), expected);
}

#[test]
fn steps_of_steps() {
    let engine = engine(2, 64);
    let numbers = numbers(&engine, EVENTS);
    let twice = || {
        let first = squares(&engine, &numbers, 3);
        engine.shared_steps("negated", &first, (), |squares, ()| squares.map(|n| -n)).unwrap()
    };
    let queries = [(); 2].map(|()| noting(&engine, &twice()));
    assert_eq!(engine.queries().len(), 5, "the source, both steps, both queries");
    numbers.start();
    for (query, notes) in queries {
        completed(&query);
        assert_eq!(seen(&notes), squared(3).into_iter().map(|n| -n).collect::<Vec<_>>());
    }
    eventually("all is over", || engine.queries().is_empty());
}
