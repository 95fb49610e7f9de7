//! Timers and windows by the clock.

mod faults;
mod other_engines;
mod timers;
mod windows;
