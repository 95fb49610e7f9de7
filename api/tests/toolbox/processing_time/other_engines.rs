//! Cases of other engines about the clock, each test named after its id in `tests/cases/engine.jsonl`.

use mizzle::aggregate::sum;
use mizzle::time::{ManualClock, Timestamp};
use mizzle::{ProcessCx, ProcessOp, Query, Windows};
use mizzle_engine::harness::{Element, Input, OperatorHarness, Probe};
use mizzle_engine::operator::{OpId, Process};
use mizzle_engine::state::Codec;

use crate::support::{at, completed, engine_by, eventually, ms, sorted, total};

#[test]
fn flink_proc_02_one_jump_of_the_clock_closes_all_windows_that_are_due() {
    for workers in [1, 2, 4] {
        let clock = ManualClock::default();
        let engine = engine_by(&clock, workers);
        let query = Query::new("sliding");
        // Items have no time stamps.
        let (handle, stream) = query.push_source("items", |_: &(u8, i64)| Timestamp::MIN);
        let sums = stream
            .key_by(|&(key, _)| key)
            .processing_window(Windows::hopping(ms(3_000), ms(1_000)))
            .aggregate(sum(|&(_, v): &(u8, i64)| v));
        let (seen, results) = std::sync::mpsc::channel();
        sums.for_each(move |e| {
            seen.send((e.time.as_millis(), e.value.key, e.value.value)).unwrap()
        });
        let query = engine.submit(query).unwrap();
        let taken = || {
            let chains = query.chains();
            let windows =
                |it: &&mizzle::ChainReport| it.operators.iter().any(|op| op == "processing_window");
            chains.iter().filter(windows).map(|chain| chain.stats.events_in).sum::<u64>()
        };
        let mut given = 0;
        for (advance, keys) in
            [(3, &[2][..]), (997, &[2, 2]), (1_000, &[1, 1]), (1_000, &[1, 1, 1]), (4_000, &[])]
        {
            clock.advance(ms(advance));
            handle.push_all(keys.iter().map(|&key| (key, 1)).collect()).unwrap();
            given += keys.len() as u64;
            eventually("the items are counted", || taken() == given);
        }
        let mut rows: Vec<_> = Vec::new();
        eventually("all windows", || {
            rows.extend(results.try_iter());
            rows.len() == 8
        });
        assert_eq!(total(&query, |stats| stats.late), 0);
        drop(handle);
        completed(&query);
        let expected = [
            (999, 2, 1),
            (1_999, 2, 3),
            (2_999, 1, 2),
            (2_999, 2, 3),
            (3_999, 1, 5),
            (3_999, 2, 2),
            (4_999, 1, 5),
            (5_999, 1, 3),
        ];
        assert_eq!(sorted(rows), expected);
        assert_eq!(results.try_iter().count(), 0);
    }
}

/// Sets a timer of each kind.
struct Both;

impl ProcessOp<i64, i64> for Both {
    type State = ();
    type Out = &'static str;
    type Side = &'static str;

    fn event(&self, cx: &mut ProcessCx<'_, i64, Self::Out, Self::Side>, (): &mut (), _: i64) {
        cx.set_processing_timer(at(5));
        cx.set_timer(at(6));
    }

    fn timer(
        &self,
        cx: &mut ProcessCx<'_, i64, Self::Out, Self::Side>,
        (): &mut (),
        due: Timestamp,
    ) {
        assert_eq!(due, at(6));
        cx.emit("event timer");
    }

    fn processing_timer(
        &self,
        cx: &mut ProcessCx<'_, i64, Self::Out, Self::Side>,
        (): &mut (),
        due: Timestamp,
    ) {
        assert_eq!((due, cx.now()), (at(5), at(5)));
        cx.emit("clock timer");
    }
}

/// Saved and restored after every step. What a timer of the clock gives has the newest event time, not
/// the clock's.
#[test]
fn flink_timer_06_both_kinds_of_timers_survive_save_and_restore() {
    let harness = OperatorHarness::new(|probe: Probe<&'static str>| {
        let (key, codec) = (|key: &i64| *key, Some(Codec::new("both")));
        let side = probe.port(1);
        Process::new(OpId(1), key, Both, codec, false, probe, side)
    });
    // The item's time is of no account there; here it would be the time of what the clock's timer gives.
    let inputs = [Input::Event(at(5), 5), Input::Clock(at(5)), Input::Watermark(at(6))];
    let outcome = harness.restoring().run(&inputs);
    let expected = [
        Element::Event(at(5), "clock timer", false),
        Element::Event(at(6), "event timer", false),
        Element::Watermark(at(6)),
    ];
    assert_eq!(outcome.port(0), expected);
}
