//! Real data that are not part of this repository, and the right answers to questions about them.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Where the sets lie, beside the repository, unless the variable MIZZLE_DATA names another folder.
const BESIDE: &str = "../../shared/data";

/// The folder of the set `name`. If there are no sets at all, says so; then the test has nothing to do.
///
/// # Panics
///
/// If there are sets, but not this one.
pub fn set(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join(BESIDE);
    let all = std::env::var_os("MIZZLE_DATA").map_or_else(beside, PathBuf::from);
    if !all.is_dir() {
        println!("skipped: there is no folder {}; MIZZLE_DATA may name another", all.display());
        return None;
    }
    let set = all.join(name);
    assert!(set.is_dir(), "there is no {}", set.display());
    Some(set)
}

/// All rows of a file with headers.
pub fn rows<T: DeserializeOwned>(path: impl AsRef<Path>) -> Vec<T> {
    let path = path.as_ref();
    let reader = csv::Reader::from_path(path);
    let reader = reader.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = reader.into_deserialize().collect::<Result<_, _>>();
    rows.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether a figure is the expected one, which was rounded when it was written down.
pub fn close(got: f64, expected: f64) -> bool {
    (got - expected).abs() <= 1e-5 * expected.abs().max(1.0)
}
