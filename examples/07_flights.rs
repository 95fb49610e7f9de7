//! Real data: which delays of an aircraft followed from the one before? The query is described in
//! `flights/knock_on.rs`; `mizzle demo` runs it beside four others.

use std::error::Error;

use mizzle::{Engine, Status};
use mizzle_examples::flights::{Verdict, knock_on};

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new()?;
    let (query, found) = knock_on::query(true);
    let handle = engine.submit(query)?;
    assert_eq!(handle.wait(), Status::Completed);

    let found = found.values();
    for knock_on in found.iter().take(5) {
        println!("{knock_on}");
    }
    println!("... {} in all\n", found.len());
    println!("{}", handle.plan().explain());

    // Statistics are always on.
    for chain in handle.chains() {
        let stats = chain.stats;
        println!(
            "{}: {} in, {} out, {} held at most",
            chain.operators.join(" > "),
            stats.events_in,
            stats.events_out,
            stats.held_max,
        );
    }
    assert!(Verdict::of(&found).is_right());
    Ok(())
}
