//! A rank that is led: carries orders out until it is told to leave, or rank 0 is gone.

use std::{io::Write as _, process::ExitCode, time::Duration};

use schema::{Outcome, OutcomeKind};

use super::{Answer, Order, Store, World, answer_name, order_name};
use crate::{
    Engine, Session, allocator,
    serve::{guarded, memory, timing::step},
};

/// How long one wait for an order lasts; there may be many. It ends when rank 0 is gone.
const WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The whole of a process that is not rank 0.
pub(crate) fn follow(mut engine: impl Engine, world: &World) -> ExitCode {
    let joined = guarded(|| {
        engine.hello();
        engine.join(world)
    });
    let followed = joined.and_then(|store| {
        let mut follower = Follower {
            engine,
            session: None,
            rank: world.rank,
        };
        follower.follow(store.as_ref())
    });
    match followed {
        Ok(()) => ExitCode::SUCCESS,
        Err(outcome) => {
            // The log is all there is, and if it is gone, so be it.
            let (rank, kind, reason) = (world.rank, outcome.kind, outcome.reason);
            let _ = writeln!(std::io::stderr(), "rank {rank}: {kind}: {reason}");
            ExitCode::FAILURE
        }
    }
}

struct Follower<E> {
    engine: E,
    session: Option<Box<dyn Session>>,
    rank: u32,
}

impl<E: Engine> Follower<E> {
    /// Carries orders out. Whoever fails leaves: others may wait for its part of an exchange, and its
    /// connections end with it.
    fn follow(&mut self, store: &dyn Store) -> Result<(), Outcome> {
        for number in 0.. {
            let value = loop {
                if let Some(value) = store.get(&order_name(number), WAIT)? {
                    break value;
                }
            };
            let order: Order = serde_json::from_slice(&value).map_err(|error| {
                let reason = format!("what rank 0 hands on is no order: {error}");
                Outcome::new(OutcomeKind::Crashed, reason)
            })?;
            if order == Order::Bye {
                return Ok(());
            }
            let carried_out = guarded(|| self.carry_out(&order));
            let answer = match &carried_out {
                Ok(answer) => answer,
                Err(outcome) => &Answer::Failed(outcome.clone()),
            };
            let answer = serde_json::to_vec(answer).map_err(|error| {
                let reason = format!("an answer is no JSON: {error}");
                Outcome::new(OutcomeKind::Crashed, reason)
            })?;
            store.set(&answer_name(number, self.rank), &answer)?;
            carried_out?;
        }
        Ok(())
    }

    fn carry_out(&mut self, order: &Order) -> Result<Answer, Outcome> {
        if let Order::Load(load) = order {
            allocator::carry_out(&load.cell)?;
            let (mut session, _) = self.engine.load(load)?;
            step(session.as_mut())?;
            self.session = Some(session);
            return Ok(Answer::Done);
        }
        let Some(session) = &mut self.session else {
            let reason = "rank 0 wants something before it had the network loaded";
            return Err(Outcome::new(OutcomeKind::Crashed, reason));
        };
        match order {
            Order::Steps(steps) => {
                session.align()?;
                let samples = (0..*steps).map(|_| Ok(step(session.as_mut())?.sample_ns));
                Ok(Answer::Steps(samples.collect::<Result<_, Outcome>>()?))
            }
            Order::Parity(steps) => {
                let data = session.parity(*steps)?;
                let updates = data.updates();
                let losses = data.losses;
                Ok(Answer::Parity { losses, updates })
            }
            Order::Exchanges(steps) => session.exchanges(*steps).map(Answer::Exchanges),
            Order::Reset => session.reset().map(|()| Answer::Done),
            Order::Memory => memory::read(session.device_memory()).map(Answer::Memory),
            // Both are dealt with above.
            Order::Load(_) | Order::Bye => Ok(Answer::Done),
        }
    }
}
