#![doc = include_str!("README.md")]

mod handle;
mod handlers;
mod inbox;
mod mover;
mod realm;
mod sink;
mod stepped;
mod target;
mod task;
mod turn;
mod waits;
mod watch;

pub use handle::{ContextBuilder, ContextHandle, ContextId, ContextStats};
pub use handlers::Handlers;
pub use realm::{Contexts, ContextsStats};
pub use sink::{ContextOp, Feed};
pub use stepped::Stepped;
pub use target::{Ended, Target};
pub use turn::{ContextCx, TimerId};

pub(super) use realm::Realms;
pub(super) use waits::{Door, Node, Waits};
