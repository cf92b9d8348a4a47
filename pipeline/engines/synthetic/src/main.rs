//! A worker whose engine computes nothing that counts: it answers with numbers that depend on the graph alone,
//! in a step time that one can choose, or it misbehaves in one certain way.
//!
//! ```text
//! photofinish-worker-synthetic [--engine NAME] [--variant NAME] [--slower PERCENT]
//! photofinish-worker-synthetic --bench-harness
//! ```
//!
//! `--engine` lets it play another engine, the reference for example. How it behaves is the cell's
//! variant ([`behaviour::Behaviour`]); `--variant` tells it before `load`, for what goes wrong
//! earlier. `--slower` makes the steps of the variant `works` longer. `--bench-harness` prints what the harness itself costs a step.
#![forbid(unsafe_code)]

mod arguments;
mod behaviour;
mod bench;
mod engine;
mod mischief;
mod outputs;
mod session;

use std::{
    io::{self, Write},
    process::ExitCode,
    thread,
    time::Duration,
};

use arguments::Task;
use behaviour::Behaviour;

fn main() -> ExitCode {
    match arguments::read(std::env::args().skip(1)) {
        Ok(task) => perform(task),
        Err(reason) => report(Err(reason)),
    }
}

fn perform(task: Task) -> ExitCode {
    match task {
        Task::Serve {
            engine,
            behaviour,
            slower,
        } => serve(engine, behaviour, slower),
        Task::BenchHarness => report(bench::run()),
        // What a misbehaving worker leaves behind.
        Task::Linger => {
            thread::sleep(Duration::from_secs(3600));
            ExitCode::SUCCESS
        }
        Task::Eat => mischief::eat_memory(),
        Task::Hide(arguments) => match mischief::hide(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report(Err(error.to_string())),
        },
        Task::Hidden(task) => match nix::unistd::setsid() {
            Ok(_) => perform(*task),
            Err(error) => report(Err(error.to_string())),
        },
    }
}

fn serve(engine: String, start: Option<Behaviour>, slower: u32) -> ExitCode {
    let Ok(stream) = mischief::ProtocolStream::take() else {
        return ExitCode::from(2);
    };
    match start {
        Some(Behaviour::SlowStart) => thread::sleep(mischief::SLOW),
        Some(Behaviour::WrongVersion) => return mischief::speak_another_version(&stream),
        Some(Behaviour::ExitAtStart) => {
            engine::complain("left at the start");
            return ExitCode::SUCCESS;
        }
        Some(Behaviour::Mute) => mischief::hang(),
        _ => {}
    }
    let ignores_bye = start == Some(Behaviour::IgnoresBye);
    let status = worker::serve(engine::Synthetic::new(engine, stream, start, slower));
    if ignores_bye {
        mischief::hang();
    }
    status
}

fn report(result: Result<String, String>) -> ExitCode {
    // Whoever closed the pipe does not want to know.
    match result {
        Ok(text) => {
            let _ = writeln!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            let _ = writeln!(io::stderr(), "{reason}");
            ExitCode::from(2)
        }
    }
}
