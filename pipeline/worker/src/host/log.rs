//! What a worker writes to its log: standard error, and stray standard output.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::{pipe2, read},
};

/// How much of the end is kept.
const TAIL_BYTES: usize = 16 << 10;

/// Wanted size of the pipe: what a worker may write between two looks without waiting for us, in
/// large pieces; each small one may take a page of its own.
const PIPE_BYTES: i32 = 1 << 20;

/// No look at a log follows another sooner.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// The supervisor's end of a worker's log: a pipe, so that a flood fills no disk, read at the
/// ticks of the supervisor's waits, so that a chatty engine wakes nobody while it is timed.
#[derive(Debug)]
pub(super) struct Log {
    pipe: OwnedFd,
    capacity_bytes: u64,
    tail: Vec<u8>,
    total_bytes: u64,
}

impl Log {
    /// A log and the descriptor to write it to.
    pub(super) fn new() -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // A machine may refuse a large pipe; the usual 64 KiB serve as well.
        let _ = fcntl(&reader, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        let capacity = fcntl(&reader, FcntlArg::F_GETPIPE_SZ)?;
        Ok((
            Self {
                pipe: reader,
                capacity_bytes: u64::try_from(capacity).unwrap_or(0),
                tail: Vec::new(),
                total_bytes: 0,
            },
            writer,
        ))
    }

    /// Takes all that is there, until there is nothing more or `most` bytes were taken; says how
    /// many bytes. A pipe that is emptied wakes whoever waits to write to it, so that there may be
    /// more at once.
    pub(super) fn drain(&mut self, most: u64) -> u64 {
        let mut chunk = [0; 1 << 16];
        let mut taken = 0;
        while taken < most {
            match read(self.pipe.as_fd(), &mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    self.keep(chunk.get(..count).unwrap_or_default());
                    taken += count as u64;
                }
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        self.total_bytes = self.total_bytes.saturating_add(taken);
        taken
    }

    /// How long to wait before the next look, when the last wait was this long and this much had
    /// come meanwhile: at most `longest`, and so short that the pipe does not fill. A worker that
    /// found it full would wait for us in the middle of a step; one that writes so much pays with
    /// our looks instead.
    pub(super) fn next_wait(&self, last: Duration, taken: u64, longest: Duration) -> Duration {
        // Small writes may fill half of each page only, so that half of the capacity is full.
        if taken >= self.capacity_bytes / 4 {
            (last / 4).max(SHORTEST_WAIT)
        } else if taken < self.capacity_bytes / 16 {
            last.saturating_mul(2).min(longest)
        } else {
            last
        }
    }

    /// Bytes written so far, as far as they were taken.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The end of the log.
    pub(super) fn tail(&self) -> String {
        let tail = self
            .tail
            .get(self.tail.len().saturating_sub(TAIL_BYTES)..)
            .unwrap_or_default();
        let mut text = String::from_utf8_lossy(tail).into_owned();
        // Replacing invalid bytes triples them.
        if text.len() > TAIL_BYTES {
            let start = text.ceil_char_boundary(text.len() - TAIL_BYTES);
            text.drain(..start);
        }
        text
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        // Twice the tail, so that bytes are moved seldom.
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let (mut log, writer) = Log::new().unwrap();
        let mut writer = File::from(writer);
        assert_eq!(log.drain(u64::MAX), 0);
        for _ in 0..3 {
            writer.write_all(&[b'a'; 30_000]).unwrap();
            log.drain(u64::MAX);
        }
        writer.write_all(b"the end").unwrap();
        assert_eq!(log.drain(u64::MAX), 7);
        assert_eq!(log.total_bytes(), 90_007);
        assert_eq!(log.tail().len(), TAIL_BYTES);
        assert!(log.tail().ends_with("aathe end"));
    }

    #[test]
    fn who_writes_much_soon_finds_room() {
        const TICK: Duration = Duration::from_millis(200);
        let (log, _writer) = Log::new().unwrap();
        // What fits where each write wastes half of a page.
        let room = log.capacity_bytes / 2;
        for mebibytes_a_second in [1_u64, 6, 20, 50] {
            let rate = room * 2 * mebibytes_a_second;
            let written = |wait: Duration| rate * wait.as_micros() as u64 / 1_000_000;
            let mut wait = TICK;
            for look in 0..100 {
                let taken = written(wait).min(room);
                assert!(look < 4 || taken < room, "{mebibytes_a_second}: {wait:?}");
                wait = log.next_wait(wait, taken, TICK);
                assert!((SHORTEST_WAIT..=TICK).contains(&wait));
            }
            // Once it is quiet, so are we.
            for _ in 0..8 {
                wait = log.next_wait(wait, 0, TICK);
            }
            assert_eq!(wait, TICK);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let (mut log, writer) = Log::new().unwrap();
        File::from(writer)
            .write_all(&[b'x', 0xff, 0xfe, b'y'])
            .unwrap();
        log.drain(u64::MAX);
        assert_eq!(log.tail(), "x\u{fffd}\u{fffd}y");

        log.keep(&[0xff; TAIL_BYTES]);
        assert!(log.tail().len() <= TAIL_BYTES);
    }
}
