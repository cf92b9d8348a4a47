//! The thread that listens, so that a `cancel` is heard while the engine works.

use std::{
    io::{ErrorKind, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use schema::protocol::{MAX_MESSAGE_BYTES, Request};

use crate::frame::{Frames, TooLong};

/// How long an engine may go on after the supervisor has gone, before the process leaves under it.
const GRACE: Duration = Duration::from_secs(2);

/// What came in: a request, or why a line is none.
pub(super) struct Incoming {
    /// Number of the message, from 1; a `cancel` has none.
    pub(super) sequence: u64,
    pub(super) message: Result<Request, String>,
}

/// What the listening thread hands over.
pub(super) struct Inbox {
    pub(super) messages: Receiver<Incoming>,
    cancelled: Arc<AtomicU64>,
}

/// Tells, between two steps, whether the request in progress was cancelled.
pub(super) struct Cancelled {
    sequence: u64,
    newest: Arc<AtomicU64>,
}

impl Cancelled {
    /// Costs one relaxed load.
    pub(super) fn is_set(&self) -> bool {
        self.newest.load(Ordering::Relaxed) >= self.sequence
    }
}

impl Inbox {
    /// A `cancel` counts for the last message before it, never for one that comes later.
    pub(super) fn cancelled(&self, sequence: u64) -> Cancelled {
        Cancelled {
            sequence,
            newest: Arc::clone(&self.cancelled),
        }
    }
}

/// Starts listening.
pub(super) fn listen(stream: impl Read + Send + 'static) -> Inbox {
    // One at a time is the protocol; a supervisor that pushes more is made to wait.
    let (sender, messages) = sync_channel(4);
    let cancelled = Arc::new(AtomicU64::new(0));
    let newest = Arc::clone(&cancelled);
    thread::spawn(move || {
        read_all(stream, &sender, &newest);
        // The supervisor has gone. Loops end at their next step, the main thread finds the
        // channel closed; an engine that is deep in its own work is not waited for.
        newest.store(u64::MAX, Ordering::Relaxed);
        drop(sender);
        thread::sleep(GRACE);
        leave();
    });
    Inbox {
        messages,
        cancelled,
    }
}

#[expect(
    unsafe_code,
    reason = "the standard library can leave only through exit handlers"
)]
fn leave() {
    // SAFETY: `_exit` has no precondition. Exit handlers of the engine's libraries must not run
    // while the engine itself does, so `std::process::exit` is out.
    unsafe { nix::libc::_exit(0) }
}

/// Reads until the stream ends, fails, or nobody listens any more.
fn read_all(mut stream: impl Read, sender: &SyncSender<Incoming>, cancelled: &AtomicU64) {
    let mut frames = Frames::new(MAX_MESSAGE_BYTES);
    let mut sequence = 0;
    let mut chunk = vec![0; 1 << 16];
    // Set while the rest of a line that was too long goes by.
    let mut skipping = false;
    loop {
        let count = match stream.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let mut bytes = chunk.get(..count).unwrap_or_default();
        if skipping {
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                continue;
            };
            bytes = bytes.get(end + 1..).unwrap_or_default();
            skipping = false;
        }
        frames.push(bytes);
        loop {
            let message = match frames.next_line() {
                Ok(None) => break,
                Ok(Some(line)) if line.trim_ascii().is_empty() => continue,
                Ok(Some(line)) => match serde_json::from_slice(&line) {
                    Ok(Request::Cancel) => {
                        cancelled.store(sequence, Ordering::Relaxed);
                        continue;
                    }
                    Ok(request) => Ok(request),
                    Err(error) => Err(format!("not a message of the protocol: {error}")),
                },
                Err(TooLong) => {
                    // The newline may already have gone by with the line.
                    skipping = frames.rest().len() >= MAX_MESSAGE_BYTES;
                    if skipping {
                        frames.clear();
                    }
                    Err(format!("a message of more than {MAX_MESSAGE_BYTES} bytes"))
                }
            };
            sequence += 1;
            if sender.send(Incoming { sequence, message }).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use proptest::prelude::*;

    use super::*;

    fn messages(stream: impl Read + Send + 'static) -> Vec<Result<Request, String>> {
        let (sender, receiver) = sync_channel(1);
        let listener = thread::spawn(move || read_all(stream, &sender, &AtomicU64::new(0)));
        let all = receiver
            .into_iter()
            .map(|incoming| incoming.message)
            .collect();
        listener.join().unwrap();
        all
    }

    #[test]
    fn a_bad_line_does_not_spoil_the_next() {
        let all = messages(Cursor::new(
            b"\"reset\"\n\xff\x00\n\n{\"reset\":1}\n\"memory\"\n\"bye".to_vec(),
        ));
        assert_eq!(all.len(), 4);
        assert_eq!(all[0], Ok(Request::Reset));
        assert!(all[1].is_err() && all[2].is_err());
        assert_eq!(all[3], Ok(Request::Memory));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let mut stream = Vec::new();
        for length in [MAX_MESSAGE_BYTES + (3 << 16), MAX_MESSAGE_BYTES] {
            stream.write_all(&vec![b'x'; length]).unwrap();
            stream.write_all(b"\n\"memory\"\n").unwrap();
        }
        let all = messages(Cursor::new(stream));
        assert_eq!(all.len(), 4);
        assert!(all[0].as_ref().unwrap_err().contains("67108864"));
        assert_eq!(all[1], Ok(Request::Memory));
        assert!(all[2].is_err());
        assert_eq!(all[3], Ok(Request::Memory));
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let all = messages(Cursor::new([vec![b'['; 1 << 20], b"\n".to_vec()].concat()));
        assert!(all[0].is_err());
    }

    #[test]
    fn a_cancel_counts_for_the_message_before_it() {
        let (sender, receiver) = sync_channel(8);
        let cancelled = Arc::new(AtomicU64::new(0));
        read_all(
            Cursor::new(b"\"memory\"\n\"cancel\"\n\"reset\"\n"),
            &sender,
            &cancelled,
        );
        let inbox = Inbox {
            messages: receiver,
            cancelled,
        };
        assert!(inbox.cancelled(1).is_set());
        assert!(!inbox.cancelled(2).is_set());
    }

    proptest! {
        /// Whatever comes, there is one answer to each line that is neither blank nor `cancel`.
        #[test]
        fn every_line_has_its_answer(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
        ) {
            let lines: Vec<Vec<u8>> = lines
                .into_iter()
                .map(|line| line.into_iter().filter(|&byte| byte != b'\n').collect())
                .collect();
            let expected = lines.iter().filter(|line| !line.trim_ascii().is_empty()).count();
            let stream = lines.join(&b'\n');
            let all = messages(Cursor::new([stream, b"\n".to_vec()].concat()));
            prop_assert_eq!(all.len(), expected);
        }
    }
}
