//! Random programs of handlers, with random senders, bounds and schedules: what must hold whoever runs first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mizzle::Engine;
use mizzle::context::{ContextHandle, Handlers, Stepped};
use proptest::prelude::*;

use super::common::{cases, eventually};

/// Kinds of events. What an event causes is of a later kind, so that every program ends.
const KINDS: u8 = 5;

#[derive(Clone, Copy, Debug)]
enum Action {
    Route(u8),
    Enqueue(u8),
    To(u8, u8),
}

/// How an event came about: by which action of which context, the how-manieth of the event before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    context: u8,
    action: u8,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Routed,
    Enqueued,
    Sent,
}

/// An event knows where it comes from, so no two are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Happening {
    sender: u8,
    number: u16,
    kind: u8,
    path: Vec<Step>,
}

impl Happening {
    fn way(&self) -> Option<Way> {
        self.path.last().map(|step| step.way)
    }
}

#[derive(Clone, Debug)]
struct Program {
    /// For each context: whether it is public, and its bound.
    contexts: Vec<(bool, usize)>,
    /// By context and kind.
    actions: BTreeMap<(u8, u8), Vec<Action>>,
    /// For each sender what it sends: a kind, and to whom; to all public ones if to none.
    sends: Vec<Vec<(u8, Option<u8>)>>,
    special: Option<usize>,
}

impl Program {
    /// What an event causes in a context, and whom it is for.
    fn caused(&self, context: u8, event: &Happening) -> Vec<(Happening, Option<u8>)> {
        let actions = self.actions.get(&(context, event.kind));
        let caused = actions.into_iter().flatten().enumerate().map(|(action, what)| {
            let (kind, way, to) = match *what {
                Action::Route(kind) => (kind, Way::Routed, Some(context)),
                Action::Enqueue(kind) => (kind, Way::Enqueued, None),
                Action::To(to, kind) => (kind, Way::Sent, Some(to)),
            };
            let mut path = event.path.clone();
            path.push(Step { context, action: action as u8, way });
            (Happening { kind, path, ..*event }, to)
        });
        caused.collect()
    }

    /// An event and all that is routed because of it, in order.
    fn block(&self, context: u8, event: Happening, block: &mut Vec<Happening>) {
        let caused = self.caused(context, &event);
        block.push(event);
        for (event, _) in caused {
            if event.way() == Some(Way::Routed) {
                self.block(context, event, block);
            }
        }
    }

    fn publics(&self) -> Vec<u8> {
        (0..self.contexts.len() as u8).filter(|&it| self.contexts[it as usize].0).collect()
    }

    /// What every context must process, in no order.
    fn expected(&self) -> Vec<Vec<Happening>> {
        let mut all = vec![Vec::new(); self.contexts.len()];
        let mut left = Vec::new();
        let to_all = |to: Option<u8>| to.map_or_else(|| self.publics(), |to| vec![to]);
        for (sender, sends) in self.sends.iter().enumerate() {
            for (number, &(kind, to)) in sends.iter().enumerate() {
                let event =
                    Happening { sender: sender as u8, number: number as u16, kind, path: vec![] };
                left.extend(to_all(to).into_iter().map(|to| (to, event.clone())));
            }
        }
        while let Some((context, event)) = left.pop() {
            for (caused, to) in self.caused(context, &event) {
                left.extend(to_all(to).into_iter().map(|to| (to, caused.clone())));
            }
            all[context as usize].push(event);
        }
        all
    }

    /// Checks what the contexts have processed.
    fn check(&self, logs: &[Vec<Happening>]) -> Result<(), TestCaseError> {
        for (mut expected, log) in self.expected().into_iter().zip(logs) {
            let mut log = log.clone();
            log.sort();
            expected.sort();
            prop_assert_eq!(log, expected, "all of it, once");
        }
        for (context, log) in logs.iter().enumerate() {
            self.check_blocks(context as u8, log)?;
            self.check_senders(log)?;
            for (from, sent) in logs.iter().enumerate() {
                self.check_sent(context as u8, log, from as u8, sent)?;
            }
        }
        let heard = self.publics().into_iter().map(|context| {
            let log = &logs[context as usize];
            log.iter().filter(|event| event.way() == Some(Way::Enqueued)).collect::<Vec<_>>()
        });
        let heard: Vec<_> = heard.collect();
        for other in heard.windows(2) {
            prop_assert_eq!(&other[0], &other[1], "one order of what is enqueued");
        }
        Ok(())
    }

