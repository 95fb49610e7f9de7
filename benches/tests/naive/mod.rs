//! Queries worked out from the whole list of events.

use std::collections::BTreeMap;

use mizzle::time::Timestamp;
use mizzle_benches::nexmark::queries::BidRow;
use mizzle_benches::nexmark::{Auction, Bid, Entry};

fn bids(entries: &[Entry]) -> impl Iterator<Item = &Bid> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Bid(bid) => Some(bid),
        _ => None,
    })
}

/// The bids, with other prices.
pub fn q1(entries: &[Entry], price: impl Fn(u64) -> u64) -> Vec<BidRow> {
    let row = |bid: &Bid| (bid.auction, bid.bidder, price(bid.price), bid.time, bid.extra.clone());
    bids(entries).map(row).collect()
}

/// The auctions that had bids with the price that won, in the order in which they close: by expiry, then by
/// what was heard of them first at the moment at which they open.
fn closed(entries: &[Entry]) -> Vec<(Auction, u64)> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.time());
    let mut of_auction: BTreeMap<u64, Vec<(usize, &Bid)>> = BTreeMap::new();
    for (place, entry) in sorted.iter().enumerate() {
        if let Entry::Bid(bid) = entry {
            of_auction.entry(bid.auction).or_default().push((place, bid));
        }
    }
    let mut closed: Vec<(Timestamp, usize, Auction, u64)> = Vec::new();
    for (place, entry) in sorted.iter().enumerate() {
        let Entry::Auction(auction) = entry else { continue };
        let none = Vec::new();
        let all = of_auction.get(&auction.id).unwrap_or(&none).iter();
        let valid: Vec<_> = all
            .filter(|(_, bid)| auction.time <= bid.time && bid.time <= auction.expires)
            .collect();
        let heard = valid.iter().map(|(place, _)| *place).min();
        if let Some(price) = valid.iter().map(|(_, bid)| bid.price).max() {
            let heard = heard.map_or(place, |bid| bid.min(place));
            closed.push((auction.expires, heard, auction.clone(), price));
        }
    }
    closed.sort_by_key(|(expires, heard, ..)| (*expires, *heard));
    closed.into_iter().map(|(_, _, auction, price)| (auction, price)).collect()
}

/// The average so far of the winning bids of a category, at each auction that closes.
pub fn q4(entries: &[Entry]) -> Vec<(u64, u64)> {
    let mut prices: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let average = |(auction, price): (Auction, u64)| {
        let prices = prices.entry(auction.category).or_default();
        prices.push(price);
        (auction.category, prices.iter().sum::<u64>() / prices.len() as u64)
    };
    closed(entries).into_iter().map(average).collect()
}

/// The average of the winning bids of a seller's last ten auctions, at each that closes.
pub fn q6(entries: &[Entry]) -> Vec<(u64, u64)> {
    let mut prices: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let average = |(auction, price): (Auction, u64)| {
        let prices = prices.entry(auction.seller).or_default();
        prices.push(price);
        let last = &prices[prices.len().saturating_sub(10)..];
        (auction.seller, last.iter().sum::<u64>() / last.len() as u64)
    };
    closed(entries).into_iter().map(average).collect()
}
