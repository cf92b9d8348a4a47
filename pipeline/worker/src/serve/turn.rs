//! Taking turns: one request, one reply.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use schema::{
    Outcome, OutcomeKind,
    protocol::{self, Hello, Load, Loaded, Reply, Request},
};

use super::{Writer, memory, outputs, reader::Inbox, send, timing};
use crate::{Engine, Session, allocator};

/// A worker in conversation.
pub(super) struct Turns<E> {
    engine: E,
    state: State,
    writer: Writer,
    inbox: Inbox,
}

/// What the engine holds.
enum State {
    Empty,
    Ready(Box<dyn Session>),
    /// Why there is no session any more, or never will be.
    Spent(String),
}

impl<E: Engine> Turns<E> {
    pub(super) fn new(engine: E, writer: Writer, inbox: Inbox) -> Self {
        Self {
            engine,
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
                    let _ = catch(|| drop(state));
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
            Request::Parity(parity) => self.with_session(name, |session| {
                let data = match parity.across_kinks {
                    None => session.parity(parity.steps),
                    Some(precision) => session.parity_across_kinks(parity.steps, precision),
                };
                outputs::write(&parity.path, data?).map(Reply::Parity)
            }),
            Request::Reset => {
                self.with_session(name, |session| session.reset().map(|()| Reply::Reset))
            }
            Request::WarmUp(limits) => self.with_session(name, |session| {
                timing::warm_up(session, &limits, || cancelled.is_set()).map(Reply::WarmUp)
            }),
            Request::Measure(limits) => self.with_session(name, |session| {
                let samples = timing::measure(session, &limits, || cancelled.is_set())?;
                if !samples.cancelled
                    && let Some(weight) = session.diverged()?
                {
                    return Err(diverged(&weight));
                }
                Ok(Reply::Measure(samples))
            }),
            Request::Profile(asked) => self.with_session(name, |session| {
                session.profile(asked.steps).map(Reply::Profile)
            }),
            Request::Memory => {
                let device = match &mut self.state {
                    State::Ready(session) => guarded(|| Ok(session.device_memory()))?,
                    State::Empty | State::Spent(_) => None,
                };
                memory::read(device).map(Reply::Memory)
            }
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
        let (mut session, report) = guarded(|| self.engine.load(load))?;
        let first_step_ns = guarded(|| timing::time_step(session.as_mut()))?;
        self.state = State::Ready(session);
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

    fn with_session(
        &mut self,
        name: &str,
        serve: impl FnOnce(&mut dyn Session) -> Result<Reply, Outcome>,
    ) -> Result<Reply, Outcome> {
        match &mut self.state {
            State::Empty => Err(misplaced(name, "came before `load`")),
            State::Spent(why) => Err(misplaced(name, &format!("came after `load` {why}"))),
            State::Ready(session) => catch(|| serve(session.as_mut())).unwrap_or_else(|message| {
                // Whatever the panic left behind is not to be measured, nor trusted to unwind.
                let broken =
                    std::mem::replace(&mut self.state, State::Spent("and a panic".to_owned()));
                std::mem::forget(broken);
                Err(panicked(&message))
            }),
        }
    }
}

/// Runs the engine's code; a panic becomes a failure.
fn guarded<T>(run: impl FnOnce() -> Result<T, Outcome>) -> Result<T, Outcome> {
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
