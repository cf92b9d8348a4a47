//! PyTorch as the worker's loop sees it.

use std::{collections::BTreeMap, env, sync::Once, time::Instant};

use schema::{Outcome, protocol::Load};
use worker::{Engine, Identity, LoadReport, Session};

use crate::{
    configuration::{Configuration, ENGINE, VARIANT},
    device::Place,
    failure::Fault,
    inference::Inference,
    shim,
    training::Training,
    values::Maker,
};

/// The variable by which OpenMP is told how idle threads wait.
const WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// PyTorch, before it has a network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Torch;

impl Engine for Torch {
    fn hello(&self) -> Identity {
        Identity {
            engine: ENGINE.to_owned(),
            versions: BTreeMap::from([("torch".to_owned(), shim::torch_version())]),
            worker: env!("PHOTOFINISH_WORKER_DIGEST").parse().ok(),
            variants: vec![VARIANT.to_owned()],
        }
    }

    fn load(&mut self, load: &Load) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
        let configuration = Configuration::of(&load.cell)?;
        let place = Place::open(load.cell.device)?;
        apply(&configuration).map_err(|fault| fault.at("settings"))?;
        let start = Instant::now();
        let mut maker = Maker::new(place, configuration.kind, configuration.channels_last);
        let (session, in_place): (Box<dyn Session>, _) = match configuration.optimizer {
            None => {
                let session = Inference::build(&load.graph, &mut maker)?;
                let in_place = session.in_place();
                (Box::new(session), in_place)
            }
            Some(optimizer) => {
                let session = Training::build(&load.graph, optimizer, &mut maker)?;
                let in_place = session.in_place();
                (Box::new(session), in_place)
            }
        };
        place.synchronize()?;
        let building = start.elapsed().saturating_sub(maker.filling);
        let report = LoadReport {
            fill_ns: nanoseconds(maker.filling),
            build_ns: nanoseconds(building),
            compile_ns: 0,
            threads: u32::try_from(tch::get_num_threads()).ok(),
            spin: spin(),
            settings: settings(&configuration, in_place),
        };
        Ok((session, report))
    }
}

/// Sets what is global to the process.
fn apply(configuration: &Configuration) -> Result<(), Fault> {
    /// PyTorch refuses a second call.
    static INTEROP: Once = Once::new();
    INTEROP.call_once(|| tch::set_num_interop_threads(1));
    tch::set_num_threads(configuration.threads);
    shim::allow_tf32(configuration.tf32)?;
    Ok(())
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How idle threads wait. libgomp reads the variable once, when it is loaded.
fn spin() -> String {
    match env::var(WAIT_POLICY) {
        Ok(policy) => format!("{WAIT_POLICY}={policy}"),
        Err(_) => "spin a while, then sleep (libgomp's default)".to_owned(),
    }
}

fn settings(configuration: &Configuration, in_place: usize) -> BTreeMap<String, String> {
    let layout = if configuration.channels_last {
        "channels last"
    } else {
        "contiguous (NCHW)"
    };
    let gradients = match configuration.optimizer {
        None => "off (inference mode)",
        Some(_) => "on",
    };
    let mut settings = BTreeMap::from([
        (
            "element type".to_owned(),
            format!("{:?}", configuration.kind).to_lowercase(),
        ),
        ("gradients".to_owned(), gradients.to_owned()),
        (
            "inter-op threads".to_owned(),
            tch::get_num_interop_threads().to_string(),
        ),
        ("memory layout of images".to_owned(), layout.to_owned()),
        ("oneDNN".to_owned(), on_or_off(tch::utils::has_mkldnn())),
        ("operators in place".to_owned(), in_place.to_string()),
        ("TF32".to_owned(), on_or_off(configuration.tf32)),
    ]);
    if let Ok(capability) = shim::cpu_capability() {
        settings.insert("widest CPU kernels".to_owned(), capability);
    }
    if let Some(optimizer) = configuration.optimizer {
        let text = format!(
            "{}, one tensor after another (foreach=False)",
            optimizer.name()
        );
        settings.insert("optimizer".to_owned(), text);
    }
    settings
}

fn on_or_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}
