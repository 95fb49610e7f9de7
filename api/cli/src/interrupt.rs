//! Ctrl-C: the first drains what runs, the second leaves at once.

use std::sync::{Arc, Mutex, PoisonError};

use mizzle::QueryHandle;

/// What a process that was interrupted exits with.
pub const EXIT_CODE: u8 = 130;

/// The queries that Ctrl-C drains.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Mutex<Watched>>);

#[derive(Default)]
struct Watched {
    running: Vec<QueryHandle>,
    hit: bool,
}

impl Interrupt {
    /// Takes over Ctrl-C.
    pub fn install() -> Result<Self, ctrlc::Error> {
        let interrupt = Self::default();
        let handler = interrupt.clone();
        ctrlc::set_handler(move || {
            if handler.hit() {
                std::process::exit(EXIT_CODE.into());
            }
            handler.drain();
        })?;
        Ok(interrupt)
    }

    /// Has `queries` drained by Ctrl-C, in place of those before: at once, if it was pressed.
    pub fn watch(&self, queries: Vec<QueryHandle>) {
        self.with(|watched| watched.running = queries);
        if self.hit() {
            self.drain();
        }
    }

    /// Whether Ctrl-C was pressed.
    pub fn hit(&self) -> bool {
        self.with(|watched| watched.hit)
    }

    fn drain(&self) {
        self.with(|watched| {
            watched.hit = true;
            watched.running.iter().for_each(QueryHandle::drain);
        });
    }

    fn with<T>(&self, f: impl FnOnce(&mut Watched) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
