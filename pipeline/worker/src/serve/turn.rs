//! Taking turns: one request, one reply.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use nix::sys::signal::{Signal, raise};
use schema::{
    Digest, Outcome, OutcomeKind, Strategy,
    protocol::{self, Exchanges, Hello, Load, Loaded, MOST_EXCHANGE_STEPS, Parity, Reply, Request},
};

use super::{
    Writer, memory, outputs,
    reader::Inbox,
    send,
    timing::{self, Run},
};
use crate::{
    Engine, ParityData, Session, allocator,
    ranks::{self, Answer, Crew, Order, World},
};

/// A worker in conversation.
pub(super) struct Turns<E> {
    engine: E,
    /// What a launcher of several processes says of this one.
    launched: Option<World>,
    state: State,
    writer: Writer,
    inbox: Inbox,
}

/// What the engine holds.
enum State {
    Empty,
    Ready(Ready),
    /// Why there is no session any more, or never will be.
    Spent(String),
}

/// A network that is ready, on this rank and on the others, where there are others.
struct Ready {
    session: Box<dyn Session>,
    crew: Option<Crew>,
}

impl<E: Engine> Turns<E> {
    pub(super) fn new(engine: E, launched: Option<World>, writer: Writer, inbox: Inbox) -> Self {
        Self {
            engine,
            launched,
            state: State::Empty,
            writer,
            inbox,
        }
    }

    /// Speaks from `hello` to `bye`, or until the supervisor has gone.
    pub(super) fn take_all(mut self) -> io::Result<()> {
        let hello = self.hello();
        send(&mut self.writer, &hello)?;
        while let Ok(incoming) = self.inbox.messages.recv() {
            let reply = match incoming.message {
                Ok(Request::Bye) => {
                    // The engine's teardown belongs to the process, not to the time after it.
                    let state = std::mem::replace(&mut self.state, State::Empty);
                    let _ = catch(|| state.end());
                    return send(&mut self.writer, &Reply::Bye);
                }
                Ok(request) => self
                    .answer(request, incoming.sequence)
                    .unwrap_or_else(Reply::Failed),
                Err(reason) => Reply::failed(OutcomeKind::Crashed, reason),
            };
            send(&mut self.writer, &reply)?;
        }
        Ok(())
    }

    fn hello(&self) -> Reply {
        let identity = guarded(|| Ok(self.engine.hello()));
        identity.map_or_else(Reply::Failed, |identity| {
            Reply::Hello(Hello {
                protocol: protocol::VERSION,
                engine: identity.engine,
                versions: identity.versions,
                worker: identity.worker,
                variants: identity.variants,
            })
        })
    }

    fn answer(&mut self, request: Request, sequence: u64) -> Result<Reply, Outcome> {
        let name = request.name();
        let cancelled = self.inbox.cancelled(sequence);
        match request {
            Request::Load(load) => self.load(&load).map(Reply::Loaded),
            Request::Parity(parity) => self.with_session(name, |ready| {
                outputs::write(&parity.path, ready.parity(&parity)?).map(Reply::Parity)
            }),
            Request::Reset => self.with_session(name, |ready| {
                let reset = ready.together(&Order::Reset, |session| session.reset());
                reset.map(|((), _)| Reply::Reset)
            }),
            Request::WarmUp(limits) => self.with_session(name, |ready| {
                timing::warm_up(&mut ready.run(), &limits, || cancelled.is_set()).map(Reply::WarmUp)
            }),
            Request::Measure(limits) => self.with_session(name, |ready| {
                let samples = timing::measure(&mut ready.run(), &limits, || cancelled.is_set())?;
                if !samples.cancelled
                    && let Some(weight) = ready.session.diverged()?
                {
                    return Err(diverged(&weight));
                }
                Ok(Reply::Measure(samples))
            }),
            Request::Profile(asked) => self.with_session(name, |ready| {
                if ready.crew.is_some() {
                    return Err(Outcome::new(OutcomeKind::Unsupported, NO_PROFILE));
                }
                ready.session.profile(asked.steps).map(Reply::Profile)
            }),
            Request::Exchanges(asked) => self.with_session(name, |ready| {
                ready.exchanges(asked.steps).map(Reply::Exchanges)
            }),
            Request::Memory => match &mut self.state {
                State::Ready(ready) => guarded(|| ready.memory()).map(Reply::Memory),
                State::Empty | State::Spent(_) => memory::read(None).map(Reply::Memory),
            },
            // Neither reaches this place: the reader keeps `cancel`, the loop above `bye`.
            Request::Cancel | Request::Bye => Err(misplaced(name, "has no reply of this kind")),
        }
    }

