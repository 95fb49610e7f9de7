//! The watermark of several inputs together.

use super::Timestamp;

/// How an input, or all of them together, stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// More may come, and is waited for.
    Active,
    /// More may come, but nobody waits for it.
    Idle,
    /// Nothing more will come.
    Ended,
}

/// Combines the watermarks of several inputs into one.
///
/// It is the minimum over the inputs that are neither ended nor idle, and never goes back. When
/// nothing but idle inputs is left to wait for, it is the maximum of what all inputs have promised,
/// whichever became idle first. An input that wakes below it is not waited for until it has caught
/// up; what it brings meanwhile below the combined watermark is late. Only the newest watermark of
/// each input is kept.
///
/// ```
/// use mizzle_engine::time::{Inputs, Timestamp};
/// let mut inputs = Inputs::new(2);
/// inputs.advance(0, Timestamp::from_secs(9));
/// inputs.advance(1, Timestamp::from_secs(3));
/// assert_eq!(inputs.watermark(), Timestamp::from_secs(3));
/// assert_eq!(inputs.holding(), Some(1));
/// inputs.finish(1);
/// assert_eq!(inputs.watermark(), Timestamp::from_secs(9));
/// ```
#[derive(Clone, Debug)]
pub struct Inputs {
    inputs: Vec<Input>,
    combined: Timestamp,
}

#[derive(Clone, Debug)]
struct Input {
    watermark: Timestamp,
    status: Status,
    /// It woke below the combined watermark and has not caught up.
    behind: bool,
}

impl Input {
    /// Whether the others have to wait for it.
    fn counts(&self) -> bool {
        self.status == Status::Active && !self.behind
    }
}

