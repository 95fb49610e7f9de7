//! Descriptions that are refused, and what becomes of those who push to them or receive from them.

use std::sync::mpsc;
use std::time::Duration;

use mizzle::source::BadRecord;
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{
    BoxedStream, Engine, ProcessCx, ProcessOp, PushError, Query, Status, WhenFull, Windows, source,
};

/// What takes longer hangs.
const GUARD: Duration = Duration::from_secs(20);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn engine() -> Engine {
    Engine::builder().workers(1).build().unwrap()
}

fn numbers(query: &Query) -> BoxedStream<i64> {
    query.source("n", source::from_iter(0..10i64, |&n| at(n))).boxed()
}

/// Even numbers go to the main output, odd ones to the side.
struct Parity;

impl ProcessOp<(), i64> for Parity {
    type State = ();
    type Out = i64;
    type Side = i64;

    fn event(&self, cx: &mut ProcessCx<'_, (), i64, i64>, (): &mut (), n: i64) {
        if n % 2 == 0 { cx.emit(n) } else { cx.emit_side(n) }
    }
}

/// Describes something that leads nowhere beside a stream that is as it should be; the query must be
/// refused with `operator` named.
#[track_caller]
fn refused(operator: &str, describe: impl FnOnce(&Query)) {
    let query = Query::new("refused");
    numbers(&query).for_each(drop);
    describe(&query);
    let error = engine().submit(query).err().expect("it leads nowhere").to_string();
    let expected = format!("the stream behind \"{operator}\" (api/tests/it/refusals.rs:");
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.ends_with(") ends in no sink"), "{error}");
}

/// Describes something that leaves an output alone; so many events must be counted as dropped.
#[track_caller]
fn accepted(dropped: u64, describe: impl FnOnce(&Query)) {
    let query = Query::new("accepted");
    describe(&query);
    let engine = engine();
    let handle = engine.submit(query).unwrap();
    assert_eq!(handle.wait(), Status::Completed);
    assert_eq!(handle.chains().iter().map(|chain| chain.stats.dropped).sum::<u64>(), dropped);
}

#[test]
fn a_stream_that_is_dropped_is_refused_whatever_its_head_is() {
    refused("n", |query| drop(query.source("n", source::from_iter(0..1i64, |&n| at(n)))));
    refused("p", |query| drop(query.push_source("p", |&n: &i64| at(n))));
    refused("m", |query| drop(query.source("m", source::from_iter(0..1i64, |&n| at(n))).boxed()));
    refused("map", |query| drop(numbers(query).map(|n| n)));
    refused("map", |query| drop(numbers(query).map(|n| n).boxed()));
    refused("the last", |query| drop(numbers(query).map(|n| n).filter(|_| true).name("the last")));
    refused("filter", |query| drop(numbers(query).filter(|_| true).key_by(|n| n % 2)));
    refused("union", |query| drop(numbers(query).union(numbers(query))));
    refused("union", |query| drop(numbers(query).union_all([numbers(query)])));
    refused("assign_timestamps", |query| {
        drop(numbers(query).assign_timestamps(|&n| at(n), Watermarks::ascending()));
    });
}

#[test]
fn the_main_output_of_a_pair_must_lead_to_a_sink() {
    refused("process", |query| {
        let (_, odd) = numbers(query).key_by(|_| ()).process(Parity);
        odd.for_each(drop);
    });
    refused("split_late", |query| {
        let (_, late) = numbers(query).split_late();
        late.for_each(drop);
    });
    refused("csv", |query| {
        let (_, rejects) = query.source_with_rejects("csv", source::from_iter([1], |&n| at(n)));
        rejects.for_each(drop::<mizzle::Event<BadRecord>>);
    });
}

#[test]
fn a_fork_of_which_nobody_takes_anything_is_refused() {
    refused("share", |query| drop(numbers(query).share()));
    refused("share", |query| {
        let shared = numbers(query).share();
        drop((shared.clone(), shared));
    });
    refused("share", |query| {
        let (even, odd) = numbers(query).key_by(|_| ()).process(Parity);
        odd.for_each(drop);
        drop(even.share());
    });
    refused("branch", |query| drop(numbers(query).branches()));
    refused("branch", |query| drop(numbers(query).split(|n| n % 2 == 0)));
}

