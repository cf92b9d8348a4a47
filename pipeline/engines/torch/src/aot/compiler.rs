//! PyTorch's compiler, a program of another kit's that is written in Python.
//!
//! It gets its request on one line of standard input, which stays open while we wait: a compiler
//! whose worker is gone notices that, and ends.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use schema::{
    Outcome, OutcomeKind,
    protocol::{CONTROL_VARIABLE, Load, Request},
};
use serde::{Deserialize, Serialize};
use worker::{COMPILER_VARIABLE, WorkerCommand, failure::unavailable};

/// The longest answer worth reading, in bytes.
const LONGEST_ANSWER: u64 = 1 << 16;

/// What is asked (`photofinish_pytorch.aot.Compile`).
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Question<'a> {
    Compile {
        request: Request,
        package: &'a Path,
        dropout: bool,
        key: &'a str,
    },
}

/// What is answered.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Answer {
    /// The package is there.
    Compiled,
    /// There is none, and why.
    Failed(Outcome),
}

/// How the compiler is started, as whoever started this worker says.
pub(super) fn command(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<WorkerCommand, Outcome> {
    let text = variable(COMPILER_VARIABLE).ok_or_else(|| {
        unavailable(format!(
            "{COMPILER_VARIABLE} names no compiler: PyTorch for Python makes what this variant \
             runs; run `photofinish engines install pytorch/aot`"
        ))
    })?;
    serde_json::from_slice(text.as_encoded_bytes())
        .map_err(|error| unavailable(format!("{COMPILER_VARIABLE} names no command: {error}")))
}

/// Has the network of `load` compiled into a package at `package`, which will say that it is `key`.
pub(super) fn compile(
    command: &WorkerCommand,
    load: &Load,
    package: &Path,
    dropout: bool,
    key: &str,
) -> Result<(), Outcome> {
    let question = Question::Compile {
        request: Request::Load(Box::new(load.clone())),
        package,
        dropout,
        key,
    };
    let mut line = serde_json::to_vec(&question)
        .map_err(|error| crashed(&format!("cannot be asked: {error}")))?;
    line.push(b'\n');
    let mut running = Running::start(command)?;
    let answer = running.ask(&line);
    match serde_json::from_str(&answer) {
        Ok(Answer::Compiled) => Ok(()),
        Ok(Answer::Failed(outcome)) => Err(outcome),
        Err(_) => Err(running.end(&answer)),
    }
}

/// A compiler at work; it does not outlive this.
struct Running(Child);

impl Running {
    fn start(command: &WorkerCommand) -> Result<Self, Outcome> {
        let mut child = Command::new(&command.program);
        child
            .args(&command.args)
            .envs(&command.env)
            .env_remove(CONTROL_VARIABLE)
            .env_remove(COMPILER_VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        child.spawn().map(Self).map_err(|error| {
            let program = command.program.display();
            let reason = format!("PyTorch's compiler cannot be started: {program}: {error}");
            Outcome::new(OutcomeKind::Unavailable, reason)
        })
    }

    /// Its answer; empty where it ended without one.
    fn ask(&mut self, line: &[u8]) -> String {
        let mut answer = String::new();
        // One that ended before it read all of it has an answer, or its end says more.
        if let Some(stdin) = &mut self.0.stdin {
            let _ = stdin.write_all(line).and_then(|()| stdin.flush());
        }
        if let Some(stdout) = &mut self.0.stdout {
            let mut stdout = BufReader::new(stdout.take(LONGEST_ANSWER));
            let _ = stdout.read_line(&mut answer);
        }
        answer
    }

    /// How it ended, where it did not answer as agreed.
    fn end(mut self, answer: &str) -> Outcome {
        if !answer.is_empty() {
            let start: String = answer.trim().chars().take(100).collect();
            return crashed(&format!("answered `{}`", start.escape_debug()));
        }
        match self.0.wait() {
            Ok(status) => crashed(&ended(status)),
            Err(error) => crashed(&format!("ended without an answer: {error}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After an answer it leaves by itself, since nobody asks any more; both fail harmlessly where
        // it has left.
        drop(self.0.stdin.take());
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn ended(status: ExitStatus) -> String {
    format!("ended without an answer ({status}); the log has its last words")
}

fn crashed(what: &str) -> Outcome {
    Outcome::new(OutcomeKind::Crashed, format!("PyTorch's compiler {what}"))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;

    fn shell(script: &str) -> WorkerCommand {
        WorkerCommand {
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: BTreeMap::new(),
        }
    }

    /// What comes of asking a compiler that is this script.
    fn asked(script: &str) -> Result<(), Outcome> {
        let graph = models::sample::perceptron(1).unwrap();
        let cell = serde_json::json!({
            "model": { "name": "n", "source": "zoo", "graph": "0".repeat(64) },
            "dims": {}, "precision": "fp32", "mode": "inference", "optimizer": null,
            "engine": "pytorch/aot", "host_language": "rust", "device": "cpu", "threads": 1,
            "strategy": "single", "world_size": 1, "boundary": "step", "factors": {},
        });
        let load = Load {
            cell: serde_json::from_value(cell).unwrap(),
            graph,
            files: None,
            scratch: PathBuf::from("/nowhere"),
        };
        compile(
            &shell(script),
            &load,
            Path::new("/nowhere/p.pt2"),
            true,
            "k",
        )
    }

    #[test]
    fn what_it_answers_is_taken_at_its_word() {
        assert_eq!(asked("read line; echo '\"compiled\"'"), Ok(()));
        let answer = r#"{"failed": {"kind": "unavailable", "reason": "no g++"}}"#;
        let outcome = asked(&format!("read line; echo '{answer}'")).unwrap_err();
        assert_eq!(outcome, Outcome::new(OutcomeKind::Unavailable, "no g++"));
    }

    #[test]
    fn it_is_asked_in_full_and_on_one_line() {
        let script = "read -r line; \
             case $line in '{\"compile\":{\"request\":{\"load\":'*'\"key\":\"k\"}}') echo '\"compiled\"';; esac";
        assert_eq!(asked(script), Ok(()));
    }

    #[test]
    fn one_that_does_not_answer_is_a_typed_failure() {
        for (script, words) in [
            ("exit 3", "exit status: 3"),
            ("kill -9 $$", "signal: 9"),
            ("echo nonsense", "answered `nonsense`"),
            ("echo '{\"compiled\": 1}'", "answered"),
        ] {
            let outcome = asked(script).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::Crashed, "{script}");
            assert!(outcome.reason.contains(words), "{}", outcome.reason);
        }
    }

    #[test]
    fn without_a_compiler_the_variant_is_unavailable() {
        let outcome = command(|_| None).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unavailable);
        assert!(outcome.reason.contains("engines install pytorch/aot"));
        let outcome = command(|_| Some(OsString::from("python"))).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unavailable);
        let gone = WorkerCommand {
            program: PathBuf::from("/nowhere/python"),
            args: vec![],
            env: BTreeMap::new(),
        };
        let named = serde_json::to_string(&gone).unwrap();
        let named = command(|_| Some(OsString::from(&named))).unwrap();
        assert_eq!(named, gone);
        let Err(outcome) = Running::start(&named) else {
            panic!("there is no such program")
        };
        assert_eq!(outcome.kind, OutcomeKind::Unavailable);
        assert!(outcome.reason.contains("/nowhere/python"));
    }
}
