//! Waiting for a worker, and everything that can come instead of its answer.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, poll},
    sys::wait::WaitStatus,
    unistd::getpid,
};
use schema::{Outcome, OutcomeKind, protocol::MAX_MESSAGE_BYTES};

use super::{
    Ended, Interrupt, Limits, Transport,
    cgroup::{self, Cgroup},
    check::excerpt,
    death::{self, MemoryEvidence, bytes},
    log::Log,
    process::{Process, timeout},
    stream::{Look, Stream},
    watch::Watch,
};
use crate::{WorkerCommand, procfs};

/// How often memory and log are looked at; the log of a worker that writes much more often.
const TICK: Duration = Duration::from_millis(200);

/// How long a worker that closed its stream may take to die by itself, so that it can be said how.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What is taken of a log at most before something else is looked at.
const LOG_BYTES: u64 = 64 << 20;

/// A worker's process, its stream, its log and its limits.
#[derive(Debug)]
pub(super) struct Supervised {
    process: Process,
    stream: Stream,
    log: Log,
    watch: Watch,
    limits: Limits,
    interrupt: Option<Interrupt>,
    /// Kills for want of memory on the whole machine, before the worker was started.
    machine_kills: u64,
    next_look: Instant,
    next_memory_look: Instant,
    /// Between two looks at the log.
    log_wait: Duration,
    /// The supervisor's own resident set when it forked: below it, the kernel's peak of the
    /// child tells nothing.
    forked_bytes: u64,
    /// When what is being waited for was asked.
    asked: Instant,
    paused: bool,
    gone: Option<Outcome>,
    /// Last, so that it is removed after the process is gone.
    cgroup: Option<Cgroup>,
}

enum Want {
    Read,
    Write,
}

enum Found {
    Stream,
    Death,
    Nothing,
}

/// The outcome of an interrupted wait.
pub(super) fn interrupted(doing: &str) -> Outcome {
    Outcome::new(OutcomeKind::NotReached, format!("interrupted {doing}"))
}

impl Supervised {
    pub(super) fn start(
        transport: Transport,
        command: &WorkerCommand,
        limits: &Limits,
        interrupt: &Interrupt,
    ) -> Result<Self, Outcome> {
        let failed = |error: std::io::Error| {
            let reason = format!("cannot open a stream to a worker: {error}");
            Outcome::new(OutcomeKind::Unavailable, reason)
        };
        let (log, log_writer) = Log::new().map_err(failed)?;
        let (stream, streams, address) = Stream::new(transport, log_writer).map_err(failed)?;
        let confined = limits.memory_bytes.filter(|_| limits.cgroup);
        let (cgroup, join) = confined.and_then(Cgroup::create).unzip();
        let machine_kills = machine_kills();
        let forked_bytes = procfs::resident_bytes(getpid()).unwrap_or(0);
        let process = Process::start(command, streams, address.as_deref(), join)?;
        let cgroup = cgroup.filter(|group| group.holds(process.pid()));
        let watch = Watch::new(process.pid());
        Ok(Self {
            process,
            stream,
            log,
            watch,
            limits: *limits,
            interrupt: Some(interrupt.clone()),
            machine_kills,
            next_look: Instant::now() + TICK,
            next_memory_look: Instant::now() + TICK,
            log_wait: TICK,
            forked_bytes,
            asked: Instant::now(),
            paused: false,
            gone: None,
            cgroup,
        })
    }

    /// Takes note of the memory that a worker holds while it can still be seen.
    pub(super) fn note_memory(&mut self) {
        self.watch.look_at_leader();
    }

    /// Processor time of the launch's living processes, in ticks of a hundredth of a second.
    pub(super) fn cpu_ticks(&self) -> u64 {
        self.process.cpu_ticks()
    }

    /// Resident sets of the launch's living processes.
    pub(super) fn all_resident_bytes(&self) -> Vec<u64> {
        std::iter::once(self.process.pid())
            .chain(self.process.others())
            .filter_map(procfs::resident_bytes)
            .collect()
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid().as_raw().unsigned_abs()
    }

    /// The outcome of a worker that is gone.
    pub(super) fn check_alive(&self) -> Result<(), Outcome> {
        self.gone.clone().map_or(Ok(()), Err)
    }

    /// The exit status of a worker that left by itself.
    pub(super) fn exit_status(&self) -> Option<i32> {
        match self.process.reaped()? {
            (WaitStatus::Exited(_, code), _) => Some(code),
            _ => None,
        }
    }

