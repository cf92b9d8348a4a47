//! Rank 0: starts the others, hands orders on and gathers what they answer.

use std::{
    env,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use schema::{Cell, Outcome, OutcomeKind, protocol::CONTROL_VARIABLE};

use super::{
    Answer, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, Order, RANK, Store, WORLD_SIZE, World,
    answer_name, order_name,
};
use crate::{Engine, failure::unavailable};

/// Where ranks meet that nobody launched.
const HERE: &str = "127.0.0.1";

/// How often answers are looked for, at first and in the end: whoever waits in the store itself fills the
/// log with complaints.
const SOON: Duration = Duration::from_micros(100);
const LATER: Duration = Duration::from_millis(10);

/// How long a failure of this rank waits for what another says of it, which may be its cause.
const CAUSE: Duration = Duration::from_secs(1);

/// How often the others are looked after while this rank is busy.
const LOOK: Duration = Duration::from_millis(100);

/// How long ranks that were told to leave may take.
const LEAVE: Duration = Duration::from_secs(2);

/// The other ranks of a cell.
pub(crate) struct Crew {
    store: Box<dyn Store>,
    size: u32,
    /// Number of the next order.
    next: u64,
    /// Those that this process started, by rank.
    started: Vec<(u32, Child)>,
}

impl Crew {
    /// Meets the other ranks of `cell`. A launcher has started them where it said who this process is
    /// (`launched`); otherwise they are started here.
    ///
    /// # Errors
    /// `unavailable`: there are more or fewer than the cell asks for, or they cannot be started;
    /// `unsupported`: the engine knows one process alone.
    pub(crate) fn meet(
        engine: &mut dyn Engine,
        cell: &Cell,
        launched: Option<&World>,
    ) -> Result<Self, Outcome> {
        let size = cell.world_size;
        if let Some(world) = launched
            && world.size != size
        {
            return Err(unavailable(format!(
                "{WORLD_SIZE}={} processes were launched, and the cell is for {size}",
                world.size
            )));
        }
        let world = launched.cloned().unwrap_or_else(|| World {
            rank: 0,
            local_rank: 0,
            size,
            address: HERE.to_owned(),
            port: 0,
        });
        let store = engine.join(&world)?;
        let mut crew = Self {
            store,
            size,
            next: 0,
            started: Vec::new(),
        };
        if launched.is_none() {
            for rank in 1..size {
                let child = start(rank, size, crew.store.port()).map_err(|error| {
                    unavailable(format!("cannot start rank {rank} of {size}: {error}"))
                })?;
                crew.started.push((rank, child));
            }
        }
        Ok(crew)
    }

    /// Hands an order on.
    pub(crate) fn order(&mut self, order: &Order) -> Result<(), Outcome> {
        let value = serde_json::to_vec(order).map_err(|error| {
            Outcome::new(
                OutcomeKind::Crashed,
                format!("an order is no JSON: {error}"),
            )
        })?;
        self.store.set(&order_name(self.next), &value)?;
        self.next += 1;
        Ok(())
    }

    /// What all others answered to the last order, from rank 1 on, once this rank has carried it out
    /// (`own`). Where that failed, another may have failed before it, and is the reason.
    ///
    /// # Errors
    /// That of `own`, or of the first rank that failed or ended.
    pub(crate) fn answers<T>(
        &mut self,
        own: Result<T, Outcome>,
    ) -> Result<(T, Vec<Answer>), Outcome> {
        let Some(number) = self.next.checked_sub(1) else {
            return own.map(|own| (own, Vec::new()));
        };
        let until = own.is_err().then(|| Instant::now() + CAUSE);
        let mut answers = Vec::new();
        for rank in 1..self.size {
            match self.answer(number, rank, until)? {
                Some(Answer::Failed(outcome)) => return Err(of_rank(rank, &outcome)),
                Some(answer) => answers.push(answer),
                None => {}
            }
        }
        self.store.forget(&order_name(number))?;
        own.map(|own| (own, answers))
    }

    /// A rank's answer; `None` where it has none by `until`.
    fn answer(
        &mut self,
        number: u64,
        rank: u32,
        until: Option<Instant>,
    ) -> Result<Option<Answer>, Outcome> {
        let name = answer_name(number, rank);
        let mut pause = SOON;
        loop {
            let value = self.store.get(&name, Duration::ZERO)?;
            if let Some(value) = value {
                self.store.forget(&name)?;
                return serde_json::from_slice(&value).map(Some).map_err(|error| {
                    Outcome::new(
                        OutcomeKind::Crashed,
                        format!("rank {rank} answered what is no answer: {error}"),
                    )
                });
            }
            // Whoever has ended may have answered just before.
            if let Some(outcome) = self.ended()
                && self.store.get(&name, Duration::ZERO)?.is_none()
            {
                return Err(outcome);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LATER);
        }
    }

    /// This rank's part (`own`) of the last order, in which it may wait for others that are gone: a group of
    /// processes has no connections yet that would break with them. Where one failed or ended and `own` does
    /// not end by itself, the others are ended, and `lost` is called with the reason on another thread; it
    /// should end this process.
    pub(crate) fn watched<T>(
        &mut self,
        own: impl FnOnce() -> T,
        lost: impl FnOnce(Outcome) + Send,
    ) -> T {
        let (done, until_done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let waited = |time| until_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
                while waited(LOOK) {
                    let Some(outcome) = self.lost() else {
                        continue;
                    };
                    if waited(CAUSE) {
                        self.end();
                        lost(outcome);
                    }
                    return;
                }
            });
            let own = own();
            drop(done);
            own
        })
    }

    /// What became of the first rank that failed at the last order, or has ended.
    fn lost(&mut self) -> Option<Outcome> {
        let number = self.next.checked_sub(1)?;
        // Whoever has ended may have answered just before.
        let ended = self.ended();
        let failed = (1..self.size).find_map(|rank| {
            let name = answer_name(number, rank);
            let value = self.store.get(&name, Duration::ZERO).ok().flatten()?;
            match serde_json::from_slice(&value) {
                Ok(Answer::Failed(outcome)) => Some(of_rank(rank, &outcome)),
                _ => None,
            }
        });
        failed.or(ended)
    }

    /// Of the ranks that were started here the first that has ended, without having been told to.
    fn ended(&mut self) -> Option<Outcome> {
        let mut started = self.started.iter_mut();
        started.find_map(|(rank, child)| {
            let status = child.try_wait().ok().flatten()?;
            Some(Outcome::new(
                OutcomeKind::Crashed,
                format!("rank {rank} {}", how(status)),
            ))
        })
    }

    /// Has all others leave.
    pub(crate) fn leave(mut self) {
        // Whoever is gone needs no telling.
        let _ = self.order(&Order::Bye);
        let deadline = Instant::now() + LEAVE;
        for (_, child) in &mut self.started {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Nothing that was started here stays.
    fn end(&mut self) {
        for (_, child) in &mut self.started {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.end();
    }
}

/// What another rank says of its failure.
fn of_rank(rank: u32, outcome: &Outcome) -> Outcome {
    Outcome::new(outcome.kind, format!("rank {rank}: {}", outcome.reason))
}

/// Starts another rank of this very program. Its standard output is what this process's is by now, its log.
fn start(rank: u32, size: u32, port: u16) -> std::io::Result<Child> {
    Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env_remove(CONTROL_VARIABLE)
        .env(RANK, rank.to_string())
        .env(LOCAL_RANK, rank.to_string())
        .env(WORLD_SIZE, size.to_string())
        .env(MASTER_ADDR, HERE)
        .env(MASTER_PORT, port.to_string())
        .stdin(Stdio::null())
        .spawn()
}

/// How a process ended, in words.
fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;

    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => match nix::sys::signal::Signal::try_from(signal) {
            Ok(known) => format!("was ended by signal {signal} ({known})"),
            Err(_) => format!("was ended by signal {signal}"),
        },
        (None, None) => "ended".to_owned(),
    }
}

