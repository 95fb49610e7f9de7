//! The five questions, and which of them are flagged in-order.

use std::cmp::Reverse;
use std::fmt;

use mizzle::Query;
use mizzle::sink::Collected;
use mizzle_examples::flights::{Answer, Verdict, by_wind, four_in_a_row, hourly, knock_on, storm};

/// How many answers of a query are shown.
const SHOWN: usize = 3;

/// Something to find out about the flights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    KnockOn,
    Storm,
    Hourly,
    FourInARow,
    ByWind,
}

impl Question {
    /// All of them, as they are reported.
    pub const ALL: [Self; 5] =
        [Self::KnockOn, Self::Storm, Self::Hourly, Self::FourInARow, Self::ByWind];

    /// What it is called, on the command line too.
    pub fn name(self) -> &'static str {
        match self {
            Self::KnockOn => "knock-on",
            Self::Storm => "storm",
            Self::Hourly => "hourly",
            Self::FourInARow => "four-in-a-row",
            Self::ByWind => "by-wind",
        }
    }

    /// The question in words.
    pub fn asks(self) -> &'static str {
        match self {
            Self::KnockOn => "each of 2,601 aircraft: an hour late twice running",
            Self::Storm => "three hours with half of the flights cancelled",
            Self::Hourly => "delays by airport and hour",
            Self::FourInARow => "four planes running leave an hour late",
            Self::ByWind => "delays by wind: departures joined with the hour's weather",
        }
    }

    /// Whether its answer is only sure to be right where it is flagged in-order. Windows and joins go
    /// by event time and watermark, so theirs is right in any order.
    pub fn needs_order(self) -> bool {
        matches!(self, Self::KnockOn | Self::FourInARow)
    }

    /// Describes the query that answers it.
    pub fn ask(self, in_order: bool) -> Asked {
        match self {
            Self::KnockOn => Asked::new(knock_on::query(in_order)),
            Self::Storm => Asked::new(storm::query(in_order)),
            Self::Hourly => Asked::new(hourly::query(in_order)),
            Self::FourInARow => Asked::new(four_in_a_row::query(in_order)),
            Self::ByWind => Asked::new(by_wind::query(in_order)),
        }
    }
}

/// A query that can be submitted, and what looks at its answers when it is over.
pub struct Asked {
    pub query: Query,
    pub answers: Box<dyn FnOnce() -> Answers>,
}

impl Asked {
    fn new<A: Answer>((query, found): (Query, Collected<A>)) -> Self {
        Self { query, answers: Box::new(move || Answers::new(found.values())) }
    }
}

/// What a query found.
pub struct Answers {
    pub found: usize,
    pub verdict: Verdict,
    /// The most remarkable ones, a line each.
    pub shown: Vec<String>,
}

impl Answers {
    fn new<A: Answer>(mut found: Vec<A>) -> Self {
        let verdict = Verdict::of(&found);
        // By their text too, because unflagged answers come in any order.
        found.sort_by_cached_key(|answer| (Reverse(answer.rank()), answer.to_string()));
        let shown = found.iter().take(SHOWN).map(A::to_string).collect();
        Self { found: found.len(), verdict, shown }
    }
}

/// Which questions are flagged in-order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Flags([bool; Question::ALL.len()]);

impl Default for Flags {
    /// Those that need it.
    fn default() -> Self {
        Self(Question::ALL.map(Question::needs_order))
    }
}

impl Flags {
    /// None of them.
    pub fn none() -> Self {
        Self([false; Question::ALL.len()])
    }

    /// Those that are named.
    pub fn named(names: &[String]) -> Result<Self, UnknownName> {
        let known = |name: &&String| Question::ALL.iter().any(|question| question.name() == *name);
        match names.iter().find(|name| !known(name)) {
            Some(name) => Err(UnknownName(name.clone())),
            None => Ok(Self(Question::ALL.map(|it| names.iter().any(|name| name == it.name())))),
        }
    }

    /// Whether `question` is flagged.
    pub fn has(self, question: Question) -> bool {
        self.0[question as usize]
    }
}

/// A name that no query has.
#[derive(Debug)]
pub struct UnknownName(String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Question::ALL.map(Question::name).join(", ");
        write!(f, "--in-order: there is no query {:?}; there are {names}", self.0)
    }
}

impl std::error::Error for UnknownName {}
