//! The queries of Nexmark, with 1, 2 and 4 workers, against answers that two SQL engines agreed on
//! (`api/tests/cases/nexmark`), and where there is none against a naive evaluation.

mod naive;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use mizzle::time::{Timestamp, Watermarks};
use mizzle::{BoxedStream, Build, Engine, Query, Status, Stream, source};
use mizzle_benches::nexmark::{Auction, Bid, Entry, Generator, Person, queries};
use serde_json::Value;

/// How far behind the newest event the watermark is: nothing is late.
const SLACK: Duration = Duration::from_secs(4);

/// How long a query may take: only a guard against hanging.
const GUARD: Duration = Duration::from_secs(120);

fn cases() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../api/tests/cases/nexmark")
}

/// The events of the cases, in order of arrival.
static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let lines = std::fs::read_to_string(cases().join("events.jsonl")).unwrap();
    lines.lines().map(|line| entry(&serde_json::from_str(line).unwrap())).collect()
});

fn entry(event: &Value) -> Entry {
    let number = |value: &Value| value.as_u64().unwrap();
    let time = |value: &Value| Timestamp::from_millis(value.as_i64().unwrap());
    let text = |value: &Value| value.as_str().unwrap().into();
    match event["event_type"].as_u64() {
        Some(0) => {
            let it = &event["person"];
            Entry::Person(Person {
                id: number(&it["id"]),
                name: text(&it["name"]),
                city: text(&it["city"]),
                state: text(&it["state"]),
                time: time(&it["date_time"]),
            })
        }
        Some(1) => {
            let it = &event["auction"];
            Entry::Auction(Auction {
                id: number(&it["id"]),
                category: number(&it["category"]),
                seller: number(&it["seller"]),
                time: time(&it["date_time"]),
                expires: time(&it["expires"]),
            })
        }
        _ => {
            let it = &event["bid"];
            Entry::Bid(Bid {
                auction: number(&it["auction"]),
                bidder: number(&it["bidder"]),
                price: number(&it["price"]),
                extra: text(&it["extra"]),
                time: time(&it["date_time"]),
            })
        }
    }
}

/// What `ask` makes of `entries`, in the order in which it comes.
fn rows<C: Build>(
    workers: usize,
    entries: Vec<Entry>,
    ask: impl FnOnce(BoxedStream<Entry>) -> Stream<C>,
) -> Vec<C::Out>
where
    C::Out: Clone,
{
    let engine = Engine::builder().workers(workers).build().unwrap();
    let query = Query::new("nexmark");
    let entries = query
        .source("entries", source::from_iter(entries, Entry::time))
        .watermarks(Watermarks::bounded(SLACK));
    let rows = ask(entries.boxed()).collect();
    let query = engine.submit(query).unwrap();
    assert_eq!(query.wait_timeout(GUARD), Status::Completed);
    let late: u64 = query.chains().iter().map(|chain| chain.stats.late).sum();
    assert_eq!(late, 0);
    rows.values()
}

/// Compares the lines that `line` makes of the rows with the answers in a file.
fn answers<C: Build>(
    file: &str,
    ask: impl Fn(BoxedStream<Entry>) -> Stream<C>,
    line: impl Fn(C::Out) -> String,
) where
    C::Out: Clone,
{
    let text = std::fs::read_to_string(cases().join(file)).unwrap();
    let mut expected: Vec<_> = text.lines().skip(1).map(str::to_owned).collect();
    expected.sort();
    assert!(!expected.is_empty());
    for workers in [1, 2, 4] {
        let found = rows(workers, ENTRIES.clone(), &ask);
        let mut found: Vec<_> = found.into_iter().map(&line).collect();
        found.sort();
        same(&format!("{file} with {workers} workers"), &found, &expected);
    }
}

/// As `assert_eq`, which would print thousands of rows.
fn same<T: Debug + PartialEq>(what: &str, found: &[T], expected: &[T]) {
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{what}: row {place}");
    }
    assert_eq!(found.len(), expected.len(), "{what}: how many rows");
}

