//! The engine of Mizzle: what runs. It has no user-facing sugar; users add the crate `mizzle`.

pub mod cep;
mod event;
pub mod operator;
pub mod plan;
pub mod runtime;
pub mod sink;
pub mod situation;
pub mod source;
pub mod state;
pub mod sync;
pub mod time;

#[cfg(not(loom))]
pub mod harness;

pub use event::{Batch, Event};
