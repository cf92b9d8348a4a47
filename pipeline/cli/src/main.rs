//! The `photofinish` binary: arguments, progress, diagnostics, exit codes.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod interrupt;
mod printer;
mod progress;
mod session;
mod stages;
mod tool;

use std::{env, ffi::OsString, io::ErrorKind, process::ExitCode};

use clap::Parser as _;

use crate::{
    args::{Cli, OutputFormat},
    failure::Failure,
    printer::Printer,
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let printer = Printer::new(cli.common.output_format);
    let done = commands::execute(&cli, printer).and_then(|()| match printer::unwritten() {
        None => Ok(()),
        Some(reason) => Err(unwritten(reason)),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            printer.failure(&failure);
            failure.code()
        }
    }
}

/// Help, the version, or words that make no command. Programs get their document even then.
fn misused(error: &clap::Error) -> ExitCode {
    let words: Vec<OsString> = env::args_os().collect();
    let wants_json = words.iter().any(|word| word == "--output-format=json")
        || words
            .windows(2)
            .any(|pair| pair == ["--output-format", "json"]);
    if error.use_stderr() && wants_json {
        let failure = Failure::usage(error.render()).with_styled(error.render().ansi().to_string());
        Printer::new(OutputFormat::Json).failure(&failure);
        return failure.code();
    }
    match error.print() {
        // Nothing can be done for a reader who has gone away.
        Err(failed) if failed.kind() != ErrorKind::BrokenPipe => {
            let failure = unwritten(&failed.to_string());
            Printer::new(OutputFormat::Human).failure(&failure);
            failure.code()
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// What was to be told could not be: the disk is full, or the device gone.
fn unwritten(reason: &str) -> Failure {
    Failure::lacking(format!("cannot write standard output: {reason}"))
}
