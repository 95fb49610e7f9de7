#![doc = include_str!("README.md")]

mod arena;
mod compile;
mod draw;
mod expr;
mod matches;
mod offer;
mod pattern;
pub mod program;
mod run;
mod settle;
#[cfg(test)]
pub(crate) mod tests;

pub use arena::{Bound, Taken};
pub use expr::{
    Again, Condition, Contiguity, Expr, Limit, Link, Negation, Preference, Step, Times,
};
pub(crate) use matches::after;
pub use matches::{Dropped, Found, Matches, Room};
pub use offer::Facts;
pub use pattern::{AtCap, Cap, Consume, InvalidPattern, Pattern, Report, Skip, Starts};
pub use program::Program;
