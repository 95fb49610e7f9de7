//! The tests of the crate `mizzle`, as a user would use it.

mod compile_fail;
mod dags;
mod engine_cases;
mod faults;
mod modes;
mod shared_sources;
mod smoke;
mod soak;
