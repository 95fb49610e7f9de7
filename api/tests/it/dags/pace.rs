//! The same program at another pace.

use super::program::*;

/// What a program's times are: so many microseconds apart, from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub unit: u64,
    pub from: i64,
}

/// By a clock that stands still at 0, the end of the window that the first such operator has: later than
/// all times. That of the next is as much later.
const STILL: u64 = 1 << 52;

impl Pace {
    pub fn at(self, time: i64) -> i64 {
        self.from + time * self.unit as i64
    }

    fn window(self, spec: &mut WindowSpec) {
        [&mut spec.size, &mut spec.hop, &mut spec.offset]
            .into_iter()
            .for_each(|length| *length *= self.unit);
    }

    fn updates(self, updates: &mut Updates) {
        [&mut updates.interval, &mut updates.lateness]
            .into_iter()
            .for_each(|length| *length *= self.unit);
    }

    fn fused(self, fused: &mut Fused) {
        self.window(&mut fused.window);
        fused.delay *= self.unit as i64;
    }

    fn kind(self, kind: &mut Kind, own: Zone) {
        match kind {
            Kind::Window(laid, updates) => {
                match laid {
                    Laid::Hopping(spec) | Laid::Cumulative(spec) => self.window(spec),
                    Laid::Calendar(zone, ..) => *zone = own,
                }
                self.updates(updates);
            }
            Kind::Session(gap, updates) => {
                *gap *= self.unit;
                self.updates(updates);
            }
            Kind::Rule(_, length) => *length *= self.unit,
            _ => {}
        }
    }

    fn op(self, op: &mut Op, zone: Zone) {
        match op {
            Op::Stateful { kind, .. } => self.kind(kind, zone),
            Op::Process { delay, .. } => *delay *= self.unit as i64,
            Op::Retime { slack, pace } => {
                *slack *= self.unit;
                *pace = self;
            }
            Op::Fused(fused) => self.fused(fused),
            _ => {}
        }
    }

    fn join(self, join: &mut Join) {
        match join {
            Join::Interval { lower, upper, .. } => {
                [lower, upper].into_iter().for_each(|bound| *bound *= self.unit as i64);
            }
            Join::AsOf { age } => *age *= self.unit,
            Join::Control => {}
            Join::Window { spec, .. } => self.window(spec),
        }
    }
}

impl Program {
    /// Has everything take place at `pace`, by the clocks of `zone`.
    pub fn stretch(&mut self, pace: Pace, zone: Zone) {
        for source in &mut self.sources {
            source.events.iter_mut().for_each(|(time, _)| *time = pace.at(*time));
            source.slack = source.slack.map(|slack| slack * pace.unit);
            source.fused.iter_mut().for_each(|fused| pace.fused(fused));
        }
        let mut still = 0;
        for step in &mut self.steps {
            match step {
                Step::One { op, .. } => {
                    pace.op(op, zone);
                    if let Op::Stateful { kind: Kind::Clocked(end), .. } = op {
                        still += STILL;
                        *end = still;
                    }
                }
                Step::Union { .. } => {}
                Step::Join { join, .. } => pace.join(join),
            }
        }
        for end in &mut self.ends {
            if let End::Fused(fused) = end {
                pace.fused(fused);
            }
        }
    }
}
