#![doc = include_str!("README.md")]

mod clock;
mod compile;
mod compose;
mod detection;
mod layout;
mod life;
mod lives;
mod offer;
mod program;
mod quick;
pub mod rule;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod turn;

pub use detection::{Detection, Judge, Open, Search};
pub use layout::{Layout, Renewed};
pub use lives::{Act, Dropped, Lives, Room, Said};
pub use program::{Program, Source};
pub use rule::{InvalidRule, LifespanType, Mapping, Set, Situation, TypeId};
