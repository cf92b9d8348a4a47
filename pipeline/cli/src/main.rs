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

use std::process::ExitCode;

use clap::Parser as _;

use crate::{args::Cli, printer::Printer};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let printer = Printer::new(cli.common.output_format);
    match commands::execute(&cli, printer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            printer.failure(&failure);
            failure.code()
        }
    }
}
