//! Faults that users met in engines of this kind, each test named after its id in
//! `tests/cases/faults.jsonl`.

use mizzle::aggregate::{
    InvalidAggregate, approx_quantiles, count, first, last, mean, min, population_variance,
    quantiles, sample_variance, sum, to_vec, top,
};
use mizzle::sink::Collected;
use mizzle::time::Watermarks;
use mizzle::{BuildError, Engine, Phase, Query, Trigger, Windowed, Windows, source};

use super::{GUARD, at, late_unused, ms, run};

/// Start, end and value of each window, in order of time.
fn rows<K: Clone, V: Clone + Ord>(out: &Collected<Windowed<K, V>>) -> Vec<(i64, i64, V)> {
    let row = |it: Windowed<K, V>| (it.start.as_millis(), it.end.as_millis(), it.value);
    let mut all: Vec<_> = out.values().into_iter().map(row).collect();
    all.sort();
    all
}

/// Sessions of a gap of 5 with a slack of 10: how many events and their sum.
fn sessions(events: &[(i64, u64)]) -> Vec<(i64, i64, (u64, u64))> {
    let ways = [(1, 1, false), (2, 1_024, false), (4, 1, true)];
    let [one, other, ordered] = ways.map(|(workers, batch, in_order)| {
        let (out, query) = run(workers, batch, |query| {
            query
                .source("events", source::from_iter(events.to_vec(), |event| at(event.0)))
                .watermarks(Watermarks::bounded(ms(10)))
                .window(Windows::session(ms(5)))
                .aggregate((count(), sum(|event: &(i64, u64)| event.1)))
                .in_order_if(in_order)
                .collect()
        });
        assert_eq!(late_unused(&query), 0);
        rows(&out)
    });
    assert_eq!((&one, &one), (&other, &ordered));
    one
}

#[test]
fn wi_12_sessions_exactly_a_gap_apart_are_two() {
    let closed = |times: [i64; 2]| sessions(&[(times[0], 1), (times[1], 1), (100, 0)]);
    let last = (100, 105, (1, 0));
    assert_eq!(closed([0, 4]), [(0, 9, (2, 2)), last]);
    assert_eq!(closed([0, 6]), [(0, 5, (1, 1)), (6, 11, (1, 1)), last]);
    assert_eq!(closed([0, 5]), [(0, 5, (1, 1)), (5, 10, (1, 1)), last]);
    assert_eq!(closed([5, 0]), closed([0, 5]));
}

#[test]
fn wi_13_an_event_between_makes_one_session_of_two() {
    let seen = sessions(&[(0, 1), (8, 2), (4, 4), (100, 0)]);
    assert_eq!(seen, [(0, 13, (3, 7)), (100, 105, (1, 0))]);
}

#[test]
fn wi_15_a_quiet_key_is_not_held_open_by_others() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let query = Query::new("quiet");
    let (handle, events) = query.push_source("events", |event: &(char, i64)| at(event.1));
    let sessions = events.key_by(|event| event.0).window(Windows::session(ms(5)));
    let results = sessions.aggregate(count()).channel(8, mizzle::WhenFull::Wait);
    let query = engine.submit(query).unwrap();
    handle.push(('a', 0)).unwrap();
    (0..=60).for_each(|time| handle.push(('b', time)).unwrap());
    // The stream is still open.
    let session = results.recv_timeout(GUARD).expect("the session of a quiet key").value;
    assert_eq!((session.key, session.end, session.value), ('a', at(5), 1));
    drop(handle);
    let session = results.recv_timeout(GUARD).expect("the other").value;
    assert_eq!((session.key, session.value), ('b', 61));
    query.wait();
}

#[test]
fn wi_17_a_busy_session_is_one_result_and_keeps_no_events() {
    let (out, _) = run(2, 1, |query| {
        let times = source::from_iter((0..=60).map(|n| 5_000 * n), |&time| at(time));
        let sessions = query.source("times", times).window(Windows::session(ms(10_000)));
        sessions.early(Trigger::interval(ms(60_000))).aggregate(count()).in_order().collect()
    });
    let seen: Vec<_> = out.values().into_iter().map(|it| (it.phase, it.value)).collect();
    let early = [12, 24, 36, 48, 60].map(|n| (Phase::Early, n));
    assert_eq!(seen, [&early[..], &[(Phase::Final, 61)]].concat());
}

#[test]
fn wi_21_count_windows_have_bounds_and_leave_nothing_behind() {
    let (out, _) = run(2, 1_024, |query| {
        let values = source::from_iter(1..=7i64, |&v| at(v));
        let values = query.source("values", values).window(Windows::count(3));
        let ends = (first(i64::clone), last(i64::clone), to_vec(i64::clone));
        values.aggregate(ends).in_order().collect()
    });
    let seen: Vec<_> = out.values().into_iter().map(|it| (it.start, it.end, it.value)).collect();
    let window = |from: i64, to: i64| {
        let values = (Some(from), Some(to), (from..=to).collect::<Vec<_>>());
        (at(from), at(to).next(), values)
    };
    assert_eq!(seen, [window(1, 3), window(4, 6), window(7, 7)]);
}

