//! The toolbox: what people do daily with streams, as a user would write it.

mod data;
mod io;
mod joins;
mod others;
mod processing_time;
mod questions;
mod support;