impl Inputs {
    /// `n` active inputs that have promised nothing.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(n: usize) -> Self {
        assert!(n > 0, "no inputs to combine");
        let input = Input { watermark: Timestamp::MIN, status: Status::Active, behind: false };
        Self { inputs: vec![input; n], combined: Timestamp::MIN }
    }

    /// How many inputs there are.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Input `i` promises `watermark`; one below its last is ignored.
    pub fn advance(&mut self, i: usize, watermark: Timestamp) {
        let input = &mut self.inputs[i];
        if watermark <= input.watermark {
            return;
        }
        input.watermark = watermark;
        input.behind &= watermark < self.combined;
        self.combine();
    }

    /// Each input promises the watermark at its place.
    pub(super) fn advance_all(&mut self, watermarks: &[Timestamp]) {
        for (i, watermark) in watermarks.iter().enumerate() {
            self.advance(i, *watermark);
        }
    }

    /// The latest time at which an event of input `i` may go in a merge, as far as the others have
    /// promised. `None`: none may.
    pub(super) fn limit(&self, i: usize) -> Option<Timestamp> {
        let mut limit = Some(Timestamp::MAX);
        let mut waits = self.counts(i);
        for j in (0..self.len()).filter(|&j| j != i && self.counts(j)) {
            let promise = self.watermark_of(j);
            // An input before `i` may still bring an event at its watermark, which goes first.
            let reach = match promise {
                Timestamp::MIN if j < i => None,
                promise if j < i => Some(promise.previous()),
                promise => Some(promise),
            };
            limit = limit.min(reach);
            waits = true;
        }
        if waits { limit } else { Some(self.watermark()) }
    }

    /// Input `i` is not waited for until it is [`active`](Self::active) again. Without effect on one
    /// that has ended.
    pub fn idle(&mut self, i: usize) {
        self.change(i, Status::Idle);
    }

    /// Input `i` is waited for again, once it has caught up. Without effect on one that has ended.
    pub fn active(&mut self, i: usize) {
        self.change(i, Status::Active);
    }

    /// Input `i` has ended.
    pub fn finish(&mut self, i: usize) {
        self.change(i, Status::Ended);
    }

    fn change(&mut self, i: usize, status: Status) {
        let input = &mut self.inputs[i];
        if input.status == status || input.status == Status::Ended {
            return;
        }
        input.status = status;
        input.behind = input.watermark < self.combined;
        self.combine();
    }

    /// No later event of any input is earlier than this; events that nevertheless are, after an
    /// input was idle, are late. [`Timestamp::MAX`] when all have ended.
    #[inline(always)]
    pub fn watermark(&self) -> Timestamp {
        self.combined
    }

    /// What input `i` has promised; stays what it was when it ended.
    pub fn watermark_of(&self, i: usize) -> Timestamp {
        self.inputs[i].watermark
    }

    /// Whether input `i` is waited for: it is active and not behind the combined watermark.
    pub fn counts(&self, i: usize) -> bool {
        self.inputs[i].counts()
    }

    /// Active if any input is, idle if some are and the others have ended, ended if all are.
    pub fn status(&self) -> Status {
        let any = |status| self.inputs.iter().any(|input| input.status == status);
        if any(Status::Active) {
            Status::Active
        } else if any(Status::Idle) {
            Status::Idle
        } else {
            Status::Ended
        }
    }

    /// The input that holds the combined watermark back: the first of those waited for that have
    /// promised least.
    pub fn holding(&self) -> Option<usize> {
        let waited_for = (0..self.inputs.len()).filter(|&i| self.counts(i));
        waited_for.min_by_key(|&i| self.inputs[i].watermark)
    }

    fn combine(&mut self) {
        let counting = self.inputs.iter().filter(|input| input.counts());
        let now = match counting.map(|input| input.watermark).min() {
            Some(least) => least,
            None => match self.status() {
                // All that are active are behind.
                Status::Active => self.combined,
                // An ended input's promise counts here too: otherwise it would matter whether it
                // ended before or after the others became idle.
                Status::Idle => self.newest(),
                Status::Ended => Timestamp::MAX,
            },
        };
        self.combined = self.combined.max(now);
    }

    /// How many inputs have ended.
    pub fn ended(&self) -> usize {
        self.inputs.iter().filter(|input| input.status == Status::Ended).count()
    }

    /// The most that any input has promised; an end is no such promise.
    pub fn newest(&self) -> Timestamp {
        let watermarks = self.inputs.iter().map(|input| input.watermark);
        watermarks.max().unwrap_or(Timestamp::MIN)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Wm(usize, i64),
        Idle(usize),
        Active(usize),
        End(usize),
    }
    use Step::{Active, End, Idle, Wm};

    fn apply(inputs: &mut Inputs, step: Step) {
        match step {
            Wm(i, w) => inputs.advance(i, at(w)),
            Idle(i) => inputs.idle(i),
            Active(i) => inputs.active(i),
            End(i) => inputs.finish(i),
        }
    }

    /// What leaves after each step: a watermark only where it rises, a status where it changes.
    fn leaving(n: usize, steps: &[Step]) -> Vec<(Option<i64>, Option<Status>)> {
        let mut inputs = Inputs::new(n);
        let step = |step: &Step| {
            let (watermark, status) = (inputs.watermark(), inputs.status());
            apply(&mut inputs, *step);
            (
                (inputs.watermark() > watermark).then(|| inputs.watermark().as_micros()),
                (inputs.status() != status).then(|| inputs.status()),
            )
        };
        steps.iter().map(step).collect()
    }

    const NOTHING: (Option<i64>, Option<Status>) = (None, None);

    fn wm(micros: i64) -> (Option<i64>, Option<Status>) {
        (Some(micros), None)
    }

    fn status(status: Status) -> (Option<i64>, Option<Status>) {
        (None, Some(status))
    }

    #[test]
    fn wm_01_a_finished_input_holds_nothing_back() {
        let steps = [Wm(1, 2), End(1), Wm(0, 5), Wm(0, 12)];
        assert_eq!(leaving(2, &steps), [NOTHING, NOTHING, wm(5), wm(12)]);
    }

    #[test]
    fn wm_02_a_silent_input_holds_back_until_it_is_idle_and_is_named() {
        let mut inputs = Inputs::new(2);
        inputs.advance(0, at(11));
        assert_eq!((inputs.watermark(), inputs.holding()), (Timestamp::MIN, Some(1)));
        inputs.idle(1);
        assert_eq!((inputs.watermark(), inputs.holding()), (at(11), Some(0)));
    }

    #[test]
    fn wm_05_all_idle_does_not_depend_on_who_was_first() {
        for order in [[0, 1], [1, 0]] {
            let mut inputs = Inputs::new(2);
            inputs.advance(0, at(5));
            inputs.advance(1, at(4));
            order.iter().for_each(|&i| inputs.idle(i));
            assert_eq!((inputs.watermark(), inputs.status()), (at(5), Status::Idle));
            assert_eq!(inputs.holding(), None);
        }
    }

    #[test]
    fn idle_then_ended_is_ended_then_idle() {
        for steps in [[Idle(0), End(1)], [End(1), Idle(0)]] {
            let mut inputs = Inputs::new(2);
            apply(&mut inputs, Wm(0, 5));
            apply(&mut inputs, Wm(1, 100));
            steps.into_iter().for_each(|step| apply(&mut inputs, step));
            assert_eq!((inputs.watermark(), inputs.status()), (at(100), Status::Idle));
        }
    }

    #[test]
    fn wm_08_only_the_newest_watermark_of_an_input_is_kept() {
        let mut inputs = Inputs::new(2);
        inputs.advance(1, at(0));
        let before = inputs.inputs.capacity();
        (1..100_000).for_each(|w| inputs.advance(0, at(w)));
        assert_eq!((inputs.watermark(), inputs.watermark_of(0)), (at(0), at(99_999)));
        assert_eq!(inputs.inputs.capacity(), before);
    }

    #[test]
    fn flink_valve_rising_and_falling() {
        assert_eq!(leaving(1, &[Wm(0, 0), Wm(0, 25)]), [wm(0), wm(25)]);
        assert_eq!(leaving(1, &[Wm(0, 25), Wm(0, 18), Wm(0, 42)]), [wm(25), NOTHING, wm(42)]);
    }

    #[test]
    fn flink_valve_status() {
        let steps = [Active(0), Idle(0), Idle(0), Active(0)];
        let expected = [NOTHING, status(Status::Idle), NOTHING, status(Status::Active)];
        assert_eq!(leaving(1, &steps), expected);
    }

    /// Where Flink wants a promise made while idle to be repeated, it is kept here.
    #[test]
    fn flink_valve_04_differs_a_promise_while_idle_counts() {
        let steps = [Wm(0, 25), Idle(0), Wm(0, 50), Active(0), Wm(0, 50)];
        let expected = [wm(25), status(Status::Idle), wm(50), status(Status::Active), NOTHING];
        assert_eq!(leaving(1, &steps), expected);
    }

    #[test]
    fn flink_valve_idleness_releases_the_minimum_of_the_rest() {
        let steps = [Wm(0, 15), Wm(1, 10), Idle(2), Wm(1, 18), Wm(0, 20)];
        assert_eq!(leaving(3, &steps), [NOTHING, NOTHING, wm(10), wm(15), wm(18)]);
        let steps = [Wm(0, 25), Wm(1, 10), Wm(2, 17), Idle(1), Idle(2)];
        assert_eq!(leaving(3, &steps), [NOTHING, NOTHING, wm(10), wm(17), wm(25)]);
        let steps = [Wm(0, 10), Wm(1, 5), Wm(2, 3), Idle(0), Idle(1), Idle(2)];
        let last = (Some(10), Some(Status::Idle));
        assert_eq!(leaving(3, &steps), [NOTHING, NOTHING, wm(3), NOTHING, NOTHING, last]);
    }

    #[test]
    fn flink_valve_12_who_wakes_behind_is_not_waited_for() {
        let woken = [Wm(0, 10), Wm(1, 7), Wm(2, 3), Idle(2), Active(2), Wm(2, 5)];
        let mut steps = woken.to_vec();
        steps.extend([Wm(2, 9), Wm(1, 12)]);
        let seen = leaving(3, &steps);
        assert_eq!(seen[2..], [wm(3), wm(7), NOTHING, NOTHING, NOTHING, wm(9)]);
        let mut steps = woken.to_vec();
        steps.push(Wm(1, 12));
        assert_eq!(leaving(3, &steps).last(), Some(&wm(10)));
    }

    #[test]
    fn jet_coalescing() {
        let steps = [Wm(0, 100), Wm(1, 101), Wm(0, 101)];
        assert_eq!(leaving(2, &steps), [NOTHING, wm(100), wm(101)]);
        assert_eq!(leaving(2, &[Idle(1)]), [NOTHING]);
        assert_eq!(leaving(2, &[Idle(0)]), [NOTHING]);
        assert_eq!(leaving(2, &[Idle(0), Idle(1)]), [NOTHING, status(Status::Idle)]);
        assert_eq!(leaving(2, &[Wm(0, 100), End(1)]), [NOTHING, wm(100)]);
        assert_eq!(leaving(3, &[Idle(0), Idle(1)]), [NOTHING, NOTHING]);
    }

    /// Where Jet calls it an error that an input that has ended is idle, it is ignored here.
    #[test]
    fn jet_co_23_differs_nothing_changes_after_the_end() {
        let steps = [End(0), Idle(0), Active(0), Wm(0, 3), Wm(1, 7)];
        assert_eq!(leaving(2, &steps), [NOTHING, NOTHING, NOTHING, NOTHING, wm(7)]);
        let steps = [End(0), End(1)];
        let last = (Some(i64::MAX), Some(Status::Ended));
        assert_eq!(leaving(2, &steps), [NOTHING, last]);
    }

    fn steps(n: usize) -> impl Strategy<Value = Vec<Step>> {
        let step = (0..n, 0i64..20, 0u8..8).prop_map(|(i, w, what)| match what {
            0 => Idle(i),
            1 => Active(i),
            2 => End(i),
            _ => Wm(i, w),
        });
        prop::collection::vec(step, 0..40)
    }

    proptest! {
        #[test]
        fn never_back_and_never_past_an_input_that_counts(steps in steps(3)) {
            let mut inputs = Inputs::new(3);
            let mut last = Timestamp::MIN;
            for step in steps {
                apply(&mut inputs, step);
                prop_assert!(inputs.watermark() >= last);
                last = inputs.watermark();
                for i in (0..3).filter(|&i| inputs.counts(i)) {
                    prop_assert!(last <= inputs.watermark_of(i));
                }
                if let Some(i) = inputs.holding() {
                    prop_assert_eq!(last, inputs.watermark_of(i));
                }
            }
        }
    }
}