    pub(super) fn ignore_interrupt(&mut self) {
        self.interrupt = None;
    }

    /// Nothing may come between two requests.
    pub(super) fn expect_silence(&mut self) -> Result<(), Outcome> {
        match self.stream.read() {
            Look::Nothing if self.stream.rest().is_empty() => Ok(()),
            Look::Nothing => Err(self.unsolicited(&[])),
            Look::Line(line) => Err(self.unsolicited(&line)),
            Look::TooLong => Err(self.too_long()),
            Look::Closed => Err(self.closed("between two requests")),
        }
    }

    /// Nothing may come for this long.
    pub(super) fn listen(&mut self, time: Duration) -> Result<(), Outcome> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.expect_silence()?;
            let left = until.saturating_duration_since(Instant::now());
            thread::sleep(left.min(TICK / 10));
        }
        self.expect_silence()
    }

    pub(super) fn close_stream(&mut self) {
        self.stream.close();
    }

    /// After a reply, nothing may come.
    pub(super) fn expect_end(&mut self) -> Result<(), Outcome> {
        if self.stream.rest().is_empty() {
            Ok(())
        } else {
            Err(self.unsolicited(&[]))
        }
    }

    /// The next line.
    pub(super) fn read_line(&mut self, deadline: Instant, doing: &str) -> Result<Vec<u8>, Outcome> {
        loop {
            match self.stream.read() {
                Look::Line(line) => return Ok(line),
                Look::TooLong => return Err(self.too_long()),
                Look::Closed => return Err(self.closed(doing)),
                Look::Nothing => {
                    if let Some(reason) = super::check::hopeless(self.stream.rest()) {
                        return Err(self.give_up(OutcomeKind::Crashed, reason));
                    }
                }
            }
            self.wait(&Want::Read, deadline, doing)?;
        }
    }

    /// Writes all of it.
    pub(super) fn write(
        &mut self,
        mut bytes: &[u8],
        deadline: Instant,
        doing: &str,
    ) -> Result<(), Outcome> {
        self.asked = Instant::now();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                None => return Err(self.closed(doing)),
                Some(0) => self.wait(&Want::Write, deadline, doing)?,
                Some(count) => bytes = bytes.get(count..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Waits until the stream is ready, looking after the worker meanwhile.
    fn wait(&mut self, want: &Want, deadline: Instant, doing: &str) -> Result<(), Outcome> {
        loop {
            let now = Instant::now();
            if self.interrupt.as_ref().is_some_and(Interrupt::is_set) {
                return Err(interrupted(doing));
            }
            if now >= self.next_look {
                self.look_after(now)?;
            }
            if now >= deadline {
                let spent = now.saturating_duration_since(self.asked);
                let reason = format!(
                    "the worker used up its time {doing}: {:.1} s",
                    spent.as_secs_f64()
                );
                return Err(self.give_up(OutcomeKind::TimedOut, reason));
            }
            match self.poll(want, deadline) {
                Ok(Found::Stream) => return Ok(()),
                Ok(Found::Death) => return Err(self.died(doing)),
                Ok(Found::Nothing) => {}
                Err(error) => {
                    let reason = format!("cannot wait for the worker: {error}");
                    return Err(self.give_up(OutcomeKind::Crashed, reason));
                }
            }
        }
    }

    /// Sleeps until the stream is ready, the worker dies, someone interrupts, or the next look or
    /// the deadline is due.
    fn poll(&self, want: &Want, deadline: Instant) -> nix::Result<Found> {
        let (stream, flag) = match want {
            Want::Read => (self.stream.read_fd(), PollFlags::POLLIN),
            Want::Write => (self.stream.write_fd(), PollFlags::POLLOUT),
        };
        let interrupt = self.interrupt.as_ref().map(Interrupt::fd);
        let mut fds: Vec<_> = [Some(self.process.pidfd()), interrupt]
            .into_iter()
            .flatten()
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .chain(stream.map(|fd| PollFd::new(fd, flag)))
            .collect();
        match poll(&mut fds, timeout(deadline.min(self.next_look))) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        }
        let ready = |fd: Option<&PollFd<'_>>| fd.and_then(PollFd::any) == Some(true);
        // What it said comes before how it ended.
        Ok(if stream.is_some() && ready(fds.last()) {
            Found::Stream
        } else if ready(fds.first()) {
            Found::Death
        } else {
            Found::Nothing
        })
    }

    /// Looks at memory and log, and ends a worker that has too much of either.
    fn look_after(&mut self, now: Instant) -> Result<(), Outcome> {
        let limit_bytes = self.limits.log_bytes;
        let most = limit_bytes.saturating_sub(self.log.total_bytes());
        let taken = self.log.drain(most.saturating_add(1).min(LOG_BYTES));
        self.log_wait = self.log.next_wait(self.log_wait, taken, TICK);
        self.next_look = now + self.log_wait;
        if self.log.total_bytes() > self.limits.log_bytes {
            let limit = bytes(limit_bytes);
            let reason = format!("the worker flooded its log with more than {limit}");
            return Err(self.give_up(OutcomeKind::Crashed, reason));
        }
        // However chatty it is.
        if now < self.next_memory_look {
            return Ok(());
        }
        self.next_memory_look = now + TICK;
        self.expect_no_kill()?;
        if self.watched_limit().is_none() {
            self.watch.look_at_leader();
            return Ok(());
        }
        let process = &self.process;
        let held_bytes = self.watch.look(|| process.others());
        match self.more_than_allowed(held_bytes) {
            Some(reason) => Err(self.give_up(OutcomeKind::OutOfMemory, reason)),
            None => Ok(()),
        }
    }

    /// The limit of memory where no control group keeps the worker to it.
    fn watched_limit(&self) -> Option<u64> {
        self.limits.memory_bytes.filter(|_| self.cgroup.is_none())
    }

    fn more_than_allowed(&self, held_bytes: u64) -> Option<String> {
        let limit_bytes = self.watched_limit().filter(|limit| held_bytes > *limit)?;
        let (held, limit) = (bytes(held_bytes), bytes(limit_bytes));
        Some(format!(
            "the worker held {held}, more than its limit of {limit}"
        ))
    }

    /// The kernel may have taken a child for want of memory, without which the worker lives on.
    pub(super) fn expect_no_kill(&mut self) -> Result<(), Outcome> {
        if self.killed_in_group() {
            return Err(self.died("while it was running"));
        }
        Ok(())
    }

    /// Kills the worker for this reason.
    pub(super) fn give_up(&mut self, kind: OutcomeKind, reason: String) -> Outcome {
        self.end();
        let outcome = Outcome::new(kind, reason);
        self.gone = Some(outcome.clone());
        outcome
    }

    /// Says how a worker ended that has ended by itself.
    fn died(&mut self, doing: &str) -> Outcome {
        self.end();
        let outcome = match self.process.reaped() {
            Some((status, _)) => death::outcome(status, doing, self.memory_evidence()),
            None => Outcome::new(OutcomeKind::Crashed, format!("the worker ended {doing}")),
        };
        self.gone = Some(outcome.clone());
        outcome
    }

    /// A worker that closed its stream is about to die, or has lost its senses.
    fn closed(&mut self, doing: &str) -> Outcome {
        if self.process.wait_for_death(Instant::now() + LAST_WORDS) {
            return self.died(doing);
        }
        let reason = format!("the worker closed its stream {doing} and lived on");
        self.give_up(OutcomeKind::Crashed, reason)
    }

    fn unsolicited(&mut self, line: &[u8]) -> Outcome {
        let text = excerpt(if line.is_empty() {
            self.stream.rest()
        } else {
            line
        });
        let reason = format!("the worker spoke without being asked: {text}");
        self.give_up(OutcomeKind::Crashed, reason)
    }

    fn too_long(&mut self) -> Outcome {
        let limit = bytes(MAX_MESSAGE_BYTES as u64);
        let text = excerpt(self.stream.rest());
        let reason = format!("the worker sent a message of more than {limit}: {text}");
        self.give_up(OutcomeKind::Crashed, reason)
    }

    pub(super) fn pause(&mut self) -> Result<(), Outcome> {
        self.check_alive()?;
        if self.paused {
            return Ok(());
        }
        // What it wrote so far must not be what fills its log's pipe later.
        self.look_after(Instant::now())?;
        // This also finds orphans, which by now are its own, not those of the worker that goes on
        // next.
        match self.process.stop() {
            Ok(()) => {
                self.paused = true;
                Ok(())
            }
            Err(_) if self.process.wait_for_death(Instant::now()) => {
                Err(self.died("before it was paused"))
            }
            Err(reason) => {
                let reason =
                    format!("the worker could not be stopped while others are measured: {reason}");
                Err(self.give_up(OutcomeKind::Crashed, reason))
            }
        }
    }

    pub(super) fn resume(&mut self) -> Result<(), Outcome> {
        self.check_alive()?;
        if self.paused {
            if self.process.wait_for_death(Instant::now()) {
                return Err(self.died("while it was paused"));
            }
            self.process.go_on();
            self.paused = false;
        }
        Ok(())
    }

    /// After `bye`: waits for the exit, and judges it.
    pub(super) fn wait_for_leave(&mut self, deadline: Instant) {
        loop {
            let until = deadline.min(Instant::now() + TICK);
            if self.process.wait_for_death(until) {
                break;
            }
            if self.interrupt.as_ref().is_some_and(Interrupt::is_set) {
                self.gone = Some(interrupted("leaving"));
                self.end();
                return;
            }
            if Instant::now() >= deadline {
                let reason = "the worker did not leave when it was asked to".to_owned();
                self.give_up(OutcomeKind::TimedOut, reason);
                return;
            }
            // A worker must not be kept from leaving by a full log.
            if self.look_after(Instant::now()).is_err() {
                return;
            }
        }
        self.end();
        if !matches!(self.process.reaped(), Some((WaitStatus::Exited(_, 0), _))) {
            self.died("when it was asked to leave");
        } else if let Some(reason) = self.more_than_allowed(self.peak_bytes()) {
            self.gone = Some(Outcome::new(OutcomeKind::OutOfMemory, reason));
        }
    }

    /// The most that a worker which is over ever held, or one that it waited for; 0 for unknown.
    fn peak_bytes(&self) -> u64 {
        let usage = self.process.reaped().map(|(_, usage)| usage);
        let peak = usage
            .map(|usage| usage.peak_resident_bytes)
            .filter(|&peak_bytes| peak_bytes > self.forked_bytes);
        peak.unwrap_or(0).max(self.watch.peak_bytes())
    }

    /// Ends the worker if it still lives, and tells what is left of it.
    pub(super) fn into_ended(mut self) -> Ended {
        self.end();
        let peak = self.peak_bytes();
        Ended {
            outcome: self.gone.clone(),
            log: self.log.tail(),
            cpu_ns: self.process.reaped().map(|(_, usage)| usage.cpu_ns),
            resident_bytes: self.watch.resident_bytes(),
            peak_resident_bytes: (peak > 0).then_some(peak),
        }
    }

    fn end(&mut self) {
        if !self.process.is_over() {
            // While it lives, its peak can be seen; a moment later no more.
            self.watch.look_at_leader();
            // A group of its own also holds what left process group and environment behind.
            self.empty_cgroup();
            self.process.end();
            self.empty_cgroup();
        }
        // Bounded: something that escaped all of this may still be writing.
        self.log.drain(LOG_BYTES);
    }

    fn empty_cgroup(&self) {
        if let Some(group) = &self.cgroup {
            group.kill_all(Some(self.process.pid()));
        }
    }

    fn killed_in_group(&self) -> bool {
        self.cgroup.as_ref().is_some_and(|group| group.kills() > 0)
    }

    fn memory_evidence(&self) -> MemoryEvidence {
        MemoryEvidence {
            limit_bytes: self.limits.memory_bytes,
            in_group: self.killed_in_group(),
            at_limit: self.cgroup.as_ref().is_some_and(Cgroup::came_to_its_limit),
            on_machine: machine_kills() > self.machine_kills,
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.end();
    }
}

fn machine_kills() -> u64 {
    fs::read_to_string("/proc/vmstat")
        .ok()
        .and_then(|text| cgroup::counter(&text, "oom_kill"))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_interrupt_ends_the_wait_for_a_worker_that_stays() {
        let command = WorkerCommand {
            program: "/bin/sleep".into(),
            args: vec!["600".to_owned()],
            env: BTreeMap::new(),
        };
        let interrupt = Interrupt::new().unwrap();
        let started = Supervised::start(
            Transport::Standard,
            &command,
            &Limits::default(),
            &interrupt,
        );
        let mut worker = started.unwrap();
        interrupt.trigger();
        worker.wait_for_leave(Instant::now() + Duration::from_secs(600));
        let outcome = worker.into_ended().outcome.unwrap();
        assert_eq!(outcome.kind, OutcomeKind::NotReached, "{outcome:?}");
    }
}
