//! Files, lines of JSON, paced replay, standard input.

mod faults;
mod files;
mod pace;
mod waiting;

use std::path::{Path, PathBuf};

/// A folder of this test's own, gone when it is over.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mizzle-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file with `text` in it.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
