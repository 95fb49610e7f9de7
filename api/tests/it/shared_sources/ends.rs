//! How shared sources end, fail and are refused.

use std::time::Duration;

use mizzle::aggregate::count;
use mizzle::sink::Collected;
use mizzle::time::Watermarks;
use mizzle::{
    BuildError, Engine, Query, QueryHandle, SharedSource, Status, Windowed, Windows, source,
};

use super::{at, completed, engine, eventually, noting, numbers, over};

type Counts = Collected<Windowed<(), u64>>;

/// Two queries that count by the hour: everything, and one key of it.
fn counting(engine: &Engine, numbers: &SharedSource<i64>) -> ([QueryHandle; 2], [Counts; 2]) {
    let hour = Windows::tumbling(Duration::from_secs(3_600));
    let (whole, on_key) = (Query::new("whole"), Query::new("on key"));
    let key = numbers.key_by(|_| ()).at(());
    let outs = [
        whole.subscribe(numbers).window(hour).aggregate(count()).collect(),
        on_key.subscribe(&key).window(hour).aggregate(count()).collect(),
    ];
    ([engine.submit(whole).unwrap(), engine.submit(on_key).unwrap()], outs)
}

#[test]
fn an_end_fires_what_is_open_and_a_halt_does_not() {
    let ends: [(fn(&SharedSource<i64>), usize); 3] =
        [(SharedSource::drain, 1), (SharedSource::stop, 0), (SharedSource::cancel, 0)];
    for (end, fires) in ends {
        let engine = engine(2, 16);
        let (push, pushed) = engine.shared_push_source("pushed", |&n: &i64| at(n));
        let pushed = pushed.open().unwrap();
        pushed.start();
        let (running, outs) = counting(&engine, &pushed);
        (0..10).for_each(|n| push.push(n).unwrap());
        eventually("all events", || pushed.subscribers().iter().all(|it| it.seen == 10));
        end(&pushed);
        running.iter().for_each(completed);
        for out in outs {
            assert_eq!(out.values().iter().map(|w| w.value).collect::<Vec<_>>(), vec![10; fires]);
        }
    }
}

#[test]
fn a_subscriber_can_be_ended_alone() {
    let ends: [(fn(&QueryHandle), usize, Status); 2] =
        [(QueryHandle::drain, 1, Status::Completed), (QueryHandle::stop, 0, Status::Stopped)];
    for (end, fires, status) in ends {
        for workers in [1, 2, 4] {
            let engine = engine(workers, 16);
            let (push, pushed) = engine.shared_push_source("pushed", |&n: &i64| at(n));
            let pushed = pushed.open().unwrap();
            pushed.start();
            let (running, outs) = counting(&engine, &pushed);
            let (stays, seen) = noting(&engine, &pushed);
            (0..10).for_each(|n| push.push(n).unwrap());
            eventually("all events", || pushed.subscribers().iter().all(|it| it.seen == 10));
            running.iter().for_each(end);
            running.iter().for_each(|query| assert_eq!(over(query), status));
            eventually("that they leave", || pushed.subscribers().len() == 1);
            push.push(10).unwrap();
            for out in outs {
                assert_eq!(
                    out.values().iter().map(|w| w.value).collect::<Vec<_>>(),
                    vec![10; fires]
                );
            }
            drop(push);
            completed(&stays);
            assert_eq!(seen.lock().unwrap().len(), 11);
        }
    }
}

#[test]
fn subscribers_of_a_source_that_fails_fail_with_it() {
    let engine = engine(2, 16);
    let broken =
        source::from_iter((0..100i64).inspect(|&n| assert_ne!(n, 70, "at seventy")), |&n| at(n));
    let broken = engine.shared_source("broken", broken).open().unwrap();
    let (whole, _) = noting(&engine, &broken);
    let on_key = Query::new("on key");
    on_key.subscribe(&broken.key_by(|_| ()).at(())).for_each(|_| ());
    let on_key = engine.submit(on_key).unwrap();
    broken.start();
    assert!(matches!(broken.wait(), Status::Failed(_)));
    for query in [whole, on_key] {
        let Status::Failed(failure) = over(&query) else { panic!("{:?}", query.status()) };
        assert!(failure.message.starts_with("the shared source \"broken\" failed: "), "{failure}");
        assert!(failure.message.contains("at seventy"), "{failure}");
    }
}

#[test]
fn a_subscriber_that_panics_fails_alone() {
    let engine = engine(2, 16);
    let numbers = numbers(&engine, 1_000);
    let panics = Query::new("panics");
    panics.subscribe(&numbers).map(|n| assert_ne!(n, 500, "five hundred")).for_each(|_| ());
    let panics = engine.submit(panics).unwrap();
    let (other, seen) = noting(&engine, &numbers);
    numbers.start();
    completed(&other);
    assert!(matches!(over(&panics), Status::Failed(_)));
    assert_eq!(seen.lock().unwrap().len(), 1_000);
}

fn refused(result: Result<impl Sized, BuildError>) -> (String, String) {
    match result.err() {
        Some(BuildError::Operator { operator, location, reason }) => {
            assert!(location.contains("ends.rs"), "{location}");
            (operator, reason)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn mistakes_are_refused_with_a_name_and_a_line() {
    let engine = engine(2, 16);
    let open = || engine.shared_source("n", source::from_iter(0..9i64, |&n| at(n)));
    assert_eq!(
        refused(open().lag_limit(0).open()),
        ("n".to_owned(), "a lag limit must be at least 1 event".to_owned())
    );
    let zero = Watermarks::periodic(Duration::ZERO, Duration::ZERO);
    assert!(refused(open().watermarks(zero).open()).1.contains("at least a microsecond"));

    let numbers = numbers(&engine, 9);
    let elsewhere = super::engine(1, 16);
    let subscribing = || {
        let query = Query::new("subscribing");
        query.subscribe(&numbers).for_each(|_| ());
        query
    };
    let reason = "the shared source \"numbers\" belongs to another engine".to_owned();
    assert_eq!(refused(elsewhere.submit(subscribing())), ("numbers".to_owned(), reason));
    let early = engine.submit(subscribing()).unwrap();
    numbers.start();
    completed(&early);
    let reason = "the shared source \"numbers\" is over".to_owned();
    assert_eq!(refused(engine.submit(subscribing())), ("numbers".to_owned(), reason));

    let unused = Query::new("unused");
    let _ = unused.subscribe(&open().open().unwrap());
    assert!(matches!(engine.submit(unused), Err(BuildError::Unused { .. })));
}
