//! A second window behind the first sees the first one's results on time.

use mizzle::aggregate::{count, sum};
use mizzle::time::Watermarks;
use mizzle::{Phase, Trigger, Windowed, Windows, source};

use super::{at, late_unused, ms, run};

fn bounds(window: &Windowed<(), u64>) -> (i64, i64, u64) {
    (window.start.as_millis(), window.end.as_millis(), window.value)
}

/// Seconds, each minus up to 300 ms, as they come.
fn disordered() -> impl Iterator<Item = i64> + Send + Clone + 'static {
    (0..3_000).map(|n| 100 * n - (n * 7_919) % 300)
}

#[test]
fn every_kind_of_window_hands_on_in_time() {
    for (workers, batch) in [(1, 1_024), (2, 1), (4, 100)] {
        let total = |first: usize| {
            let (out, query) = run(workers, batch, |query| {
                let times = source::from_iter(disordered(), |&time| at(time));
                let times =
                    query.source("times", times).watermarks(Watermarks::bounded(ms(300))).boxed();
                let key = |time: &i64| time % 3;
                let counts = match first {
                    0 => times
                        .key_by(key)
                        .window(Windows::tumbling(ms(700)))
                        .aggregate(count())
                        .boxed(),
                    1 => times
                        .key_by(key)
                        .window(Windows::session(ms(150)))
                        .aggregate(count())
                        .boxed(),
                    2 => times.key_by(key).window(Windows::count(10)).aggregate(count()).boxed(),
                    3 => times.key_by(key).window(Windows::daily("UTC")).aggregate(count()).boxed(),
                    _ => {
                        let rows = |time: &i64| time % 10 == 0;
                        let all = times.key_by(key).window(Windows::between(|_: &i64| true, rows));
                        all.aggregate(count()).boxed()
                    }
                };
                counts
                    .map(|window| window.value)
                    .window(Windows::tumbling(ms(5_000)))
                    .aggregate(sum(|n: &u64| *n))
                    .collect()
            });
            assert_eq!(late_unused(&query), 0, "{first}, {workers} workers");
            out.values().iter().map(|window| window.value).sum::<u64>()
        };
        for first in 0..5 {
            assert_eq!(total(first), 3_000, "{first}, {workers} workers");
        }
    }
}

#[test]
fn corrections_too_are_on_time_behind_a_window_that_allows_lateness() {
    // With no slack nearly every second event is late for the first window.
    for (workers, batch) in [(1, 1), (2, 1), (4, 7)] {
        let (out, query) = run(workers, batch, |query| {
            let times = source::from_iter(disordered(), |&time| at(time));
            query
                .source("times", times)
                .watermarks(Watermarks::bounded(ms(0)))
                .window(Windows::tumbling(ms(1_000)))
                .allowed_lateness(ms(500))
                .aggregate(count())
                // The sum over all results of a window is the last.
                .key_by(|window| window.start)
                .window(Windows::tumbling(ms(10_000)))
                .aggregate(mizzle::aggregate::last(|window: &Windowed<(), u64>| window.value))
                .collect()
        });
        assert_eq!(late_unused(&query), 0);
        let total: u64 = out.values().iter().filter_map(|window| window.value).sum();
        assert_eq!(total, 3_000, "{workers} workers");
    }
}

#[test]
fn early_and_final_results_in_order_for_what_follows() {
    for workers in [1, 4] {
        let (out, query) = run(workers, 3, |query| {
            query
                .source("times", source::from_iter((0..20).map(|n| 10 * n), |&time| at(time)))
                .window(Windows::tumbling(ms(100)))
                .early(Trigger::events(4))
                .early(Trigger::interval(ms(50)))
                .aggregate(count())
                .in_order()
                .apply_stateful(0, |seen: &mut u64, window| {
                    *seen += 1;
                    (*seen, window.phase, bounds(&window))
                })
                .in_order()
                .collect()
        });
        assert_eq!(late_unused(&query), 0);
        let (early, last) = (Phase::Early, Phase::Final);
        let window = |start, counts: [(Phase, u64); 4]| {
            counts.map(|(phase, n)| (phase, (start, start + 100, n)))
        };
        // After four events, at 50 ms, after eight, at the end.
        let counts = [(early, 4), (early, 5), (early, 8), (last, 10)];
        let expected: Vec<_> = [window(0, counts), window(100, counts)].concat();
        let seen = out.values();
        assert!(seen.iter().map(|it| it.0).eq(1..=8));
        assert_eq!(seen.into_iter().map(|it| (it.1, it.2)).collect::<Vec<_>>(), expected);
    }
}
