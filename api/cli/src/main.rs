//! The command line of Mizzle.

mod demo;
mod interrupt;
mod terminal;

use std::error::Error;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use mizzle_benches::counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

/// Mizzle: a stream processor that hosts anything from one query to a great many.
#[derive(Parser)]
#[command(name = "mizzle", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Ask five questions about real flights, in one engine, and check the answers
    Demo(demo::Args),
    /// Measure a workload, alone or against a hand-written program
    Bench(mizzle_benches::cli::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Bench(args)) => args.run().map(|()| ExitCode::SUCCESS).map_err(Into::into),
        None => help(),
    };
    outcome.unwrap_or_else(|problem| {
        eprintln!("mizzle: {problem}");
        ExitCode::from(2)
    })
}

fn help() -> Result<ExitCode, Box<dyn Error>> {
    terminal::print(&Cli::command().render_help().to_string())?;
    Ok(ExitCode::SUCCESS)
}