/// What each rank answered, from rank 1 on, where that is what it was asked for.
///
/// # Errors
/// `crashed`: one answered something else.
pub(crate) fn each<T>(
    answers: Vec<Answer>,
    asked: impl Fn(Answer) -> Option<T>,
) -> Result<Vec<T>, Outcome> {
    let told = (1..).zip(answers).map(|(rank, answer)| {
        asked(answer).ok_or_else(|| {
            let reason = format!("rank {rank} answered something else than it was asked for");
            Outcome::new(OutcomeKind::Crashed, reason)
        })
    });
    told.collect::<Result<_, _>>()
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use super::*;

    /// A store of this process alone.
    #[derive(Default, Clone)]
    struct Board(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

    impl Store for Board {
        fn port(&self) -> u16 {
            0
        }

        fn set(&self, name: &str, value: &[u8]) -> Result<(), Outcome> {
            let mut names = self.0.lock().unwrap();
            names.insert(name.to_owned(), value.to_owned());
            Ok(())
        }

        fn get(&self, name: &str, _patience: Duration) -> Result<Option<Vec<u8>>, Outcome> {
            Ok(self.0.lock().unwrap().get(name).cloned())
        }

        fn forget(&self, name: &str) -> Result<(), Outcome> {
            self.0.lock().unwrap().remove(name);
            Ok(())
        }
    }

    #[test]
    fn what_another_rank_failed_at_ends_a_wait_for_it() {
        let board = Board::default();
        let mut crew = Crew {
            store: Box::new(board.clone()),
            size: 3,
            next: 0,
            started: Vec::new(),
        };
        crew.order(&Order::Reset).unwrap();
        let answer = |rank, answer: Answer| {
            let answer = serde_json::to_vec(&answer).unwrap();
            board.set(&answer_name(0, rank), &answer).unwrap();
        };
        answer(1, Answer::Done);
        // Long enough to be looked after, and for a failure to be believed.
        let busy = || thread::sleep(CAUSE + 3 * LOOK);
        crew.watched(busy, |outcome| panic!("{outcome:?}"));
        answer(2, Answer::Failed(unavailable("no GPU".to_owned())));
        let (told, until_told) = mpsc::channel();
        let own = || until_told.recv().unwrap();
        let told = crew.watched(own, move |outcome| told.send(outcome).unwrap());
        assert_eq!(told, unavailable("rank 2: no GPU".to_owned()));
        // What is said stays said: answers are not taken by looking.
        let reason = crew.answers(Ok(())).unwrap_err().reason;
        assert_eq!(reason, "rank 2: no GPU");
    }

    #[test]
    fn an_answer_to_something_else_is_none() {
        let steps = |answer| match answer {
            Answer::Steps(steps) => Some(steps),
            _ => None,
        };
        let right = vec![Answer::Steps(vec![1, 2]), Answer::Steps(Vec::new())];
        assert_eq!(each(right, steps), Ok(vec![vec![1, 2], Vec::new()]));
        let outcome = each(vec![Answer::Steps(vec![1]), Answer::Done], steps).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Crashed);
        assert!(outcome.reason.starts_with("rank 2 "), "{}", outcome.reason);
    }
}
