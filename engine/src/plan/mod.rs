//! From a query's description to its partitioned queries: where it is cut, which mode each piece
//! runs in, and where disorder is mended.
//!
//! The description is a list of *segments*: runs of operators between the points where streams fork
//! or meet. The planner cuts segments into *pieces*, each of which becomes a chain. Its rules are the
//! closed table in the README of the crate `mizzle`; `rules.rs` applies them, [`explain`](Plan::explain)
//! shows what came out and why.

mod explain;
mod rules;

use std::panic::Location;
use std::sync::Arc;

use crate::operator::OpId;

/// What an operator keeps, which decides who may run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Nothing.
    Stateless,
    /// One value for all events.
    Single,
    /// A value per key.
    Keyed,
    /// The way out: one value for all events.
    Sink,
}

/// An operator as it is described.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// What the user calls it, else its kind.
    pub name: String,
    /// What it is: `map`, `window`, ...
    pub kind: &'static str,
    /// What it keeps.
    pub shape: Shape,
    /// Whether it is flagged in-order.
    pub in_order: bool,
    /// Whether the user asked to cut the chain behind it (`.parallel()`).
    pub cut_after: bool,
    /// What it is inside, for those who look at the plan. Most have nothing to show, and there may be a great
    /// many queries.
    pub drawn: Option<Box<Drawn>>,
    /// The user's source line.
    pub location: &'static Location<'static>,
}

/// A picture of an operator's inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Drawn {
    /// Lines of text.
    pub text: Vec<String>,
    /// Mermaid's arrows: from, what is said at it, to.
    pub arrows: Vec<(String, String, String)>,
}

/// Where a segment's events come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Head {
    /// A source; `in_order` if it was declared so.
    Source {
        /// The operator that stands for the source in reports.
        op: OpId,
        /// Whether its events come in order of event time.
        in_order: bool,
    },
    /// One key of a shared source.
    Key {
        /// The operator that stands for the subscription in reports.
        op: OpId,
        /// Whether the shared source was declared in order.
        in_order: bool,
    },
    /// One other segment.
    Stream,
    /// The second output of an operator of one other segment.
    Side {
        /// The operator.
        op: OpId,
    },
    /// Several others.
    Union {
        /// The operator that stands for the union in reports.
        op: OpId,
    },
    /// Two others of different types, whose events the operator behind it matches: if it has shards, they
    /// are fed directly.
    Join {
        /// The operator that stands for the union of both in reports.
        op: OpId,
    },
    /// One other segment, whose events a group hands to its members: the segment is their template.
    Group {
        /// The operator that stands for the group in reports.
        op: OpId,
        /// The window among the segment's operators whose slices the members of a key share.
        shared: Option<OpId>,
    },
    /// One other segment whose time stamps are assigned anew.
    Retimed {
        /// The operator that assigns them.
        op: OpId,
        /// Whether the new times are in order.
        in_order: bool,
    },
}

impl Head {
    /// The operator that stands for it in reports, if one does.
    pub fn op(&self) -> Option<OpId> {
        match self {
            Head::Source { op, .. }
            | Head::Key { op, .. }
            | Head::Union { op }
            | Head::Join { op }
            | Head::Group { op, .. }
            | Head::Retimed { op, .. } => Some(*op),
            Head::Stream | Head::Side { .. } => None,
        }
    }
}

/// A run of operators between two points where streams fork or meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Where its events come from.
    pub head: Head,
    /// The segments that feed it, in the order in which they were written.
    pub inputs: Vec<usize>,
    /// Its operators.
    pub ops: Vec<OpId>,
}

/// A query as it was described.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spec {
    /// All operators, by [`OpId`].
    pub sites: Vec<Site>,
    /// All segments; inputs have smaller numbers.
    pub segments: Vec<Segment>,
}

impl Spec {
    /// Whether nothing but single keys of shared sources feeds it. Then there are few events, and
    /// more than one worker would win nothing.
    fn is_on_keys(&self) -> bool {
        let mut heads = self.segments.iter().map(|segment| &segment.head);
        heads.clone().any(|head| matches!(head, Head::Key { .. }))
            && !heads.any(|head| matches!(head, Head::Source { .. }))
    }
}

