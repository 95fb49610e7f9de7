//! Situations: worked examples, faults that users met, and random rules against a naive evaluator.

mod actions;
mod cases;
mod changes;
#[path = "../support/mod.rs"]
mod common;
mod faults;
mod happening;
mod naive;
mod random;
mod refused;
mod spec;
