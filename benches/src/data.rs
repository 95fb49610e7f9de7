//! The data all workloads read: made from a seed, before anything is timed.

use std::sync::Arc;

use mizzle::Event;
use mizzle::time::Timestamp;

/// What a sensor says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Which sensor.
    pub key: u64,
    /// What it measured.
    pub value: i64,
}

/// Events that any number of runs read without copying them first.
pub type Data = Arc<[Event<Reading>]>;

/// Microseconds between two events.
const STEP: i64 = 1;

/// A linear congruential generator with Knuth's constants: enough to scatter keys, and cheap.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x9E37_79B9_7F4A_7C15);
        random.next();
        random
    }

    /// The next number; its upper bits are the good ones.
    pub fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }
}

/// `events` readings of `keys` sensors, one per microsecond, in order.
pub fn in_order(events: usize, keys: u64, seed: u64) -> Data {
    let mut random = Random::new(seed);
    (0..events as i64)
        .map(|n| {
            let reading = Reading { key: random.below(keys), value: (random.next() >> 40) as i64 };
            Event::new(Timestamp::from_micros(n * STEP), reading)
        })
        .collect()
}

/// As `in_order`, each delayed by up to `delay` microseconds: in order of arrival.
pub fn delayed(events: usize, keys: u64, delay: u64, seed: u64) -> Data {
    let mut random = Random::new(!seed);
    let mut arrivals: Vec<_> = in_order(events, keys, seed)
        .iter()
        .map(|event| (event.time.as_micros() + random.below(delay + 1) as i64, *event))
        .collect();
    arrivals.sort_by_key(|&(arrival, _)| arrival);
    arrivals.into_iter().map(|(_, event)| event).collect()
}

/// Reads shared data as a source does.
#[derive(Clone, Debug)]
pub struct Reader {
    data: Data,
    next: usize,
}

impl Reader {
    /// From the beginning of `data`.
    pub fn new(data: &Data) -> Self {
        Self { data: data.clone(), next: 0 }
    }
}

impl Iterator for Reader {
    type Item = Event<Reading>;

    #[inline]
    fn next(&mut self) -> Option<Event<Reading>> {
        let event = self.data.get(self.next).copied()?;
        self.next += 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(in_order(100, 10, 7), in_order(100, 10, 7));
        assert_ne!(in_order(100, 10, 7), in_order(100, 10, 8));
    }

    #[test]
    fn delays_stay_within_their_bound_and_lose_nothing() {
        let data = delayed(10_000, 10, 500, 3);
        let (mut newest, mut disordered) = (i64::MIN, 0);
        for event in data.iter() {
            let time = event.time.as_micros();
            assert!(newest.saturating_sub(time) <= 500);
            disordered += usize::from(time < newest);
            newest = newest.max(time);
        }
        assert!(disordered > 1_000);
        let mut times: Vec<_> = data.iter().map(|event| event.time.as_micros()).collect();
        times.sort_unstable();
        assert_eq!(times, (0..10_000).collect::<Vec<_>>());
    }
}
