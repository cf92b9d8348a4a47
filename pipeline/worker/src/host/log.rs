//! What a worker writes to its log: standard error, and stray standard output.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::{pipe2, read},
};

/// How much of the end is kept.
const TAIL_BYTES: usize = 16 << 10;

/// Wanted size of the pipe: what a worker may write between two looks without waiting for us.
const PIPE_BYTES: i32 = 1 << 20;

/// The supervisor's end of a worker's log: a pipe, so that a flood fills no disk, read at the
/// ticks of the supervisor's waits, so that a chatty engine wakes nobody while it is timed.
#[derive(Debug)]
pub(super) struct Log {
    pipe: OwnedFd,
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
        Ok((
            Self {
                pipe: reader,
                tail: Vec::new(),
                total_bytes: 0,
            },
            writer,
        ))
    }

    /// Takes what is there, at most about one pipe's worth; says how many bytes.
    pub(super) fn drain(&mut self) -> u64 {
        let mut chunk = [0; 1 << 16];
        let mut taken = 0;
        while taken < PIPE_BYTES.unsigned_abs().into() {
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
        assert_eq!(log.drain(), 0);
        for _ in 0..3 {
            writer.write_all(&[b'a'; 30_000]).unwrap();
            log.drain();
        }
        writer.write_all(b"the end").unwrap();
        assert_eq!(log.drain(), 7);
        assert_eq!(log.total_bytes(), 90_007);
        assert_eq!(log.tail().len(), TAIL_BYTES);
        assert!(log.tail().ends_with("aathe end"));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let (mut log, writer) = Log::new().unwrap();
        File::from(writer)
            .write_all(&[b'x', 0xff, 0xfe, b'y'])
            .unwrap();
        log.drain();
        assert_eq!(log.tail(), "x\u{fffd}\u{fffd}y");

        log.keep(&[0xff; TAIL_BYTES]);
        assert!(log.tail().len() <= TAIL_BYTES);
    }
}
