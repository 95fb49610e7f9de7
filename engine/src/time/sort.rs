//! A stable sort by time that makes use of times being numbers.

use super::Timestamp;
use crate::event::Event;

/// What a sort needs beside the events, kept from one to the next.
///
/// The order is found out from the times alone, so that it is compiled once and not for each type of
/// payload.
#[derive(Default)]
pub(super) struct Scratch {
    /// Of each event.
    times: Vec<Timestamp>,
    /// Of each event, the time since the earliest one, above its position.
    keys: Vec<u64>,
    /// Where each bin of keys begins.
    starts: Vec<u32>,
    /// Of each event, the time and the position: for those that do not fit into keys.
    pairs: Vec<(Timestamp, usize)>,
}

/// Fewer events than this are sorted by comparing them.
const FEW: usize = 32;
/// Bins with more events than this are not sorted by insertion.
const CROWDED: u32 = 24;
const POSITION_BITS: u32 = 32;

impl Scratch {
    /// Sorts `events` by time; those of one time stay in their order.
    ///
    /// One pass spreads them over about as many bins of time as there are events, which leaves next
    /// to nothing to compare if they lie evenly; where they do not, the keys are sorted by
    /// comparison. Random times take about half as long as with the general stable sort.
    pub(super) fn sort<T>(&mut self, events: &mut [Event<T>]) {
        let (mut first, mut last, mut sorted) = (Timestamp::MAX, Timestamp::MIN, true);
        for event in events.iter() {
            sorted &= last <= event.time;
            first = first.min(event.time);
            last = last.max(event.time);
        }
        if sorted {
            return;
        }
        self.times.clear();
        for event in events.iter() {
            self.times.push(event.time);
        }
        let position = self.order(first, last);
        self.rearrange(events, position);
    }

    /// Finds out where each event belongs: the part of the keys that says so.
    fn order(&mut self, first: Timestamp, last: Timestamp) -> u64 {
        let (span, count) = (offset(last, first), self.times.len());
        if count >= FEW && span.max(count as u64) >> POSITION_BITS == 0 {
            self.order_keys(first, span);
            return (1 << POSITION_BITS) - 1;
        }
        self.pairs.clear();
        self.pairs.extend(self.times.iter().enumerate().map(|(position, time)| (*time, position)));
        self.pairs.sort_unstable();
        self.keys.clear();
        self.keys.extend(self.pairs.iter().map(|(_, position)| *position as u64));
        u64::MAX
    }

    fn order_keys(&mut self, first: Timestamp, span: u64) {
        let span_bits = u64::BITS - span.leading_zeros();
        let shift = span_bits.saturating_sub(self.times.len().ilog2() + 1);
        self.starts.clear();
        self.starts.resize((span >> shift) as usize + 1, 0);
        for time in &self.times {
            self.starts[(offset(*time, first) >> shift) as usize] += 1;
        }
        let (mut start, mut fullest) = (0, 0);
        for bin in &mut self.starts {
            fullest = fullest.max(*bin);
            start += std::mem::replace(bin, start);
        }
        self.keys.clear();
        self.keys.resize(self.times.len(), 0);
        for (position, time) in self.times.iter().enumerate() {
            let offset = offset(*time, first);
            let next = &mut self.starts[(offset >> shift) as usize];
            self.keys[*next as usize] = offset << POSITION_BITS | position as u64;
            *next += 1;
        }
        // A bin that is one instant wide has its events in order of arrival already.
        if shift > 0 && fullest > CROWDED {
            self.keys.sort_unstable();
        } else if shift > 0 {
            insertion_sort(&mut self.keys);
        }
    }

    /// Puts each event where its key, of which `position` says what it was before, stands.
    fn rearrange<T>(&mut self, events: &mut [Event<T>], position: u64) {
        for start in 0..events.len() {
            // Along the circle of places that begins here, each takes its event from the next.
            let mut place = start;
            loop {
                let from = (self.keys[place] & position) as usize;
                self.keys[place] = place as u64;
                if from == start {
                    break;
                }
                events.swap(place, from);
                place = from;
            }
        }
    }
}

fn offset(time: Timestamp, first: Timestamp) -> u64 {
    time.as_micros().abs_diff(first.as_micros())
}

/// Fast where every key is near its place.
fn insertion_sort(keys: &mut [u64]) {
    for end in 1..keys.len() {
        let key = keys[end];
        let mut place = end;
        while place > 0 && keys[place - 1] > key {
            keys[place] = keys[place - 1];
            place -= 1;
        }
        keys[place] = key;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorts_by_time_and_position(
            times in prop::collection::vec(any::<i64>(), 0..400),
            bits in 1u32..64,
            outlier in prop::option::of(any::<i64>()),
        ) {
            let outlier = outlier.map(|time| time >> 33);
            let times = times.into_iter().map(|time| time >> (64 - bits)).chain(outlier);
            let mut events: Vec<_> = times
                .enumerate()
                .map(|(position, time)| Event::new(Timestamp::from_micros(time), position))
                .collect();
            let mut expected = events.clone();
            expected.sort_by_key(|event| event.time);
            Scratch::default().sort(&mut events);
            prop_assert_eq!(events, expected);
        }
    }
}