/// Compares the rows of the cases' events and of generated ones with those of a naive evaluation: as they
/// come where the query promises an order, else sorted.
fn naively<C: Build>(
    in_order: bool,
    ask: impl Fn(BoxedStream<Entry>) -> Stream<C>,
    naive: impl Fn(&[Entry]) -> Vec<C::Out>,
) where
    C::Out: Clone + Debug + Ord,
{
    let pace = Duration::from_millis(1);
    let generator = Generator::new(11, pace, Duration::from_millis(96));
    let generated: Vec<_> = generator.map(|event| event.value).take(10_000).collect();
    for (of, entries) in [("cases", ENTRIES.clone()), ("generated", generated)] {
        let mut expected = naive(&entries);
        assert!(!expected.is_empty());
        for workers in [1, 2, 4] {
            let mut found = rows(workers, entries.clone(), &ask);
            if !in_order {
                found.sort();
                expected.sort();
            }
            same(&format!("{of} with {workers} workers"), &found, &expected);
        }
    }
}

fn ms(time: Timestamp) -> i64 {
    time.as_millis()
}

#[test]
fn q0_passes_bids_on() {
    naively(false, queries::q0, |entries| naive::q1(entries, |price| price));
}

#[test]
fn q1_converts_prices() {
    naively(false, queries::q1, |entries| naive::q1(entries, |price| price * 908 / 1_000));
}

#[test]
fn q2_selects_auctions() {
    answers("q2.csv", queries::q2, |(auction, price)| format!("{auction},{price}"));
}

#[test]
fn q3_joins_persons_and_auctions() {
    let line = |(name, city, state, auction): queries::SellerRow| {
        format!("{name},{city},{state},{auction}")
    };
    answers("q3.csv", queries::q3, line);
}

/// The average is told whenever an auction closes: the last of each category is the answer.
#[test]
fn q4_averages_winning_bids_by_category() {
    let text = std::fs::read_to_string(cases().join("q4.csv")).unwrap();
    for workers in [1, 2, 4] {
        let told = rows(workers, ENTRIES.clone(), queries::q4);
        let last: std::collections::BTreeMap<_, _> = told.into_iter().collect();
        let found: Vec<_> =
            last.iter().map(|(category, mean)| format!("{category},{mean}")).collect();
        let expected: Vec<_> = text.lines().skip(1).collect();
        same(
            &format!("{workers} workers"),
            &found,
            &expected.iter().map(ToString::to_string).collect::<Vec<_>>(),
        );
    }
    naively(true, queries::q4, naive::q4);
}

#[test]
fn q5_finds_hot_auctions() {
    let line = |(auction, n, start, end): queries::HotRow| {
        format!("{auction},{n},{},{}", ms(start), ms(end))
    };
    answers("q5.csv", queries::q5, line);
}

#[test]
fn q6_averages_winning_bids_by_seller() {
    naively(true, queries::q6, naive::q6);
}

#[test]
fn q7_finds_the_highest_bids() {
    let line = |(auction, bidder, price, time, extra): queries::BidRow| {
        format!("{auction},{price},{bidder},{},{extra}", ms(time))
    };
    answers("q7.csv", queries::q7, line);
}

#[test]
fn q8_finds_new_sellers() {
    answers("q8.csv", queries::q8, |(id, name, start)| format!("{id},{name},{}", ms(start)));
}

fn bidder_line((bidder, n, start, end): queries::BidderRow) -> String {
    format!("{bidder},{n},{},{}", ms(start), ms(end))
}

#[test]
fn q11_counts_bids_per_session() {
    answers("q11.csv", queries::q11, bidder_line);
}

#[test]
fn q12_counts_bids_per_window() {
    answers("q12e.csv", queries::q12e, bidder_line);
}

fn joined(ranks: queries::Ranks) -> String {
    ranks.map(|n| n.to_string()).join(",")
}

#[test]
fn q15_counts_bidders_and_auctions_per_day() {
    let line = |(day, n, ranks, bidders, small, auctions): queries::DayRow| {
        let (day, ranks) = (&day.to_string()[..10], joined(ranks));
        format!("{day},{n},{ranks},{bidders},{small},{auctions}")
    };
    answers("q15e.csv", queries::q15e, line);
}

#[test]
fn q17_sums_up_auctions() {
    let line = |(auction, n, ranks, min, max, mean, sum): queries::AuctionRow| {
        format!("{auction},{n},{},{min},{max},{mean},{sum}", joined(ranks))
    };
    answers("q17.csv", queries::q17, line);
}

#[test]
fn q19_ranks_bids() {
    let line = |(auction, bidder, price, time, rank): queries::RankedRow| {
        format!("{auction},{bidder},{price},{},{rank}", ms(time))
    };
    answers("q19.csv", queries::q19, line);
}
