//! Patterns: what other systems do with small inputs, faults that users met, real data, and random patterns
//! against a naive matcher.

#[path = "../toolbox/questions.rs"]
#[expect(dead_code, reason = "some of it only the toolbox asks")]
mod asked;
mod cases;
#[path = "../support/mod.rs"]
mod common;
mod conditions;
#[path = "../toolbox/data.rs"]
#[expect(dead_code, reason = "some of it only the toolbox reads")]
mod data;
mod explain;
mod faults;
mod mist;
mod naive;
mod program;
mod questions;
mod random;
mod row;
mod spec;
