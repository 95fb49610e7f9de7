//! From a plan and typed operators to chains.

use std::sync::{Arc, Weak};

use crate::event::Event;
use crate::operator::group::{Members, Program, Select};
use crate::operator::{Consumer, OpId};
use crate::plan::{Mode, Plan, Reorder};
use crate::source::{BadRecord, Source};
use crate::time::{Timestamp, Watermarks};

use super::chain::{Chain, Frame, Typed, Work};
use super::engine::{Settings, Shared};
use super::group::Shared as GroupCore;
use super::intake::{
    Assigned, InboxIntake, Intake, Progress, PushIntake, Several, SourceIntake, SourceWaker, Timed,
};
use super::outlet::{Outlet, Router, Target};
use super::pool::Task;
use super::port::{Packet, Port, Room};
use super::push::Line;
use super::query::{Inflow, QueryCore};

/// Builds the chains of one query, downstream ones first.
pub struct Assembler {
    pub(super) engine: Arc<Shared>,
    pub(super) query: Arc<QueryCore>,
    /// What was said since the last chain: it belongs to the next.
    coming: Coming,
    /// Chains are made when all inputs of all ports are known.
    pending: Vec<Pending>,
}

/// A chain that is yet to be made. As little of it as can be depends on the chain's types.
struct Pending {
    frame: Frame,
    work: MakeWork,
    read: Arc<dyn Readable>,
}

type MakeWork = Box<dyn FnOnce(&Frame) -> Box<dyn Work>>;

/// What a chain reads, and which wakes it.
pub(super) trait Readable {
    /// Says which chain that is, and how many events may wait for it.
    fn attach(&self, chain: Weak<dyn Task>, capacity: usize);
}

/// A port, whatever its payload.
trait Inbox: Readable + Inflow {}

impl<T: Send + 'static> Inbox for Port<T> {}

/// What is known of the chain being built.
#[derive(Clone, Default)]
struct Coming {
    outlets: Vec<Arc<dyn Room>>,
    has_sink: bool,
    by_clock: bool,
}

impl Assembler {
    pub(super) fn new(engine: Arc<Shared>, query: Arc<QueryCore>) -> Self {
        Self { engine, query, coming: Coming::default(), pending: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<Arc<Chain>> {
        self.query.expect(self.pending.len());
        let capacity = self.engine.settings().inbox_capacity;
        // Not collected: a list made in the place of this one would keep its room, for every query.
        let mut chains = Vec::with_capacity(self.pending.len());
        for Pending { frame, work, read } in self.pending {
            let work = work(&frame);
            let chain = Chain::new(frame, work);
            let task: Arc<dyn Task> = chain.clone();
            read.attach(Arc::downgrade(&task), capacity);
            chains.push(chain);
        }
        chains
    }

    /// A chain that reads `read`, to be made when all inputs of all ports are known.
    pub(super) fn chain(&mut self, frame: Frame, read: Arc<dyn Readable>, work: MakeWork) {
        self.pending.push(Pending { frame, work, read });
    }

    /// As `chain`, where the intake is known already.
    pub(super) fn chain_of<I, C>(
        &mut self,
        frame: Frame,
        read: Arc<dyn Readable>,
        intake: I,
        consumer: C,
    ) where
        I: Intake,
        C: Consumer<I::Item>,
    {
        let typed = Typed::new(intake, Arc::new(consumer), frame.exclusive);
        self.chain(frame, read, Box::new(move |_| Box::new(typed)));
    }

    /// The plan that is being carried out.
    pub fn plan(&self) -> &Plan {
        &self.query.plan
    }

    /// The chain being built ends in a sink.
    pub fn sink(&mut self) {
        self.coming.has_sink = true;
    }

    /// The chain being built has an operator that goes by processing time.
    pub fn by_clock(&mut self) {
        self.coming.by_clock = true;
    }

    /// The chain being built also goes to `room`, which may be full.
    pub fn room(&mut self, room: Arc<dyn Room>) {
        self.coming.outlets.push(room);
    }

    /// An outlet of the piece `from` to input `input` of `port`.
    pub fn outlet<T: Send + 'static>(
        &mut self,
        from: usize,
        port: &Arc<Port<T>>,
        input: u16,
    ) -> Outlet<T> {
        Outlet::new(self.target(from, port, input))
    }

    /// An outlet of the piece `from` to all of `ports`, each of which has this one input, for the
    /// operator `share`.
    pub fn fanout<T: Clone + Send + 'static>(
        &mut self,
        share: OpId,
        from: usize,
        ports: &[Arc<Port<T>>],
    ) -> Outlet<T> {
        let targets = self.targets(from, ports, 0);
        Outlet::to_all(share, targets)
    }

