//! The index from keys to seats: where a key's members are, by a tag of its hash.
//!
//! Tags and seats lie side by side, so that looking up costs one line of cache: with 31 bits of hash
//! another key is hardly ever taken for the one that is looked for, and whether it was is seen where
//! the member lies, which is needed next anyway. Keys are therefore not kept here.

use super::pages::NOWHERE;

/// Entries per bucket.
const WIDTH: usize = 8;

/// A map from tags to seats that may hold a tag more than once: eight entries to a bucket, and what
/// does not fit goes to the next that has room.
///
/// A search compares all tags of a bucket at once, because a loop that ends at the right one ends at
/// another place each time, which costs more than comparing.
#[derive(Default)]
pub struct Tags {
    buckets: Vec<Bucket>,
    len: usize,
}

/// One line of cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// Where a tag is zero nobody is; a search ends at a bucket that has such a place.
    tags: [u32; WIDTH],
    seats: [u32; WIDTH],
}

impl Bucket {
    /// At which places `tag` is, a bit each.
    #[inline(always)]
    fn mask(&self, tag: u32) -> u32 {
        let places = self.tags.iter().enumerate();
        places.fold(0, |mask, (place, &other)| mask | u32::from(other == tag) << place)
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        self.mask(0) != 0
    }
}

impl Tags {
    /// The tag of a hash: its low bits, and never zero.
    #[inline(always)]
    pub fn tag(hash: u64) -> u32 {
        hash as u32 | 1
    }

    /// The bucket that a search for `tag` begins at. From the tag's high bits: any number will do.
    #[inline(always)]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// The first seat with `tag` that `is_it` says is the one, or [`NOWHERE`].
    #[inline(always)]
    pub fn find(&self, tag: u32, mut is_it: impl FnMut(u32) -> bool) -> u32 {
        let mut position = self.home(tag);
        while let Some(bucket) = self.buckets.get(position) {
            let mut mask = bucket.mask(tag);
            while mask != 0 {
                let seat = bucket.seats[mask.trailing_zeros() as usize % WIDTH];
                if is_it(seat) {
                    return seat;
                }
                mask &= mask - 1;
            }
            if bucket.has_room() {
                break;
            }
            position = self.next(position);
        }
        NOWHERE
    }

    /// Adds `seat` under `tag`.
    pub fn insert(&mut self, tag: u32, seat: u32) {
        // Up to three quarters are taken, and a half when it has grown.
        if 4 * (self.len + 1) > 3 * WIDTH * self.buckets.len() {
            self.resize();
        }
        self.put(tag, seat);
        self.len += 1;
    }

    fn put(&mut self, tag: u32, seat: u32) {
        let mut position = self.home(tag);
        loop {
            let bucket = &mut self.buckets[position];
            let free = bucket.mask(0);
            if free != 0 {
                let place = free.trailing_zeros() as usize;
                (bucket.tags[place], bucket.seats[place]) = (tag, seat);
                return;
            }
            position = self.next(position);
        }
    }

    /// Makes room for twice as many as there are.
    fn resize(&mut self) {
        let empty = Bucket { tags: [0; WIDTH], seats: [NOWHERE; WIDTH] };
        let buckets = vec![empty; (2 * (self.len + 1)).div_ceil(WIDTH)];
        for Bucket { tags, seats } in std::mem::replace(&mut self.buckets, buckets) {
            let taken = tags.into_iter().zip(seats).filter(|&(tag, _)| tag != 0);
            taken.for_each(|(tag, seat)| self.put(tag, seat));
        }
    }

    /// Where `seat` is found under `tag`.
    fn position(&self, tag: u32, seat: u32) -> Option<(usize, usize)> {
        let mut position = self.home(tag);
        loop {
            let bucket = self.buckets.get(position)?;
            let taken = bucket.tags.iter().zip(&bucket.seats);
            if let Some(place) = taken.clone().position(|entry| entry == (&tag, &seat)) {
                return Some((position, place));
            }
            if bucket.has_room() {
                return None;
            }
            position = self.next(position);
        }
    }

    /// Puts `with` in the place of `seat`, which has `tag`.
    pub fn replace(&mut self, tag: u32, seat: u32, with: u32) {
        if let Some((position, place)) = self.position(tag, seat) {
            self.buckets[position].seats[place] = with;
        }
    }

    /// Takes `seat` out, which has `tag`.
    pub fn remove(&mut self, tag: u32, seat: u32) {
        let Some((position, place)) = self.position(tag, seat) else { return };
        let was_full = !self.buckets[position].has_room();
        self.buckets[position].tags[place] = 0;
        self.len -= 1;
        if was_full {
            self.bring_back(position);
        }
        if WIDTH * self.buckets.len() > 8 * self.len.max(WIDTH) {
            self.resize();
        }
    }

    /// Puts those behind `hole`, which was full and is not any more, where a search finds them still.
    fn bring_back(&mut self, mut hole: usize) {
        let mut position = hole;
        loop {
            position = self.next(position);
            if position == hole {
                return;
            }
            let was_full = !self.buckets[position].has_room();
            let moves = |&place: &usize| {
                let tag = self.buckets[position].tags[place];
                let home = self.home(tag);
                // Whether its home does not lie behind the hole, up to where it is.
                let between = if hole < position {
                    hole < home && home <= position
                } else {
                    hole < home || home <= position
                };
                tag != 0 && !between
            };
            if let Some(place) = (0..WIDTH).find(moves) {
                let Bucket { tags, seats } = &mut self.buckets[position];
                let (tag, seat) = (std::mem::take(&mut tags[place]), seats[place]);
                let free = self.buckets[hole].mask(0).trailing_zeros() as usize;
                let bucket = &mut self.buckets[hole];
                (bucket.tags[free], bucket.seats[free]) = (tag, seat);
                hole = position;
            }
            if !was_full {
                return;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::state::hash;

    proptest! {
        /// Few tags, so that many collide and searches run around the end.
        #[test]
        fn finds_what_was_put_in(ops in prop::collection::vec((0u8..3, 0u32..9, 0u32..40), 1..300)) {
            let mut tags = Tags::default();
            let mut all = BTreeSet::new();
            for (kind, tag, seat) in ops {
                let add = kind > 0;
                let tag = Tags::tag(u64::from(tag * (u32::MAX / 8)));
                if add && all.insert((tag, seat)) {
                    tags.insert(tag, seat);
                } else if !add && all.remove(&(tag, seat)) {
                    tags.remove(tag, seat);
                }
                prop_assert_eq!(tags.len, all.len());
                for tag in (0..9).map(|tag| Tags::tag(u64::from(tag * (u32::MAX / 8)))) {
                    for seat in 0..40 {
                        let found = tags.find(tag, |found| found == seat);
                        prop_assert_eq!(found == seat, all.contains(&(tag, seat)));
                    }
                }
            }
        }
    }

    #[test]
    fn gives_room_back() {
        let mut tags = Tags::default();
        let tag = |seat: u32| Tags::tag(hash(&seat));
        for seat in 0..10_000 {
            tags.insert(tag(seat), seat);
        }
        assert!((0..10_000).all(|seat| tags.find(tag(seat), |found| found == seat) == seat));
        for seat in 0..10_000 {
            tags.remove(tag(seat), seat);
        }
        assert!(tags.buckets.len() <= 8);
        assert_eq!(tags.find(tag(7), |_| true), NOWHERE);
    }
}
