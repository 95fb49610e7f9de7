//! The rules by which segments are cut into pieces and pieces get their mode.
//!
//! Demand for order starts at operators flagged in-order and passes upstream, through everything, to
//! the sources. A piece under demand that has no state still runs in parallel but commits in ticket
//! order; one with state is ordered. Disorder is mended where it enters: at a source (or a change of
//! time stamps) that was not declared in order, and at every fan-in.

use super::{Head, Mode, Piece, Reorder, Segment, Shape, Site, Spec};
use crate::operator::OpId;
use crate::operator::group::BUCKETS;

/// Lanes of a group per worker.
const LANES_PER_WORKER: usize = 4;

pub(super) fn pieces(spec: &Spec, workers: usize) -> Vec<Piece> {
    let demands = Demands::new(spec);
    let mut planner = Planner { spec, workers, demands, pieces: Vec::new(), last_of: Vec::new() };
    for segment in 0..spec.segments.len() {
        planner.segment(segment);
    }
    planner.pieces
}

/// For every operator, whether its *output* is wanted in order, and by which operator; for every
/// segment, the same of its input.
struct Demands {
    after: Vec<Option<OpId>>,
    entry: Vec<Option<OpId>>,
}

impl Demands {
    fn new(spec: &Spec) -> Self {
        let mut after = vec![None; spec.sites.len()];
        let mut entry = vec![None; spec.segments.len()];
        let mut exit: Vec<Option<OpId>> = vec![None; spec.segments.len()];
        let mut side = vec![None; spec.sites.len()];
        for (index, segment) in spec.segments.iter().enumerate().rev() {
            let mut demand = exit[index];
            for &op in segment.ops.iter().rev() {
                demand = demand.or(side[op.0 as usize]);
                after[op.0 as usize] = demand;
                if spec.sites[op.0 as usize].in_order {
                    demand = Some(op);
                }
            }
            entry[index] = demand;
            if let Head::Side { op } = segment.head {
                side[op.0 as usize] = demand;
                continue;
            }
            for &input in &segment.inputs {
                exit[input] = exit[input].or(demand);
            }
        }
        Self { after, entry }
    }
}

struct Planner<'a> {
    spec: &'a Spec,
    workers: usize,
    demands: Demands,
    pieces: Vec<Piece>,
    /// The last piece of each segment planned so far.
    last_of: Vec<usize>,
}

