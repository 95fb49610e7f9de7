//! The toolbox: what people do daily with streams, as a user would write it.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "some of it only others need")]
mod common;
mod data;
mod io;
mod joins;
mod others;
mod processing_time;
mod questions;
mod support;
mod windows;
