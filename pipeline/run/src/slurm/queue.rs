//! Slurm's commands: `sbatch`, `squeue` and `scancel`.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use super::Launching;
use crate::RunError;

/// What a node must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Needs {
    pub(super) cpus: u32,
    pub(super) gpus: u32,
}

/// A job array that Slurm has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Array {
    /// Slurm's number of it.
    pub(super) job: u64,
    /// What each of its tasks measures.
    pub(super) parts: Vec<usize>,
}

/// What became of a task so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is to begin, for the first time or again.
    Waits,
    Runs,
    /// It will not begin again.
    Ended,
}

/// A task as Slurm tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) state: State,
    /// Slurm's own word.
    pub(super) word: String,
}

/// Hands in an array of tasks.
pub(super) fn submit(
    folder: &Path,
    launching: &Launching<'_>,
    needs: Needs,
    parts: &[usize],
) -> Result<Array, RunError> {
    let mut command = Command::new("sbatch");
    let log = folder.join("%A_%a.log");
    command
        .args([
            "--parsable",
            "--job-name=photofinish",
            "--nodes=1",
            "--ntasks=1",
        ])
        .args(["--exclusive", "--requeue", "--open-mode=append"])
        .arg(format!("--array=0-{}", parts.len().saturating_sub(1)))
        .arg(format!("--cpus-per-task={}", needs.cpus))
        .arg(format!("--output={}", log.display()));
    if needs.gpus > 0 {
        command.arg(format!("--gpus-per-node={}", needs.gpus));
    }
    let printed = answer(command, &script(folder, launching, parts))?;
    // `1234`, or `1234;cluster`.
    let job = printed.trim().split(';').next().unwrap_or_default().parse();
    let job = job.map_err(|_| refused("sbatch", &format!("printed no number: {printed}")))?;
    Ok(Array {
        job,
        parts: parts.to_vec(),
    })
}

/// Which of a node's GPUs are seen. Slurm sets it to those that a task asked for; the node is the task's alone,
/// and what decides a measurement is to be as it was when it was planned.
const GPUS: &str = "CUDA_VISIBLE_DEVICES";

/// What each task runs. Each start of it measures into a store of its own.
fn script(folder: &Path, launching: &Launching<'_>, parts: &[usize]) -> String {
    let numbers: Vec<String> = parts.iter().map(ToString::to_string).collect();
    let seen = match launching.machine.conditions.get(GPUS) {
        Some(seen) => format!("export {GPUS}={}", quoted(seen)),
        None => format!("unset {GPUS}"),
    };
    format!(
        "#!/bin/sh\n{seen}\nset -- {}\nshift \"$SLURM_ARRAY_TASK_ID\"\nexec {} part {} \"$1\" \
         \"${{SLURM_RESTART_COUNT:-0}}\"\n",
        numbers.join(" "),
        quoted(&launching.program.to_string_lossy()),
        quoted(&folder.to_string_lossy()),
    )
}

/// A word of a shell's.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What became of the tasks, by what they measure. One that ended long ago is not among them.
pub(super) fn tasks(arrays: &[Array]) -> Result<BTreeMap<usize, Task>, RunError> {
    let mut command = Command::new("squeue");
    let jobs: Vec<String> = arrays.iter().map(|array| array.job.to_string()).collect();
    command
        .args(["--noheader", "--array", "--states=all", "--format=%F %K %T"])
        .arg(format!("--jobs={}", jobs.join(",")));
    match answer(command, "") {
        Ok(printed) => Ok(parse(&printed, arrays)),
        // Of jobs that are all forgotten.
        Err(RunError::Slurm { reason, .. }) if reason.contains("Invalid job id") => {
            Ok(BTreeMap::new())
        }
        Err(error) => Err(error),
    }
}

fn parse(printed: &str, arrays: &[Array]) -> BTreeMap<usize, Task> {
    let task = |line: &str| {
        let mut words = line.split_whitespace();
        let job: u64 = words.next()?.parse().ok()?;
        let place: usize = words.next()?.parse().ok()?;
        let word = words.next()?;
        let array = arrays.iter().find(|array| array.job == job)?;
        let part = *array.parts.get(place)?;
        let task = Task {
            state: state(word),
            word: word.to_owned(),
        };
        Some((part, task))
    };
    printed.lines().filter_map(task).collect()
}

/// Slurm's words for states, from the manual of `squeue`.
fn state(word: &str) -> State {
    match word {
        "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT"
        | "RESV_DEL_HOLD" | "CONFIGURING" => State::Waits,
        "RUNNING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "STAGE_OUT"
        | "RESIZING" => State::Runs,
        _ => State::Ended,
    }
}

/// Takes back what has not come to its end.
pub(super) fn cancel(arrays: &[Array]) -> Result<(), RunError> {
    if arrays.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("scancel");
    command.arg("--quiet");
    command.args(arrays.iter().map(|array| array.job.to_string()));
    match answer(command, "") {
        Err(RunError::Slurm { reason, .. }) if reason.contains("Invalid job id") => Ok(()),
        done => done.map(drop),
    }
}

/// What one of the commands prints, given this on its standard input.
fn answer(mut command: Command, input: &str) -> Result<String, RunError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| refused(&name, &reason);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("it cannot be started: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that has read enough says what it thinks of it.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {}", output.status, said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn refused(command: &str, reason: &str) -> RunError {
    RunError::Slurm {
        command: command.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Machine, *};

    #[test]
    fn tasks_are_told_by_what_they_measure() {
        let arrays = [
            Array {
                job: 7,
                parts: vec![2, 0],
            },
            Array {
                job: 8,
                parts: vec![1],
            },
        ];
        let printed =
            "7 0 RUNNING\n7 1 PENDING\n8 0 NODE_FAIL\n9 0 RUNNING\n7 N/A FAILED\n\n7 5 RUNNING\n";
        let tasks = parse(printed, &arrays);
        let states: Vec<_> = tasks
            .iter()
            .map(|(part, task)| (*part, task.state))
            .collect();
        assert_eq!(
            states,
            [(0, State::Waits), (1, State::Ended), (2, State::Runs)]
        );
        assert_eq!(tasks[&1].word, "NODE_FAIL");
    }

    #[test]
    fn a_path_is_one_word_to_a_shell_and_gpus_are_as_planned() {
        let mut machine = Machine::here();
        for (planned, seen) in [(None, "none"), (Some("2"), "2")] {
            machine.conditions.remove(GPUS);
            machine
                .conditions
                .extend(planned.map(|planned| (GPUS.to_owned(), planned.to_owned())));
            let launching = Launching {
                program: Path::new("/p"),
                machine: &machine,
            };
            let script = script(Path::new("/a b/it's $HOME"), &launching, &[4, 6]);
            let printing = "printf '%s\\n' ${CUDA_VISIBLE_DEVICES:-none}";
            let told = Command::new("sh")
                .arg("-c")
                .arg(script.replace("exec '/p'", printing))
                .env("SLURM_ARRAY_TASK_ID", "1")
                .env(GPUS, "0,1")
                .env_remove("SLURM_RESTART_COUNT")
                .output()
                .expect("a shell");
            assert_eq!(
                String::from_utf8_lossy(&told.stdout),
                format!("{seen}\npart\n/a b/it's $HOME\n6\n0\n")
            );
        }
    }
}
