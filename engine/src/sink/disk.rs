//! A disk that can be full, for the tests of sinks that write.

use std::io::{self, Write};
use std::sync::Arc;

use crate::sync::Mutex;

/// What is written to: has room for so many bytes.
#[derive(Clone)]
pub struct Disk {
    pub written: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.written.lock();
        if written.len() + bytes.len() > self.room {
            return Err(io::Error::other("the disk is full"));
        }
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn disk(room: usize) -> Disk {
    Disk { written: Arc::default(), room }
}
