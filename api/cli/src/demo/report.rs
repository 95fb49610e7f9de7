//! The report of the demo: what was found, what it cost, and what the flags changed.

use std::fmt::{self, Write};
use std::time::Duration;

use mizzle::plan::Reorder;
use mizzle::{LatencyStats, Status};

use super::round::{Outcome, Round};
use crate::terminal::{Style, grouped, rate, span};

const WIDTH: usize = 88;

/// A round, and what it is compared with if it was not flagged as by default.
pub struct Report<'a> {
    pub round: &'a Round,
    pub default: Option<&'a Round>,
    pub style: Style,
}

impl Report<'_> {
    /// The whole report.
    pub fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes all that is written");
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        self.opening(text)?;
        for outcome in &self.round.outcomes {
            self.findings(text, outcome)?;
        }
        self.figures(text)?;
        if let Some(default) = self.default {
            self.changes(text, default)?;
        }
        self.closing(text)
    }

    fn opening(&self, text: &mut String) -> fmt::Result {
        let workers = match self.round.workers {
            1 => "1 worker".to_owned(),
            workers => format!("{workers} workers"),
        };
        let place = "New York's airports, 1 to 15 February 2013";
        let gap = WIDTH - "Mizzle demo".len();
        writeln!(
            text,
            "\n{}{}",
            self.style.bold("Mizzle demo"),
            self.style.dim(&format!("{place:>gap$}"))
        )?;
        writeln!(
            text,
            "\n12,109 departures arrive as the planes leave. Their event time is when they should\n\
             have left, so they are up to 13 h 29 min out of order. 1,067 flights were cancelled.\n\
             Five queries: one is a group with a member per aircraft, one a join with the weather.\n\
             One engine, {workers}."
        )
    }

    fn title(&self, text: &mut String, name: &str, about: &str, right: &str) -> fmt::Result {
        write!(text, "\n{}  {about}", self.style.bold(name))?;
        let gap = WIDTH.saturating_sub(name.chars().count() + 2 + about.chars().count());
        match right {
            "" => writeln!(text)?,
            bad if bad.starts_with('✗') => {
                writeln!(text, "{}", self.style.bad(&format!("{bad:>gap$}")))?;
            }
            good => writeln!(text, "{}", self.style.good(&format!("{good:>gap$}")))?,
        }
        writeln!(text, "{}", self.style.dim(&"─".repeat(WIDTH)))
    }

    /// A query's answers, and how its chains ran.
    fn findings(&self, text: &mut String, outcome: &Outcome) -> fmt::Result {
        self.title(text, outcome.question.name(), outcome.question.asks(), &verdict(outcome))?;
        if let Status::Failed(failure) = &outcome.status {
            writeln!(text, "  {}", self.style.bad(&failure.to_string()))?;
        }
        for line in &outcome.answers.shown {
            writeln!(text, "  {line}")?;
        }
        let more = outcome.answers.found - outcome.answers.shown.len();
        if more > 0 {
            writeln!(text, "  {}", self.style.dim(&format!("and {more} more")))?;
        }
        writeln!(text)?;
        (0..outcome.plan.pieces().len()).try_for_each(|piece| self.chain(text, outcome, piece))
    }

    /// In which mode a piece of the plan ran, and why.
    fn chain(&self, text: &mut String, outcome: &Outcome, index: usize) -> fmt::Result {
        let piece = &outcome.plan.pieces()[index];
        let shards: Vec<_> = outcome.chains.iter().filter(|chain| chain.piece == index).collect();
        let held = grouped(shards.iter().map(|chain| chain.stats.held_max as u64).sum());
        let names = shards.first().map_or(String::new(), |chain| chain.operators.join(" › "));
        let mending = match piece.reorder {
            Reorder::Never => String::new(),
            Reorder::Stage => format!("; its reorder stage held up to {held} events"),
            Reorder::Merge => format!("; its merge by time held up to {held} events"),
        };
        let why = self.style.dim(&format!("{}{mending}", piece.reason));
        // What is too long for its column has the reason below.
        let gap = if names.chars().count() > 28 { format!("\n{:12}", "") } else { String::new() };
        writeln!(text, "  {:<10}{names:<30}{gap}{why}", piece.mode.to_string())
    }

    /// What each query took.
    fn figures(&self, text: &mut String) -> fmt::Result {
        self.title(text, "figures", "all queries at the same time", "")?;
        let row = |text: &mut String, name: &str, cells: [String; 6]| {
            let [events, late, rate, mean, max, held] = cells;
            writeln!(
                text,
                "  {name:<14}{events:>9}{late:>7}{rate:>12}{mean:>14}{max:>13}{held:>14}"
            )
        };
        let heads = ["events", "late", "throughput", "mean latency", "max", "held at most"];
        let mut head = String::new();
        row(&mut head, "", heads.map(str::to_owned))?;
        write!(text, "{}", self.style.dim(&head))?;
        let round = self.round;
        let line = |events, late, elapsed, latency: LatencyStats, held| {
            let (mean, max) = (latency.mean_nanos().unwrap_or(0), latency.max_nanos);
            let (mean, max) = (Duration::from_nanos(mean), Duration::from_nanos(max));
            let (events, late, rate) = (grouped(events), grouped(late), rate(events, elapsed));
            [events, late, rate, span(mean), span(max), grouped(held)]
        };
        for it in &round.outcomes {
            let cells = line(it.events(), it.late(), it.elapsed, it.latency(), it.held());
            row(text, it.question.name(), cells)?;
        }
        let (events, late) = (round.total(Outcome::events), round.total(Outcome::late));
        let held = round.total(Outcome::held);
        row(text, "together", line(events, late, round.elapsed, round.latency(), held))?;
        let (p50, p99, elapsed) = (span(round.p50), span(round.p99), span(round.elapsed));
        writeln!(
            text,
            "  {}",
            self.style.dim(&format!(
                "from source to answer: half within {p50}, all but 1 % within {p99}; over after {elapsed}"
            ))
        )
    }

    /// What is other than with the default flags.
    fn changes(&self, text: &mut String, default: &Round) -> fmt::Result {
        self.title(text, "what the flags change", "the same queries, run both ways", "")?;
        let head = format!("  {:<18}{:<20}{:<20}{}", "", "by default", "now", "answer");
        writeln!(text, "{}", self.style.dim(&head))?;
        for (before, now) in default.outcomes.iter().zip(&self.round.outcomes) {
            let (was, is) = (order(before), order(now));
            let answer = if now.is_right() {
                self.style.good("✓ stays the same")
            } else {
                let verdict = now.answers.verdict;
                let (right, all) = (verdict.right, verdict.right + verdict.missing);
                let changed =
                    format!("✗ becomes wrong: {right} of {all}, {} false", verdict.spurious);
                self.style.bad(&changed)
            };
            writeln!(text, "  {:<18}{was:<20}{is:<20}{answer}", now.question.name())?;
        }
        let lucky = |it: &&Outcome| it.is_right() && it.question.needs_order() && !it.flagged;
        if let Some(lucky) = self.round.outcomes.iter().find(lucky) {
            let name = lucky.question.name();
            let luck = format!(
                "  {name} is right because these planes leave nearly as scheduled, not by promise"
            );
            writeln!(text, "{}", self.style.dim(&luck))?;
        }
        writeln!(text)?;
        let nanos = |nanos| span(Duration::from_nanos(nanos));
        let both = [default, self.round];
        let [stages, held] = [Outcome::reorders, Outcome::held]
            .map(|count: fn(&Outcome) -> u64| both.map(|round| grouped(round.total(count))));
        let mean = both.map(|round| nanos(round.latency().mean_nanos().unwrap_or(0)));
        let max = both.map(|round| nanos(round.latency().max_nanos));
        let rows = [
            ("reorder stages", stages),
            ("held at most", held),
            ("mean latency", mean),
            ("max latency", max),
        ];
        for (name, [was, is]) in rows {
            writeln!(text, "  {name:<18}{was:<20}{is}")?;
        }
        Ok(())
    }

    fn closing(&self, text: &mut String) -> fmt::Result {
        let wrong: Vec<_> = self.round.outcomes.iter().filter(|it| !it.is_right()).collect();
        let broken = wrong.iter().any(|outcome| !outcome.is_as_promised());
        let names = wrong.iter().map(|it| it.question.name()).collect::<Vec<_>>().join(" and ");
        let line = match (wrong.is_empty(), broken) {
            (true, _) => self.style.good("✓ All answers are right."),
            (false, true) => self.style.bad(&format!("✗ Wrong, and should not be: {names}.")),
            (false, false) => {
                format!("Wrong, because it depends on order and is not flagged: {names}.")
            }
        };
        writeln!(text, "\n{line}\n")
    }
}

/// How many answers there are, and whether they are right.
fn verdict(outcome: &Outcome) -> String {
    let (found, verdict) = (outcome.answers.found, outcome.answers.verdict);
    if outcome.is_right() {
        format!("✓ {found} answers, all right")
    } else {
        let expected = verdict.right + verdict.missing;
        format!("✗ {found} answers, {} of {expected} right", verdict.right)
    }
}

fn order(outcome: &Outcome) -> &'static str {
    if outcome.flagged { "in order" } else { "as they arrive" }
}
