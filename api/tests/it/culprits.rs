//! What is blamed when a value of the user's panics by itself: when it is copied or dropped. The
//! workers outlive it in any case.

use std::sync::Arc;
use std::time::Duration;

use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Engine, Query, QueryFailure, QueryHandle, Status, source};

/// What takes longer hangs.
const GUARD: Duration = Duration::from_secs(20);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// When a bomb goes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    Never,
    Clone,
    Drop,
}

#[derive(Debug, PartialEq, Eq)]
struct Bomb(i64, Trigger);

impl Clone for Bomb {
    fn clone(&self) -> Self {
        assert!(self.1 != Trigger::Clone, "copied");
        Self(self.0, self.1)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        // A second panic while one unwinds would end the process.
        assert!(self.1 != Trigger::Drop || std::thread::panicking(), "dropped");
    }
}

/// Numbers from 0 to 9 as bombs, of which the sixth has a trigger.
fn bombs(trigger: Trigger) -> impl Fn(i64) -> Bomb + Clone + Send + Sync + 'static {
    move |n| Bomb(n, if n == 5 { trigger } else { Trigger::Never })
}

fn ten() -> source::FromIter<std::ops::Range<i64>, impl Fn(&i64) -> Timestamp + Send + 'static> {
    source::from_iter(0..10i64, |&n| at(n))
}

#[track_caller]
fn over(query: &QueryHandle) -> Status {
    let status = query.wait_timeout(GUARD);
    assert!(status.is_over(), "hangs: {:#?}", query.chains());
    status
}

/// An engine whose workers, all of them, are still there.
#[track_caller]
fn unharmed(engine: &Engine) {
    let query = Query::new("after");
    let out = query.source("n", ten()).map(|n| n).collect();
    assert_eq!(over(&engine.submit(query).unwrap()), Status::Completed);
    assert_eq!(out.len(), 10);
}

/// How the query fails, on one worker and on four, where it is tried so often that each would have met
/// its end.
#[track_caller]
fn failures(describe: impl Fn(&Query)) -> Vec<QueryFailure> {
    let each = |workers| {
        let engine = Arc::new(Engine::builder().workers(workers).build().unwrap());
        let failures = (0..2 * workers).map(|_| {
            let query = Query::new("bad");
            describe(&query);
            let handle = engine.submit(query).unwrap();
            let status = handle.wait_timeout(GUARD);
            if !status.is_over() {
                // Dropping the engine would wait for it.
                std::mem::forget(engine.clone());
            }
            let Status::Failed(failure) = status else { panic!("{status:?}") };
            failure
        });
        let failures: Vec<_> = failures.collect();
        unharmed(&engine);
        failures
    };
    [1, 4].into_iter().flat_map(each).collect()
}

#[track_caller]
fn blamed(operator: &str, message: &str, describe: impl Fn(&Query)) {
    for failure in failures(describe) {
        assert_eq!(failure.operator, operator, "{failure}");
        assert_eq!(failure.message, message, "{failure}");
        assert!(failure.location.contains("culprits.rs:"), "{failure}");
    }
}

#[test]
fn a_copy_is_blamed_on_the_share_that_makes_it() {
    blamed("share", "panicked: copied", |query| {
        let shared = query.source("n", ten()).map(bombs(Trigger::Clone)).share();
        shared.clone().for_each(drop);
        shared.for_each(drop);
    });
}

#[test]
fn what_a_failed_batch_left_behind_is_not_copied() {
    blamed("picky", "panicked: picky", |query| {
        let mapped = query.source("n", ten()).map(bombs(Trigger::Clone));
        let shared = mapped.map(|bomb| if bomb.0 == 7 { panic!("picky") } else { bomb });
        let shared = shared.name("picky").share();
        shared.clone().for_each(drop);
        shared.for_each(drop);
    });
}

#[test]
fn a_drop_is_blamed_on_the_operator_that_has_no_use_for_the_event() {
    blamed("filter", "panicked: dropped", |query| {
        query.source("n", ten()).map(bombs(Trigger::Drop)).filter(|b| b.0 != 5).for_each(drop);
    });
    blamed("flat_map", "panicked: dropped", |query| {
        let made = bombs(Trigger::Drop);
        let numbers = query.source("n", ten());
        numbers.flat_map(move |n| std::iter::repeat_n(made(n), 0)).for_each(drop);
    });
    blamed("for_each", "panicked: dropped", |query| {
        query.source("n", ten()).map(bombs(Trigger::Drop)).for_each(drop);
    });
}

#[test]
fn a_drop_at_which_no_operator_is_at_work_is_blamed_on_none() {
    blamed(QueryFailure::DROPPING, "panicked: dropped", |query| {
        let (small, _) = query.source("n", ten()).map(bombs(Trigger::Drop)).split(|b| b.0 < 5);
        small.for_each(drop);
    });
    // The state goes when the stream is over.
    blamed(QueryFailure::DROPPING, "panicked: dropped", |query| {
        let last = |last: &mut Bomb, n| *last = Bomb(n, Trigger::Never);
        let numbers = query.source("n", ten()).apply_stateful(Bomb(-1, Trigger::Never), last);
        numbers.for_each(drop);
        let kept = query.source("m", ten()).apply_stateful(Vec::new(), |kept: &mut Vec<_>, n| {
            kept.push(bombs(Trigger::Drop)(n));
        });
        kept.for_each(drop);
    });
}

#[test]
fn what_is_dropped_with_a_cancelled_query_harms_no_worker() {
    let engine = Engine::builder().workers(2).inbox_capacity(4).batch(2).build().unwrap();
    for _ in 0..4 {
        let query = Query::new("cancelled");
        let captured = Bomb(0, Trigger::Drop);
        let (push, pushed) = query.push_source("pushed", |bomb: &Bomb| at(bomb.0));
        let (stuck, waits) = query.push_source("stuck", |&n: &i64| at(n));
        // The reorder stage holds them: there is no watermark.
        pushed
            .watermarks(Watermarks::punctuated(|_| None))
            .apply_stateful(captured, |_: &mut Bomb, bomb| bomb.0)
            .in_order()
            .for_each(drop);
        let captured = Bomb(0, Trigger::Drop);
        let with_captured = move |n| {
            let whole: &Bomb = &captured;
            n + whole.0
        };
        waits.map(with_captured).for_each(drop);
        let handle = engine.submit(query).unwrap();
        (0..10).for_each(|n| push.push(bombs(Trigger::Drop)(n)).unwrap());
        stuck.push(1).unwrap();
        handle.cancel();
        assert_eq!(over(&handle), Status::Cancelled);
        drop(handle);
    }
    unharmed(&engine);
}
