//! First steps that queries on a shared source have in common.

use std::any::TypeId;
use std::panic::Location;
use std::sync::Arc;

use mizzle_engine::plan::Shape;
use mizzle_engine::runtime::{Declared, Lease, Log};

use super::Stream;
use crate::build::Build;
use crate::engine::Engine;
use crate::query::{BuildError, Query};
use crate::shared_source::{FromLog, SharedSource};

impl Engine {
    /// The first `steps` of queries on a shared source, run once for all of them: what comes out is a
    /// shared source again. The first call with these steps runs them, as a query of its own; a call
    /// with the same function, name and equal `parameters` while they are in use gets the same source.
    /// They end when nobody subscribes to it or has a handle of it any more. A failure in them fails
    /// whoever subscribes; a subscriber fails, is counted and is removed on its own.
    ///
    /// The function must not capture anything: what its steps depend on stands in `parameters`. It does
    /// not compile otherwise.
    ///
    /// What comes out is in order, for operators flagged in-order behind it, if the source is declared in
    /// order and every stateful step is flagged.
    ///
    /// ```
    /// use mizzle::{Engine, Query, SharedSource, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let engine = Engine::new()?;
    /// let readings = source::from_iter(1..=9i64, |&n| Timestamp::from_secs(n));
    /// let readings = engine.shared_source("readings", readings).open()?;
    /// let high = |limit: i64| {
    ///     engine.shared_steps("high", &readings, limit, |readings, &limit| {
    ///         readings.filter(move |n| *n > limit).map(|n| n * n)
    ///     })
    /// };
    /// let (a, b) = (Query::new("a"), Query::new("b"));
    /// let all = a.subscribe(&high(6)?).collect();
    /// let even = b.subscribe(&high(6)?).filter(|n| n % 2 == 0).collect();
    /// let running = [engine.submit(a)?, engine.submit(b)?];
    /// assert_eq!(readings.subscribers().len(), 1); // The steps, once.
    /// readings.start();
    /// running.iter().for_each(|query| { query.wait(); });
    /// assert_eq!((all.values(), even.values()), (vec![49, 64, 81], vec![64]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// ```compile_fail
    /// # use mizzle::{Engine, source};
    /// # use mizzle::time::Timestamp;
    /// # let engine = Engine::new().unwrap();
    /// # let readings = source::from_iter(1..=9i64, |&n| Timestamp::from_secs(n));
    /// # let readings = engine.shared_source("readings", readings).open().unwrap();
    /// let limit = 6_i64;
    /// engine.shared_steps("high", &readings, (), move |readings, ()| readings.filter(move |n| *n > limit));
    /// ```
    ///
    /// # Errors
    /// Steps that make no sense; a source of another engine, or one that is over; a name that other steps
    /// on this source have.
    #[track_caller]
    pub fn shared_steps<T, P, F, B>(
        &self,
        name: &str,
        of: &SharedSource<T>,
        parameters: P,
        steps: F,
    ) -> Result<SharedSource<B::Out>, BuildError>
    where
        T: Clone + Send + Sync + 'static,
        P: Clone + PartialEq + Send + 'static,
        F: FnOnce(Stream<FromLog<T>>, &P) -> Stream<B> + 'static,
        B: Build,
        B::Out: Clone + Send + Sync,
    {
        const {
            assert!(size_of::<F>() == 0, "what shared steps depend on must be in their parameters");
        }
        let location = Location::caller();
        let taken = |by: &Location<'_>| BuildError::Operator {
            operator: name.to_owned(),
            location: location.to_string(),
            reason: format!("other steps on {:?} have that name: those of {by}", of.name()),
        };
        let steps_are = TypeId::of::<F>();
        let declared = Declared { name, parameters: &parameters, steps: steps_are, location };
        let found = of.log.derived.find::<SharedSource<B::Out>, P>(&declared).map_err(taken)?;
        let (source, lease) = match found {
            Some(found) => found,
            None => {
                let source = self.run_steps(name, of, |stream| steps(stream, &parameters))?;
                let lease = Lease::of(&source.query);
                of.log.derived.add(&declared, source, lease).map_err(taken)?
            }
        };
        Ok(SharedSource { lease: Some(lease), ..source })
    }

    #[track_caller]
    fn run_steps<T, B>(
        &self,
        name: &str,
        of: &SharedSource<T>,
        steps: impl FnOnce(Stream<FromLog<T>>) -> Stream<B>,
    ) -> Result<SharedSource<B::Out>, BuildError>
    where
        T: Clone + Send + Sync + 'static,
        B: Build,
        B::Out: Clone + Send + Sync,
    {
        let name = format!("{}/{name}", of.name());
        let query = Query::new(&name);
        let stream = steps(query.subscribe(of));
        let in_order = of.log.is_in_order() && stream.is_flagged_throughout();
        let log = Log::new(name, in_order, of.log.limit());
        log.start();
        stream.publish(&log, in_order);
        let query = self.submit(query)?;
        Ok(SharedSource { log, query, lease: None })
    }
}

impl<B: Build> Stream<B>
where
    B::Out: Send + Sync,
{
    /// Whether every stateful operator of its query is flagged in-order.
    fn is_flagged_throughout(&self) -> bool {
        let plan = self.graph.borrow().spec();
        plan.sites.iter().all(|site| site.shape == Shape::Stateless || site.in_order)
    }

    /// Ends it where others subscribe.
    #[track_caller]
    fn publish(self, log: &Arc<Log<B::Out>>, in_order: bool) {
        let stream = self.then("publish", Shape::Sink, |upstream, op| (upstream, op));
        let ((build, op), log) = (stream.build, log.clone());
        let mut graph = stream.graph.borrow_mut();
        graph.site_mut(op).in_order = in_order;
        graph.close_segment(stream.draft, move |closing| {
            let publish = closing.assembler.publish(op, &log);
            closing.sink(build, op, publish);
        });
    }
}
