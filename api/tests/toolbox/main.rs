//! The toolbox: what people do daily with streams, as a user would write it.

mod data;
mod joins;
mod others;
mod questions;
