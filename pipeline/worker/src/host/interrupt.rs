//! A request to stop, from a signal handler or another thread.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, poll},
    unistd::{pipe2, write},
};

use super::process::timeout_after;

/// A request to stop. Clones share it; once triggered it stays so, and every blocking wait on a
/// worker returns.
#[derive(Debug, Clone)]
pub struct Interrupt {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    set: AtomicBool,
    /// Readable from the trigger on: nobody drains it.
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Interrupt {
    /// One that is not triggered yet.
    ///
    /// # Errors
    /// The process has no file descriptors left.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        Ok(Self {
            shared: Arc::new(Shared {
                set: AtomicBool::new(false),
                reader,
                writer,
            }),
        })
    }

    /// Asks everything to stop. Async-signal-safe: an atomic store and a `write`.
    pub fn trigger(&self) {
        self.shared.set.store(true, Ordering::SeqCst);
        // A full pipe is readable, which is all that is wanted.
        let _ = write(&self.shared.writer, b"!");
    }

    /// Whether it was triggered.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.shared.set.load(Ordering::SeqCst)
    }

    /// Waits until it is triggered, for so long at most.
    pub fn wait(&self, most: Duration) {
        let began = Instant::now();
        while !self.is_set() && began.elapsed() < most {
            let left = most.saturating_sub(began.elapsed());
            let mut fds = [PollFd::new(self.fd(), PollFlags::POLLIN)];
            // A signal that arrives on this thread ends it early, and it goes on waiting.
            let _ = poll(&mut fds, timeout_after(left));
        }
    }

    /// Readable once triggered: for `poll`.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.reader.as_fd()
    }
}
