#![doc = include_str!("../README.md")]

mod build;
pub mod context;
mod engine;
pub mod pattern;
mod query;
mod shared_source;
pub mod situation;
pub mod stream;

pub use build::Build;
pub use engine::{Engine, EngineBuilder};
pub use query::{BuildError, Query};
pub use shared_source::{
    FromKey, FromLog, KeyedSource, Lagging, OneKey, SharedSource, SharedSourceBuilder, Subscribe,
};
pub use stream::{BoxedStream, KeyedStream, Shared, Stream};

pub use hdrhistogram::Histogram;
pub use mizzle_engine::Event;
pub use mizzle_engine::operator::aggregate;
pub use mizzle_engine::operator::group::{LaneCounts, MemberId, MemberReport, Span, StateShown};
pub use mizzle_engine::operator::join::{Either, Interval};
pub use mizzle_engine::operator::{
    Phase, ProcessCx, ProcessOp, Trigger, WindowKind, Windowed, Windows,
};
pub use mizzle_engine::plan;
pub use mizzle_engine::runtime::{
    ChainReport, ChainStats, EngineError, Group, GroupError, GroupStats, Lag, LatencyStats,
    MemberFull, PushError, PushHandle, QueryFailure, QueryHandle, QueryId, Receiver, SharedStats,
    Status, SubscriberStats, WhenFull,
};
pub use mizzle_engine::{sink, source, time};

/// What operators that are rules are told and give.
pub mod rule {
    pub use mizzle_engine::operator::rule::{Counter, Crossing, Increase};
}

/// Keyed state and keys.
pub mod state {
    pub use mizzle_engine::state::{FloatKey, Keyed};
}

/// The types of the kinds of windows, which functions of [`Windows`] make.
pub mod window {
    pub use mizzle_engine::operator::{
        Aligned, Between, Calendar, CountWindows, Cumulative, Sessions, Updatable, Updates,
    };
}

/// The front page of the project: its example must run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct FrontPage;
