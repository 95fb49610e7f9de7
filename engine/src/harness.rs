//! Drives any operator, and checks what comes out of it.
//!
//! An operator must not care how its input was cut: [`OperatorHarness`] runs it item by item,
//! batched, and, if asked, with its state saved and restored into a fresh operator after every step,
//! and demands the same output each time. What comes out must follow the grammar of a stream, which
//! [`Grammar`] can also check anywhere within a chain.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::event::Event;
use crate::operator::{Consumer, Counters, Cx, OpId};
use crate::state::{Cell, StateError, Visit};
use crate::sync::Mutex;
use crate::time::{Clock as _, ManualClock, Timestamp, is_late};

/// What is fed to an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<T> {
    /// An event that is on time.
    Event(Timestamp, T),
    /// An event that its source found late.
    LateEvent(Timestamp, T),
    /// The promise that no later event is earlier than this.
    Watermark(Timestamp),
    /// The clock shows this processing time now; it starts at the epoch. A batch ends there.
    Clock(Timestamp),
    /// There is no more.
    End,
}

/// What came out of an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Element<T> {
    /// An event: its time, its value, and whether it is late.
    Event(Timestamp, T, bool),
    /// A watermark.
    Watermark(Timestamp),
    /// The end.
    End,
}

/// What arrived, and at which port.
type Seen<T> = Vec<(usize, Element<T>)>;

/// Stands at the end of a chain and records what arrives.
pub struct Probe<T> {
    port: usize,
    seen: Arc<Mutex<Seen<T>>>,
}

impl<T> Default for Probe<T> {
    fn default() -> Self {
        Self { port: 0, seen: Arc::new(Mutex::new(Vec::new())) }
    }
}

impl<T> Probe<T> {
    /// A probe that has recorded nothing, for driving an operator by hand.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes out what has been recorded so far, of all ports together.
    pub fn take(&self) -> Vec<Element<T>> {
        let seen = std::mem::take(&mut *self.seen.lock());
        seen.into_iter().map(|(_, element)| element).collect()
    }

    /// A probe that records into the same list what arrives at another output of the operator. This
    /// one records port 0.
    pub fn port(&self, port: usize) -> Self {
        Self { port, seen: self.seen.clone() }
    }

    fn record(&self, element: Element<T>) {
        self.seen.lock().push((self.port, element));
    }
}

impl<T: Send + 'static> Consumer<T> for Probe<T> {
    type State = ();

    fn state(&self) {}

    fn event(&self, (): &mut (), cx: &mut Cx, event: Event<T>) {
        self.record(Element::Event(event.time, event.value, cx.late));
    }

    fn watermark(&self, (): &mut (), _: &mut Cx, watermark: Timestamp) {
        self.record(Element::Watermark(watermark));
    }

    fn end(&self, (): &mut (), _: &mut Cx) {
        self.record(Element::End);
    }

    fn flush(&self, (): &mut (), _: &mut Cx) {}

    fn next_timer(&self, (): &()) -> Option<Timestamp> {
        None
    }

    fn visit(&self, (): &mut (), _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}

/// What a stream has promised so far.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    watermark: Timestamp,
    ended: bool,
}

impl Default for Promise {
    fn default() -> Self {
        Self { watermark: Timestamp::MIN, ended: false }
    }
}

impl Promise {
    fn event(&self, time: Timestamp, late: bool) {
        assert!(!self.ended, "an event at {time} after the end");
        let watermark = self.watermark;
        assert!(
            late || !is_late(time, watermark),
            "an event at {time}, which is not called late, after the watermark {watermark}"
        );
    }

    fn watermark(&mut self, watermark: Timestamp) {
        assert!(!self.ended, "the watermark {watermark} after the end");
        let before = self.watermark;
        assert!(before <= watermark, "the watermark went back from {before} to {watermark}");
        self.watermark = watermark;
    }

    fn end(&mut self) {
        assert!(!self.ended, "the end came twice");
        self.ended = true;
    }
}

/// Passes everything on and panics, with the values, where it breaks the grammar of a stream: a
/// watermark goes back, an event that is not late is earlier than the watermark, something follows
/// the end.
///
/// ```should_panic
/// use mizzle_engine::harness::{Grammar, Input, OperatorHarness, Probe};
/// use mizzle_engine::time::Timestamp;
/// let harness = OperatorHarness::new(|probe: Probe<char>| Grammar::new(probe));
/// harness.run(&[Input::End, Input::Event(Timestamp::EPOCH, 'x')]);
/// ```
pub struct Grammar<N> {
    next: N,
}