    /// An event's routed descendants follow it in one run.
    fn check_blocks(&self, context: u8, log: &[Happening]) -> Result<(), TestCaseError> {
        let mut rest = log;
        while let Some(first) = rest.first() {
            prop_assert_ne!(first.way(), Some(Way::Routed));
            let mut block = Vec::new();
            self.block(context, first.clone(), &mut block);
            prop_assert!(rest.starts_with(&block), "{block:?} expected in front of {rest:?}");
            rest = &rest[block.len()..];
        }
        Ok(())
    }

    /// The events of a sender outside keep their order.
    fn check_senders(&self, log: &[Happening]) -> Result<(), TestCaseError> {
        for sender in 0..self.sends.len() as u8 {
            let own = log.iter().filter(|event| event.sender == sender && event.path.is_empty());
            prop_assert!(own.map(|event| event.number).is_sorted());
        }
        Ok(())
    }

    /// What one context sends to another keeps its order.
    fn check_sent(
        &self,
        to: u8,
        log: &[Happening],
        from: u8,
        sender_log: &[Happening],
    ) -> Result<(), TestCaseError> {
        let sent = sender_log.iter().flat_map(|event| self.caused(from, event));
        let sent =
            sent.filter(|(event, target)| event.way() == Some(Way::Sent) && *target == Some(to));
        let is_from = |event: &&Happening| {
            event.path.last().is_some_and(|step| step.way == Way::Sent && step.context == from)
        };
        let got: Vec<_> = log.iter().filter(is_from).cloned().collect();
        prop_assert_eq!(got, sent.map(|(event, _)| event).collect::<Vec<_>>());
        Ok(())
    }
}

type Peers = Arc<Mutex<Vec<ContextHandle<Happening>>>>;

/// The context's number, and what it has processed.
struct State(u8, Arc<Mutex<Vec<Happening>>>);

fn handlers(program: &Program, peers: &Peers) -> Arc<Handlers<Happening, State>> {
    let (program, peers) = (program.clone(), peers.clone());
    Arc::new(Handlers::new().on(
        |event: &Happening| Some(event),
        move |State(own, log), event, cx| {
            log.lock().unwrap().push(event.clone());
            for (caused, to) in program.caused(*own, event) {
                match caused.way() {
                    Some(Way::Routed) => cx.route(caused),
                    Some(Way::Enqueued) => cx.enqueue(caused),
                    _ => {
                        let target = peers.lock().unwrap()[to.unwrap() as usize].clone();
                        cx.enqueue_to(&target, caused).unwrap();
                    }
                }
            }
        },
    ))
}

/// Runs a program on so many workers, its senders on threads.
fn run(program: &Program, workers: usize) -> Vec<Vec<Happening>> {
    let engine = Engine::builder().workers(workers).build().unwrap();
    let (peers, mut logs) = (Peers::default(), Vec::new());
    let handlers = handlers(program, &peers);
    engine.contexts::<Happening>().bound_special(program.special);
    for (number, &(public, capacity)) in program.contexts.iter().enumerate() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let context = engine.context(&format!("context {number}")).capacity(capacity);
        let context = if public { context.public() } else { context };
        let context = context.start(handlers.clone(), State(number as u8, log.clone()));
        peers.lock().unwrap().push(context);
        logs.push(log);
    }
    let contexts = peers.lock().unwrap().clone();
    std::thread::scope(|scope| {
        for (sender, sends) in program.sends.iter().enumerate() {
            let (contexts, engine) = (&contexts, &engine);
            scope.spawn(move || {
                for (number, &(kind, to)) in sends.iter().enumerate() {
                    let (sender, number) = (sender as u8, number as u16);
                    let event = Happening { sender, number, kind, path: Vec::new() };
                    match to {
                        Some(to) => contexts[to as usize].send(event).unwrap(),
                        None => {
                            engine.contexts().publish(event);
                        }
                    }
                }
            });
        }
    });
    let expected: usize = program.expected().iter().map(Vec::len).sum();
    let processed = || logs.iter().map(|log| log.lock().unwrap().len()).sum::<usize>();
    eventually("all events", || processed() >= expected);
    contexts.iter().for_each(ContextHandle::drain);
    contexts.iter().for_each(|context| assert_eq!(context.wait(), mizzle::Status::Completed));
    peers.lock().unwrap().clear();
    logs.iter().map(|log| log.lock().unwrap().clone()).collect()
}

