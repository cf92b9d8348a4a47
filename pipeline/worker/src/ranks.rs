//! Several processes for one cell: who they are, where they meet, and how the first leads the others.
//!
//! Rank 0 is the worker that the supervisor started. Where nobody launched the others it starts them itself,
//! from its own program, so that they are children of the launch like anything else that a worker
//! starts; a launcher such as `torchrun` or `srun` starts all of them. They meet in a store that rank 0
//! serves and every engine with several ranks brings along ([`Store`]). Through it rank 0 hands on
//! what the supervisor asks, as an [`Order`]; each of the others answers, and neither the supervisor nor the
//! protocol knows of them. While steps are timed nothing goes through the store: an order names how many
//! steps come next.

mod crew;
mod follow;
mod order;

use std::time::Duration;

use schema::{Outcome, OutcomeKind};

pub(crate) use crew::{Crew, each};
pub(crate) use follow::follow;
pub(crate) use order::{Answer, Order};

/// The variables by which launchers tell a process who it is, as PyTorch's `torchrun` has them.
const RANK: &str = "RANK";
const LOCAL_RANK: &str = "LOCAL_RANK";
const WORLD_SIZE: &str = "WORLD_SIZE";
const MASTER_ADDR: &str = "MASTER_ADDR";
const MASTER_PORT: &str = "MASTER_PORT";

/// All of them: a launch of one process has none.
pub const RANK_VARIABLES: [&str; 5] = [RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT];

/// A process among those that run one cell together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// Its number, from 0.
    pub rank: u32,
    /// Its number among those of its machine: the GPU that it takes.
    pub local_rank: u32,
    /// How many there are.
    pub size: u32,
    /// Where rank 0 serves the store.
    pub address: String,
    /// The store's port; 0 lets rank 0 take any that is free.
    pub port: u16,
}

impl World {
    /// What a launcher said in the environment; `None` where it says no rank.
    ///
    /// # Errors
    /// `unavailable`: what it says is incomplete, or cannot be.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Outcome> {
        if variable(RANK).is_none() {
            return Ok(None);
        }
        let told = |name: &str| {
            variable(name).ok_or_else(|| {
                let reason = format!(
                    "{RANK} is set and {name} is not: a launcher of several processes sets {}",
                    RANK_VARIABLES.join(", ")
                );
                Outcome::new(OutcomeKind::Unavailable, reason)
            })
        };
        let rank = number(RANK, &told(RANK)?)?;
        let size = number(WORLD_SIZE, &told(WORLD_SIZE)?)?;
        let port: u32 = number(MASTER_PORT, &told(MASTER_PORT)?)?;
        if rank >= size {
            return Err(Outcome::new(
                OutcomeKind::Unavailable,
                format!("{RANK}={rank} is none of {WORLD_SIZE}={size} ranks, which count from 0"),
            ));
        }
        let port = u16::try_from(port)
            .ok()
            .filter(|&port| port > 0)
            .ok_or_else(|| {
                Outcome::new(
                    OutcomeKind::Unavailable,
                    format!("{MASTER_PORT}={port} is no port: ports go from 1 to 65535"),
                )
            })?;
        Ok(Some(Self {
            rank,
            // Slurm's `srun` sets none of these by itself, and who maps its own may leave this out.
            local_rank: match variable(LOCAL_RANK) {
                Some(text) => number(LOCAL_RANK, &text)?,
                None => rank,
            },
            size,
            address: told(MASTER_ADDR)?,
            port,
        }))
    }
}

fn number(name: &str, text: &str) -> Result<u32, Outcome> {
    text.trim().parse().map_err(|_| {
        Outcome::new(
            OutcomeKind::Unavailable,
            format!("{name}={} is no whole number", text.escape_debug()),
        )
    })
}

/// Where ranks meet: names with values, which all of them see. Rank 0 serves it.
///
/// It is asked while the engine waits for other ranks, and must answer then: it shares no connection with what the
/// engine exchanges.
pub trait Store: Send {
    /// The port at which it is served.
    fn port(&self) -> u16;

    /// Gives a name a value.
    ///
    /// # Errors
    /// `crashed`: whoever serves the store is gone.
    fn set(&self, name: &str, value: &[u8]) -> Result<(), Outcome>;

    /// The value of a name once it has one; `None` where it has none within `patience`.
    ///
    /// # Errors
    /// `crashed`: whoever serves the store is gone.
    fn get(&self, name: &str, patience: Duration) -> Result<Option<Vec<u8>>, Outcome>;

    /// Forgets a name.
    ///
    /// # Errors
    /// `crashed`: whoever serves the store is gone.
    fn forget(&self, name: &str) -> Result<(), Outcome>;
}

/// The name of the order of this number.
fn order_name(number: u64) -> String {
    format!("photofinish/order/{number}")
}

/// The name of a rank's answer to it.
fn answer_name(number: u64, rank: u32) -> String {
    format!("photofinish/answer/{number}/{rank}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(variables: &[(&str, &str)]) -> Result<Option<World>, String> {
        let told = World::of(|name| {
            let mut known = variables.iter();
            known
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        });
        told.map_err(|outcome| {
            assert_eq!(outcome.kind, OutcomeKind::Unavailable);
            outcome.reason
        })
    }

    #[test]
    fn a_launcher_says_who_a_process_is() {
        assert_eq!(told(&[]), Ok(None));
        assert_eq!(told(&[(WORLD_SIZE, "4"), (MASTER_PORT, "x")]), Ok(None));
        let mut whole = vec![
            (RANK, "3"),
            (LOCAL_RANK, "1"),
            (WORLD_SIZE, "4"),
            (MASTER_ADDR, "node7"),
            (MASTER_PORT, "29500"),
        ];
        let world = World {
            rank: 3,
            local_rank: 1,
            size: 4,
            address: "node7".to_owned(),
            port: 29500,
        };
        assert_eq!(told(&whole), Ok(Some(world.clone())));
        whole.remove(1);
        let alone = World {
            local_rank: 3,
            ..world
        };
        assert_eq!(told(&whole), Ok(Some(alone)));
    }

    #[test]
    fn what_a_launcher_leaves_out_or_cannot_mean_is_named() {
        let usual = [
            (RANK, "1"),
            (WORLD_SIZE, "2"),
            (MASTER_ADDR, "127.0.0.1"),
            (MASTER_PORT, "29500"),
        ];
        for missing in 1..usual.len() {
            let mut rest = usual.to_vec();
            let (name, _) = rest.remove(missing);
            let reason = told(&rest).unwrap_err();
            assert!(reason.contains(&format!("{name} is not")), "{reason}");
        }
        for (at, value, named) in [
            (0, "-1", "RANK=-1 is no whole number"),
            (0, "2", "RANK=2 is none of WORLD_SIZE=2 ranks"),
            (1, "many\n", "WORLD_SIZE=many\\n is no whole number"),
            (1, "0", "WORLD_SIZE=0"),
            (3, "0", "MASTER_PORT=0 is no port"),
            (3, "65536", "MASTER_PORT=65536 is no port"),
        ] {
            let mut wrong = usual;
            wrong[at].1 = value;
            let reason = told(&wrong).unwrap_err();
            assert!(reason.contains(named), "{reason}");
        }
    }
}