#[test]
fn wi_25_an_allowed_late_row_is_shown() {
    let (out, query) = run(2, 1, |query| {
        let times = source::from_iter([0, 30, 65, 50, 95], |&time| at(time));
        let windows = query.source("times", times).window(Windows::tumbling(ms(60)));
        windows.allowed_lateness(ms(30)).aggregate(count()).collect()
    });
    let seen: Vec<_> = out.values().into_iter().map(|it| (it.start, it.phase, it.value)).collect();
    let first = [(at(0), Phase::Final, 2), (at(0), Phase::Corrected, 3)];
    assert_eq!(seen, [&first[..], &[(at(60), Phase::Final, 2)]].concat());
    assert_eq!(late_unused(&query), 0);
    // The slack of a source is how to have one result only.
    let (out, _) = run(2, 1, |query| {
        let times = source::from_iter([0, 30, 65, 50, 95], |&time| at(time));
        let times = query.source("times", times).watermarks(Watermarks::bounded(ms(30)));
        times.window(Windows::tumbling(ms(60))).aggregate(count()).collect()
    });
    assert_eq!(rows(&out), [(0, 60, 3), (60, 120, 2)]);
}

#[test]
fn ag_03_a_variance_forgets_what_has_left_the_window() {
    let values = [7.0, 123_456.789, 7.0, -98_765.432];
    let events = values.iter().copied().chain([3.2e-5; 1_000]).enumerate();
    let events: Vec<_> = events.map(|(n, value)| (n as i64, value)).collect();
    let spread = || {
        let value = |event: &(i64, f64)| event.1;
        (population_variance(value), sample_variance(value))
    };
    let (by_time, _) = run(2, 1_024, |query| {
        let events = source::from_iter(events.clone(), |event| at(event.0));
        query
            .source("events", events)
            .window(Windows::hopping(ms(4), ms(2)))
            .aggregate(spread())
            .collect()
    });
    let (by_count, _) = run(2, 1_024, |query| {
        let events = source::from_iter(events.clone(), |event| at(event.0));
        query
            .source("events", events)
            .window(Windows::sliding_count(4, 1))
            .aggregate(spread())
            .collect()
    });
    for out in [by_time, by_count] {
        let spreads = out.values().into_iter().map(|window| (window.start, window.value));
        for (start, (population, sample)) in spreads {
            let spread = population.unwrap();
            let right = if start >= at(4) { spread == 0.0 } else { spread > 0.0 };
            assert!(right && sample.is_none_or(|sample| sample >= spread), "{start}: {spread}");
        }
    }
}

#[test]
fn ag_04_variances_keep_their_digits_on_large_offsets() {
    let (out, _) = run(2, 1_024, |query| {
        let values = [4.0, 7.0, 13.0, 16.0].map(|value| 1e9 + value);
        let values = query.source("values", source::from_iter(values, |_| at(1)));
        let all = (mean(f64::clone), sample_variance(f64::clone), population_variance(f64::clone));
        values.window(Windows::tumbling(ms(10))).aggregate(all).collect()
    });
    assert_eq!(out.values()[0].value, (1_000_000_010.0, Some(30.0), Some(22.5)));
}

#[test]
fn ag_06_the_median_of_nothing_is_no_row() {
    let (out, _) = run(2, 1_024, |query| {
        let events = source::from_iter([(3, -1.0), (12, 4.0), (25, f64::NAN)], |event| at(event.0));
        let events = query.source("events", events).filter(|event| event.1 > 0.0 || event.0 > 20);
        let value = |event: &(i64, f64)| event.1;
        let all = (quantiles([0.5], value), approx_quantiles([0.5], value), min(value));
        events.window(Windows::tumbling(ms(10))).aggregate(all).collect()
    });
    let seen: Vec<_> = out.values().into_iter().map(|it| (it.start, it.value)).collect();
    let (exact, about, least) = seen[0].1;
    assert_eq!((seen[0].0, exact, least), (at(10), Some([4.0]), Some(4.0)));
    assert!((about.unwrap()[0] - 4.0).abs() <= 0.04);
    assert_eq!(seen[1..], [(at(20), (None, None, None))]);
}

/// What `submit` says about windows that make no sense.
fn refused(describe: impl FnOnce(mizzle::BoxedStream<i64>)) -> String {
    let query = Query::new("invalid");
    describe(query.source("times", source::from_iter([1i64], |&time| at(time))).boxed());
    let Err(error) = Engine::builder().workers(1).build().unwrap().submit(query) else {
        panic!("a description that makes no sense was accepted");
    };
    let BuildError::Operator { location, .. } = &error else { panic!("{error}") };
    assert!(location.contains("faults.rs"), "{location}");
    error.to_string()
}

#[test]
fn wi_27_invalid_parameters_are_refused_by_name() {
    let session =
        refused(|it| it.window(Windows::session(ms(0))).aggregate(count()).for_each(drop));
    assert!(session.contains("window gap is zero"), "{session}");
    let counts = refused(|it| it.window(Windows::count(0)).aggregate(count()).for_each(drop));
    assert!(counts.contains("window count is zero"), "{counts}");
    let step = refused(|it| {
        it.window(Windows::cumulative(ms(10), ms(0))).aggregate(count()).for_each(drop);
    });
    assert!(step.contains("window step is zero"), "{step}");
    let zone = refused(|it| it.window(Windows::daily("Mars")).aggregate(count()).for_each(drop));
    assert!(zone.contains("no time zone \"Mars\""), "{zone}");
    let trigger = refused(|it| {
        let windows = it.window(Windows::tumbling(ms(10))).early(Trigger::events(0));
        windows.apply(|_, events| events.len()).for_each(drop);
    });
    assert!(trigger.contains("window trigger is zero"), "{trigger}");
    let none = refused(|it| {
        let best = top(0, i64::clone);
        it.window(Windows::tumbling(ms(10))).aggregate((count(), best)).for_each(drop);
    });
    assert!(none.contains(&InvalidAggregate::TopOfNone.to_string()), "{none}");
}
