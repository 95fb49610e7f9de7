//! Windows by the clock.

use mizzle::aggregate::{count, sum};
use mizzle::stream::Member;
use mizzle::time::ManualClock;
use mizzle::{Query, Windows, source};

use crate::support::{at, completed, engine, engine_by, eventually, ms, sorted, total};

#[test]
fn a_window_closes_by_the_clock_though_no_event_comes() {
    for workers in [1, 2, 4] {
        let clock = ManualClock::default();
        let engine = engine_by(&clock, workers);
        let query = Query::new("per key");
        let (handle, stream) = query.push_source("n", |_: &(u8, i64)| at(7));
        let keyed = stream.share();
        let per_key = keyed
            .clone()
            .key_by(|&(key, _)| key)
            .processing_window(Windows::tumbling(ms(100)))
            .aggregate((count(), sum(|&(_, n): &(u8, i64)| n)))
            .named("sums")
            .collect();
        let whole =
            keyed.processing_window(Windows::hopping(ms(100), ms(50))).aggregate(count()).collect();
        let query = engine.submit(query).unwrap();
        let rows = || {
            let rows = per_key.values().into_iter().map(|w| (w.start.as_millis(), w.key, w.value));
            sorted(rows.collect())
        };
        let hops =
            || whole.values().iter().map(|w| (w.end.as_millis(), w.value)).collect::<Vec<_>>();
        clock.advance(ms(99));
        handle.push_all((0..100).map(|n| ((n % 10) as u8, n)).collect()).unwrap();
        eventually("the events are counted", || {
            // Each chain has seen them: those that read the share, and the shards of the keyed one.
            let of = |name: &str| {
                let chains = query.chains();
                let chains = chains.iter().filter(|it| it.operators.iter().any(|op| op == name));
                chains.map(|chain| chain.stats.events_in).sum::<u64>()
            };
            of("sums") == 100 && of("processing_window") == 100
        });
        assert_eq!((rows(), hops()), (vec![], vec![]));
        clock.advance(ms(1));
        eventually("the first windows", || rows().len() == 10 && hops() == [(100, 100)]);
        assert_eq!(rows()[3], (0, 3, (10, 480)));
        clock.advance(ms(50));
        eventually("the next hop", || hops() == [(100, 100), (150, 100)]);
        // No window is open now, and none comes of time alone.
        clock.advance(ms(10_000));
        handle.push((1, 5)).unwrap();
        drop(handle);
        completed(&query);
        assert_eq!(rows()[10..], [(10_100, 1, (1, 5))]);
        let last = hops().split_off(2);
        assert_eq!(last, [(10_200, 1), (10_250, 1)]);
    }
}

#[test]
fn the_time_of_a_result_is_the_end_of_its_window_or_the_watermark() {
    let clock = ManualClock::default();
    let engine = engine_by(&clock, 2);
    let query = Query::new("times");
    let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
    let (times, seen) = std::sync::mpsc::channel();
    stream
        .processing_window(Windows::tumbling(ms(10)))
        .aggregate(count())
        .for_each(move |event| times.send(event.time).unwrap());
    let query = engine.submit(query).unwrap();
    let taken = || crate::support::processed(&query);
    handle.push(3).unwrap();
    eventually("the first", || taken() == 1);
    clock.advance(ms(10));
    assert_eq!(seen.recv_timeout(crate::support::GUARD), Ok(at(10).previous()));
    handle.push(70).unwrap();
    eventually("the second", || taken() == 2);
    clock.advance(ms(10));
    assert_eq!(seen.recv_timeout(crate::support::GUARD), Ok(at(70)));
    drop(handle);
    completed(&query);
}

#[test]
fn the_flag_puts_events_in_order_and_late_ones_are_counted() {
    for workers in [1, 2] {
        let engine = engine_by(&ManualClock::default(), workers);
        let query = Query::new("in order");
        let join = mizzle::aggregate::fold(
            Vec::new,
            |all: &mut Vec<i64>, n: &i64| all.push(*n),
            |all: &mut Vec<i64>, more: &Vec<i64>| all.extend(more),
            Vec::clone,
        );
        let times = [5, 3, 9, 7, 1, 20];
        let slack = mizzle::time::Watermarks::bounded(ms(4));
        let out = query
            .source("times", source::from_iter(times, |&n: &i64| at(n)))
            .watermarks(slack)
            .processing_window(Windows::tumbling(ms(100)))
            .aggregate(join)
            .in_order()
            .collect();
        let query = engine.submit(query).unwrap();
        completed(&query);
        let lists: Vec<_> = out.values().into_iter().map(|window| window.value).collect();
        assert_eq!(lists, [[3, 5, 7, 9, 20]]);
        assert_eq!(total(&query, |stats| stats.late_unused), 1);
    }
}

#[test]
fn a_stop_closes_nothing() {
    let engine = engine_by(&ManualClock::default(), 2);
    let query = Query::new("stopped");
    let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
    let out = stream.processing_window(Windows::tumbling(ms(10))).aggregate(count()).collect();
    let query = engine.submit(query).unwrap();
    handle.push(1).unwrap();
    eventually("the event", || query.chains()[0].stats.events_in == 1);
    query.stop();
    assert_eq!((query.wait(), out.len()), (mizzle::Status::Stopped, 0));
}

#[test]
fn windows_that_make_no_sense_or_stand_in_a_template_are_refused_by_name() {
    let refused = |describe: fn(&Query)| {
        let query = Query::new("refused");
        describe(&query);
        engine(1).submit(query).err().expect("refused").to_string()
    };
    fn numbers() -> impl source::Source<Item = i64> {
        source::from_iter([1i64], |&n| at(n))
    }
    let empty = refused(|query| {
        let windows = Windows::tumbling(ms(0));
        query.source("n", numbers()).processing_window(windows).aggregate(count()).for_each(|_| ());
    });
    assert!(empty.contains("processing_time/windows.rs:"), "{empty}");
    assert!(empty.contains("\"processing_window\""), "{empty}");
    assert!(empty.contains("window size is zero"), "{empty}");
    let member = refused(|query| {
        let windows = Windows::tumbling(ms(10));
        let template = |member: Member<(), _>| {
            member.processing_window(windows).aggregate(count()).name("per second")
        };
        let (group, results) = query.source("n", numbers()).key_by(|&n| n).group("g", template);
        drop(group);
        results.for_each(|_| ());
    });
    assert!(member.contains("\"per second\""), "{member}");
    assert!(member.contains("have no processing time"), "{member}");
}
