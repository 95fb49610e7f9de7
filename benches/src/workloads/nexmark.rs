//! Nexmark's queries, a workload each.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use mizzle::time::Watermarks;
use mizzle::{Build, Engine, Event, Query, Stream, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run, scatter};
use crate::nexmark::{Entry, Generator, queries};

/// Ten thousand events a second, up to 96 ms out of order, the watermark four seconds behind.
const PACE: Duration = Duration::from_micros(100);
const DISORDER: Duration = Duration::from_millis(96);
const SLACK: Duration = Duration::from_secs(4);

macro_rules! workloads {
    ($($name:ident = $query:ident, $called:literal, $about:literal;)*) => {
        $(pub(super) const $name: Workload = Workload {
            name: $called,
            about: $about,
            order_shows: false,
            prepare,
            mizzle: |prepared, _, engine| {
                let query = Query::new($called);
                let rows = queries::$query(entries(prepared, &query));
                finish(engine, query, rows)
            },
            baseline: None,
            second_baseline: None,
        };)*
    };
}

workloads! {
    Q0 = q0, "nexmark-q0", "the bids, as they are";
    Q1 = q1, "nexmark-q1", "the bids, priced in another currency";
    Q2 = q2, "nexmark-q2", "the bids on auctions whose number is a multiple of 123";
    Q3 = q3, "nexmark-q3", "who in three states sells in a category: a join without bounds";
    Q4 = q4, "nexmark-q4", "average winning bid per category; in order";
    Q5 = q5, "nexmark-q5", "hottest auctions of 10 s, every 2 s";
    Q6 = q6, "nexmark-q6", "average winning bid of a seller's last ten auctions; in order";
    Q7 = q7, "nexmark-q7", "highest bids of 10 s: a window, joined with the bids";
    Q8 = q8, "nexmark-q8", "who registered and sold in the same 10 s: a join by windows";
    Q11 = q11, "nexmark-q11", "bids per bidder and session";
    Q12 = q12e, "nexmark-q12e", "bids per bidder and 10 s of event time";
    Q15 = q15e, "nexmark-q15e", "daily counts, bidders and auctions";
    Q17 = q17, "nexmark-q17", "daily statistics per auction";
    Q19 = q19, "nexmark-q19", "ten highest bids of each auction; in order";
}

fn prepare(setting: &Setting) -> Prepared {
    let entries = Generator::new(setting.seed, PACE, DISORDER).take(setting.events).collect();
    Prepared { entries, ..Prepared::default() }
}

/// The prepared events as a stream: each is cloned, which copies no text.
fn entries(prepared: &Prepared, query: &Query) -> Stream<impl Build<Out = Entry> + use<>> {
    let reader = Reader { entries: prepared.entries.clone(), next: 0 };
    query.source("entries", source::events(reader)).watermarks(Watermarks::bounded(SLACK))
}

/// Reads shared events as a source does.
struct Reader {
    entries: Arc<[Event<Entry>]>,
    next: usize,
}

impl Iterator for Reader {
    type Item = Event<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Event<Entry>> {
        let event = self.entries.get(self.next)?.clone();
        self.next += 1;
        Some(event)
    }
}

/// Mixes what it is fed into a word.
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }

    fn finish(&self) -> u64 {
        scatter(self.0)
    }
}

/// Runs the query into a checksum that is the same for any order of rows.
fn finish<B>(engine: &Engine, query: Query, rows: Stream<B>) -> Outcome
where
    B: Build,
    B::Out: Hash,
{
    let (sink, result) = checksum(|all: u64, event: &Event<B::Out>| {
        let mut mixer = Mixer(0);
        event.value.hash(&mut mixer);
        all.wrapping_add(mixer.finish())
    });
    rows.sink(sink);
    run(engine, query, &result)
}
