//! Events from other threads, results to other threads, and an end in good order: `drain`.

use std::error::Error;
use std::thread;
use std::time::Duration;

use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Engine, PushError, Query, Status, WhenFull, Windows, aggregate};

struct Request {
    millis: i64,
    bytes: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let query = Query::new("traffic");
    let (requests, stream) =
        query.push_source("requests", |r: &Request| Timestamp::from_millis(r.millis));
    let seconds = stream
        // The threads are not in step with each other.
        .watermarks(Watermarks::bounded(Duration::from_secs(10)))
        .window(Windows::tumbling(Duration::from_secs(1)))
        .aggregate(aggregate::sum(|r: &Request| r.bytes))
        // When 100 results wait to be received the query waits too, and in the end the pushers.
        .channel(100, WhenFull::Wait);

    let engine = Engine::new()?;
    let handle = engine.submit(query)?;

    let pushers: Vec<_> = (0..4)
        .map(|_| {
            let requests = requests.clone();
            thread::spawn(move || {
                for millis in 0..5_000 {
                    let pushed = requests.push(Request { millis, bytes: 10 });
                    pushed.expect("the query takes events until it is drained");
                }
            })
        })
        .collect();
    let receiver =
        thread::spawn(move || seconds.iter().map(|event| event.value).collect::<Vec<_>>());
    for pusher in pushers {
        pusher.join().expect("a pusher does not panic");
    }

    // What was pushed is processed, windows that are still open close, and the channel ends.
    handle.drain();
    assert_eq!(handle.wait(), Status::Completed);
    let late = requests.push(Request { millis: 6_000, bytes: 1 });
    assert!(matches!(late, Err(PushError::Closed(_))));

    let results = receiver.join().expect("the receiver does not panic");
    for second in &results {
        println!("{}  {} bytes", second.start, second.value);
    }
    assert_eq!(results.iter().map(|second| second.value).collect::<Vec<_>>(), [40_000; 5]);
    Ok(())
}
