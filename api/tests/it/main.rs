//! The tests of the crate `mizzle`, as a user would use it.

#[path = "../support/mod.rs"]
mod common;
mod compile_fail;
mod culprits;
mod dags;
mod engine_cases;
mod faults;
mod groups;
mod modes;
mod refusals;
mod shared_sources;
mod smoke;
mod soak;
mod waiting;
