//! What one more separate query costs, in a program that does nothing else.

use std::alloc::System;
use std::time::{Duration, Instant};

use mizzle::time::Timestamp;
use mizzle::{Engine, Query};
use mizzle_benches::Reading;
use mizzle_benches::counting::{Counting, bytes_of};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

const QUERIES: u64 = 10_000;

#[test]
fn a_separate_query_on_a_key_takes_at_most_a_kilobyte() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let (push, readings) =
        engine.shared_push_source("readings", |_: &Reading| Timestamp::from_secs(0));
    let readings = readings.open().unwrap();
    readings.start();
    let keyed = readings.key_by(|reading| reading.key);
    let mut queries = Vec::with_capacity(QUERIES as usize);
    let quiet = |queries: &[mizzle::QueryHandle]| {
        let begun = Instant::now();
        while queries.iter().any(|query| query.chains()[0].state != "idle") {
            assert!(begun.elapsed() < Duration::from_secs(60), "the queries never come to rest");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let ((), bytes) = bytes_of(|| {
        for key in 0..QUERIES {
            let query = Query::new("small");
            query
                .subscribe(&keyed.at(key))
                .filter(|reading| reading.value > 0)
                .map(|reading| reading.value)
                .apply_stateful(0i64, |sum, value| {
                    *sum += value;
                    *sum
                })
                .for_each(|_| ());
            queries.push(engine.submit(query).unwrap());
        }
        quiet(&queries);
    });
    let each = bytes / QUERIES as i64;
    println!("{each} bytes per query");
    assert!(each <= 1_024, "{each} bytes per query");
    // An event leaves nothing behind in the query that it went to.
    let ((), bytes) = bytes_of(|| {
        (0..QUERIES).for_each(|key| push.push(Reading { key, value: 1 }).unwrap());
        while readings.subscribers().iter().any(|subscriber| subscriber.seen == 0) {
            std::thread::sleep(Duration::from_millis(1));
        }
        quiet(&queries);
    });
    assert!(bytes / (QUERIES as i64) < 32, "{bytes} bytes are left behind");
}
