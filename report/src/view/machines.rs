//! The machines that measured.

use std::collections::BTreeSet;

use schema::{Device, Environment, Tables};
use serde::Serialize;

use super::{
    chrome::{Chrome, link},
    roofline::{self, CeilingLine},
};
use crate::{
    units,
    words::{Fact, fact},
};

/// The page of machines.
#[derive(Debug, Serialize)]
pub(crate) struct MachinesPage {
    chrome: Chrome,
    machines: Vec<Machine>,
}

/// A machine.
#[derive(Debug, Serialize)]
struct Machine {
    /// Counted from 1, for the reader and for links.
    number: usize,
    name: String,
    facts: Vec<Fact>,
    features: Vec<String>,
    variables: Vec<Fact>,
    ceilings: Vec<CeilingLine>,
    /// How many cells were measured here, of those that were tried, in a sentence.
    cells: String,
}

impl MachinesPage {
    pub(crate) fn new(tables: &Tables) -> Self {
        let machines = tables
            .environments
            .iter()
            .enumerate()
            .map(|(place, found)| Machine {
                number: place + 1,
                name: name(found),
                facts: facts(found),
                features: found.fingerprint.cpu_features.clone(),
                variables: found
                    .variables
                    .iter()
                    .map(|(name, value)| fact(name, value))
                    .collect(),
                ceilings: roofline::of_machine(tables, place),
                cells: cells(tables, place),
            })
            .collect();
        let chrome = Chrome::new(tables, "", "machines", "Machines")
            .with_crumbs(vec![link("Overview", "index.html")]);
        Self { chrome, machines }
    }
}

fn cells(tables: &Tables, place: usize) -> String {
    let here = tables.cells.iter().filter(|row| {
        row.environment
            .is_some_and(|number| number as usize == place)
    });
    let (all, measured) = here.fold((0, 0), |(all, measured), row| {
        (all + 1, measured + u64::from(row.speed.is_some()))
    });
    let cells = match all {
        1 => "One cell was".to_owned(),
        _ => format!("{} cells were", units::count(all)),
    };
    match (all, measured) {
        (_, 0) => format!("{cells} tried here; none was timed."),
        _ if all == measured => format!("{cells} measured here."),
        _ => format!(
            "{cells} tried here, of which {} measured.",
            match measured {
                1 => "one was".to_owned(),
                _ => format!("{} were", units::count(measured)),
            }
        ),
    }
}

/// A machine in a few words.
pub(crate) fn name(environment: &Environment) -> String {
    let print = &environment.fingerprint;
    let cpu = if print.cpu_model.trim().is_empty() {
        "an unnamed processor"
    } else {
        &print.cpu_model
    };
    let mut name = format!("{cpu}, {} logical processors", print.logical_cpus);
    for gpu in &print.gpus {
        name += &format!(", {}", gpu.name);
    }
    name
}

/// What cells ran on, machine by machine: processors, GPUs.
pub(crate) fn hardware(tables: &Tables) -> Vec<String> {
    let mut names = Vec::new();
    for (number, environment) in (0_u32..).zip(&tables.environments) {
        let cells = tables.cells.iter();
        let here = cells.filter(|row| row.environment == Some(number));
        let devices: BTreeSet<Device> = here.map(|row| row.cell.device).collect();
        let print = &environment.fingerprint;
        let mut its: Vec<String> = Vec::new();
        if devices.is_empty() {
            its.push(print.cpu_model.clone());
        }
        for device in devices {
            // CUDA counts otherwise than the driver does: only where all are of one kind it is that.
            let mut kinds: Vec<&String> = print.gpus.iter().map(|gpu| &gpu.name).collect();
            kinds.dedup();
            let name = match (device, &kinds[..]) {
                (Device::Cpu, _) => print.cpu_model.clone(),
                (Device::Cuda(_), [kind]) => (*kind).clone(),
                (Device::Cuda(_), _) => device.to_string(),
            };
            // Several GPUs of one kind are named once.
            if !its.contains(&name) {
                its.push(name);
            }
        }
        names.extend(its);
    }
    names
}

/// Everything that is known of a machine, but for lists.
pub(crate) fn facts(environment: &Environment) -> Vec<Fact> {
    let print = &environment.fingerprint;
    let unknown = || "the kernel does not tell".to_owned();
    let yes_no = |found: Option<bool>| {
        found.map_or_else(unknown, |on| if on { "on" } else { "off" }.to_owned())
    };
    let load = &environment.load;
    let mut facts = vec![
        fact("Processor", &print.cpu_model),
        fact(
            "Logical processors",
            format!(
                "{} on {} physical cores",
                print.logical_cpus, print.physical_cores
            ),
        ),
        fact("Memory", format!("{} GiB", units::count(print.memory_gib))),
        fact("Platform", &print.platform),
        fact("Kernel", &environment.kernel),
        fact("Distribution", &environment.distribution),
        fact(
            "Frequency governor",
            environment.governor.clone().unwrap_or_else(unknown),
        ),
        fact("Turbo", yes_no(environment.turbo)),
        fact("Simultaneous multithreading", yes_no(environment.smt)),
        fact(
            "Virtualization",
            environment
                .virtualization
                .clone()
                .unwrap_or_else(|| "none found".to_owned()),
        ),
        fact(
            "Memory limit",
            environment
                .memory_limit_bytes
                .map_or_else(|| "none".to_owned(), units::bytes),
        ),
        fact(
            "Processor limit",
            environment.cpu_quota.map_or_else(
                || "none".to_owned(),
                |quota| format!("{} processors", units::fixed(quota, 2)),
            ),
        ),
        fact(
            "Load over one minute, before",
            format!("{} runnable tasks", units::fixed(load.load_1m, 2)),
        ),
        fact(
            "Memory available, before",
            units::bytes(load.available_memory_bytes),
        ),
        fact(
            "Clock, before",
            load.clock_mhz
                .map_or_else(unknown, |clock| format!("{} MHz", units::fixed(clock, 0))),
        ),
    ];
    for (place, gpu) in print.gpus.iter().enumerate() {
        facts.push(fact(
            format!("GPU {place}"),
            format!(
                "{}, driver {}, {}",
                gpu.name,
                gpu.driver,
                units::bytes(gpu.memory_bytes)
            ),
        ));
    }
    facts
}
