//! What the examples and `mizzle demo` share: real data, and the queries that they run on it.
//!
//! The examples themselves are the numbered files beside this one; the README lists them.

pub mod flights;
