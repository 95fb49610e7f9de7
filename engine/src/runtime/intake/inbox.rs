//! A port's packets: from other chains, or from producers outside the engine.

use std::collections::VecDeque;
use std::sync::Arc;

use super::fanin::Fanin;
use super::{Intake, Progress, Pulled};
use crate::event::{Batch, Event};
use crate::operator::Flow;
use crate::runtime::port::{Load, Packet, Port};
use crate::runtime::query::QueryCore;
use crate::time::Timestamp;

/// A port's packets; with a merge, in the deterministic order of a union.
pub struct InboxIntake<T> {
    port: Arc<Port<T>>,
    packets: VecDeque<Packet<T>>,
    inputs: Fanin<T>,
    /// Whether its packets come from producers outside the engine, whose events nobody has judged.
    from_outside: bool,
}

impl<T: Send + 'static> InboxIntake<T> {
    /// An intake from `port`. With `merge` its inputs, each in order, are merged by time; a merge
    /// that would have to hold more than `cap` events fails the query.
    pub fn new(port: Arc<Port<T>>, merge: bool, cap: usize) -> Self {
        let inputs = Fanin::new(usize::from(port.inputs()), merge, cap);
        Self { port, packets: VecDeque::new(), inputs, from_outside: false }
    }

    /// Takes in what has arrived: into `out` what needs no merge.
    fn receive(&mut self, budget: usize, out: &mut Batch<T>) -> Pulled {
        let more = self.fetch(budget);
        self.unpack(more, out)
    }

    /// Sees to it that there are packets, if any have come. Whether there is more in the port.
    fn fetch(&mut self, budget: usize) -> bool {
        // What was left behind comes first. Whether the port has more is not known then.
        !self.packets.is_empty() || self.port.take(budget, &mut self.packets)
    }

    /// Takes in what has been fetched; there is `more` in the port.
    fn unpack(&mut self, more: bool, out: &mut Batch<T>) -> Pulled {
        let mut pulled = Pulled { more, ..Pulled::default() };
        while let Some(packet) = self.packets.pop_front() {
            if pulled.born == 0 {
                pulled.born = packet.born;
            }
            let (is_notes, input) = (packet.is_notes(), usize::from(packet.input));
            let promises = self.from_outside && packet.watermark > Timestamp::MIN;
            if !is_notes {
                self.inputs.accept(input, packet.load.into_batch(), out, &mut pulled);
                self.inputs.promise(input, packet.watermark, packet.flow);
            }
            let notes = !packet.notes.is_empty();
            pulled.notes = packet.notes;
            if promises || notes {
                // What comes behind a note waits until it has been heeded, and what a producer pushes
                // behind a promise until that is known to those who judge lateness.
                pulled.more |= !self.packets.is_empty();
                break;
            }
        }
        pulled
    }
}

impl<T: Send + 'static> Intake for InboxIntake<T> {
    type Item = T;

    fn take(&mut self, budget: usize, out: &mut Batch<T>) -> Pulled {
        let mut pulled = self.receive(budget, out);
        self.inputs.release(out);
        self.inputs.check(&mut pulled);
        pulled
    }

    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        batch: &mut Batch<T>,
        run: &mut impl FnMut(Event<T>, bool),
    ) -> Pulled {
        let mut pulled = self.receive(budget, batch);
        self.inputs.release_to(batch, run);
        self.inputs.check(&mut pulled);
        pulled
    }

    fn progress(&self) -> Progress {
        self.inputs.progress()
    }

    fn held(&self) -> usize {
        self.inputs.held()
    }

    fn holding(&self) -> Option<usize> {
        self.inputs.inputs().holding()
    }

    fn close(&mut self) {
        self.port.close();
        self.packets.clear();
    }
}

/// What producers outside the engine pushed.
pub struct PushIntake<T> {
    inbox: InboxIntake<T>,
    query: Arc<QueryCore>,
    ending: Option<Flow>,
    drained: bool,
}

impl<T: Send + 'static> PushIntake<T> {
    /// An intake from a port that producers push to, until they are gone or the query is drained
    /// or stopped.
    pub fn new(port: Arc<Port<T>>, query: Arc<QueryCore>) -> Self {
        let inbox = InboxIntake::new(port, false, usize::MAX);
        let inbox = InboxIntake { from_outside: true, ..inbox };
        Self { inbox, query, ending: None, drained: false }
    }

    /// Looks whether the query has been told to end.
    fn see_ending(&mut self) {
        if self.ending.is_none() {
            self.ending = self.query.control.ending();
            if self.ending.is_some() {
                // From here on pushes are refused, so what is found now is the rest.
                self.inbox.port.seal();
            }
        }
    }
}

impl<T: Send + 'static> Intake for PushIntake<T> {
    type Item = T;

    fn take(&mut self, budget: usize, batch: &mut Batch<T>) -> Pulled {
        self.see_ending();
        let pulled = self.inbox.take(budget, batch);
        self.drained = self.ending.is_some() && !pulled.more;
        pulled
    }

    /// Where nothing but batches has been pushed, values and times meet only here.
    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        batch: &mut Batch<T>,
        run: &mut impl FnMut(Event<T>, bool),
    ) -> Pulled {
        self.see_ending();
        let more = self.inbox.fetch(budget);
        let pulled = if self.inbox.packets.iter().all(Packet::is_apart) {
            let mut pulled = Pulled { more, ..Pulled::default() };
            while let Some(packet) = self.inbox.packets.pop_front() {
                let Load::Apart(times, values) = packet.load else { continue };
                pulled.taken += values.len() as u64;
                pulled.born = if pulled.born == 0 { packet.born } else { pulled.born };
                for (time, value) in times.into_iter().zip(values) {
                    run(Event::new(time, value), false);
                }
            }
            pulled
        } else {
            self.inbox.unpack(more, batch)
        };
        self.drained = self.ending.is_some() && !pulled.more;
        pulled
    }

    fn progress(&self) -> Progress {
        let progress = self.inbox.progress();
        let flow = self
            .ending
            .filter(|_| self.drained && !progress.flow.is_over())
            .unwrap_or(progress.flow);
        Progress { flow, ..progress }
    }

    fn close(&mut self) {
        self.inbox.close();
    }
}
