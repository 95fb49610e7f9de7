//! What the examples and `mizzle demo` share: real data, and the queries that they run on it.
//!
//! The examples themselves are the numbered files beside this one; the README lists them.

pub mod flights;

use std::path::{Path, PathBuf};

/// Where real data lie that are not part of this repository: the folder that the variable MIZZLE_DATA
/// names, else `../shared/data` beside the repository. If the set `name` is not there, says so.
pub fn other_data(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = std::env::var_os("MIZZLE_DATA").map_or_else(beside, PathBuf::from).join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: there is no folder {}; MIZZLE_DATA may name another", folder.display());
    None
}
