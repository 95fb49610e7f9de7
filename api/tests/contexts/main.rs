//! Contexts: the exact order of events, full targets, timers, failures, streams in and out, and random programs.

mod cases;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "some of it only others need")]
mod common;
mod ends;
mod full;
mod random;
mod streams;
mod timers;
mod watch;
