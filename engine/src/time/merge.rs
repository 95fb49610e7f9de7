//! Brings several inputs, each in order, into one order.

use std::collections::VecDeque;
use std::vec;

use super::turns::{Pair, Turns};
use super::{Inputs, Timestamp, is_due, is_late};
use crate::event::Event;

/// The union of several inputs that are each in order of time.
///
/// Events leave in order of time, those of one time in the order of the inputs as written, those of
/// one input in order of arrival. As its inputs are in order, an event is a promise too: nothing
/// earlier will come from there. Event `(t, i)` leaves when each other input that is waited for has
/// promised that nothing will come that belongs before it: more than `t` for an input before `i`, at
/// least `t` for one behind. What idleness means for the watermark, see [`Inputs`].
///
/// ```
/// use mizzle_engine::{Event, time::{Merge, Timestamp}};
/// let at = Timestamp::from_secs;
/// let mut merge = Merge::new(2);
/// merge.push(1, Event::new(at(1), "b"));
/// merge.push(0, Event::new(at(1), "a"));
/// merge.push(0, Event::new(at(2), "c"));
/// let mut seen = Vec::new();
/// merge.release(&mut seen);
/// assert_eq!(seen, [Event::new(at(1), "a"), Event::new(at(1), "b")]);
/// assert_eq!(merge.watermark(), at(1));
/// ```
pub struct Merge<T> {
    queues: Vec<Queue<T>>,
    /// Of each input, the time of its newest event: what it has promised beside its watermark.
    newest: Vec<Timestamp>,
    inputs: Inputs,
}

impl<T> Merge<T> {
    /// A union of `n` inputs.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(n: usize) -> Self {
        let mut queues = Vec::with_capacity(n);
        for _ in 0..n {
            queues.push(Queue::default());
        }
        Self { queues, newest: vec![Timestamp::MIN; n], inputs: Inputs::new(n) }
    }

    /// Takes an event of `input`. One that comes too late, because the input was idle or is not in
    /// order after all, is not taken: it belongs to the caller, who passes it on as late.
    #[inline]
    pub fn push(&mut self, input: usize, event: Event<T>) -> Result<(), Event<T>> {
        let promised = self.newest[input].max(self.inputs.watermark());
        if is_late(event.time, promised) {
            return Err(event);
        }
        self.newest[input] = event.time;
        self.queues[input].push(event);
        Ok(())
    }

    /// Takes a batch of events of `input`, without moving them one by one if they are in order as
    /// they should be. Those that come too late are handed to `stale`.
    pub fn push_batch(
        &mut self,
        input: usize,
        batch: Vec<Event<T>>,
        mut stale: impl FnMut(Event<T>),
    ) {
        let promised = self.newest[input].max(self.inputs.watermark());
        let mut newest = promised;
        let in_order = batch.iter().all(|event| {
            let fits = !is_late(event.time, newest);
            newest = event.time;
            fits
        });
        if in_order {
            self.newest[input] = newest;
            self.queues[input].push_run(batch);
        } else {
            for event in batch {
                if let Err(event) = self.push(input, event) {
                    stale(event);
                }
            }
        }
    }

    /// Adds to `into`, in order, every event that nothing can come before any more. What
    /// [`watermark`](Self::watermark) promises holds for what is left.
    pub fn release(&mut self, into: &mut Vec<Event<T>>) {
        if self.release_pair(&mut |event| into.push(event)) {
            return;
        }
        self.prepare();
        if let [only] = &mut self.queues[..] {
            let due = only.due(self.inputs.limit(0));
            into.reserve(due);
            return only.pop_many(due, into);
        }
        let mut turns = Turns::default();
        for (i, queue) in self.queues.iter().enumerate() {
            let due = queue.due(self.inputs.limit(i));
            queue.times(due, turns.of_next_input(due));
        }
        into.reserve(turns.len());
        while let Some((i, count)) = turns.next() {
            self.queues[i].pop_many(count, into);
        }
    }

    /// As [`release`](Self::release) for two inputs, without a list between: each event goes to `to`.
    /// `false`: there are not two, and nothing has happened.
    #[inline]
    pub fn release_pair(&mut self, to: &mut impl FnMut(Event<T>)) -> bool {
        if self.queues.len() != 2 {
            return false;
        }
        self.prepare();
        let limits = [self.inputs.limit(0), self.inputs.limit(1)];
        if let [first, second] = &mut self.queues[..] {
            let due = [first.due(limits[0]), second.due(limits[1])];
            merge_two([first, second], due, to);
        }
        true
    }

    /// Takes events as promises, and closes the runs that are still open.
    #[inline(never)]
    fn prepare(&mut self) {
        self.inputs.advance_all(&self.newest);
        for queue in &mut self.queues {
            queue.seal();
        }
    }

    /// The promise of the union, once [`release`](Self::release) has handed out what it may.
    #[inline(always)]
    pub fn watermark(&self) -> Timestamp {
        self.inputs.watermark()
    }

    /// How many events are waiting.
    pub fn pending(&self) -> usize {
        let mut pending = 0;
        for queue in &self.queues {
            pending += queue.len;
        }
        pending
    }

    /// How its inputs stand.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Where its inputs' watermarks, idleness and ends are told. What that sets free comes with the
    /// next [`release`](Self::release).
    pub fn inputs_mut(&mut self) -> &mut Inputs {
        &mut self.inputs
    }
}