    fn load(&mut self, load: &Load) -> Result<Loaded, Outcome> {
        if !matches!(self.state, State::Empty) {
            return Err(misplaced(
                "load",
                "came a second time: a process loads once",
            ));
        }
        self.state = State::Spent("failed".to_owned());
        if load.files.is_some() && !self.engine.reads_weights() {
            return Err(Outcome::new(
                OutcomeKind::Unsupported,
                "this worker makes weights by recipe alone, and reads no file with a user's",
            ));
        }
        allocator::carry_out(&load.cell)?;
        let mut crew = self.crew(load)?;
        let ready = guarded(|| {
            let (mut session, report) = match &mut crew {
                Some(crew) => crew.watched(
                    || self.engine.load(load),
                    |outcome| last_words(&mut self.writer, outcome),
                ),
                None => self.engine.load(load),
            }?;
            let first_step_ns = timing::time_step(session.as_mut())?;
            Ok((session, report, first_step_ns))
        });
        let (session, report, first_step_ns) = match &mut crew {
            Some(crew) => crew.answers(ready)?.0,
            None => ready?,
        };
        self.state = State::Ready(Ready { session, crew });
        Ok(Loaded {
            fill_ns: report.fill_ns,
            build_ns: report.build_ns,
            compile_ns: report.compile_ns,
            first_step_ns,
            threads: report.threads,
            spin: report.spin,
            settings: report.settings,
        })
    }

    /// The other ranks of the cell, with the order to load it; `None` where one process runs it.
    fn crew(&mut self, load: &Load) -> Result<Option<Crew>, Outcome> {
        if load.cell.strategy != Strategy::Ddp {
            return match &self.launched {
                Some(world) if world.size > 1 => Err(Outcome::new(
                    OutcomeKind::Unavailable,
                    format!("{} processes were launched for a cell of one", world.size),
                )),
                _ => Ok(None),
            };
        }
        guarded(|| {
            let mut crew = Crew::meet(&mut self.engine, &load.cell, self.launched.as_ref())?;
            crew.order(&Order::Load(Box::new(load.clone())))?;
            Ok(Some(crew))
        })
    }

    fn with_session(
        &mut self,
        name: &str,
        serve: impl FnOnce(&mut Ready) -> Result<Reply, Outcome>,
    ) -> Result<Reply, Outcome> {
        match &mut self.state {
            State::Empty => Err(misplaced(name, "came before `load`")),
            State::Spent(why) => Err(misplaced(name, &format!("came after `load` {why}"))),
            State::Ready(ready) => catch(|| serve(ready)).unwrap_or_else(|message| {
                // Whatever the panic left behind is not to be measured, nor trusted to unwind.
                let broken =
                    std::mem::replace(&mut self.state, State::Spent("and a panic".to_owned()));
                std::mem::forget(broken);
                Err(panicked(&message))
            }),
        }
    }
}

/// Why a cell of several ranks has no profile.
const NO_PROFILE: &str =
    "profiles are of one process: what several ranks spend on each other is told by itself";

impl State {
    /// The end of all ranks.
    fn end(self) {
        if let Self::Ready(Ready { session, crew }) = self {
            if let Some(crew) = crew {
                crew.leave();
            }
            drop(session);
        }
    }
}

