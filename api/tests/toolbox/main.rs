//! The tests of what users build their queries from: sources and sinks, windows, joins, timers.

mod io;
mod processing_time;
mod support;
