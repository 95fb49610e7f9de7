//! The benchmarks as a program of their own; `mizzle bench` runs the same.

use clap::Parser;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Ok(mizzle_benches::cli::Args::parse().run()?)
}
