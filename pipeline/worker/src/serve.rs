//! The worker's side: one loop that every engine written in Rust shares.

mod control;
mod memory;
mod outputs;
mod reader;
pub(crate) mod timing;
mod turn;

use std::{io::Write, process::ExitCode};

use schema::protocol::Reply;

use crate::Engine;

/// Speaks the worker protocol for `engine` until the supervisor says `bye` or closes the stream;
/// the whole of a worker's `main`.
///
/// The first thing it does is to move the original standard output away and to let file
/// descriptor 1 point at standard error, so that a library's chatter cannot corrupt the stream.
/// Nothing else may use standard input or output. A panic in the engine is answered by a failure.
///
/// The exit status is 0 after `bye` and after the supervisor closed the stream, 2 when the stream
/// could not be opened.
#[must_use]
pub fn serve(engine: impl Engine) -> ExitCode {
    let (reader, writer) = match control::open() {
        Ok(stream) => stream,
        Err(reason) => {
            // Nobody to answer to: the log is all there is, and if it is gone, so be it.
            let _ = writeln!(std::io::stderr(), "{reason}");
            return ExitCode::from(2);
        }
    };
    let inbox = reader::listen(reader);
    match turn::Turns::new(engine, writer, inbox).take_all() {
        // The supervisor has gone, with or without a word: nobody is left to tell.
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

/// What the writing end of a stream must do.
type Writer = Box<dyn Write>;

/// Sends one message.
fn send(writer: &mut Writer, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    writer.write_all(&line)?;
    writer.flush()
}
