//! The worker's side: one loop that every engine written in Rust shares.

mod control;
pub(crate) mod memory;
mod outputs;
mod reader;
pub(crate) mod timing;
mod turn;

use std::{env, io::Write, process::ExitCode};

use schema::protocol::Reply;

use crate::{
    Engine,
    ranks::{self, World},
};
pub(crate) use turn::guarded;

/// Speaks the worker protocol for `engine` until the supervisor says `bye` or closes the stream;
/// the whole of a worker's `main`.
///
/// The first thing it does is to move the original standard output away and to let file
/// descriptor 1 point at standard error, so that a library's chatter cannot corrupt the stream.
/// Nothing else may use standard input or output. A panic in the engine is answered by a failure.
///
/// A process that was launched as one of several ranks, and not the first, is led by rank 0 instead.
///
/// The exit status is 0 after `bye` and after the supervisor closed the stream, 2 when the stream
/// could not be opened, or what a launcher says of ranks cannot be; a rank that fails leaves with 1.
#[must_use]
pub fn serve(engine: impl Engine) -> ExitCode {
    // Nobody to answer to: the log is all there is, and if it is gone, so be it.
    let give_up = |reason: &str| {
        let _ = writeln!(std::io::stderr(), "{reason}");
        ExitCode::from(2)
    };
    let world = match World::of(|name| env::var(name).ok()) {
        Ok(world) => world,
        Err(outcome) => return give_up(&outcome.reason),
    };
    if let Some(world) = world.as_ref().filter(|world| world.rank > 0) {
        return ranks::follow(engine, world);
    }
    let (reader, writer) = match control::open() {
        Ok(stream) => stream,
        Err(reason) => return give_up(&reason),
    };
    let inbox = reader::listen(reader);
    match turn::Turns::new(engine, world, writer, inbox).take_all() {
        // The supervisor has gone, with or without a word: nobody is left to tell.
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

/// What the writing end of a stream must do.
type Writer = Box<dyn Write + Send>;

/// Sends one message.
fn send(writer: &mut Writer, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    writer.write_all(&line)?;
    writer.flush()
}
