//! What happens in the auction house.

use std::sync::Arc;

use mizzle::time::Timestamp;

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Somebody registers.
    Person(Person),
    /// Somebody opens an auction.
    Auction(Auction),
    /// Somebody bids.
    Bid(Bid),
}

/// Somebody who registers.
#[derive(Clone, Debug, PartialEq)]
pub struct Person {
    /// Their number.
    pub id: u64,
    /// Their name.
    pub name: Arc<str>,
    /// Where they live.
    pub city: Arc<str>,
    /// The state that is in, in two letters.
    pub state: Arc<str>,
    /// When.
    pub time: Timestamp,
}

/// Something for sale.
#[derive(Clone, Debug, PartialEq)]
pub struct Auction {
    /// Its number.
    pub id: u64,
    /// What kind of thing it is.
    pub category: u64,
    /// Whose it is.
    pub seller: u64,
    /// When it was opened.
    pub time: Timestamp,
    /// The last moment at which one can bid.
    pub expires: Timestamp,
}

/// An offer.
#[derive(Clone, Debug, PartialEq)]
pub struct Bid {
    /// For which auction.
    pub auction: u64,
    /// Whose.
    pub bidder: u64,
    /// How much, in cents.
    pub price: u64,
    /// What else there is to say.
    pub extra: Arc<str>,
    /// When.
    pub time: Timestamp,
}

impl Entry {
    /// When it happened.
    pub fn time(&self) -> Timestamp {
        match self {
            Entry::Person(person) => person.time,
            Entry::Auction(auction) => auction.time,
            Entry::Bid(bid) => bid.time,
        }
    }

    /// The person who registers, if it is that.
    pub fn person(self) -> Option<Person> {
        if let Entry::Person(person) = self { Some(person) } else { None }
    }

    /// The auction that is opened, if it is that.
    pub fn auction(self) -> Option<Auction> {
        if let Entry::Auction(auction) = self { Some(auction) } else { None }
    }

    /// The bid, if it is one.
    pub fn bid(self) -> Option<Bid> {
        if let Entry::Bid(bid) = self { Some(bid) } else { None }
    }
}
