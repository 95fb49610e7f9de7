//! The toolbox: what people do daily with streams, as a user would write it.

mod others;
mod questions;
