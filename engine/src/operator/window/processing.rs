//! Windows of processing time.

use std::hash::Hash;

use super::{Window, WindowState, Windowed, Windows};
use crate::event::Event;
use crate::operator::aggregate::Aggregate;
use crate::operator::{Consumer, Cx, Flow, OpId};
use crate::state::{Codec, StateError, Visit, show};
use crate::time::{Timestamp, is_due};

/// An aggregate over windows of processing time, per key: an event belongs to the windows that are open
/// by the clock when it is processed, whatever its own time is.
///
/// A window closes when the clock reaches its end, though no event comes, before events that come then.
/// When the stream ends, those that are open close. A result happens one microsecond before the end of
/// its window, but not before the watermark. In an ordered chain late events are only counted.
pub struct ProcessingWindow<K, KF, A, N, Acc> {
    op: OpId,
    window: Window<K, KF, A, Passing<N>, Acc>,
}

impl<K, KF, A, N, Acc> ProcessingWindow<K, KF, A, N, Acc> {
    /// `aggregate` over each of `windows` and each key that `key` gives, in front of `next`. A
    /// window over all events has the key `()`.
    ///
    /// # Panics
    ///
    /// If [`windows.check()`](Windows::check) fails.
    pub fn new(
        op: OpId,
        windows: Windows,
        key: KF,
        aggregate: A,
        codec: Option<Codec<WindowState<K, Acc>>>,
        next: N,
    ) -> Self {
        let name = codec.as_ref().map(|codec| format!("{}, its watermark", codec.name()));
        let passing = Passing { op, codec: name.map(Codec::new), next };
        Self { op, window: Window::new(op, windows, key, aggregate, codec, passing) }
    }
}

/// The state of a [`ProcessingWindow`] and all behind it.
type StateOf<K, Acc, N> = (WindowState<K, Acc>, (Timestamp, N));

impl<K, KF, A, N, Acc> ProcessingWindow<K, KF, A, N, Acc> {
    /// Closes what is due at `clock`.
    #[inline]
    fn close_due<T>(
        &self,
        state: &mut StateOf<K, Acc, N::State>,
        cx: &mut Cx,
        clock: impl FnOnce(&mut Cx) -> Timestamp,
    ) where
        T: Send + 'static,
        K: Hash + Eq + Clone + Send + 'static,
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T, Acc = Acc>,
        Acc: Send + 'static,
        N: Consumer<Windowed<K, A::Out>>,
    {
        if let Some(due) = Consumer::<T>::next_timer(&self.window, state) {
            let clock = clock(cx);
            if is_due(due, clock) {
                let late = cx.late;
                Consumer::<T>::watermark(&self.window, state, cx, clock);
                cx.late = late;
            }
        }
    }

    /// What the clock shows.
    fn now(cx: &mut Cx) -> Timestamp {
        cx.now().expect("a chain with a window of processing time has a clock")
    }
}

