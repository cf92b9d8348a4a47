//! How long a worker takes from its start until it has measured a step.

use std::{collections::BTreeMap, time::Instant};

use catalog::Catalog;
use schema::Precision;

use crate::{
    Result, contest,
    race::{self, PATIENCE},
};

/// Prints for each of `variants` the median, the least and the largest time of `launches` starts,
/// after one that is not counted: what is read from disk is in memory then.
pub(crate) fn all(catalog: &Catalog, variants: &[String], launches: usize) -> Result<()> {
    let graph = models::zoo::build("resnet18", &BTreeMap::new())?;
    let scratch = tempfile::tempdir()?;
    for variant in variants {
        let command = contest::worker(catalog, variant)?;
        let cell = contest::cell(catalog, (variant, Precision::Fp32), &graph, 1, 2)?;
        let load = contest::load(cell, &graph, scratch.path())?;
        let mut seconds = Vec::new();
        for launch in 0..=launches {
            let began = Instant::now();
            let mut host = race::loaded(&command, &load)?;
            race::times(&mut host, 1, 1)?;
            if launch > 0 {
                seconds.push(began.elapsed().as_secs_f64());
            }
            let _ended = host.finish(Instant::now() + PATIENCE);
        }
        println!(
            "resnet18 on {variant}: {:.2} s to the first measured step ({:.2} to {:.2} over {launches} starts)",
            race::median(seconds.clone()),
            seconds.iter().copied().fold(f64::INFINITY, f64::min),
            seconds.iter().copied().fold(0.0, f64::max),
        );
    }
    Ok(())
}
