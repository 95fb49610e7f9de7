//! Workloads of Mizzle, each beside a hand-written program that does the same.
//!
//! The hand-written programs share no code with the engine. Data is generated before anything is
//! timed; both programs read the same data, in turn, in the same process, and must come to the same
//! checksum. What is compared is CPU time of the whole process, because wall-clock time means little
//! on a shared machine.

mod chart;
pub mod cli;
pub mod counting;
mod data;
mod measure;
pub mod nexmark;
mod page;
mod platform;
mod sweep;
mod workloads;

pub use data::{Data, Reading};
pub use measure::{BenchError, Report, Run, Took, measure, stopwatch};
pub use workloads::{
    KeyKind, Latency, Prepared, Setting, WINDOW_MICROS, WORKLOADS, Workload, average, average_word,
    mix, window_word,
};
