//! A module a command.

mod bench;
mod bundle;
mod check;
pub(crate) mod doctor;
pub(crate) mod engines;
mod gc;
mod schema;
mod stored;

use clap::CommandFactory as _;

use crate::{
    args::{Bundle, Cli, Command, Engines, Store},
    failure::Failure,
    printer::Printer,
    session::Session,
};

/// Does what the command line asks.
pub(crate) fn execute(cli: &Cli, printer: Printer) -> Result<(), Failure> {
    match &cli.command {
        Command::Schema(arguments) => return schema::schema(printer, arguments),
        Command::Part(part) => return bench::part(printer, &cli.common, part),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "photofinish", &mut script);
            printer.raw(&String::from_utf8_lossy(&script));
            return Ok(());
        }
        _ => {}
    }
    // `bench` and `run` do so as soon as they have a plan: until then there is nothing to stop.
    let heeds = matches!(
        cli.command,
        Command::Aggregate(_)
            | Command::Report(_)
            | Command::Bundle { .. }
            | Command::Engines { .. }
    );
    let borrows = matches!(&cli.command, Command::Report(report) if report.bundle.is_some());
    let session = Session::open(printer, &cli.common, borrows)?;
    if heeds {
        session.watch()?;
    }
    match &cli.command {
        Command::Bench(arguments) => bench::bench(&session, arguments),
        Command::Plan(arguments) => bench::plan(&session, arguments),
        Command::Run(arguments) => bench::run(&session, arguments),
        Command::Aggregate(arguments) => stored::aggregate(&session, arguments),
        Command::Report(arguments) => stored::report(&session, arguments),
        Command::Engines { command } => match command {
            Engines::List => engines::list(&session),
            Engines::Install {
                engines,
                verify,
                from,
                pinned,
            } => {
                let source = match from {
                    Some(python) => engines::Source::Python(python),
                    None if *pinned => engines::Source::Pinned,
                    None if *verify => engines::Source::Verified,
                    None => engines::Source::Chosen,
                };
                engines::install(&session, engines, source)
            }
            Engines::Check { engines } => check::check(&session, engines),
        },
        Command::Doctor { quick } => doctor::doctor(&session, *quick),
        Command::Bundle { command } => match command {
            Bundle::Pack { stored, file } => bundle::pack(&session, stored, file),
            Bundle::Open { file } => bundle::open(&session, file),
        },
        Command::Store { command } => match command {
            Store::List => stored::list(&session),
            Store::Gc { keep, dry_run } => gc::gc(&session, *keep, *dry_run),
        },
        Command::Part(_) | Command::Schema(_) | Command::Completions { .. } => Ok(()),
    }
}