impl Planner<'_> {
    fn site(&self, op: OpId) -> &Site {
        &self.spec.sites[op.0 as usize]
    }

    fn segment(&mut self, index: usize) {
        let segment = &self.spec.segments[index];
        let demand = self.demands.entry[index];
        let inputs = match segment.head {
            Head::Side { op } => self.piece_with(op),
            _ => segment.inputs.iter().map(|&input| self.last_of[input]).collect(),
        };
        let mut piece = self.piece(index, inputs);
        piece.at_head = true;
        if let Head::Group { .. } = segment.head {
            // Members are in one piece with all of their template: what one keeps nobody else
            // touches, so nothing in it needs a cut.
            piece.exclusive = true;
            piece.shards = self.lanes(index);
            piece.ops.clone_from(&segment.ops);
            let last = self.close(piece, None);
            self.last_of.push(last);
            return;
        }
        piece.reorder = reorder(segment, demand.is_some());
        for &op in &segment.ops {
            let shards = self.shards(op);
            if self.cuts(&piece, op, shards) {
                let from = self.close(piece, Some(op));
                piece = self.piece(index, vec![from]);
            }
            let stateful = self.site(op).shape != Shape::Stateless;
            if stateful && !piece.exclusive {
                piece.exclusive = true;
                piece.shards = shards;
            }
            piece.ops.push(op);
        }
        let last = self.close(piece, None);
        self.last_of.push(last);
    }

    /// The piece that runs `op`, as a list: an operator of a segment planned before is in one.
    fn piece_with(&self, op: OpId) -> Vec<usize> {
        self.pieces.iter().position(|piece| piece.ops.contains(&op)).into_iter().collect()
    }

    fn piece(&self, segment: usize, inputs: Vec<usize>) -> Piece {
        Piece {
            segment,
            at_head: false,
            ops: Vec::new(),
            mode: Mode::Parallel,
            exclusive: false,
            shards: 1,
            reorder: Reorder::Never,
            ticket_order: false,
            reason: String::new(),
            inputs,
        }
    }

    /// Whether `op` or something behind it wants its events in order.
    fn demanded(&self, op: OpId) -> bool {
        self.site(op).in_order || self.demands.after[op.0 as usize].is_some()
    }

    /// In how many lanes the members of the group at the head of `segment` lie.
    fn lanes(&self, segment: usize) -> u16 {
        let behind = match self.spec.segments[segment].ops.last() {
            Some(last) => self.demands.after[last.0 as usize],
            None => self.demands.entry[segment],
        };
        // Several per worker, so that busy members do not all lie with one worker; few enough that a
        // batch still brings a lane many events. A power of two, as the buckets are.
        let lanes = (LANES_PER_WORKER * self.workers).next_power_of_two().min(BUCKETS as usize);
        if self.workers == 1 || behind.is_some() { 1 } else { lanes as u16 }
    }

    /// Into how many shards `op` wants to be split.
    fn shards(&self, op: OpId) -> u16 {
        let splits = self.site(op).shape == Shape::Keyed && !self.demanded(op);
        if splits { self.workers.clamp(1, 256) as u16 } else { 1 }
    }

    /// Whether `piece` is still to get its first operator, and both sides of a join enter there.
    fn enters(&self, piece: &Piece) -> bool {
        let head = &self.spec.segments[piece.segment].head;
        piece.at_head && piece.ops.is_empty() && matches!(head, Head::Join { .. })
    }

    /// Whether `piece` ends before `op`.
    fn cuts(&self, piece: &Piece, op: OpId, shards: u16) -> bool {
        let site = self.site(op);
        if self.workers == 1 || site.shape == Shape::Stateless || self.enters(piece) {
            return false;
        }
        let wanted = piece.ops.last().map(|&last| self.site(last).cut_after);
        if piece.exclusive {
            return piece.shards > 1 || shards > 1;
        }
        shards > 1 || wanted.is_some_and(|wanted| wanted || !self.demanded(op))
    }

    /// Decides how `piece` runs, now that it is complete; `next` is the operator that it was cut
    /// before.
    fn close(&mut self, mut piece: Piece, next: Option<OpId>) -> usize {
        let flagged = piece.ops.iter().copied().find(|&op| self.site(op).in_order);
        let demand = match piece.ops.first() {
            Some(&first) => flagged.or(self.demands.after[first.0 as usize]),
            None => next.map_or(self.demands.entry[piece.segment], |op| {
                if self.site(op).in_order { Some(op) } else { self.demands.after[op.0 as usize] }
            }),
        };
        let last = piece.ops.last().copied();
        let exit = match (next, last) {
            (Some(op), _) if self.site(op).in_order => Some(op),
            (_, Some(op)) => self.demands.after[op.0 as usize],
            (Some(op), None) => self.demands.after[op.0 as usize],
            (None, None) => self.demands.entry[piece.segment],
        };
        let ordered_before = piece.inputs.iter().any(|&from| self.keeps_order(from));
        let guards = next.is_some_and(|op| self.site(op).shape == Shape::Single);
        piece.ticket_order = !piece.exclusive && (exit.is_some() || ordered_before || guards);
        (piece.mode, piece.reason) = if piece.exclusive {
            self.stateful_mode(&piece, flagged, demand)
        } else {
            let why = match exit {
                Some(op) => {
                    format!("no state; commits in ticket order for {:?}", self.site(op).name)
                }
                None if ordered_before => {
                    "no state; commits in ticket order to keep the order before it".into()
                }
                None if guards => {
                    "no state; commits in ticket order, so that arrival order is kept".into()
                }
                None => "no state".into(),
            };
            (Mode::Parallel, why)
        };
        // Where there is one worker, or nothing but the handing on of events, several workers have
        // nothing to win, and the events need not be gathered before they are run.
        piece.exclusive |= self.workers == 1 || piece.ops.is_empty();
        self.pieces.push(piece);
        self.pieces.len() - 1
    }

    fn stateful_mode(
        &self,
        piece: &Piece,
        flagged: Option<OpId>,
        demand: Option<OpId>,
    ) -> (Mode, String) {
        let name = |op: OpId| &self.site(op).name;
        let group = matches!(self.spec.segments[piece.segment].head, Head::Group { .. });
        if let (true, Some(op)) = (group, flagged) {
            let why = "of the template is flagged in-order, so events enter in order";
            return (Mode::Ordered, format!("{:?} {why}", name(op)));
        }
        if let Some(op) = flagged {
            return (Mode::Ordered, format!("{:?} is flagged in-order", name(op)));
        }
        if let Some(op) = demand {
            return (Mode::Ordered, format!("it feeds {:?}, which is flagged in-order", name(op)));
        }
        if group {
            let lanes = if piece.shards == 1 { "lane" } else { "lanes" };
            let why = format!("its members have a state each and lie in {} {lanes}", piece.shards);
            return (Mode::Parallel, why);
        }
        let keyed = piece.ops.iter().find(|&&op| self.site(op).shape == Shape::Keyed);
        let single = piece.ops.iter().find(|&&op| self.site(op).shape == Shape::Single);
        match (single, keyed) {
            (Some(&op), _) => {
                (Mode::Guarded, format!("{:?} has one state for all events", name(op)))
            }
            (None, Some(&op)) => {
                let shards = if piece.shards == 1 { "shard" } else { "shards" };
                (
                    Mode::Parallel,
                    format!("{:?} has a state per key: {} {shards}", name(op), piece.shards),
                )
            }
            (None, None) => (Mode::Guarded, "a sink takes one batch at a time".into()),
        }
    }

    /// Whether what leaves `piece` is in an order that an operator has asked for.
    fn keeps_order(&self, piece: usize) -> bool {
        let piece = &self.pieces[piece];
        let keeps = piece.ticket_order || piece.exclusive && piece.shards == 1;
        piece.mode == Mode::Ordered
            || keeps && piece.inputs.iter().any(|&from| self.keeps_order(from))
    }
}

fn reorder(segment: &Segment, demanded: bool) -> Reorder {
    match segment.head {
        _ if !demanded => Reorder::Never,
        Head::Source { in_order, .. }
        | Head::Key { in_order, .. }
        | Head::Retimed { in_order, .. } => {
            if in_order {
                Reorder::Never
            } else {
                Reorder::Stage
            }
        }
        Head::Union { .. } | Head::Join { .. } => Reorder::Merge,
        Head::Stream | Head::Side { .. } | Head::Group { .. } => Reorder::Never,
    }
}
