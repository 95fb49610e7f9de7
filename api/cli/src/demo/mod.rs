//! `mizzle demo`: five questions about flights, asked in one engine, and what the in-order flag is
//! to each.

mod question;
mod report;
mod round;

use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;

use clap::ValueEnum;

use crate::interrupt::{self, Interrupt};
use crate::terminal::{self, Style};
use question::{Flags, Question};
use report::Report;
use round::Round;

/// What can be said on the command line.
#[derive(clap::Args)]
#[command(after_help = "\
The queries are knock-on, storm, hourly, four-in-a-row and by-wind. By default those whose answers depend on \
order are flagged in-order: knock-on and four-in-a-row.")]
pub struct Args {
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Flag exactly these queries in-order, and show what that changes
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    in_order: Option<Vec<String>>,
    /// Flag no query in-order, and show what that changes
    #[arg(long, conflicts_with = "in_order")]
    unordered: bool,
    /// Print how each query would be run, and why, instead of running it
    #[arg(
        long,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text"
    )]
    explain: Option<Form>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Mermaid,
}

impl Args {
    fn flags(&self) -> Result<Flags, question::UnknownName> {
        match &self.in_order {
            Some(names) => Flags::named(names),
            None if self.unordered => Ok(Flags::none()),
            None => Ok(Flags::default()),
        }
    }

    fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.map_or_else(cores, usize::from)
    }
}

/// Does what `args` say.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let (flags, workers) = (args.flags()?, args.workers());
    if let Some(form) = args.explain {
        terminal::print(&explain(flags, workers, form))?;
        return Ok(ExitCode::SUCCESS);
    }
    let interrupt = Interrupt::install()?;
    let default = if flags == Flags::default() {
        None
    } else {
        // The first round pays for cold caches, so it is not compared with.
        Round::run(workers, Flags::default(), &interrupt)?;
        Some(Round::run(workers, Flags::default(), &interrupt)?)
    };
    let round = Round::run(workers, flags, &interrupt)?;
    let report = Report { round: &round, default: default.as_ref(), style: Style::detect() };
    if interrupt.hit() {
        terminal::print("drained: the answers cover only what had been read\n")?;
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    terminal::print(&report.render())?;
    let as_promised = default.iter().chain([&round]).all(Round::is_as_promised);
    Ok(if as_promised { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn explain(flags: Flags, workers: usize, form: Form) -> String {
    let mut text = String::new();
    for question in Question::ALL {
        let plan = question.ask(flags.has(question)).query.plan(workers);
        let _ = writeln!(text, "## {}: {}\n", question.name(), question.asks());
        let _ = match form {
            Form::Text => writeln!(text, "{}", plan.explain()),
            Form::Mermaid => writeln!(text, "```mermaid\n{}```\n", plan.explain_mermaid()),
        };
    }
    text
}
