//! Slurm's commands: `sbatch`, `squeue` and `scancel`.

use std::{
    collections::BTreeMap,
    env,
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use super::Launching;
use crate::RunError;

/// What a node must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Needs {
    pub(super) cpus: u32,
    pub(super) gpus: u32,
}

/// A job array that Slurm has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// It came to its own end: what it leaves may not be seen yet.
    Done,
    /// It will leave nothing.
    Ended,
}

/// A task as Slurm tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) state: State,
    /// Slurm's own word, and why it waits.
    pub(super) word: String,
    pub(super) reason: String,
}

/// Names another cluster than that of this node, which none of the other commands would know of.
const CLUSTERS: &str = "SBATCH_CLUSTERS";

/// Begin the variables by which users have commands leave tasks out.
const FILTERS: [&str; 2] = ["SQUEUE_", "SCANCEL_"];

/// Slurm counts by it how often a task was begun before; a run that is a task itself has one of its own.
const STARTS: &str = "SLURM_RESTART_COUNT";

/// Makes sure that Slurm's commands are there.
pub(super) fn check() -> Result<(), RunError> {
    for command in ["sbatch", "squeue", "scancel"] {
        let mut asked = Command::new(command);
        asked.arg("--version");
        answer(asked, "")?;
    }
    Ok(())
}

