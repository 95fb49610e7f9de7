//! Operators that look at what comes and when: distinct, throttle, sample, debounce, counts within the last
//! while, increases of counters, runs, edges, changes, sorting, state that expires. And the questions about
//! real events that they and plain windows answer.

mod aberdeen;
mod nab;
mod naive;
mod nyc;
mod px4;
mod ssh;
mod zeek;
