//! The bytes between supervisor and worker.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixListener,
    },
    process::Stdio,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::pipe2,
};
use schema::protocol::MAX_MESSAGE_BYTES;
use tempfile::TempDir;

use super::process::Streams;
use crate::frame::{Frames, TooLong};

/// What a worker speaks over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Its standard input and output.
    Standard,
    /// A Unix socket that `PHOTOFINISH_CONTROL` names.
    Socket,
}

/// The supervisor's end; nothing here blocks.
#[derive(Debug)]
pub(super) struct Stream {
    ends: Ends,
    frames: Frames,
}

#[derive(Debug)]
enum Ends {
    Pipes {
        reader: File,
        writer: File,
    },
    /// Until the worker connects. The folder, open to this user alone, holds the socket.
    Listening {
        listener: UnixListener,
        folder: TempDir,
    },
    Socket(File),
    Closed,
}

/// What a look at the stream gave.
pub(super) enum Look {
    /// A whole line.
    Line(Vec<u8>),
    /// No whole line yet.
    Nothing,
    /// The worker closed its end, or broke it.
    Closed,
    /// A line longer than any message.
    TooLong,
}

impl Stream {
    /// A stream, the worker's standard streams that belong to it, and the address that the worker
    /// must be told.
    pub(super) fn new(
        transport: Transport,
        log: OwnedFd,
    ) -> io::Result<(Self, Streams, Option<String>)> {
        let frames = Frames::new(MAX_MESSAGE_BYTES);
        match transport {
            Transport::Standard => {
                let (stdin, writer) = pipe2(OFlag::O_CLOEXEC)?;
                let (reader, stdout) = pipe2(OFlag::O_CLOEXEC)?;
                let (reader, writer) = (non_blocking(reader)?, non_blocking(writer)?);
                let streams = Streams {
                    stdin: stdin.into(),
                    stdout: stdout.into(),
                    stderr: log.into(),
                };
                Ok((
                    Self {
                        ends: Ends::Pipes { reader, writer },
                        frames,
                    },
                    streams,
                    None,
                ))
            }
            Transport::Socket => {
                let folder = TempDir::with_prefix("photofinish-")?;
                let path = folder.path().join("control");
                let listener = UnixListener::bind(&path)?;
                listener.set_nonblocking(true)?;
                let address = format!("unix:{}", path.display());
                let streams = Streams {
                    stdin: Stdio::null(),
                    stdout: log.try_clone()?.into(),
                    stderr: log.into(),
                };
                let ends = Ends::Listening { listener, folder };
                Ok((Self { ends, frames }, streams, Some(address)))
            }
        }
    }

    /// Readable when there is something to read, or someone to accept.
    pub(super) fn read_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.ends {
            Ends::Pipes { reader, .. } => Some(reader.as_fd()),
            Ends::Listening { listener, .. } => Some(listener.as_fd()),
            Ends::Socket(socket) => Some(socket.as_fd()),
            Ends::Closed => None,
        }
    }

    /// Writable when the worker reads.
    pub(super) fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.ends {
            Ends::Pipes { writer, .. } => Some(writer.as_fd()),
            Ends::Listening { .. } | Ends::Socket(_) | Ends::Closed => self.read_fd(),
        }
    }

    /// Closes both directions.
    pub(super) fn close(&mut self) {
        self.ends = Ends::Closed;
    }

    /// Reads what is there, up to the end of the next line.
    pub(super) fn read(&mut self) -> Look {
        let mut chunk = [0; 1 << 16];
        loop {
            match self.frames.next_line() {
                Ok(Some(line)) => return Look::Line(line),
                Ok(None) => {}
                Err(TooLong) => return Look::TooLong,
            }
            let count = match &mut self.ends {
                Ends::Pipes { reader, .. } => reader.read(&mut chunk),
                Ends::Socket(socket) => socket.read(&mut chunk),
                Ends::Closed => return Look::Closed,
                Ends::Listening { .. } => match self.accept() {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
            };
            match count {
                Ok(0) => return Look::Closed,
                Ok(count) => self.frames.push(chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Look::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Look::Closed,
            }
        }
    }

    /// What came after the last line that was read.
    pub(super) fn rest(&self) -> &[u8] {
        self.frames.rest()
    }

    /// Writes as much as the worker takes now; `None` when it has closed its end.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        let writer = match &mut self.ends {
            Ends::Pipes { writer, .. } => writer,
            Ends::Socket(socket) => socket,
            Ends::Listening { .. } | Ends::Closed => return None,
        };
        loop {
            match writer.write(bytes) {
                Ok(count) => return Some(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let Ends::Listening { listener, folder } = &self.ends else {
            return Ok(());
        };
        let (socket, _) = listener.accept()?;
        // Nobody else is to connect, and nothing is to be left in the file system.
        let _ = std::fs::remove_file(folder.path().join("control"));
        self.ends = Ends::Socket(non_blocking(socket.into())?);
        Ok(())
    }
}

fn non_blocking(descriptor: OwnedFd) -> io::Result<File> {
    fcntl(&descriptor, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(File::from(descriptor))
}