#[test]
fn what_is_put_behind_an_output_that_could_be_left_alone_must_lead_to_a_sink() {
    refused("map", |query| {
        let shared = numbers(query).share();
        shared.clone().for_each(drop);
        drop(shared.map(|n| n));
    });
    refused("inspect", |query| {
        let (even, odd) = numbers(query).split(|n| n % 2 == 0);
        even.for_each(drop);
        drop(odd.inspect(|_, _| ()));
    });
    refused("process", |query| {
        let (even, odd) = numbers(query).key_by(|_| ()).process(Parity);
        even.for_each(drop);
        drop(odd.boxed());
    });
    refused("split_late", |query| {
        let (on_time, late) = numbers(query).split_late();
        on_time.for_each(drop);
        drop(late.window(Windows::tumbling(Duration::from_secs(1))));
    });
}

#[test]
fn second_outputs_can_be_left_alone() {
    accepted(5, |query| numbers(query).key_by(|_| ()).process(Parity).0.for_each(drop));
    accepted(5, |query| numbers(query).split(|n| n % 2 == 0).0.for_each(drop));
    accepted(5, |query| numbers(query).split(|n| n % 2 == 0).1.for_each(drop));
    accepted(0, |query| numbers(query).split_late().0.for_each(drop));
    accepted(0, |query| numbers(query).share().clone().for_each(drop));
    accepted(0, |query| {
        let numbers = source::from_iter(0..10i64, |&n| at(n));
        query.source_with_rejects("n", numbers).0.for_each(drop);
    });
    accepted(8, |query| {
        let mut branches = numbers(query).branches();
        let (_, thirds) = (branches.when(|n| n % 2 == 0), branches.when(|n| n % 3 == 0));
        thirds.for_each(drop);
        drop(branches.rest());
    });
}

/// Whether a push that fills the inbox is refused once `end` has returned.
fn push_is_refused<T>(query: Query, end: impl FnOnce(Query) -> T) {
    let (handle, stream) = query.push_source("p", |&n: &i64| at(n));
    let shared = stream.share();
    let other = shared.clone();
    let pushing = handle.clone();
    let (done, refused) = mpsc::channel();
    let pusher = std::thread::spawn(move || {
        let outcome = (0..).find_map(|n| pushing.push(n).err());
        let _ = done.send(matches!(outcome, Some(PushError::Closed(_))));
    });
    let kept = end(query);
    assert!(matches!(handle.push(1), Err(PushError::Closed(1))));
    assert_eq!(refused.recv_timeout(GUARD), Ok(true));
    pusher.join().unwrap();
    // What is still about can be gone on with, to no effect.
    other.map(|n| n).name("late").for_each(drop);
    drop((kept, shared));
}

#[test]
fn a_push_into_a_query_that_is_refused_is_refused_though_its_streams_are_kept() {
    push_is_refused(Query::new("refused"), |query| {
        assert!(engine().submit(query).is_err());
    });
    push_is_refused(Query::new("wrong"), |query| {
        let kept = numbers(&query).window(Windows::tumbling(Duration::ZERO));
        let kept = kept.aggregate(mizzle::aggregate::count());
        assert!(engine().submit(query).is_err());
        kept
    });
    push_is_refused(Query::new("dropped"), drop);
}

#[test]
fn who_receives_from_a_query_that_never_ran_is_told() {
    let query = Query::new("refused");
    let shared = numbers(&query).share();
    let received = shared.clone().channel(1, WhenFull::Wait);
    let loose = shared.map(|n| n);
    assert!(engine().submit(query).is_err());
    let (done, told) = mpsc::channel();
    std::thread::spawn(move || done.send(received.recv().is_none()));
    assert_eq!(told.recv_timeout(GUARD), Ok(true));
    drop(loose);
}

#[test]
fn what_is_put_behind_a_stream_of_a_query_that_is_gone_ends_at_once() {
    let query = Query::new("gone");
    let shared = numbers(&query).share();
    let kept = shared.clone();
    drop(query);
    let received = shared.channel(1, WhenFull::Wait);
    let (done, told) = mpsc::channel();
    std::thread::spawn(move || done.send(received.recv().is_none()));
    assert_eq!(told.recv_timeout(GUARD), Ok(true));
    drop(kept);
}
