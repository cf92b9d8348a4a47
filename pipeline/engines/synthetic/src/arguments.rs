//! The command line.

use crate::behaviour::Behaviour;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Be a worker.
    Serve {
        /// The name to go by.
        engine: String,
        /// How to behave from the start on.
        behaviour: Option<Behaviour>,
        /// By how many per cent a step is to take longer.
        slower: u32,
    },
    /// Print what the harness costs a step.
    BenchHarness,
    /// Do nothing for an hour.
    Linger,
    /// Take more and more memory.
    Eat,
    /// Start a process that hides and does what the arguments say, and leave.
    Hide(Vec<String>),
    /// Leave session and process group, then do what the arguments say.
    Hidden(Box<Task>),
}

pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Task, String> {
    let mut arguments: Vec<String> = arguments.into_iter().collect();
    let mut arguments = arguments.drain(..);
    let (mut engine, mut behaviour, mut slower) = ("synthetic".to_owned(), None, 0);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--engine" => engine = value()?,
            "--variant" => {
                let word = value()?;
                let known = Behaviour::from_word(&word).ok_or(format!("no variant `{word}`"))?;
                behaviour = Some(known);
            }
            "--slower" => {
                let percent = value()?;
                slower = percent
                    .parse()
                    .map_err(|_| format!("`{percent}` per cent"))?;
            }
            "--bench-harness" => return Ok(Task::BenchHarness),
            "--linger" => return Ok(Task::Linger),
            "--eat" => return Ok(Task::Eat),
            "--hide" => return Ok(Task::Hide(arguments.collect())),
            "--hidden" => return read(arguments).map(|task| Task::Hidden(Box::new(task))),
            _ => return Err(format!("unknown argument `{argument}`")),
        }
    }
    Ok(Task::Serve {
        engine,
        behaviour,
        slower,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(arguments: &[&str]) -> Result<Task, String> {
        read(arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn it_can_play_another_engine() {
        let expected = Task::Serve {
            engine: "pytorch".to_owned(),
            behaviour: Some(Behaviour::WrongVersion),
            slower: 0,
        };
        let given = task(&["--engine", "pytorch", "--variant", "wrong_version"]);
        assert_eq!(given, Ok(expected));
        assert_eq!(
            task(&["--engine"]),
            Err("--engine needs a value".to_owned())
        );
        let slow = task(&["--slower", "5"]);
        assert!(
            matches!(slow, Ok(Task::Serve { slower: 5, .. })),
            "{slow:?}"
        );
        assert!(task(&["--slower", "a little"]).is_err());
        assert!(task(&["--variant", "nice"]).is_err());
        assert!(task(&["--help"]).is_err());
    }
}
