//! Nexmark: an auction house, and questions about it that many stream processors are asked.
//!
//! Persons register, open auctions and bid. [`Generator`] makes such events from a seed; the queries stand
//! in [`queries`], each once, for the benchmarks and for the tests against answers that others computed
//! (`tests/nexmark.rs`).
//!
//! | query | what is asked |
//! |---|---|
//! | 0 | the bids, as they are |
//! | 1 | the bids, priced in another currency |
//! | 2 | the bids on auctions whose number is a multiple of 123 |
//! | 3 | who in Oregon, Idaho and California sells in category 10 |
//! | 4 | per category the average of the winning bids of the auctions closed so far |
//! | 5 | per 10 s, every 2 s, the auctions with most bids |
//! | 6 | per seller the average of the winning bids of the last ten auctions closed (our own definition) |
//! | 7 | the bids that have the highest price of 10 s |
//! | 8 | who opened an auction in the 10 s in which they registered |
//! | 11 | per bidder the bids of each session: a session ends with 10 s of silence |
//! | 12 | per bidder the bids of each 10 s, by event time |
//! | 15 | per day the bids by class of price, and how many bidders and auctions there were |
//! | 17 | per auction and day statistics of its bids |
//! | 19 | the ten highest bids of each auction |
//!
//! An auction closes when it expires, or at the end of the stream; its winning bid is the highest that was
//! made from its beginning to its expiry, both included. One without a bid has none.

mod auctions;
mod events;
mod generator;
pub mod queries;

pub use auctions::{Closed, closed_auctions};
pub use events::{Auction, Bid, Entry, Person};
pub use generator::Generator;