/// Goes through a program as `schedule` says: who does something next.
fn step(program: &Program, schedule: &[u8]) -> Vec<Vec<Happening>> {
    let stepped = Stepped::new();
    let (peers, mut logs) = (Peers::default(), Vec::new());
    let handlers = handlers(program, &peers);
    stepped.contexts::<Happening>().bound_special(program.special);
    for (number, &(public, capacity)) in program.contexts.iter().enumerate() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let context = stepped.context(&format!("context {number}")).capacity(capacity);
        let context = if public { context.public() } else { context };
        peers
            .lock()
            .unwrap()
            .push(context.start(handlers.clone(), State(number as u8, log.clone())));
        logs.push(log);
    }
    let contexts = peers.lock().unwrap().clone();
    // What each sender has yet to send to whom.
    let mut sends: Vec<Vec<(u8, Happening)>> = Vec::new();
    for (sender, own) in program.sends.iter().enumerate() {
        let mut left = Vec::new();
        for (number, &(kind, to)) in own.iter().enumerate() {
            let (sender, number) = (sender as u8, number as u16);
            let event = Happening { sender, number, kind, path: Vec::new() };
            let to = to.map_or_else(|| program.publics(), |to| vec![to]);
            left.extend(to.into_iter().map(|to| (to, event.clone())));
        }
        left.reverse();
        sends.push(left);
    }
    let expected: usize = program.expected().iter().map(Vec::len).sum();
    let processed = || logs.iter().map(|log| log.lock().unwrap().len()).sum::<usize>();
    for turn in 0.. {
        // The schedule again and again, each time another one.
        let seed = schedule[turn % schedule.len()] as u64 + (turn / schedule.len()) as u64;
        let choice = ((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize;
        let (context, what) = (&contexts[choice % contexts.len()], choice / contexts.len() % 4);
        match what {
            0 => {
                stepped.step(context, 1 + (choice >> 12) % 3);
            }
            1 => {
                stepped.run(context);
            }
            2 => {
                stepped.move_enqueued::<Happening>();
            }
            _ => {
                let many = sends.len();
                let own = &mut sends[(choice >> 12) % many];
                if let Some((to, event)) = own.pop()
                    && contexts[to as usize].try_send(event.clone()).is_err()
                {
                    own.push((to, event));
                }
            }
        }
        if processed() >= expected && sends.iter().all(Vec::is_empty) {
            break;
        }
        assert!(
            turn < 100_000,
            "it stands: {contexts:?} {:?}",
            contexts.iter().map(ContextHandle::stats).collect::<Vec<_>>()
        );
    }
    peers.lock().unwrap().clear();
    logs.iter().map(|log| log.lock().unwrap().clone()).collect()
}

fn program() -> impl Strategy<Value = Program> {
    (1_u8..5)
        .prop_flat_map(|contexts| {
            let action = move |kind: u8| {
                let later = kind + 1..KINDS;
                prop_oneof![
                    4 => later.clone().prop_map(Action::Route),
                    1 => later.clone().prop_map(Action::Enqueue),
                    3 => (0..contexts, later).prop_map(|(to, kind)| Action::To(to, kind)),
                ]
            };
            let actions =
                (0..contexts).flat_map(|context| (0..KINDS - 1).map(move |kind| (context, kind)));
            let actions: Vec<_> = actions
                .map(|(context, kind)| {
                    let some = prop::collection::vec(action(kind), 0..4);
                    some.prop_map(move |actions| ((context, kind), actions))
                })
                .collect();
            let bound = prop_oneof![Just(1_usize), Just(2), 3..8_usize, Just(1_000)];
            let own = prop::collection::vec((any::<bool>(), bound), contexts as usize);
            let sends = prop::collection::vec((0..KINDS, prop::option::of(0..contexts)), 0..12);
            let special = prop::option::weighted(0.3, 1_usize..4);
            (own, actions, prop::collection::vec(sends, 1..4), special)
        })
        .prop_map(|(contexts, actions, sends, special)| Program {
            contexts,
            actions: actions.into_iter().collect(),
            sends,
            special,
        })
}

fn config() -> ProptestConfig {
    let cases = cases(400, 20_000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn programs_on_workers(program in program(), workers in 1_usize..=8) {
        program.check(&run(&program, workers))?;
    }

    #[test]
    fn programs_step_by_step(program in program(), schedule in prop::collection::vec(any::<u8>(), 1..200)) {
        program.check(&step(&program, &schedule))?;
    }
}
