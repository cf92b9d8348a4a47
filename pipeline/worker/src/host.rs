//! The supervisor's side: a worker process under supervision.
//!
//! Waits block in `poll` on the worker's stream, its process, the interrupt and a tick of a fifth
//! of a second, at which memory and log are looked at (the log more often where it would fill):
//! while a worker measures, nothing else of the supervisor runs. Whatever goes wrong becomes an [`Outcome`] with its reason, and the
//! worker, its process group and all that it started elsewhere are killed and reaped.

mod abandoned;
mod cgroup;
mod check;
mod death;
mod ended;
mod family;
mod interrupt;
mod limits;
mod log;
mod process;
mod stream;
mod supervise;
mod sys;
mod watch;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use schema::{
    Boundary, Outcome, OutcomeKind,
    protocol::{Hello, MAX_MESSAGE_BYTES, Reply, Request},
};

pub use ended::Ended;
pub use interrupt::Interrupt;
pub use limits::Limits;
pub use stream::Transport;

use crate::WorkerCommand;
use check::{Asked, Interim};
use supervise::Supervised;

/// Marks all processes of one launch, those that leave its process group included. The value is the
/// supervisor's process number, the launch's own number, and the time.
const MARK_VARIABLE: &str = "PHOTOFINISH_LAUNCH";

/// A worker process under supervision. Dropping it kills and reaps the worker with all that it
/// started.
///
/// The kernel kills a worker when the **thread** that started it ends, so start hosts from a
/// thread that outlives them. The first start of a host makes this process the one that takes in
/// whatever outlives its parents among its descendants, and ends what a supervisor that was killed
/// has left behind.
#[derive(Debug)]
pub struct Host {
    worker: Supervised,
    pending: Option<Pending>,
    /// The nodes of the graph that it was given: a profile speaks of no others.
    nodes: BTreeSet<String>,
    /// Whether the cell that it was given is timed by the device's own clock.
    by_device: bool,
}

/// Something that waits for its reply.
#[derive(Debug, Clone, Copy)]
struct Pending {
    asked: Asked,
    since: Instant,
    /// Whether `cancel` was sent since.
    cancelled: bool,
}

impl Host {
    /// Starts a worker that speaks over its standard input and output.
    ///
    /// # Errors
    /// `unavailable` when the program cannot be started, `not_reached` when the interrupt was
    /// triggered before.
    pub fn start(
        command: &WorkerCommand,
        limits: &Limits,
        interrupt: &Interrupt,
    ) -> Result<Self, Outcome> {
        Self::start_over(Transport::Standard, command, limits, interrupt)
    }