/// The events of one input that wait, in the batches in which they came. None of them is empty.
///
/// What is done once per batch is kept out of line: it is compiled for each type of payload.
struct Queue<T> {
    runs: VecDeque<vec::IntoIter<Event<T>>>,
    /// Events that came one by one.
    single: Vec<Event<T>>,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { runs: VecDeque::new(), single: Vec::new(), len: 0 }
    }
}

impl<T> Queue<T> {
    fn push(&mut self, event: Event<T>) {
        self.single.push(event);
        self.len += 1;
    }

    fn push_run(&mut self, run: Vec<Event<T>>) {
        self.seal();
        if !run.is_empty() {
            self.len += run.len();
            self.runs.push_back(run.into_iter());
        }
    }

    /// Makes a run of what came one by one.
    #[inline(never)]
    fn seal(&mut self) {
        if !self.single.is_empty() {
            self.runs.push_back(std::mem::take(&mut self.single).into_iter());
        }
    }

    /// How many events go up to `limit`; without one, none.
    #[inline(never)]
    fn due(&self, limit: Option<Timestamp>) -> usize {
        let Some(limit) = limit else { return 0 };
        let mut due = 0;
        for run in &self.runs {
            let run = run.as_slice();
            if run.last().is_some_and(|event| is_due(event.time, limit)) {
                due += run.len();
            } else {
                return due + run.partition_point(|event| is_due(event.time, limit));
            }
        }
        due
    }

    /// The times of its first `due` events.
    fn times(&self, mut due: usize, into: &mut Vec<Timestamp>) {
        for run in &self.runs {
            let of_run = due.min(run.len());
            for event in &run.as_slice()[..of_run] {
                into.push(event.time);
            }
            due -= of_run;
            if due == 0 {
                return;
            }
        }
    }

    /// The earliest run's length.
    fn run_len(&self) -> usize {
        self.runs.front().map_or(0, |run| run.len())
    }