impl<N> Grammar<N> {
    /// A checker in front of `next`.
    pub fn new(next: N) -> Self {
        Self { next }
    }
}

impl<T: Send + 'static, N: Consumer<T>> Consumer<T> for Grammar<N> {
    type State = (Promise, N::State);

    fn state(&self) -> Self::State {
        (Promise::default(), self.next.state())
    }

    fn event(&self, (promise, next): &mut Self::State, cx: &mut Cx, event: Event<T>) {
        promise.event(event.time, cx.late);
        self.next.event(next, cx, event);
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        state.0.watermark(watermark);
        self.next.watermark(&mut state.1, cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        state.0.end();
        self.next.end(&mut state.1, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        self.next.next_timer(&state.1)
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        self.next.visit(&mut state.1, visit)
    }
}

/// What a run of an operator gave.
#[derive(Clone, Debug)]
pub struct Outcome<U> {
    seen: Seen<U>,
    /// How many events went in.
    pub events_in: u64,
    /// What the operator counted.
    pub counters: Counters,
}

impl<U> Outcome<U> {
    /// What arrived at one output.
    pub fn port(&self, port: usize) -> Vec<Element<U>>
    where
        U: Clone,
    {
        let seen = self.seen.iter().filter(|(at, _)| *at == port);
        seen.map(|(_, element)| element.clone()).collect()
    }

    /// The events that arrived, at all outputs together, in order.
    pub fn events(&self) -> impl Iterator<Item = (Timestamp, &U)> {
        self.seen.iter().filter_map(|(_, element)| match element {
            Element::Event(time, value, _) => Some((*time, value)),
            _ => None,
        })
    }

    /// The values that arrived, at all outputs together, in order.
    pub fn values(&self) -> impl Iterator<Item = &U> {
        self.events().map(|(_, value)| value)
    }

    /// Every event that went in is accounted for: it is part of one result, was late, failed or was
    /// dropped, or is one of `filtered`. `events_in` says how many events a result stands for.
    ///
    /// # Panics
    ///
    /// If it is not so.
    pub fn assert_conserved(&self, filtered: u64, events_in: impl Fn(&U) -> u64) {
        let out: u64 = self.values().map(events_in).sum();
        let Counters { late, dropped, failed, .. } = self.counters;
        let went_in = self.events_in;
        assert!(
            went_in == out + late + dropped + failed + filtered,
            "{went_in} events went in, but {out} came out, {late} were late, {dropped} dropped, \
             {failed} failed and {filtered} filtered"
        );
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// A flush after every item.
    ItemByItem,
    /// One flush at the end.
    Batched,
    /// Item by item, and each item meets a fresh operator with the restored state.
    Restored,
}

/// Drives an operator in several ways.
///
/// ```
/// use mizzle_engine::harness::{Input, OperatorHarness, Probe};
/// use mizzle_engine::operator::{Map, OpId};
/// use mizzle_engine::time::Timestamp;
/// let harness = OperatorHarness::new(|probe: Probe<u64>| Map::<_, _, _, false>::new(OpId(1), |v: u64| v * 2, probe));
/// let outcome = harness.run(&[Input::Event(Timestamp::EPOCH, 21), Input::End]);
/// assert_eq!(outcome.values().collect::<Vec<_>>(), [&42]);
/// outcome.assert_conserved(0, |_| 1);
/// ```
pub struct OperatorHarness<B, U> {
    build: B,
    ordered: bool,
    restoring: bool,
    out: PhantomData<fn() -> U>,
}

impl<B, U, C> OperatorHarness<B, U>
where
    B: Fn(Probe<U>) -> C,
    U: Send + Debug + 'static,
{
    /// For the operator that `build` puts in front of a probe.
    pub fn new(build: B) -> Self {
        Self { build, ordered: false, restoring: false, out: PhantomData }
    }

    /// Whether the operator is part of an ordered chain; it is not unless this is said.
    pub fn ordered(self, ordered: bool) -> Self {
        Self { ordered, ..self }
    }

    /// Also saves the state after every step and restores it into a fresh operator. All state in
    /// the chain must have a name.
    pub fn restoring(self) -> Self {
        Self { restoring: true, ..self }
    }

    /// Feeds `inputs` in every mode.
    ///
    /// # Panics
    ///
    /// If the modes do not give the same output and counts, if `inputs` or the output break the
    /// grammar of a stream (in an ordered chain events that are not late must also be in order, on
    /// both sides), if the operator fails, or if a state cannot be saved and restored.
    pub fn run<T>(&self, inputs: &[Input<T>]) -> Outcome<U>
    where
        T: Clone,
        C: Consumer<T>,
    {
        self.check(inputs);
        let outcome = self.run_in(Mode::ItemByItem, inputs);
        let others = [Mode::Batched, Mode::Restored];
        for mode in others.into_iter().filter(|&mode| mode != Mode::Restored || self.restoring) {
            let other = self.run_in(mode, inputs);
            // By their texts, so that one NaN is like another.
            let (expected, got) = (format!("{outcome:#?}"), format!("{other:#?}"));
            assert!(expected == got, "ItemByItem gave {expected}\nbut {mode:?} gave {got}");
        }
        outcome
    }

    fn check<T>(&self, inputs: &[Input<T>]) {
        let (mut promise, mut newest) = (Promise::default(), Timestamp::MIN);
        for input in inputs {
            match *input {
                Input::Event(time, _) => {
                    promise.event(time, false);
                    assert!(
                        !self.ordered || newest <= time,
                        "an ordered input with an event at {time} after one at {newest}"
                    );
                    newest = newest.max(time);
                }
                Input::LateEvent(time, _) => promise.event(time, true),
                Input::Watermark(watermark) => promise.watermark(watermark),
                Input::Clock(_) => {}
                Input::End => promise.end(),
            }
        }
    }

    fn run_in<T>(&self, mode: Mode, inputs: &[Input<T>]) -> Outcome<U>
    where
        T: Clone,
        C: Consumer<T>,
    {
        let probe = Probe::new();
        let mut operator = (self.build)(probe.port(0));
        let mut state = operator.state();
        let (mut cx, clock) = (Cx::default(), ManualClock::default());
        cx.ordered = self.ordered;
        cx.by_clock(Arc::new(clock.clone()));
        let mut events_in = 0;
        for input in inputs {
            cx.late = matches!(input, Input::LateEvent(..));
            match input.clone() {
                Input::Event(time, value) | Input::LateEvent(time, value) => {
                    events_in += 1;
                    operator.event(&mut state, &mut cx, Event::new(time, value));
                }
                Input::Watermark(watermark) => operator.watermark(&mut state, &mut cx, watermark),
                Input::Clock(now) => {
                    operator.flush(&mut state, &mut cx);
                    clock.advance(now.since(clock.now()));
                    cx.begin_batch();
                    operator.flush(&mut state, &mut cx);
                }
                Input::End => operator.end(&mut state, &mut cx),
            }
            if mode != Mode::Batched {
                operator.flush(&mut state, &mut cx);
            }
            if mode == Mode::Restored {
                let mut saved = Save::default();
                operator.visit(&mut state, &mut saved).expect("the state is saved");
                operator = (self.build)(probe.port(0));
                state = operator.state();
                let mut restore = Restore(saved.0.into_iter());
                operator.visit(&mut state, &mut restore).expect("the state is restored");
            }
        }
        operator.flush(&mut state, &mut cx);
        if let Some(failure) = cx.take_failure() {
            panic!("the operator failed: {failure:?}");
        }
        let seen = std::mem::take(&mut *probe.seen.lock());
        check_ports(&seen, self.ordered);
        Outcome { seen, events_in, counters: cx.counters }
    }
}

fn check_ports<U>(seen: &[(usize, Element<U>)], ordered: bool) {
    let ports = seen.iter().map(|(port, _)| port + 1).max().unwrap_or(0);
    let mut promises = vec![(Promise::default(), Timestamp::MIN); ports];
    for (port, element) in seen {
        let (promise, newest) = &mut promises[*port];
        match *element {
            Element::Event(time, _, late) => {
                promise.event(time, late);
                if ordered && !late {
                    assert!(
                        *newest <= time,
                        "an ordered output with an event at {time} after one at {newest}"
                    );
                    *newest = time;
                }
            }
            Element::Watermark(watermark) => promise.watermark(watermark),
            Element::End => promise.end(),
        }
    }
}

/// Writes every state down.
#[derive(Default)]
struct Save(Vec<(OpId, Vec<u8>)>);

impl Visit for Save {
    fn state(&mut self, op: OpId, cell: &mut dyn Cell) -> Result<(), StateError> {
        let mut bytes = Vec::new();
        cell.save(&mut bytes)?;
        self.0.push((op, bytes));
        Ok(())
    }
}

/// Gives every state what was written down.
struct Restore(std::vec::IntoIter<(OpId, Vec<u8>)>);

impl Visit for Restore {
    fn state(&mut self, op: OpId, cell: &mut dyn Cell) -> Result<(), StateError> {
        match self.0.next() {
            Some((saved_by, bytes)) if saved_by == op => cell.restore(&bytes),
            other => {
                let found = other.map(|(saved_by, _)| saved_by);
                Err(StateError::Mismatch(format!("{op:?} found the state of {found:?}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{Apply, Map};
    use crate::state::Codec;

    fn at(time: i64) -> Timestamp {
        Timestamp::from_micros(time)
    }

    fn running_sum(probe: Probe<i64>) -> impl Consumer<i64> {
        let add = |sum: &mut i64, value: i64| {
            *sum += value;
            Some(*sum)
        };
        Apply::new(OpId(1), 0, add, Some(Codec::new("sum")), probe)
    }

    #[test]
    fn every_mode_gives_the_same() {
        let inputs = [1, 2, 3].map(|value| Input::Event(at(value), value));
        let outcome = OperatorHarness::new(running_sum).restoring().run(&inputs);
        assert_eq!(outcome.values().collect::<Vec<_>>(), [&1, &3, &6]);
        outcome.assert_conserved(0, |_| 1);
    }

    #[test]
    #[should_panic(expected = "but Restored gave")]
    fn state_that_visit_does_not_show_is_found_out() {
        /// Remembers how many events there were, and hides it.
        struct Forgetful(Probe<i64>);

        impl Consumer<i64> for Forgetful {
            type State = i64;

            fn state(&self) -> i64 {
                0
            }

            fn event(&self, count: &mut i64, cx: &mut Cx, event: Event<i64>) {
                *count += 1;
                self.0.event(&mut (), cx, event.map(|_| *count));
            }

            fn watermark(&self, _: &mut i64, cx: &mut Cx, watermark: Timestamp) {
                self.0.watermark(&mut (), cx, watermark);
            }

            fn end(&self, _: &mut i64, cx: &mut Cx) {
                self.0.end(&mut (), cx);
            }

            fn flush(&self, _: &mut i64, _: &mut Cx) {}

            fn next_timer(&self, _: &i64) -> Option<Timestamp> {
                None
            }

            fn visit(&self, _: &mut i64, _: &mut dyn Visit) -> Result<(), StateError> {
                Ok(())
            }
        }

        let inputs = [Input::Event(at(1), 0), Input::Event(at(2), 0)];
        OperatorHarness::new(Forgetful).restoring().run(&inputs);
    }

    #[test]
    #[should_panic(expected = "after the watermark")]
    fn the_grammar_finds_an_event_that_breaks_the_promise() {
        let grammar = Grammar::new(Probe::new());
        let (mut state, mut cx) = (grammar.state(), Cx::default());
        grammar.watermark(&mut state, &mut cx, at(5));
        grammar.event(&mut state, &mut cx, Event::new(at(5), 'x'));
        cx.late = true;
        grammar.event(&mut state, &mut cx, Event::new(at(4), 'x'));
        cx.late = false;
        grammar.event(&mut state, &mut cx, Event::new(at(4), 'x'));
    }

    #[test]
    #[should_panic(expected = "the watermark went back")]
    fn the_grammar_finds_a_watermark_that_goes_back() {
        let grammar = Grammar::new(Probe::<()>::new());
        let (mut state, mut cx) = (grammar.state(), Cx::default());
        grammar.watermark(&mut state, &mut cx, at(5));
        grammar.watermark(&mut state, &mut cx, at(4));
    }

    #[test]
    #[should_panic(expected = "1 events went in, but 2 came out")]
    fn an_event_too_many_is_found_out() {
        let harness = OperatorHarness::new(|probe: Probe<i64>| {
            Map::<_, _, _, false>::new(OpId(1), |v: i64| v, probe)
        });
        harness.run(&[Input::Event(at(1), 2)]).assert_conserved(0, |_| 2);
    }
}
