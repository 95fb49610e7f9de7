#![doc = include_str!("README.md")]

mod actions;
mod assemble;
mod chain;
mod channel;
mod context;
mod engine;
mod group;
mod intake;
#[cfg(all(test, loom))]
mod loom_tests;
mod outcome;
mod outlet;
mod parker;
mod plans;
mod pool;
mod port;
mod push;
mod query;
mod shared;
mod sleep;
mod stats;
#[cfg(all(test, not(loom)))]
mod tests;
mod tickets;
mod timers;
mod token;

pub use actions::ActionsOp;
pub use assemble::Assembler;
pub use channel::{ChannelOp, Receiver, Sender, WhenFull, channel};
pub use context::{
    ContextBuilder, ContextCx, ContextHandle, ContextId, ContextOp, ContextStats, Contexts,
    ContextsStats, Ended, Feed, Handlers, Stepped, Target, TimerId,
};
pub use engine::{Engine, EngineError, QueryHandle, Settings};
pub use group::{Group, GroupError, GroupStats, MemberFull, Shared as GroupCore};
pub use outcome::Status;
pub use outlet::{Outlet, Router};
pub use pool::TaskRef;
pub use port::{Port, Room};
pub use push::{Line, PushError, PushHandle};
pub use query::{ChainReport, QueryFailure, QueryId};
pub use shared::{
    Declared, Derived, Found, KeyIndex, KeySubscription, Lag, Lease, Log, SharedStats,
    SubscriberStats, Terms,
};
pub use stats::{ChainStats, LatencyStats};
