//! Auctions that close, and their winning bids: what two of the queries begin with.

use std::sync::Arc;

use mizzle::time::Timestamp;
use mizzle::{Build, ProcessCx, ProcessOp, Stream};

use super::{Auction, Entry};

/// An auction that has closed, and what it brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closed {
    /// What kind of thing it was.
    pub category: u64,
    /// Whose it was.
    pub seller: u64,
    /// The winning bid.
    pub price: u64,
}

/// The auctions with at least one bid, as they close: in order of their expiry, those of one moment in the
/// order in which they were first heard of.
pub fn closed_auctions<B: Build<Out = Entry>>(
    entries: Stream<B>,
) -> Stream<impl Build<Out = Closed> + use<B>> {
    let offers = entries.filter_map(|entry| match entry {
        Entry::Person(_) => None,
        Entry::Auction(auction) => Some(Offer::Opened(Arc::new(auction))),
        Entry::Bid(bid) => Some(Offer::Bid { auction: bid.auction, price: bid.price }),
    });
    let key = |offer: &Offer| match offer {
        Offer::Opened(auction) => auction.id,
        Offer::Bid { auction, .. } => *auction,
    };
    offers.key_by(key).process(Selling).0.name("auctions").in_order()
}

/// What concerns one auction.
#[derive(Clone)]
enum Offer {
    Opened(Arc<Auction>),
    Bid { auction: u64, price: u64 },
}

/// Waits for the end of each auction.
struct Selling;

/// An auction: what is known of it, and the highest bid.
#[derive(Default)]
struct Sale {
    opened: Option<Arc<Auction>>,
    highest: Option<u64>,
}

impl ProcessOp<u64, Offer> for Selling {
    type State = Sale;
    type Out = Closed;
    type Side = ();

    fn event(&self, cx: &mut ProcessCx<'_, u64, Closed, ()>, sale: &mut Sale, offer: Offer) {
        match offer {
            Offer::Opened(auction) => {
                cx.cancel_timer(cx.time().next());
                // The last moment is included.
                cx.set_timer(auction.expires.next());
                sale.opened = Some(auction);
            }
            Offer::Bid { price, .. } => {
                sale.highest = sale.highest.max(Some(price));
                if sale.opened.is_none() {
                    // It counts only if the auction opens at this very moment.
                    cx.set_timer(cx.time().next());
                }
            }
        }
    }

    fn timer(&self, cx: &mut ProcessCx<'_, u64, Closed, ()>, sale: &mut Sale, _: Timestamp) {
        if let (Some(auction), Some(price)) = (&sale.opened, sale.highest) {
            let Auction { category, seller, .. } = **auction;
            cx.emit(Closed { category, seller, price });
        }
        cx.clear();
    }
}
