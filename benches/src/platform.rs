//! What the operating system knows about this process.

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time that all threads of this process have used.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The most memory this process has held, in bytes, where the system tells.
pub fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The commit of the source tree that this was built from, and whether files differ from it.
pub fn commit() -> Option<String> {
    static COMMIT: LazyLock<Option<String>> = LazyLock::new(ask_for_commit);
    COMMIT.clone()
}

fn ask_for_commit() -> Option<String> {
    let git = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let told =
        Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR")]).args(git).output().ok()?;
    let commit = String::from_utf8(told.stdout).ok()?;
    Some(commit.trim().to_owned()).filter(|commit| told.status.success() && !commit.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_cpu_time() {
        let before = cpu_time();
        let sum: u64 = std::hint::black_box((0..5_000_000u64).map(std::hint::black_box).sum());
        assert!(sum > 0 && cpu_time() > before);
    }
}
