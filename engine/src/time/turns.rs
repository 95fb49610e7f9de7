//! Whose turn it is when several inputs are merged: found out from the events' times alone, so that it is
//! compiled once and not for each type of payload.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Timestamp;

/// Up to so many inputs, looking at each of them is the fastest way to find the earliest.
const FEW: usize = 8;

/// The turns of several inputs, each in order of time: the earliest goes first, of events of one time that
/// of the first input.
#[derive(Default)]
pub(super) struct Turns {
    /// Of all inputs, one after the other.
    times: Vec<Timestamp>,
    /// Of each input, what is left of its times.
    left: Vec<(usize, usize)>,
    /// The inputs' earliest times, where they are many.
    heads: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

impl Turns {
    /// Where the times of the next input are added, `count` of them.
    pub(super) fn of_next_input(&mut self, count: usize) -> &mut Vec<Timestamp> {
        let from = self.times.len();
        self.left.push((from, from + count));
        self.times.reserve(count);
        &mut self.times
    }

    /// How many times there are.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// The next input, and how many of its events come before all others.
    pub(super) fn next(&mut self) -> Option<(usize, usize)> {
        let (i, other) = if self.left.len() <= FEW { self.look() } else { self.pop() }?;
        let (from, to) = self.left[i];
        let mut until = from + 1;
        while until < to && other.is_none_or(|other| (self.times[until], i) < other) {
            until += 1;
        }
        self.left[i].0 = until;
        if self.left.len() > FEW
            && let Some(time) = self.head(i)
        {
            self.heads.push(Reverse((time, i)));
        }
        Some((i, until - from))
    }

    /// The input whose turn it is, and the earliest of the others.
    fn look(&self) -> Option<(usize, Option<(Timestamp, usize)>)> {
        let (mut best, mut other) = (None, None);
        for i in 0..self.left.len() {
            let Some(time) = self.head(i) else { continue };
            if best.is_none_or(|best| (time, i) < best) {
                other = best;
                best = Some((time, i));
            } else if other.is_none_or(|other| (time, i) < other) {
                other = Some((time, i));
            }
        }
        best.map(|(_, i)| (i, other))
    }

    /// The same, from the heap.
    fn pop(&mut self) -> Option<(usize, Option<(Timestamp, usize)>)> {
        if self.heads.is_empty() {
            // The first turn, or the last has been.
            let heads = (0..self.left.len()).filter_map(|i| Some(Reverse((self.head(i)?, i))));
            self.heads = heads.collect();
        }
        let Reverse((_, i)) = self.heads.pop()?;
        Some((i, self.heads.peek().map(|Reverse(other)| *other)))
    }

    fn head(&self, i: usize) -> Option<Timestamp> {
        let (from, to) = self.left[i];
        self.times[from..to].first().copied()
    }
}

/// How many turns of two inputs are found out at a time.
pub(super) const STRETCH: usize = 256;

/// The turns of two inputs, a stretch at a time.
///
/// Which of two random streams is next cannot be predicted, so there is no branch on it: as many turns as
/// either can take for sure are counted by index. The times are laid out first, so that finding the next turn
/// does not have to wait until the last event is out of its queue.
pub(super) struct Pair {
    /// The first of each input.
    pub(super) times: [[Timestamp; STRETCH]; 2],
    turns: [u8; STRETCH],
}

impl Pair {
    #[inline]
    pub(super) fn new() -> Self {
        Self { times: [[Timestamp::MAX; STRETCH]; 2], turns: [0; STRETCH] }
    }

    /// Whose turns come, where the inputs have so many events, and how many each takes.
    pub(super) fn turns(&mut self, can: [usize; 2]) -> (&[u8], [usize; 2]) {
        let fewer = can[0].min(can[1]);
        let mut taken = [0; 2];
        if fewer == 0 {
            // Where one has nothing, the other's turn it always is.
            let only = usize::from(can[0] == 0);
            let sure = can[only].min(STRETCH);
            self.turns[..sure].fill(only as u8);
            taken[only] = sure;
            return (&self.turns[..sure], taken);
        }
        let sure = fewer.min(STRETCH);
        let [first, second] = &self.times;
        for turn in &mut self.turns[..sure] {
            let is_second = second[taken[1]] < first[taken[0]];
            *turn = u8::from(is_second);
            taken[0] += usize::from(!is_second);
            taken[1] += usize::from(is_second);
        }
        (&self.turns[..sure], taken)
    }
}