impl<T, K, KF, A, N> Consumer<T> for ProcessingWindow<K, KF, A, N, A::Acc>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    A: Aggregate<T>,
    N: Consumer<Windowed<K, A::Out>>,
{
    type State = StateOf<K, A::Acc, N::State>;

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        self.window.state()
    }

    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        if cx.refuses_late() {
            return cx.discard(self.op, event.time, event.value);
        }
        let now = Self::now(cx);
        self.close_due(state, cx, |_| now);
        self.window.event(state, cx, Event::new(now, event.value));
    }

    fn watermark(&self, (_, (held, next)): &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        *held = (*held).max(watermark);
        self.window.next().next.watermark(next, cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        self.window.end(state, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        if cx.flow != Flow::Halted {
            self.close_due(state, cx, Self::now);
        }
        if let Some(due) = Consumer::<T>::next_timer(&self.window, state) {
            cx.wake_at(due);
        }
        self.window.flush(state, cx);
    }

    fn next_timer(&self, (_, (_, next)): &Self::State) -> Option<Timestamp> {
        self.window.next().next.next_timer(next)
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        self.window.visit(state, visit)
    }
}

/// Stands between a window that goes by the clock and what goes by event time: what the window takes for
/// the watermark ends here.
struct Passing<N> {
    op: OpId,
    codec: Option<Codec<Timestamp>>,
    next: N,
}

impl<T: Send + 'static, N: Consumer<T>> Consumer<T> for Passing<N> {
    /// The watermark that has been passed on.
    type State = (Timestamp, N::State);

    fn state(&self) -> Self::State {
        (Timestamp::MIN, self.next.state())
    }

    fn event(&self, (watermark, next): &mut Self::State, cx: &mut Cx, event: Event<T>) {
        let time = event.time.max(*watermark);
        self.next.event(next, cx, Event::new(time, event.value));
    }

    fn watermark(&self, _: &mut Self::State, _: &mut Cx, _: Timestamp) {}

    fn end(&self, (_, next): &mut Self::State, cx: &mut Cx) {
        self.next.end(next, cx);
    }

    fn flush(&self, (_, next): &mut Self::State, cx: &mut Cx) {
        self.next.flush(next, cx);
    }

    /// Of the window alone: what is behind it goes by another time.
    fn next_timer(&self, _: &Self::State) -> Option<Timestamp> {
        None
    }

    fn visit(
        &self,
        (watermark, next): &mut Self::State,
        visit: &mut dyn Visit,
    ) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), watermark)?;
        self.next.visit(next, visit)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::harness::{Element, Input, OperatorHarness, Outcome, Probe};
    use crate::operator::aggregate::{count, sum};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn clock(millis: i64) -> Input<(u8, u64)> {
        Input::Clock(at(millis))
    }

    fn event(key: u8) -> Input<(u8, u64)> {
        Input::Event(at(1), (key, 1))
    }

    type Sum = Windowed<u8, u64>;

    fn run(windows: Windows, inputs: &[Input<(u8, u64)>]) -> Outcome<Sum> {
        let build = |probe: Probe<Sum>| {
            let key = |&(key, _): &(u8, u64)| key;
            let total = sum(|&(_, n): &(u8, u64)| n);
            ProcessingWindow::new(OpId(1), windows, key, total, Some(Codec::new("sum")), probe)
        };
        let plain = OperatorHarness::new(build).restoring().run(inputs);
        let ordered = OperatorHarness::new(build).ordered(true).restoring().run(inputs);
        assert_eq!(format!("{plain:?}"), format!("{ordered:?}"));
        plain
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Time in milliseconds, key and value of every result.
    fn results(outcome: &Outcome<Sum>) -> Vec<(i64, u8, u64)> {
        let results = outcome.events().map(|(time, w)| (time.as_millis(), w.key, w.value));
        results.collect()
    }

    #[test]
    fn wi_23_a_window_is_not_closed_a_tick_early() {
        let inputs = [clock(999), event(1), clock(999), event(1), clock(1_000), event(1)];
        let windows = Windows::tumbling(millis(1_000));
        assert_eq!(results(&run(windows, &inputs)), [(999, 1, 2)]);
        let ended = [&inputs[..], &[Input::End]].concat();
        assert_eq!(results(&run(windows, &ended)), [(999, 1, 2), (1_999, 1, 1)]);
    }

    #[test]
    fn flink_proc_02_one_jump_of_the_clock_closes_all_that_is_due() {
        let inputs = [
            clock(3),
            event(2),
            clock(1_000),
            event(2),
            event(2),
            clock(2_000),
            event(1),
            event(1),
            clock(3_000),
            event(1),
            event(1),
            event(1),
            clock(7_000),
        ];
        let windows = Windows::hopping(millis(3_000), millis(1_000));
        let expected = [
            (999, 2, 1),
            (1_999, 2, 3),
            (2_999, 2, 3),
            (2_999, 1, 2),
            (3_999, 2, 2),
            (3_999, 1, 5),
            (4_999, 1, 5),
            (5_999, 1, 3),
        ];
        assert_eq!(results(&run(windows, &inputs)), expected);
    }

    #[test]
    fn the_watermark_passes_and_no_result_is_before_it() {
        let windows = Windows::tumbling(millis(10));
        let inputs = [event(1), Input::Watermark(at(50)), clock(10), Input::Event(at(70), (1, 1))];
        let outcome = run(windows, &inputs);
        let [Element::Watermark(watermark), Element::Event(time, ref window, false)] =
            outcome.port(0)[..]
        else {
            panic!("{outcome:?}")
        };
        assert_eq!((watermark, time), (at(50), at(50)));
        assert_eq!((window.start, window.end), (at(0), at(10)));
    }

    #[test]
    fn late_events_count_by_the_clock_unless_the_chain_is_ordered() {
        let build = |probe: Probe<Windowed<(), u64>>| {
            let windows = Windows::tumbling(millis(10));
            ProcessingWindow::new(OpId(1), windows, |_: &u8| (), count(), None, probe)
        };
        let inputs = [Input::Watermark(at(50)), Input::LateEvent(at(1), 1), Input::Clock(at(10))];
        let outcome = OperatorHarness::new(build).run(&inputs);
        outcome.assert_conserved(0, |window| window.value);
        assert_eq!(outcome.counters.late, 0);
        let outcome = OperatorHarness::new(build).ordered(true).run(&inputs);
        assert_eq!((outcome.values().count(), outcome.counters.late), (0, 1));
    }
}
