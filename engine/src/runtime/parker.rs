//! One worker's place to sleep.

use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// A flag and a place to wait for it. An `unpark` before `park` is not lost.
#[derive(Debug, Default)]
pub struct Parker {
    unparked: Mutex<bool>,
    changed: Condvar,
}

impl Parker {
    /// Waits for an `unpark` and takes it.
    pub fn park(&self) {
        let mut unparked = self.unparked.lock();
        while !*unparked {
            self.changed.wait(&mut unparked);
        }
        *unparked = false;
    }

    /// Waits for an `unpark`, at most `timeout` if there is one. `true`: it came, and is taken.
    pub fn park_for(&self, timeout: Option<Duration>) -> bool {
        let Some(timeout) = timeout else {
            self.park();
            return true;
        };
        let mut unparked = self.unparked.lock();
        if !*unparked {
            self.changed.wait_for(&mut unparked, timeout);
        }
        std::mem::take(&mut *unparked)
    }

    /// Lets the present or the next `park` through.
    pub fn unpark(&self) {
        *self.unparked.lock() = true;
        self.changed.notify_one();
    }
}