/// Hands in an array of tasks under the name of a submission.
pub(super) fn submit(
    name: &str,
    folder: &Path,
    launching: &Launching<'_>,
    needs: Needs,
    parts: &[usize],
) -> Result<Array, RunError> {
    if env::var_os(CLUSTERS).is_some() {
        let reason = format!(
            "{CLUSTERS} is set: a run goes to the cluster of the node that it is started on"
        );
        return Err(refused("sbatch", &reason));
    }
    let (Some(folder), Some(program)) = (folder.to_str(), launching.program.to_str()) else {
        let reason = "the store or this program lies in a folder whose name is not UTF-8";
        return Err(refused("sbatch", reason));
    };
    if folder.contains('\\') {
        return Err(refused(
            "sbatch",
            "it takes no name of a folder with a backslash in it",
        ));
    }
    let mut command = Command::new("sbatch");
    command
        .env_remove(STARTS)
        .args(["--parsable", "--nodes=1", "--ntasks=1"])
        // All memory of the node, too.
        .args(["--exclusive", "--mem=0", "--requeue", "--open-mode=append"])
        .arg(format!("--job-name={name}"))
        .arg(format!("--array=0-{}", parts.len().saturating_sub(1)))
        .arg(format!("--cpus-per-task={}", needs.cpus))
        .arg(format!("--output={}/%A_%a.log", folder.replace('%', "%%")));
    if needs.gpus > 0 {
        command.arg(format!("--gpus-per-node={}", needs.gpus));
    }
    let seen = launching.machine.conditions.get(GPUS);
    let script = script(folder, program, seen.map(String::as_str), parts);
    let printed = answer(command, &script)?;
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

/// What each task runs.
fn script(folder: &str, program: &str, seen: Option<&str>, parts: &[usize]) -> String {
    let numbers: Vec<String> = parts.iter().map(ToString::to_string).collect();
    let seen = match seen {
        Some(seen) => format!("export {GPUS}={}", quoted(seen)),
        None => format!("unset {GPUS}"),
    };
    format!(
        "#!/bin/sh\n{seen}\nset -- {}\nshift \"$SLURM_ARRAY_TASK_ID\"\nexec {} part {} \"$1\"\n",
        numbers.join(" "),
        quoted(program),
        quoted(folder),
    )
}

/// A word of a shell's.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What became of the tasks of a submission, by what they measure. One that ended long ago is not among
/// them.
pub(super) fn tasks(name: &str, arrays: &[Array]) -> Result<BTreeMap<usize, Task>, RunError> {
    Ok(parse(&queue(name)?, arrays))
}

/// Whether any task of a submission may still run.
pub(super) fn is_busy(name: &str) -> Result<bool, RunError> {
    let told = queue(name)?;
    let words = told
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    let mut states = words.map(state);
    Ok(states.any(|state| matches!(state, State::Waits | State::Runs)))
}

fn queue(name: &str) -> Result<String, RunError> {
    let mut command = Command::new("squeue");
    command
        .args([
            "--noheader",
            "--array",
            "--states=all",
            "--format=%F %K %T %r",
        ])
        .arg(format!("--name={name}"));
    answer(command, "")
}

fn parse(printed: &str, arrays: &[Array]) -> BTreeMap<usize, Task> {
    let task = |line: &str| {
        let mut words = line.split_whitespace();
        let job: u64 = words.next()?.parse().ok()?;
        let place: usize = words.next()?.parse().ok()?;
        let word = words.next()?;
        let reason: Vec<&str> = words.collect();
        let reason = reason.join(" ");
        let array = arrays.iter().find(|array| array.job == job)?;
        let part = *array.parts.get(place)?;
        let state = match state(word) {
            State::Waits if is_hopeless(&reason) => State::Ended,
            state => state,
        };
        let word = word.to_owned();
        Some((
            part,
            Task {
                state,
                word,
                reason,
            },
        ))
    };
    printed.lines().filter_map(task).collect()
}

/// Slurm's words for states, from the manual of `squeue`.
fn state(word: &str) -> State {
    match word {
        "PENDING" | "REQUEUED" | "REQUEUE_FED" | "RESV_DEL_HOLD" | "CONFIGURING" => State::Waits,
        "RUNNING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "STAGE_OUT"
        | "RESIZING" => State::Runs,
        "COMPLETED" => State::Done,
        _ => State::Ended,
    }
}

/// Whether a task that waits for this reason waits for somebody to do something about it; from the manual, and
/// what a task is told that could not be started.
fn is_hopeless(reason: &str) -> bool {
    [
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "JobHeldAdmin",
        "JobHeldUser",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "launch failed requeued held",
    ]
    .iter()
    .any(|hopeless| reason.contains(hopeless))
}

/// Takes back all tasks of a submission that have not come to their end.
pub(super) fn cancel(name: &str) -> Result<(), RunError> {
    let mut command = Command::new("scancel");
    command.arg("--quiet").arg(format!("--name={name}"));
    answer(command, "").map(drop)
}

/// What one of the commands prints, given this on its standard input.
fn answer(mut command: Command, input: &str) -> Result<String, RunError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| refused(&name, &reason);
    let is_filter = |name: &str| FILTERS.iter().any(|filter| name.starts_with(filter));
    for (variable, _) in env::vars_os().filter(|(name, _)| is_filter(&name.to_string_lossy())) {
        command.env_remove(variable);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C is this program's to heed: Slurm would have taken what a command that dies has asked for.
        .process_group(0)
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

pub(super) fn refused(command: &str, reason: &str) -> RunError {
    RunError::Slurm {
        command: command.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_told_by_what_they_measure() {
        let arrays = [
            Array {
                job: 7,
                parts: vec![2, 0, 3],
            },
            Array {
                job: 8,
                parts: vec![1, 4],
            },
        ];
        let printed = "7 0 RUNNING None\n7 1 PENDING Nodes required are DOWN\n7 2 COMPLETED None\n\
                       8 0 NODE_FAIL None\n8 1 PENDING launch failed requeued held\n9 0 RUNNING None\n\
                       7 N/A FAILED None\n\n7 5 RUNNING None\n";
        let tasks = parse(printed, &arrays);
        let states: Vec<_> = tasks.values().map(|task| task.state).collect();
        use State::{Done, Ended, Runs, Waits};
        assert_eq!(states, [Waits, Ended, Runs, Done, Ended]);
        assert_eq!(tasks[&1].word, "NODE_FAIL");
        assert_eq!(tasks[&0].reason, "Nodes required are DOWN");
    }

    #[test]
    fn a_path_is_one_word_to_a_shell_and_gpus_are_as_planned() {
        for (planned, seen) in [(None, "none"), (Some("2"), "2")] {
            let script = script("/a b/it's $HOME", "/p", planned, &[4, 6]);
            let printing = "printf '%s\\n' ${CUDA_VISIBLE_DEVICES:-none}";
            let told = Command::new("sh")
                .arg("-c")
                .arg(script.replace("exec '/p'", printing))
                .env("SLURM_ARRAY_TASK_ID", "1")
                .env(GPUS, "0,1")
                .output()
                .expect("a shell");
            assert_eq!(
                String::from_utf8_lossy(&told.stdout),
                format!("{seen}\npart\n/a b/it's $HOME\n6\n")
            );
        }
    }
}