impl Ready {
    /// What runs steps, on all ranks.
    fn run(&mut self) -> Run<'_> {
        Run {
            session: self.session.as_mut(),
            crew: self.crew.as_mut(),
        }
    }

    /// Has all ranks do the same; what the others answer.
    fn together<T>(
        &mut self,
        order: &Order,
        own: impl FnOnce(&mut dyn Session) -> Result<T, Outcome>,
    ) -> Result<(T, Vec<Answer>), Outcome> {
        let session = self.session.as_mut();
        match &mut self.crew {
            None => own(session).map(|own| (own, Vec::new())),
            Some(crew) => {
                crew.order(order)?;
                crew.answers(own(session))
            }
        }
    }

    /// Outputs. Several ranks have a loss each, of their parts, which are equally long; and weights that
    /// must be the same to the last bit.
    fn parity(&mut self, asked: &Parity) -> Result<ParityData, Outcome> {
        if let Some(precision) = asked.across_kinks {
            // The reference is one process.
            return self.session.parity_across_kinks(asked.steps, precision);
        }
        let order = Order::Parity(asked.steps);
        let (mut data, answers) = self.together(&order, |session| session.parity(asked.steps))?;
        if answers.is_empty() {
            return Ok(data);
        }
        let ranks = answers.len() as f64 + 1.0;
        let own = data.updates();
        let iterations = data.losses.len();
        let told = ranks::each(answers, |answer| match answer {
            Answer::Parity { losses, updates } if losses.len() == iterations => {
                Some((losses, updates))
            }
            _ => None,
        })?;
        for (rank, (losses, updates)) in (1..).zip(told) {
            check_rank(rank, own, updates)?;
            for (sum, loss) in data.losses.iter_mut().zip(losses) {
                *sum += loss;
            }
        }
        for loss in &mut data.losses {
            *loss /= ranks;
        }
        Ok(data)
    }

    /// What every rank exchanges.
    fn exchanges(&mut self, steps: u64) -> Result<Exchanges, Outcome> {
        if self.crew.is_none() || steps > MOST_EXCHANGE_STEPS {
            let reason = format!(
                "exchanges are told of several ranks, in {MOST_EXCHANGE_STEPS} steps at most"
            );
            return Err(Outcome::new(OutcomeKind::Unsupported, reason));
        }
        let order = Order::Exchanges(steps);
        let (own, answers) = self.together(&order, |session| session.exchanges(steps))?;
        let others = ranks::each(answers, |answer| match answer {
            Answer::Exchanges(steps) => Some(steps),
            _ => None,
        })?;
        Ok(Exchanges {
            ranks: std::iter::once(own).chain(others).collect(),
        })
    }

    /// Memory, of every rank.
    fn memory(&mut self) -> Result<protocol::Memory, Outcome> {
        let (own, answers) = self.together(&Order::Memory, |session| {
            memory::read(session.device_memory())
        })?;
        Ok(protocol::Memory {
            other_ranks: ranks::each(answers, |answer| match answer {
                Answer::Memory(memory) => Some(memory),
                _ => None,
            })?,
            ..own
        })
    }
}

/// Whether a rank ends with the weights of rank 0.
fn check_rank(rank: u32, first: Digest, own: Digest) -> Result<(), Outcome> {
    if first == own {
        return Ok(());
    }
    let reason =
        format!("the weights of rank {rank} are not those of rank 0 after training together");
    Err(Outcome::new(OutcomeKind::ParityFailed, reason))
}

/// Answers for a main thread that waits in vain for another rank, and ends the process: no other way leads out of a
/// library's wait.
fn last_words(writer: &mut Writer, outcome: Outcome) {
    // A supervisor that is gone ends all of this by itself.
    let _ = send(writer, &Reply::Failed(outcome));
    let _ = raise(Signal::SIGKILL);
}

/// Runs the engine's code; a panic becomes a failure.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, Outcome>) -> Result<T, Outcome> {
    catch(run).unwrap_or_else(|message| Err(panicked(&message)))
}

fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload: Box<dyn Any + Send>| {
        payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "without a message".to_owned())
    })
}

fn panicked(message: &str) -> Outcome {
    Outcome::new(
        OutcomeKind::Crashed,
        format!("the engine panicked: {message}"),
    )
}

/// The end of a training in which this weight is no number any more.
fn diverged(weight: &str) -> Outcome {
    let reason = format!(
        "training diverged: `{weight}` is not finite at the end of a round; a lower `learning_rate` may keep it so"
    );
    Outcome::new(OutcomeKind::ParityFailed, reason)
}

fn misplaced(name: &str, how: &str) -> Outcome {
    Outcome::new(OutcomeKind::Unsupported, format!("`{name}` {how}"))
}