    /// Takes the earliest run out, to be given [back](Self::put_front).
    #[inline(never)]
    fn take_front(&mut self) -> vec::IntoIter<Event<T>> {
        self.runs.front_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Gives the earliest run back, without `taken` of its events.
    #[inline(never)]
    fn put_front(&mut self, run: vec::IntoIter<Event<T>>, taken: usize) {
        self.len -= taken;
        if let Some(front) = self.runs.front_mut() {
            *front = run;
            self.drop_empty();
        }
    }

    #[inline(never)]
    fn pop_many(&mut self, mut count: usize, into: &mut Vec<Event<T>>) {
        self.len -= count;
        while count > 0
            && let Some(run) = self.runs.front_mut()
        {
            let of_run = count.min(run.len());
            for _ in 0..of_run {
                let Some(event) = run.next() else { break };
                into.push(event);
            }
            count -= of_run;
            self.drop_empty();
        }
    }

    #[inline(never)]
    fn drop_empty(&mut self) {
        if self.run_len() == 0 {
            self.runs.pop_front();
        }
        if self.runs.is_empty() {
            self.runs = VecDeque::new();
        }
    }
}

/// The times of a run's first events.
#[inline(never)]
fn lay_out<T>(run: &[Event<T>], times: &mut [Timestamp]) {
    for (time, event) in times.iter_mut().zip(run) {
        *time = event.time;
    }
}

/// A stretch at a time: whose turn it is is found out first, without the events.
#[inline(always)]
fn merge_two<T>(queues: [&mut Queue<T>; 2], mut due: [usize; 2], to: &mut impl FnMut(Event<T>)) {
    let mut pair = Pair::new();
    while due[0] + due[1] > 0 {
        let mut sides = [queues[0].take_front(), queues[1].take_front()];
        let can = [due[0].min(sides[0].len()), due[1].min(sides[1].len())];
        if can[0].min(can[1]) > 0 {
            for (times, side) in pair.times.iter_mut().zip(&sides) {
                lay_out(side.as_slice(), times);
            }
        }
        let (turns, taken) = pair.turns(can);
        for &turn in turns {
            if let Some(event) = sides[usize::from(turn) & 1].next() {
                to(event);
            }
        }
        let [first, second] = sides;
        queues[0].put_front(first, taken[0]);
        queues[1].put_front(second, taken[1]);
        due = [due[0] - taken[0], due[1] - taken[1]];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Status;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn release<T>(merge: &mut Merge<T>) -> Vec<(i64, T)> {
        let mut seen = Vec::new();
        merge.release(&mut seen);
        seen.into_iter().map(|event| (event.time.as_micros(), event.value)).collect()
    }

    /// Pushes and releases: what leaves at this step.
    fn step<T: std::fmt::Debug>(merge: &mut Merge<T>, i: usize, t: i64, value: T) -> Vec<(i64, T)> {
        merge.push(i, Event::new(at(t), value)).unwrap();
        release(merge)
    }

    fn promise<T>(merge: &mut Merge<T>, i: usize, watermark: i64) -> Vec<(i64, T)> {
        merge.inputs_mut().advance(i, at(watermark));
        release(merge)
    }

    /// MIST's order, but `d` waits: another event of input 0 at time 1 would belong before it.
    #[test]
    fn mist_union_01_events_are_promises() {
        let mut merge = Merge::new(2);
        assert_eq!(step(&mut merge, 0, 1, 'a'), []);
        assert_eq!(step(&mut merge, 1, 1, 'd'), [(1, 'a')]);
        assert_eq!(step(&mut merge, 1, 2, 'e'), []);
        assert_eq!(step(&mut merge, 1, 4, 'f'), []);
        assert_eq!(step(&mut merge, 0, 3, 'b'), [(1, 'd'), (2, 'e'), (3, 'b')]);
        assert_eq!(promise(&mut merge, 1, 3), []);
        assert_eq!(merge.watermark(), at(3));
        assert_eq!(step(&mut merge, 0, 5, 'c'), [(4, 'f')]);
        assert_eq!(promise(&mut merge, 0, 9), []);
        assert_eq!(promise(&mut merge, 0, 10), []);
        assert_eq!(step(&mut merge, 1, 6, 'g'), [(5, 'c'), (6, 'g')]);
        promise(&mut merge, 1, 11);
        assert_eq!(merge.watermark(), at(10));
    }

    #[test]
    fn mist_union_03_an_input_that_goes_back_is_late() {
        let mut merge = Merge::new(2);
        assert_eq!(step(&mut merge, 0, 5, 'a'), []);
        assert_eq!(merge.push(0, Event::new(at(4), 'b')), Err(Event::new(at(4), 'b')));
    }

    #[test]
    fn mist_union_05_and_06_a_silent_input_with_a_promise() {
        let mut merge = Merge::new(2);
        assert_eq!(promise(&mut merge, 0, 10), []);
        assert_eq!(step(&mut merge, 1, 3, 'x'), [(3, 'x')]);
        promise(&mut merge, 1, 7);
        assert_eq!(merge.watermark(), at(7));
        assert_eq!(step(&mut merge, 1, 9, 'y'), [(9, 'y')]);
        promise(&mut merge, 1, 12);
        promise(&mut merge, 0, 8);
        assert_eq!(merge.watermark(), at(10));
    }

    #[test]
    fn ties_go_by_input_and_wait_for_the_earlier_input() {
        let mut merge = Merge::new(3);
        assert_eq!(step(&mut merge, 1, 5, 'b'), []);
        assert_eq!(promise(&mut merge, 2, 5), []);
        assert_eq!(promise(&mut merge, 0, 5), []);
        assert_eq!(step(&mut merge, 0, 5, 'a'), [(5, 'a')]);
        assert_eq!(promise(&mut merge, 0, 6), [(5, 'b')]);
        assert_eq!(step(&mut merge, 2, 5, 'c'), []);
        assert_eq!(promise(&mut merge, 1, 6), [(5, 'c')]);
    }

    #[test]
    fn wm_01_a_finished_input_holds_nothing_back() {
        let mut merge = Merge::new(2);
        assert_eq!(step(&mut merge, 1, 2, 'b'), []);
        merge.inputs_mut().finish(1);
        assert_eq!(step(&mut merge, 0, 1, 'a'), [(1, 'a')]);
        assert_eq!(step(&mut merge, 0, 5, 'c'), [(2, 'b'), (5, 'c')]);
        assert_eq!(merge.watermark(), at(5));
        merge.inputs_mut().finish(0);
        assert_eq!(release(&mut merge), []);
        assert_eq!((merge.watermark(), merge.inputs().status()), (Timestamp::MAX, Status::Ended));
    }

    #[test]
    fn wm_02_an_idle_input_is_not_waited_for_and_comes_back_late() {
        let mut merge = Merge::new(2);
        (1..4).for_each(|t| assert_eq!(step(&mut merge, 0, t, 'a'), []));
        assert_eq!((merge.inputs().holding(), merge.pending()), (Some(1), 3));
        merge.inputs_mut().idle(1);
        assert_eq!(release(&mut merge).len(), 3);
        assert_eq!(merge.watermark(), at(3));
        merge.inputs_mut().active(1);
        assert!(merge.push(1, Event::new(at(2), 'b')).is_err());
        assert_eq!(step(&mut merge, 0, 6, 'a'), [(6, 'a')]);
        assert_eq!(step(&mut merge, 1, 7, 'b'), []);
        assert_eq!(step(&mut merge, 0, 8, 'a'), [(7, 'b')]);
    }

    #[test]
    fn wm_05_all_idle_releases_everything_whoever_was_first() {
        for order in [[0, 1], [1, 0]] {
            let mut merge = Merge::new(2);
            assert_eq!(step(&mut merge, 0, 5, 'a'), []);
            promise(&mut merge, 1, 4);
            let mut seen = Vec::new();
            for i in order {
                merge.inputs_mut().idle(i);
                seen.extend(release(&mut merge));
            }
            assert_eq!((seen, merge.watermark()), (vec![(5, 'a')], at(5)));
        }
    }

    #[test]
    fn an_ended_input_and_idle_ones_leave_nothing_waiting() {
        let mut merge = Merge::new(2);
        merge.push(0, Event::new(at(9), 'a')).unwrap();
        merge.inputs_mut().advance(0, at(3));
        merge.inputs_mut().finish(0);
        assert_eq!(release(&mut merge), []);
        merge.inputs_mut().idle(1);
        assert_eq!(release(&mut merge), [(9, 'a')]);
        assert_eq!(merge.watermark(), at(9));
    }

    #[test]
    fn the_ends_of_time_are_times_like_others() {
        let mut merge = Merge::new(2);
        assert_eq!(step(&mut merge, 1, i64::MIN, 'b'), []);
        assert_eq!(step(&mut merge, 0, i64::MIN, 'a'), [(i64::MIN, 'a')]);
        assert_eq!(step(&mut merge, 0, i64::MAX, 'c'), [(i64::MIN, 'b')]);
        assert_eq!(step(&mut merge, 1, i64::MAX, 'd'), [(i64::MAX, 'c')]);
        merge.inputs_mut().finish(0);
        assert_eq!(release(&mut merge), [(i64::MAX, 'd')]);
    }

    #[test]
    fn memory_is_given_back() {
        let mut merge = Merge::new(2);
        (0..50_000).for_each(|t| merge.push(0, Event::new(at(t), 'a')).unwrap());
        promise(&mut merge, 1, 50_000);
        assert_eq!((merge.pending(), merge.queues[0].runs.capacity()), (0, 0));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// So much after the input's last event.
        Event(usize, i64),
        /// So much after its last promise.
        Promise(usize, i64),
        Idle(usize),
        Active(usize),
        End(usize),
        Release,
    }

    fn steps(idleness: bool) -> impl Strategy<Value = (usize, Vec<Step>)> {
        (1usize..12).prop_flat_map(move |n| {
            let step = (0..n, 0i64..4, 0u8..24).prop_map(move |(i, by, what)| match what {
                0 | 1 => Step::Promise(i, by),
                2 | 3 => Step::Release,
                4 if by == 0 => Step::End(i),
                5 if idleness => Step::Idle(i),
                6 if idleness => Step::Active(i),
                _ => Step::Event(i, by),
            });
            (Just(n), prop::collection::vec(step, 0..300))
        })
    }

    type Sent = (i64, usize, usize);

    /// What leaves, what is late and what was pushed, each as (time, input, arrival).
    fn run(n: usize, steps: &[Step]) -> (Vec<Sent>, Vec<Sent>, Vec<Sent>) {
        let mut merge = Merge::new(n);
        let (mut seen, mut late, mut pushed) = (Vec::new(), Vec::new(), Vec::new());
        let mut clocks = vec![0; n];
        let mut ended = vec![false; n];
        for step in steps {
            match *step {
                Step::Event(i, by) if !ended[i] => {
                    clocks[i] += by;
                    let sent = (clocks[i], i, pushed.len());
                    pushed.push(sent);
                    if let Err(event) = merge.push(i, Event::new(at(clocks[i]), sent)) {
                        late.push(event.value);
                    }
                }
                Step::Promise(i, by) if !ended[i] => {
                    clocks[i] += by;
                    merge.inputs_mut().advance(i, at(clocks[i]));
                }
                Step::Idle(i) => merge.inputs_mut().idle(i),
                Step::Active(i) => merge.inputs_mut().active(i),
                Step::End(i) => {
                    merge.inputs_mut().finish(i);
                    ended[i] = true;
                }
                Step::Release => {
                    let promised = merge.watermark();
                    seen.extend(release(&mut merge).into_iter().map(|(_, sent)| sent));
                    assert!(merge.watermark() >= promised);
                    for queue in &merge.queues {
                        let mut head = Vec::new();
                        queue.times(1, &mut head);
                        let held = head.iter().all(|time| *time >= merge.watermark());
                        assert!(held, "held back below the promise");
                    }
                }
                Step::Event(..) | Step::Promise(..) => {}
            }
        }
        (0..n).for_each(|i| merge.inputs_mut().finish(i));
        seen.extend(release(&mut merge).into_iter().map(|(_, sent)| sent));
        assert_eq!(merge.pending(), 0);
        (seen, late, pushed)
    }

    proptest! {
        #[test]
        fn a_stable_sort_however_it_is_cut((n, steps) in steps(false)) {
            let (seen, late, mut pushed) = run(n, &steps);
            pushed.sort_by_key(|(time, input, _)| (*time, *input));
            prop_assert_eq!(late, vec![]);
            prop_assert_eq!(seen, pushed);
        }

        #[test]
        fn with_idleness_nothing_is_lost_and_time_does_not_go_back((n, steps) in steps(true)) {
            let (seen, late, mut pushed) = run(n, &steps);
            prop_assert!(seen.is_sorted_by_key(|(time, ..)| *time));
            let mut all = [seen, late].concat();
            all.sort_unstable();
            pushed.sort_unstable();
            prop_assert_eq!(all, pushed);
        }
    }
}