/// How a piece is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By any number of workers: it has no state, or a state per key in shards.
    Parallel,
    /// One state, taken one at a time, in arrival order.
    Guarded,
    /// By one worker at a time, in event-time order.
    Ordered,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Parallel => "parallel",
            Mode::Guarded => "guarded",
            Mode::Ordered => "ordered",
        })
    }
}

/// What mends disorder at a piece's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reorder {
    /// Nothing: events are taken as they come.
    Never,
    /// A stage that waits for the watermark.
    Stage,
    /// A merge of inputs that are each in order.
    Merge,
}

/// A partitioned query: what becomes a chain.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The segment it is a part of.
    pub segment: usize,
    /// Whether it starts at the segment's head.
    pub at_head: bool,
    /// Its operators.
    pub ops: Vec<OpId>,
    /// How it is run.
    pub mode: Mode,
    /// Whether one worker at a time runs each of its shards: because it has state, or because more
    /// would win nothing.
    pub exclusive: bool,
    /// How many shards it has.
    pub shards: u16,
    /// What mends disorder at its entry.
    pub reorder: Reorder,
    /// Whether batches of a piece that several workers run are committed in the order of their taking.
    pub ticket_order: bool,
    /// Why it runs so.
    pub reason: String,
    /// The pieces that feed it, in the order in which they were written.
    pub inputs: Vec<usize>,
}

/// What was planned.
#[derive(Clone, Debug)]
pub struct Plan {
    spec: Arc<Spec>,
    workers: usize,
    pieces: Vec<Piece>,
}

impl Plan {
    /// Plans `spec` for `workers` workers; one that reads nothing but single keys, for one.
    pub fn new(spec: Spec, workers: usize) -> Self {
        let workers = if spec.is_on_keys() { 1 } else { workers };
        let spec = Arc::new(spec);
        let pieces = rules::pieces(&spec, workers);
        Self { spec, workers, pieces }
    }

    /// The pieces; inputs have smaller numbers.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// What was planned.
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// How many workers it was planned for.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The operator `op` as it was described.
    pub fn site(&self, op: OpId) -> &Site {
        &self.spec.sites[op.0 as usize]
    }

    /// Where a segment's events come from.
    pub fn head(&self, segment: usize) -> &Head {
        &self.spec.segments[segment].head
    }

    /// The piece that runs `op`, if `op` is not a head.
    pub fn piece_of(&self, op: OpId) -> Option<usize> {
        self.pieces.iter().position(|piece| piece.ops.contains(&op))
    }

    /// The piece that starts segment `segment`.
    pub fn head_of(&self, segment: usize) -> usize {
        self.pieces
            .iter()
            .position(|piece| piece.segment == segment && piece.at_head)
            .expect("every segment has a piece at its head")
    }

    /// The piece that ends segment `segment`.
    pub fn tail_of(&self, segment: usize) -> usize {
        self.pieces
            .iter()
            .rposition(|piece| piece.segment == segment)
            .expect("every segment has a piece")
    }

    /// Whether the chain is cut before `op`.
    pub fn is_cut_before(&self, op: OpId) -> bool {
        let piece = self.piece_of(op).map(|piece| &self.pieces[piece]);
        piece.is_some_and(|piece| !piece.at_head && piece.ops.first() == Some(&op))
    }

    /// The operator that stands for a piece's head, where it has one.
    pub(crate) fn head_op(&self, piece: &Piece) -> Option<OpId> {
        self.head(piece.segment).op().filter(|_| piece.at_head)
    }

    /// The names of a piece's operators, its head first.
    pub(crate) fn operator_names(&self, piece: usize) -> Vec<String> {
        let piece = &self.pieces[piece];
        let ops = self.head_op(piece).into_iter().chain(piece.ops.iter().copied());
        ops.map(|op| self.site(op).name.clone()).collect()
    }

    /// What an input of a piece is called: the last operator that feeds it.
    pub(crate) fn input_name(&self, piece: usize, input: usize) -> String {
        let feeding = self.pieces[piece].inputs.get(input).map(|&from| self.operator_names(from));
        feeding.and_then(|names| names.last().cloned()).unwrap_or_else(|| format!("input {input}"))
    }
}

#[cfg(test)]
mod tests;