    fn targets<T>(&mut self, from: usize, ports: &[Arc<Port<T>>], input: u16) -> Vec<Target<T>>
    where
        T: Send + 'static,
    {
        let mut targets = Vec::with_capacity(ports.len());
        for port in ports {
            targets.extend(self.target(from, port, input));
        }
        targets
    }

    /// `None`: nobody reads that port.
    fn target<T: Send + 'static>(
        &mut self,
        from: usize,
        port: &Arc<Port<T>>,
        input: u16,
    ) -> Option<Target<T>> {
        if !port.is_used() {
            return None;
        }
        self.coming.outlets.push(port.clone());
        Some(Target::new(port.clone(), input, self.plan().pieces()[from].shards))
    }

    /// Cuts the chain before `op`, which becomes the first operator of chains of its own (as many as
    /// it has shards) that run `consumer`; the returned outlet is for what is upstream.
    pub fn cut<T, C>(&mut self, op: OpId, consumer: C) -> Outlet<T>
    where
        T: Send + 'static,
        C: Consumer<T>,
    {
        let piece = self.plan().piece_of(op).expect("an operator to cut before is in a piece");
        let port = Port::new(1);
        port.mark_used();
        self.inbox(piece, port.clone(), consumer);
        let from = self.plan().pieces()[piece].inputs[0];
        self.outlet(from, &port, 0)
    }

    /// As `cut`, into the shards of `op`, with a router that sends each event to the shard of its
    /// key's `hash`.
    pub fn cut_shards<T, C, F>(&mut self, op: OpId, consumer: C, hash: F) -> Router<T, F>
    where
        T: Send + 'static,
        C: Consumer<T>,
        F: Fn(&T) -> u64 + Send + Sync + 'static,
    {
        let piece = self.plan().piece_of(op).expect("an operator to cut before is in a piece");
        let from = self.plan().pieces()[piece].inputs[0];
        let ports = self.shards(piece, 1, consumer);
        self.lanes(from, op, &ports, 0, hash)
    }

    /// The chains of the join at the head of `segment`, one for each of its shards. The ports they read
    /// have an input for each of both sides.
    pub fn join<T, C>(&mut self, segment: usize, consumer: C) -> Vec<Arc<Port<T>>>
    where
        T: Send + 'static,
        C: Consumer<T>,
    {
        self.shards(self.plan().head_of(segment), 2, consumer)
    }

    /// The chains of a piece, one for each of its shards, each with a port of so many inputs.
    fn shards<T, C>(&mut self, piece: usize, inputs: u16, consumer: C) -> Vec<Arc<Port<T>>>
    where
        T: Send + 'static,
        C: Consumer<T>,
    {
        let shards = self.plan().pieces()[piece].shards;
        let consumer = Arc::new(consumer);
        let coming = std::mem::take(&mut self.coming);
        let mut ports = Vec::with_capacity(usize::from(shards));
        for shard in 0..shards {
            let port = Port::new(inputs);
            port.mark_used();
            let work = inbox_work(port.clone(), consumer.clone());
            let frame = self.frame(piece, shard, coming.clone());
            self.inbox_chain(frame, port.clone(), work);
            ports.push(port);
        }
        ports
    }

    /// A chain that reads `port`: piece `piece`, running `consumer`.
    pub fn inbox<T, C>(&mut self, piece: usize, port: Arc<Port<T>>, consumer: C)
    where
        T: Send + 'static,
        C: Consumer<T>,
    {
        let frame = self.next_frame(piece);
        let work = inbox_work(port.clone(), Arc::new(consumer));
        self.inbox_chain(frame, port, work);
    }

    /// The lanes of a group, as the head of `segment`: as many chains as the plan says, each hosting
    /// some of the members that run `chain`. The ports they read are for what is upstream.
    pub fn group<S, P, C>(
        &mut self,
        segment: usize,
        program: Program<S, P, C>,
        group: &GroupCore<S::On, P>,
    ) -> Vec<Arc<Port<S::In>>>
    where
        S: Select,
        P: Clone + Send + Sync + 'static,
        C: Consumer<(P, S::Event)>,
    {
        let piece = self.plan().head_of(segment);
        let lanes = self.plan().pieces()[piece].shards;
        let program = Arc::new(program);
        let ports: Vec<_> = (0..lanes).map(|_| Port::new(1)).collect();
        // Members have no processing time.
        let coming = Coming { by_clock: false, ..std::mem::take(&mut self.coming) };
        for (lane, port) in ports.iter().enumerate() {
            port.mark_used();
            let lane = lane as u16;
            let frame = self.frame(piece, lane, coming.clone());
            let members = Members::new(program.clone(), lane, lanes);
            let work = inbox_work(port.clone(), Arc::new(members));
            self.inbox_chain(frame, port.clone(), work);
        }
        group.attach(self.query.plan.clone(), ports.clone());
        ports
    }

    /// An outlet of the piece `from` to input `input` of the lanes of a group, or of the shards of a keyed
    /// operator: each event to the one that `route` picks.
    pub fn lanes<T, F>(
        &mut self,
        from: usize,
        op: OpId,
        ports: &[Arc<Port<T>>],
        input: u16,
        route: F,
    ) -> Router<T, F>
    where
        T: Send + 'static,
        F: Fn(&T) -> u64 + Send + Sync + 'static,
    {
        let targets = self.targets(from, ports, input);
        Router::new(op, route, targets)
    }

    /// A chain that reads `source`, as the head of `segment`. Records that cannot be read go to
    /// `rejects`.
    pub fn source<S, C>(
        &mut self,
        segment: usize,
        source: S,
        watermarks: Watermarks<S::Item>,
        rejects: Option<Arc<Port<BadRecord>>>,
        consumer: C,
    ) where
        S: Source,
        C: Consumer<S::Item>,
    {
        let frame = self.source_frame(segment, rejects);
        let waker = Arc::<SourceWaker>::default();
        let intake = self.source_intake(source, &waker);
        let intake = timed(self.engine.settings(), self.has_stage(&frame), intake, watermarks);
        self.chain_of(frame, waker, intake, consumer);
    }

    /// As `source`, of several sources that are each judged by `watermarks`.
    pub fn sources<S, C>(
        &mut self,
        segment: usize,
        sources: Vec<S>,
        watermarks: &Watermarks<S::Item>,
        rejects: Option<Arc<Port<BadRecord>>>,
        consumer: C,
    ) where
        S: Source,
        C: Consumer<S::Item>,
    {
        let frame = self.source_frame(segment, rejects);
        let waker = Arc::<SourceWaker>::default();
        let (settings, merge) = (self.engine.settings(), self.has_stage(&frame));
        let stage = merge && !watermarks.is_in_order();
        let intakes = sources.into_iter().map(|source| {
            timed(settings, stage, self.source_intake(source, &waker), watermarks.clone())
        });
        let intake = Several::new(intakes.collect(), merge, settings.hold_cap);
        self.chain_of(frame, waker, intake, consumer);
    }

    fn source_intake<S: Source>(&self, source: S, waker: &Arc<SourceWaker>) -> SourceIntake<S> {
        let clock = self.engine.settings().clock.clone();
        SourceIntake::new(source, self.query.clone(), clock, waker.clone().into())
    }

    /// The frame of a chain that reads a source.
    fn source_frame(&mut self, segment: usize, rejects: Option<Arc<Port<BadRecord>>>) -> Frame {
        let mut frame = self.next_frame(self.plan().head_of(segment));
        if let Some(port) = rejects.filter(|port| port.is_used()) {
            let mut outlets = std::mem::take(&mut frame.outlets).into_vec();
            outlets.push(port.clone());
            frame.outlets = outlets.into_boxed_slice();
            frame.rejects =
                Some(Box::new(move |records, progress| send_rejects(&port, records, progress)));
        }
        frame
    }

    /// A chain that takes what is pushed on `line`, as the head of `segment`.
    pub fn pushed<T, C>(
        &mut self,
        segment: usize,
        line: &Line<T>,
        watermarks: Watermarks<T>,
        consumer: C,
    ) where
        T: Send + 'static,
        C: Consumer<T>,
    {
        let mut frame = self.next_frame(self.plan().head_of(segment));
        let port = line.port().clone();
        line.attach(self.engine.clone(), self.query.id);
        frame.inflow = Some(port.clone());
        let intake = PushIntake::new(port.clone(), self.query.clone());
        let intake = timed(self.engine.settings(), self.has_stage(&frame), intake, watermarks);
        self.chain_of(frame, port, intake, consumer);
    }

    /// A chain that reads `port` and assigns time stamps anew, as the head of `segment`.
    pub fn retimed<T, A, C>(
        &mut self,
        segment: usize,
        port: Arc<Port<T>>,
        assign: A,
        watermarks: Watermarks<T>,
        consumer: C,
    ) where
        T: Send + 'static,
        A: FnMut(&T) -> Timestamp + Send + 'static,
        C: Consumer<T>,
    {
        let mut frame = self.next_frame(self.plan().head_of(segment));
        frame.inflow = Some(port.clone());
        let inbox = port.clone();
        let stage = self.has_stage(&frame);
        let work = move |frame: &Frame| -> Box<dyn Work> {
            let settings = frame.engine.settings();
            let inbox = InboxIntake::new(inbox, false, settings.hold_cap);
            let intake = timed(settings, stage, Assigned::new(inbox, assign), watermarks);
            Box::new(Typed::new(intake, Arc::new(consumer), frame.exclusive))
        };
        self.chain(frame, port, Box::new(work));
    }

    /// A chain that reads `inbox` and does `work`.
    fn inbox_chain(&mut self, mut frame: Frame, inbox: Arc<dyn Inbox>, work: MakeWork) {
        frame.inflow = Some(inbox.clone());
        self.chain(frame, inbox, work);
    }

    /// Whether the plan has put a reorder stage at the entry of the frame's piece.
    pub(super) fn has_stage(&self, frame: &Frame) -> bool {
        frame.reorders(Reorder::Stage)
    }

    pub(super) fn next_frame(&mut self, piece: usize) -> Frame {
        let coming = std::mem::take(&mut self.coming);
        self.frame(piece, 0, coming)
    }

    fn frame(&self, piece: usize, shard: u16, coming: Coming) -> Frame {
        let Coming { outlets, has_sink, by_clock } = coming;
        let plan = &self.query.plan;
        let planned = &plan.pieces()[piece];
        Frame {
            engine: self.engine.clone(),
            query: self.query.clone(),
            piece,
            shard,
            // What the intake does is blamed on the head, where there is one, else on what is first.
            head: plan.head_op(planned).or(planned.ops.first().copied()).unwrap_or_default(),
            exclusive: planned.exclusive,
            ordered: planned.mode == Mode::Ordered,
            ticket_order: planned.ticket_order,
            has_sink,
            by_clock,
            outlets: outlets.into_boxed_slice(),
            rejects: None,
            inflow: None,
        }
    }
}

/// What a chain that reads `port` does.
fn inbox_work<T, C>(port: Arc<Port<T>>, consumer: Arc<C>) -> MakeWork
where
    T: Send + 'static,
    C: Consumer<T>,
{
    Box::new(move |frame| {
        let merge = frame.reorders(Reorder::Merge);
        let intake = InboxIntake::new(port, merge, frame.engine.settings().hold_cap);
        Box::new(Typed::new(intake, consumer, frame.exclusive))
    })
}

fn timed<I: Intake>(
    settings: &Settings,
    stage: bool,
    intake: I,
    watermarks: Watermarks<I::Item>,
) -> Timed<I> {
    Timed::new(intake, watermarks, stage, settings.clock.clone(), settings.hold_cap)
}

fn send_rejects(port: &Port<BadRecord>, records: Vec<BadRecord>, progress: Progress) {
    // They have no event time of their own: they carry what had been promised when they were met,
    // and the stream promises nothing before its end.
    let time = progress.watermark;
    let events: Vec<_> = records.into_iter().map(|record| Event::new(time, record)).collect();
    let flow = if progress.flow.is_over() { progress.flow } else { Default::default() };
    port.push(Packet { flow, ..Packet::of(events.into(), 0) });
}
