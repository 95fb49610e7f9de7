//! The questions, each asked once: from a stream of [`Entry`] to a stream of rows.
//!
//! Prices are in cents, averages whole and rounded down. Where rows say so, order is that of event time; the
//! operators whose results depend on it are flagged, the others are not.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mizzle::aggregate::{Aggregate, count, distinct_count, fold, max, min, sum, top};
use mizzle::time::{SignedDuration, Timestamp};
use mizzle::{Build, Stream, Windowed, Windows};

use super::{Bid, Closed, Entry, closed_auctions};

const TEN_SECONDS: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(86_400);

/// The bids alone.
fn bids<B: Build<Out = Entry>>(entries: Stream<B>) -> Stream<impl Build<Out = Bid> + use<B>> {
    entries.filter_map(Entry::bid)
}

/// Auction, bidder, price, time, and what else there is to say.
pub type BidRow = (u64, u64, u64, Timestamp, Arc<str>);

/// Query 0: the bids, as they are.
pub fn q0<B: Build<Out = Entry>>(entries: Stream<B>) -> Stream<impl Build<Out = BidRow> + use<B>> {
    bids(entries).map(|bid| (bid.auction, bid.bidder, bid.price, bid.time, bid.extra))
}

/// Query 1: the bids, with prices at 0.908, rounded down.
pub fn q1<B: Build<Out = Entry>>(entries: Stream<B>) -> Stream<impl Build<Out = BidRow> + use<B>> {
    let converted = |price: u64| price * 908 / 1_000;
    bids(entries)
        .map(move |bid| (bid.auction, bid.bidder, converted(bid.price), bid.time, bid.extra))
}

/// Query 2: auction and price of the bids on auctions whose number is a multiple of 123.
pub fn q2<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = (u64, u64)> + use<B>> {
    let chosen = bids(entries).filter(|bid| bid.auction.is_multiple_of(123));
    chosen.map(|bid| (bid.auction, bid.price))
}

/// Name, city and state of a person, and the auction.
pub type SellerRow = (Arc<str>, Arc<str>, Arc<str>, u64);

/// Query 3: who in Oregon, Idaho and California sells in category 10. All persons and auctions of that kind
/// are remembered.
pub fn q3<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = SellerRow> + use<B>> {
    let entries = entries.share();
    let auctions = entries.clone().filter_map(Entry::auction).filter(|sale| sale.category == 10);
    let persons = entries.filter_map(Entry::person);
    let persons = persons.filter(|person| ["or", "id", "ca"].contains(&&*person.state));
    persons
        .key_by(|person| person.id)
        .join(auctions.key_by(|sale| sale.seller))
        .within(SignedDuration::MIN..=SignedDuration::MAX)
        .inner_with(|person, sale| {
            (person.name.clone(), person.city.clone(), person.state.clone(), sale.id)
        })
}

/// Query 4: per category the average of the winning bids so far, whenever an auction closes.
pub fn q4<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = (u64, u64)> + use<B>> {
    let average = |(sum, count): &mut (u64, u64), closed: Closed| {
        *sum += closed.price;
        *count += 1;
        (closed.category, *sum / *count)
    };
    let closed = closed_auctions(entries).key_by(|closed| closed.category);
    closed.apply_stateful((0, 0), average).in_order()
}

/// Auction, number of bids, first and last bound of the window.
pub type HotRow = (u64, u64, Timestamp, Timestamp);

/// Query 5: per 10 s, every 2 s, the auctions with most bids. The second window has exactly the results of
/// the first one's windows that end together.
pub fn q5<B: Build<Out = Entry>>(entries: Stream<B>) -> Stream<impl Build<Out = HotRow> + use<B>> {
    let hop = Duration::from_secs(2);
    bids(entries)
        .key_by(|bid| bid.auction)
        .window(Windows::hopping(TEN_SECONDS, hop))
        .aggregate(count())
        .window(Windows::tumbling(hop))
        .aggregate(hottest())
        .flat_map(|window| window.value)
}

/// The results with the highest count.
fn hottest() -> impl Aggregate<Windowed<u64, u64>, Out = Vec<HotRow>> {
    let add = |hottest: &mut Vec<HotRow>, counted: &Windowed<u64, u64>| {
        let row = (counted.key, counted.value, counted.start, counted.end);
        keep_hottest(hottest, row);
    };
    let merge = |hottest: &mut Vec<HotRow>, more: &Vec<HotRow>| {
        more.iter().for_each(|row| keep_hottest(hottest, *row));
    };
    fold(Vec::new, add, merge, Vec::clone)
}

fn keep_hottest(hottest: &mut Vec<HotRow>, row: HotRow) {
    let most = hottest.first().map_or(0, |row| row.1);
    if row.1 > most {
        hottest.clear();
    }
    if row.1 >= most {
        hottest.push(row);
    }
}

/// Query 6: seller and average of the winning bids of their last ten auctions, whenever one closes.
pub fn q6<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = (u64, u64)> + use<B>> {
    let average = |last: &mut VecDeque<u64>, closed: Closed| {
        last.push_back(closed.price);
        if last.len() > 10 {
            last.pop_front();
        }
        (closed.seller, last.iter().sum::<u64>() / last.len() as u64)
    };
    let closed = closed_auctions(entries).key_by(|closed| closed.seller);
    closed.apply_stateful(VecDeque::new(), average).in_order()
}