    /// Starts a worker that speaks over the given transport.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_over(
        transport: Transport,
        command: &WorkerCommand,
        limits: &Limits,
        interrupt: &Interrupt,
    ) -> Result<Self, Outcome> {
        if interrupt.is_set() {
            return Err(supervise::interrupted("before the worker was started"));
        }
        let worker = Supervised::start(transport, command, limits, interrupt)?;
        let pending = Pending {
            asked: Asked::HELLO,
            since: Instant::now(),
            cancelled: false,
        };
        Ok(Self {
            worker,
            pending: Some(pending),
            nodes: BTreeSet::new(),
            by_device: false,
        })
    }

    /// The worker's first message, its protocol version checked.
    ///
    /// # Errors
    /// `crashed` for a worker that dies, speaks anything else, or another version of the
    /// protocol; `timed_out`, `out_of_memory`, `not_reached` (interrupted) as the case may be; or
    /// the failure that the worker itself reports.
    pub fn hello(&mut self, deadline: Instant) -> Result<Hello, Outcome> {
        match self.reply(deadline)? {
            Reply::Hello(hello) => Ok(hello),
            other => Err(Outcome::new(
                OutcomeKind::Crashed,
                format!("`{}` instead of `hello`", other.name()),
            )),
        }
    }

    /// Sends a request and waits for its reply, which is of the request's kind and makes sense.
    /// A paused worker is resumed first.
    ///
    /// # Errors
    /// What the worker reports by `failed`, after which it is alive; or the outcome of a worker
    /// that died, spoke garbage, used up its time or its memory, after which it is gone
    /// ([`is_alive`](Self::is_alive)). `not_reached` on an interrupt: the worker is left as it
    /// is, for [`kill`](Self::kill).
    pub fn request(&mut self, request: &Request, deadline: Instant) -> Result<Reply, Outcome> {
        self.begin(request, deadline)?;
        self.reply(deadline)
    }

    /// Sends a request without waiting for its reply.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn begin(&mut self, request: &Request, deadline: Instant) -> Result<(), Outcome> {
        if let Request::Load(load) = request {
            let nodes = load.graph.nodes.iter();
            self.nodes = nodes.map(|node| node.name.clone()).collect();
            self.by_device = load.cell.boundary == Boundary::Device;
        }
        self.send(&line(request)?, Asked::request(request), deadline)
    }

    /// Sends bytes that are no message.
    pub(crate) fn begin_nonsense(
        &mut self,
        bytes: &[u8],
        deadline: Instant,
    ) -> Result<(), Outcome> {
        self.send(bytes, Asked::NONSENSE, deadline)
    }

    fn send(&mut self, bytes: &[u8], asked: Asked, deadline: Instant) -> Result<(), Outcome> {
        self.worker.check_alive()?;
        if let Some(pending) = &self.pending {
            // An interrupted request stays unanswered; the worker can only be killed.
            return Err(supervise::interrupted(&pending.asked.doing()));
        }
        self.worker.resume()?;
        self.worker.expect_silence()?;
        // Also when writing fails: half a message has no reply.
        self.pending = Some(Pending {
            asked,
            since: Instant::now(),
            cancelled: false,
        });
        let doing = format!("before it read `{}`", asked.name);
        self.worker.write(bytes, deadline, &doing)
    }

    /// Waits for the reply to the request that was begun.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn reply(&mut self, deadline: Instant) -> Result<Reply, Outcome> {
        self.worker.check_alive()?;
        let Some(Pending {
            asked,
            since,
            cancelled,
        }) = self.pending
        else {
            let reason = "nothing was asked, so there is no reply to wait for";
            return Err(Outcome::new(OutcomeKind::NotReached, reason));
        };
        let line = self.worker.read_line(deadline, &asked.doing())?;
        let interim = Interim {
            elapsed: since.elapsed(),
            cancelled,
            by_device: self.by_device,
        };
        let checked = check::reply(&line, &asked, interim).and_then(|reply| match &reply {
            Reply::Profile(profile) => match check::stranger(profile, &self.nodes) {
                Some(reason) => Err(reason),
                None => Ok(reply),
            },
            _ => Ok(reply),
        });
        self.pending = None;
        match checked {
            Err(reason) => Err(self.worker.give_up(OutcomeKind::Crashed, reason)),
            Ok(reply) => {
                self.worker.expect_end()?;
                // A launch may be shorter than the time between two looks.
                self.worker.expect_no_kill()?;
                match reply {
                    Reply::Failed(outcome) => Err(outcome),
                    reply => Ok(reply),
                }
            }
        }
    }

    /// Asks the worker to end the request in progress early; its reply comes as ever. Without a
    /// request in progress there is nothing to cancel, and nothing is sent.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn cancel(&mut self, deadline: Instant) -> Result<(), Outcome> {
        self.worker.check_alive()?;
        match &mut self.pending {
            Some(pending) if pending.asked != Asked::HELLO => pending.cancelled = true,
            _ => return Ok(()),
        }
        self.cancel_nothing(deadline)
    }

    /// Sends `cancel` whether or not there is anything to cancel.
    pub(crate) fn cancel_nothing(&mut self, deadline: Instant) -> Result<(), Outcome> {
        let line = line(&Request::Cancel)?;
        self.worker
            .write(&line, deadline, "before it read `cancel`")
    }

    /// The exit status of a worker that left by itself.
    pub(crate) fn exit_status(&self) -> Option<i32> {
        self.worker.exit_status()
    }

    /// Stops the worker and all that it started, spinning threads and what left its process group
    /// included, until [`resume`](Self::resume) or the next request.
    ///
    /// # Errors
    /// The outcome of a worker that died, or that could not be stopped.
    pub fn pause(&mut self) -> Result<(), Outcome> {
        self.worker.pause()
    }

    /// Lets the worker go on.
    ///
    /// # Errors
    /// The outcome of a worker that died.
    pub fn resume(&mut self) -> Result<(), Outcome> {
        self.worker.resume()
    }

    /// Processor time of the worker and of all that it started, as far as they live, in ticks of a
    /// hundredth of a second.
    #[must_use]
    pub fn cpu_ticks(&self) -> u64 {
        self.worker.cpu_ticks()
    }

    /// Resident sets of the worker and of all that it started.
    pub(crate) fn resident_bytes(&self) -> Vec<u64> {
        self.worker.all_resident_bytes()
    }

    /// Closes the supervisor's end of the stream, as if it had gone.
    pub(crate) fn close_stream(&mut self) {
        self.worker.close_stream();
    }

    /// Makes sure that nothing comes unasked for this long.
    pub(crate) fn listen(&mut self, time: Duration) -> Result<(), Outcome> {
        self.worker.check_alive()?;
        self.worker.listen(time)
    }

    /// Waits until the worker has left by itself; kills it at the deadline.
    pub(crate) fn wait(mut self, deadline: Instant) -> Ended {
        self.worker.wait_for_leave(deadline);
        self.worker.into_ended()
    }

    /// Whether the worker can be spoken to.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.worker.check_alive().is_ok()
    }

    /// The worker's process number; the same number names its process group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.worker.pid()
    }

    /// Sends `bye` and waits until the worker has left; kills it at the deadline. An interrupt
    /// does not cut this short.
    #[must_use]
    pub fn finish(mut self, deadline: Instant) -> Ended {
        self.worker.ignore_interrupt();
        self.worker.note_memory();
        // A failure here is what `Ended` tells.
        if self.request(&Request::Bye, deadline).is_ok() {
            self.worker.wait_for_leave(deadline);
        }
        self.worker.into_ended()
    }

    /// Kills the worker with all that it started.
    #[must_use]
    pub fn kill(self) -> Ended {
        self.worker.into_ended()
    }
}

/// A request as it goes over the stream.
fn line(request: &Request) -> Result<Vec<u8>, Outcome> {
    let mut line = serde_json::to_vec(request).map_err(|error| {
        Outcome::new(
            OutcomeKind::Unsupported,
            format!("cannot be sent to a worker: {error}"),
        )
    })?;
    line.push(b'\n');
    if line.len() > MAX_MESSAGE_BYTES {
        let reason = format!(
            "`{}` takes {} as a message, and the protocol allows {}",
            request.name(),
            death::bytes(line.len() as u64),
            death::bytes(MAX_MESSAGE_BYTES as u64)
        );
        return Err(Outcome::new(OutcomeKind::Unsupported, reason));
    }
    Ok(line)
}
