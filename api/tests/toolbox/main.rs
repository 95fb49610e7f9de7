//! The toolbox of streams, as a user would use it: operators on small inputs, and the questions of real
//! data sets.

mod windows;
