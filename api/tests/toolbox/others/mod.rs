//! Operators that look at what comes and when.

mod naive;
