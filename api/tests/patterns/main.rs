//! Patterns: what other systems do with small inputs, faults that users met, real data, and random patterns
//! against a naive matcher.

mod cases;
#[path = "../support/mod.rs"]
mod common;
mod conditions;
mod naive;
mod program;
mod random;
mod row;
mod spec;
