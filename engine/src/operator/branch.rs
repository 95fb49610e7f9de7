//! One stream becomes several within a chain.

use super::{Consumer, Cx, OpId, earlier};
use crate::event::Event;
use crate::state::{StateError, Visit};
use crate::time::Timestamp;

/// A question about a value.
pub type Predicate<T> = Box<dyn Fn(&T) -> bool + Send + Sync>;

/// Each event goes to the first branch whose predicate holds for it, or else to the rest.
pub struct Branch<T, N> {
    op: OpId,
    predicates: Vec<Predicate<T>>,
    nexts: Vec<N>,
}

impl<T, N> Branch<T, N> {
    /// Events for which the first predicate holds go to the first of `nexts`, and so on; those for
    /// which none holds go to the last.
    ///
    /// # Panics
    ///
    /// If `nexts` are not one more than `predicates`.
    pub fn new(op: OpId, predicates: Vec<Predicate<T>>, nexts: Vec<N>) -> Self {
        let (branches, all) = (predicates.len(), nexts.len());
        assert!(all == branches + 1, "{branches} predicates need one more consumer, not {all}");
        Self { op, predicates, nexts }
    }

    fn each<'a, S>(&'a self, states: &'a mut [S]) -> impl Iterator<Item = (&'a N, &'a mut S)> {
        self.nexts.iter().zip(states)
    }
}

impl<T, N> Consumer<T> for Branch<T, N>
where
    T: Send + 'static,
    N: Consumer<T>,
{
    type State = Vec<N::State>;

    const REMEMBERS: bool = N::REMEMBERS;

    fn state(&self) -> Self::State {
        self.nexts.iter().map(N::state).collect()
    }

    #[inline]
    fn event(&self, states: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        let chosen = cx.call(self.op, event.time, || {
            self.predicates.iter().position(|predicate| predicate(&event.value))
        });
        let chosen = chosen.unwrap_or(self.predicates.len());
        self.nexts[chosen].event(&mut states[chosen], cx, event);
    }

    fn watermark(&self, states: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.each(states).for_each(|(next, state)| next.watermark(state, cx, watermark));
    }

    fn end(&self, states: &mut Self::State, cx: &mut Cx) {
        self.each(states).for_each(|(next, state)| next.end(state, cx));
    }

    fn flush(&self, states: &mut Self::State, cx: &mut Cx) {
        self.each(states).for_each(|(next, state)| next.flush(state, cx));
    }

    fn next_timer(&self, states: &Self::State) -> Option<Timestamp> {
        self.nexts.iter().zip(states).filter_map(|(next, state)| next.next_timer(state)).min()
    }

    fn visit(&self, states: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        self.each(states).try_for_each(|(next, state)| next.visit(state, visit))
    }
}

/// Events that are on time go one way, late ones another.
///
/// The late ones are still late there, and get no watermark: nothing is promised about them until
/// they end.
pub struct SplitLate<A, B> {
    on_time: A,
    late: B,
}

impl<A, B> SplitLate<A, B> {
    /// Late events go to `late`, the others to `on_time`.
    pub fn new(on_time: A, late: B) -> Self {
        Self { on_time, late }
    }
}

impl<T, A, B> Consumer<T> for SplitLate<A, B>
where
    T: Send + 'static,
    A: Consumer<T>,
    B: Consumer<T>,
{
    type State = (A::State, B::State);

    const REMEMBERS: bool = A::REMEMBERS || B::REMEMBERS;

    fn state(&self) -> Self::State {
        (self.on_time.state(), self.late.state())
    }

    #[inline]
    fn event(&self, (on_time, late): &mut Self::State, cx: &mut Cx, event: Event<T>) {
        if cx.late {
            self.late.event(late, cx, event);
        } else {
            self.on_time.event(on_time, cx, event);
        }
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.on_time.watermark(&mut state.0, cx, watermark);
    }

    fn end(&self, (on_time, late): &mut Self::State, cx: &mut Cx) {
        self.on_time.end(on_time, cx);
        self.late.end(late, cx);
    }

    fn flush(&self, (on_time, late): &mut Self::State, cx: &mut Cx) {
        self.on_time.flush(on_time, cx);
        self.late.flush(late, cx);
    }

    fn next_timer(&self, (on_time, late): &Self::State) -> Option<Timestamp> {
        earlier(self.on_time.next_timer(on_time), self.late.next_timer(late))
    }

    fn visit(
        &self,
        (on_time, late): &mut Self::State,
        visit: &mut dyn Visit,
    ) -> Result<(), StateError> {
        self.on_time.visit(on_time, visit)?;
        self.late.visit(late, visit)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::harness::{Element, Input, OperatorHarness, Probe};

    fn at(time: i64) -> Timestamp {
        Timestamp::from_micros(time)
    }

    #[test]
    fn the_first_predicate_that_holds_decides() {
        let harness = OperatorHarness::new(|probe: Probe<i32>| {
            let predicates: Vec<Predicate<i32>> =
                vec![Box::new(|v| *v < 10), Box::new(|v| *v < 20)];
            Branch::new(OpId(1), predicates, (0..3).map(|port| probe.port(port)).collect())
        });
        let events = [5, 15, 25].map(|value| Input::Event(at(1), value));
        let outcome = harness.run(&[events.to_vec(), vec![Input::Watermark(at(2))]].concat());
        for (port, value) in [5, 15, 25].into_iter().enumerate() {
            let expected = [Element::Event(at(1), value, false), Element::Watermark(at(2))];
            assert_eq!(outcome.port(port), expected);
        }
        outcome.assert_conserved(0, |_| 1);
    }

    #[test]
    #[should_panic(expected = "2 predicates need one more consumer, not 2")]
    fn branches_without_a_rest_are_refused() {
        let never = || -> Predicate<i32> { Box::new(|_| false) };
        Branch::new(OpId(1), vec![never(), never()], vec![(), ()]);
    }

    #[test]
    fn late_events_go_their_own_way_and_get_no_watermark() {
        let harness =
            OperatorHarness::new(|probe: Probe<char>| SplitLate::new(probe.port(0), probe.port(1)));
        let outcome = harness.ordered(true).run(&[
            Input::Event(at(5), 'a'),
            Input::Watermark(at(5)),
            Input::LateEvent(at(3), 'b'),
            Input::End,
        ]);
        let on_time = [Element::Event(at(5), 'a', false), Element::Watermark(at(5)), Element::End];
        assert_eq!(outcome.port(0), on_time);
        assert_eq!(outcome.port(1), [Element::Event(at(3), 'b', true), Element::End]);
        outcome.assert_conserved(0, |_| 1);
    }
}
