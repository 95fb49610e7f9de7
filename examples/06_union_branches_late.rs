//! Streams that meet and fork: a union of two doors, branches by what happened, and late events.

use std::error::Error;
use std::time::Duration;

use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Engine, Query, Status, source};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    In,
    Out,
    Forced,
}

type Passage = (i64, &'static str, Kind);

fn main() -> Result<(), Box<dyn Error>> {
    let front = [(1, "front", Kind::In), (5, "front", Kind::In), (9, "front", Kind::Out)];
    let back = [(2, "back", Kind::In), (7, "back", Kind::Forced), (3, "back", Kind::Out)];
    let at = |passage: &Passage| Timestamp::from_secs(passage.0);

    let query = Query::new("building");
    let front = query.source("front door", source::from_iter(front, at));
    // The back door may be two seconds out of order. Its last event is later than that: it is late.
    let back = query
        .source("back door", source::from_iter(back, at))
        .watermarks(Watermarks::bounded(Duration::from_secs(2)));
    let (doors, late) = front.union(back).split_late();

    // Each event goes to the first branch that wants it.
    let mut kinds = doors.branches();
    let forced = kinds.when(|passage| passage.2 == Kind::Forced);
    let passages = kinds.rest();

    // A union is in order for an operator that is flagged so: it waits for the slower input.
    let people = passages
        .apply_stateful(0, |people, (second, door, kind)| {
            *people += if kind == Kind::In { 1 } else { -1 };
            (second, door, *people)
        })
        .in_order()
        .name("people")
        .collect();
    let (forced, late) = (forced.collect(), late.collect());

    let engine = Engine::new()?;
    assert_eq!(engine.submit(query)?.wait(), Status::Completed);
    println!("people inside {:?}", people.values());
    println!("forced        {:?}", forced.values());
    println!("late          {:?}", late.values());
    assert_eq!(
        people.values(),
        [(1, "front", 1), (2, "back", 2), (5, "front", 3), (9, "front", 2)]
    );
    assert_eq!(forced.values(), [(7, "back", Kind::Forced)]);
    assert_eq!(late.values(), [(3, "back", Kind::Out)]);
    Ok(())
}