/// Query 7: the bids that have the highest price of 10 s. As in the original both bounds of those are
/// included: a bid at the very end that has the same price is one too.
pub fn q7<B: Build<Out = Entry>>(entries: Stream<B>) -> Stream<impl Build<Out = BidRow> + use<B>> {
    let bids = bids(entries).share();
    let windows = bids.clone().window(Windows::tumbling(TEN_SECONDS));
    let highest = windows.aggregate(max(|bid: &Bid| bid.price)).filter_map(|w| w.value);
    // The highest price is told one microsecond before the end.
    let around = SignedDuration::from_micros(1 - 10_000_000)..=SignedDuration::from_micros(1);
    highest
        .key_by(|price| *price)
        .join(bids.boxed().key_by(|bid| bid.price))
        .within(around)
        .inner_with(|_, bid| (bid.auction, bid.bidder, bid.price, bid.time, bid.extra.clone()))
}

/// Query 8: number and name of who opened an auction in the 10 s in which they registered, and the start of
/// these.
pub fn q8<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = (u64, Arc<str>, Timestamp)> + use<B>> {
    let entries = entries.share();
    let sellers = entries.clone().filter_map(Entry::auction).map(|sale| sale.seller);
    let persons = entries.filter_map(Entry::person).map(|person| (person.id, person.name));
    persons
        .key_by(|person| person.0)
        .join(sellers.key_by(|seller| *seller))
        .window(Windows::tumbling(TEN_SECONDS))
        .inner()
        .map(|window| {
            let ((id, name), _) = window.value;
            (id, name, window.start)
        })
        .key_by(|&(id, _, start)| (id, start))
        .distinct_for(TEN_SECONDS)
}

/// Bidder, number of bids, start and end.
pub type BidderRow = (u64, u64, Timestamp, Timestamp);

fn bidder_row(window: Windowed<u64, u64>) -> BidderRow {
    (window.key, window.value, window.start, window.end)
}

/// Query 11: per bidder the number of bids in each session, which ends with 10 s of silence.
pub fn q11<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = BidderRow> + use<B>> {
    let sessions = bids(entries).key_by(|bid| bid.bidder).window(Windows::session(TEN_SECONDS));
    sessions.aggregate(count()).map(bidder_row)
}

/// Query 12 by event time: per bidder the number of bids in each 10 s.
pub fn q12e<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = BidderRow> + use<B>> {
    let windows = bids(entries).key_by(|bid| bid.bidder).window(Windows::tumbling(TEN_SECONDS));
    windows.aggregate(count()).map(bidder_row)
}

/// How many bids there are below 100 dollars, below 10,000 and above.
pub type Ranks = [u64; 3];

fn rank(bid: &Bid) -> usize {
    match bid.price {
        0..10_000 => 0,
        10_000..1_000_000 => 1,
        _ => 2,
    }
}

fn ranks() -> impl Aggregate<Bid, Out = Ranks> {
    let add = |ranks: &mut Ranks, bid: &Bid| ranks[rank(bid)] += 1;
    let merge = |ranks: &mut Ranks, more: &Ranks| {
        ranks.iter_mut().zip(more).for_each(|(all, more)| *all += more);
    };
    fold(|| [0; 3], add, merge, |ranks| *ranks)
}

/// The bidders whose bids are of the first rank.
fn small_bidders() -> impl Aggregate<Bid, Out = u64> {
    let add = |bidders: &mut HashSet<u64>, bid: &Bid| {
        if rank(bid) == 0 {
            bidders.insert(bid.bidder);
        }
    };
    let merge = |bidders: &mut HashSet<u64>, more: &HashSet<u64>| bidders.extend(more);
    fold(HashSet::new, add, merge, |bidders| bidders.len() as u64)
}

/// Day, number of bids, and by rank; bidders, those with bids of the first rank; auctions.
pub type DayRow = (Timestamp, u64, Ranks, u64, u64, u64);

/// Query 15 by event time: per day (UTC) the bids by class of price, and how many bidders and auctions there
/// were.
pub fn q15e<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = DayRow> + use<B>> {
    let different = (distinct_count(|b: &Bid| b.bidder), small_bidders());
    let auctions = distinct_count(|b: &Bid| b.auction);
    let days = bids(entries).window(Windows::tumbling(DAY));
    days.aggregate((count(), ranks(), different, auctions)).map(|day| {
        let (n, ranks, (bidders, small_bidders), auctions) = day.value;
        (day.start, n, ranks, bidders, small_bidders, auctions)
    })
}

/// Auction, number of bids, and by rank; lowest, highest, average price, and sum.
pub type AuctionRow = (u64, u64, Ranks, u64, u64, u64, u64);

/// Query 17: per auction and day (UTC) statistics of its bids.
pub fn q17<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = AuctionRow> + use<B>> {
    let price = |bid: &Bid| bid.price;
    let days = bids(entries).key_by(|bid| bid.auction).window(Windows::tumbling(DAY));
    days.aggregate((count(), ranks(), min(price), max(price), sum(price))).map(|day| {
        let (n, ranks, lowest, highest, sum) = day.value;
        let (lowest, highest) = (lowest.unwrap_or(0), highest.unwrap_or(0));
        (day.key, n, ranks, lowest, highest, sum / n, sum)
    })
}

/// Auction, bidder, price, time, and rank from 1.
pub type RankedRow = (u64, u64, u64, Timestamp, u64);

/// Query 19: the ten highest bids of each auction, of equal ones the earliest first: once nothing has been
/// bid for a day, or at the end of the stream.
pub fn q19<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = RankedRow> + use<B>> {
    bids(entries)
        .key_by(|bid| bid.auction)
        .window(Windows::session(DAY))
        .aggregate(top(10, |bid: &Bid| bid.price))
        .in_order()
        .flat_map(|session| {
            (1..)
                .zip(session.value)
                .map(|(rank, bid): (u64, Bid)| (bid.auction, bid.bidder, bid.price, bid.time, rank))
        })
}
