//! Events of an auction house, from a seed.

use std::sync::Arc;
use std::time::Duration;

use mizzle::Event;
use mizzle::time::Timestamp;

use super::{Auction, Bid, Entry, Person};
use crate::data::Random;

/// Of fifty events one is a person, three are auctions, the others bids.
const ROUND: u64 = 50;
const AUCTIONS_PER_ROUND: u64 = 3;

/// The first number of persons and of auctions.
const FIRST: u64 = 1_000;

/// Half of the bids go to the newest auctions, half are made by the newest persons.
const RECENT_AUCTIONS: u64 = 20;
const RECENT_PERSONS: u64 = 100;

/// How many texts there are to choose from.
const TEXTS: u64 = 256;

const STATES: [&str; 6] = ["or", "id", "ca", "wa", "az", "wy"];
const CITIES: [&str; 6] = ["portland", "boise", "palo alto", "seattle", "phoenix", "cheyenne"];

/// Events at the given pace, each up to `disorder` late, without end. The same seed gives the same events.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    made: u64,
    pace: Duration,
    disorder: u64,
    extras: Vec<Arc<str>>,
    names: Vec<Arc<str>>,
    places: Vec<(Arc<str>, Arc<str>)>,
}

impl Generator {
    /// An event every `pace` on average, at most `disorder` out of order.
    pub fn new(seed: u64, pace: Duration, disorder: Duration) -> Self {
        let mut random = Random::new(seed);
        let letter = |random: &mut Random| char::from(b'a' + random.below(26) as u8);
        let mut text = |least: u64, most: u64| -> Arc<str> {
            let length = least + random.below(most - least + 1);
            (0..length).map(|_| letter(&mut random)).collect::<String>().into()
        };
        let extras = (0..TEXTS).map(|_| text(40, 100)).collect();
        let names = (0..TEXTS).map(|_| text(6, 14)).collect();
        let places = STATES.iter().zip(CITIES).map(|(&state, city)| (state.into(), city.into()));
        let disorder = disorder.as_micros() as u64;
        let places = places.collect();
        Self { random, made: 0, pace, disorder, extras, names, places }
    }

    /// The numbers of persons and of auctions that there are by now.
    fn counts(&self) -> (u64, u64) {
        let (rounds, within) = (self.made / ROUND, self.made % ROUND);
        let auctions = within.saturating_sub(1).min(AUCTIONS_PER_ROUND);
        (rounds + u64::from(within > 0), rounds * AUCTIONS_PER_ROUND + auctions)
    }

    /// One of `count` numbers, in half of the cases one of the newest.
    fn pick(&mut self, count: u64, recent: u64) -> u64 {
        let count = count.max(1);
        let among = if self.random.below(2) == 0 { recent.min(count) } else { count };
        FIRST + count - 1 - self.random.below(among)
    }

    fn person(&mut self, time: Timestamp) -> Entry {
        let (persons, _) = self.counts();
        let name = self.names[self.random.below(TEXTS) as usize].clone();
        let place = self.random.below(self.places.len() as u64) as usize;
        let (state, city) = self.places[place].clone();
        Entry::Person(Person { id: FIRST + persons, name, city, state, time })
    }

    fn auction(&mut self, time: Timestamp) -> Entry {
        let (persons, auctions) = self.counts();
        let seller = self.pick(persons, RECENT_PERSONS);
        let category = 10 + self.random.below(5);
        // As long as it takes until it is no longer among the newest, or up to four times that.
        let life = RECENT_AUCTIONS * ROUND / AUCTIONS_PER_ROUND * self.pace.as_micros() as u64;
        let life = life + self.random.below(3 * life + 1);
        let expires = time + Duration::from_micros(life);
        Entry::Auction(Auction { id: FIRST + auctions, category, seller, time, expires })
    }

    fn bid(&mut self, time: Timestamp) -> Entry {
        let (persons, auctions) = self.counts();
        let auction = self.pick(auctions, RECENT_AUCTIONS);
        let bidder = self.pick(persons, RECENT_PERSONS);
        // From a dollar to a million, evenly by order of magnitude.
        let price = 100 * 10u64.pow(self.random.below(6) as u32) + self.random.below(900);
        let extra = self.extras[self.random.below(TEXTS) as usize].clone();
        Entry::Bid(Bid { auction, bidder, price, extra, time })
    }
}

impl Iterator for Generator {
    type Item = Event<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.made as i64 * self.pace.as_micros() as i64;
        let early = self.random.below(self.disorder + 1) as i64;
        let time = Timestamp::from_micros(place - early);
        let entry = match self.made % ROUND {
            0 => self.person(time),
            1..=AUCTIONS_PER_ROUND => self.auction(time),
            _ => self.bid(time),
        };
        self.made += 1;
        Some(Event::new(time, entry))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn events(seed: u64) -> Vec<Event<Entry>> {
        let pace = Duration::from_millis(1);
        Generator::new(seed, pace, Duration::from_millis(96)).take(10_000).collect()
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(events(7), events(7));
        assert_ne!(events(7), events(8));
    }

    #[test]
    fn everybody_who_sells_or_bids_has_registered() {
        let (mut persons, mut auctions) = (HashSet::new(), HashSet::new());
        for event in events(3) {
            assert_eq!(event.time, event.value.time());
            match event.value {
                Entry::Person(person) => assert!(persons.insert(person.id)),
                Entry::Auction(auction) => {
                    assert!(persons.contains(&auction.seller), "{auction:?}");
                    assert!(auction.time < auction.expires && auctions.insert(auction.id));
                }
                Entry::Bid(bid) => {
                    assert!(persons.contains(&bid.bidder) && auctions.contains(&bid.auction));
                }
            }
        }
        assert_eq!((persons.len(), auctions.len()), (200, 600));
    }

    #[test]
    fn disorder_stays_within_its_bound() {
        let (mut newest, mut disordered) = (Timestamp::MIN, 0);
        for event in events(5) {
            assert!(newest.since(event.time) <= Duration::from_millis(96));
            disordered += usize::from(event.time < newest);
            newest = newest.max(event.time);
        }
        assert!(disordered > 5_000);
    }
}
