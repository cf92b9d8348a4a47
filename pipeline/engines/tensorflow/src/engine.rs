//! TensorFlow as the worker's loop sees it.

use std::{collections::BTreeMap, env, rc::Rc, time::Instant};

use models::Numbers;
use schema::{
    Outcome,
    protocol::{ARITHMETIC, Load},
};
use worker::{Engine, Identity, LoadReport, Session, nanoseconds};

use crate::{
    configuration::{Compilation, Configuration, ENGINE, ONEDNN},
    inference::Inference,
    library, proto,
    tensors::{Float, Maker},
    training::Training,
};

/// TensorFlow, before it has a network.
#[derive(Debug, Clone, Copy, Default)]
pub struct TensorFlow;

impl Engine for TensorFlow {
    /// A library that cannot be loaded is told of in the answer to `load`.
    fn hello(&self) -> Identity {
        Identity {
            engine: ENGINE.to_owned(),
            versions: library::open()
                .ok()
                .map(|version| (ENGINE.to_owned(), version.to_owned()))
                .into_iter()
                .collect(),
            worker: env!("PHOTOFINISH_WORKER_DIGEST").parse().ok(),
            variants: Compilation::ALL
                .map(|variant| variant.word().to_owned())
                .to_vec(),
        }
    }

    fn load(&mut self, load: &Load) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
        let configuration = Configuration::of(&load.cell)?;
        library::open()?;
        let start = Instant::now();
        let mut maker = Maker::new(configuration.float, Rc::new(Numbers::of(load)?));
        let (session, weights): (Box<dyn Session>, _) = match configuration.optimizer {
            None => {
                let session = Inference::build(&load.graph, &configuration, &mut maker)?;
                let weights = if session.is_frozen() {
                    "constants"
                } else {
                    "variables"
                };
                (Box::new(session), weights)
            }
            Some(optimizer) => {
                let session = Training::build(&load.graph, optimizer, &configuration, &mut maker)?;
                (Box::new(session), "variables")
            }
        };
        let report = LoadReport {
            fill_ns: nanoseconds(maker.filling),
            build_ns: nanoseconds(start.elapsed().saturating_sub(maker.filling)),
            // Grappler and XLA work when a step is run for the first time.
            compile_ns: 0,
            threads: None,
            spin: "spin a while, then sleep (Eigen's default)".to_owned(),
            settings: settings(&configuration, weights),
        };
        Ok((session, report))
    }

    fn reads_weights(&self) -> bool {
        true
    }
}

/// What is computed in where precision is mixed.
const MIXED: &str = "bf16 in the operators that Grappler thinks safe for it (auto_mixed_precision_onednn_bfloat16), \
                     fp32 elsewhere; weights in fp32";

fn settings(configuration: &Configuration, weights: &str) -> BTreeMap<String, String> {
    let element = match configuration.float {
        Float::F32 => "float",
        Float::F64 => "double",
    };
    let xla = match configuration.compilation {
        Compilation::None => "off",
        Compilation::Whole => "the whole step, compiled in the first",
        Compilation::Clusters => {
            "clusters that TensorFlow chooses, compiled in the first steps; what it deems slow in XLA stays as it is"
        }
    };
    let grappler = "on (default)";
    let onednn = env::var(ONEDNN).map_or_else(
        |_| "as the processor has it (default)".to_owned(),
        |value| format!("{ONEDNN}={value}"),
    );
    let mut settings: BTreeMap<String, String> = [
        ("element type", element.to_owned()),
        ("graph optimization", grappler.to_owned()),
        (
            "inputs and outputs",
            match configuration.takes_requests {
                true => worker::REQUEST.to_owned(),
                false => "fed and fetched without a copy".to_owned(),
            },
        ),
        ("inter-op threads", proto::INTER_OP_THREADS.to_string()),
        ("intra-op threads", configuration.threads.to_string()),
        ("memory layout of images", "channels last".to_owned()),
        ("oneDNN", onednn),
        ("weights", weights.to_owned()),
        ("XLA", xla.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if configuration.mixes_precision {
        settings.insert(ARITHMETIC.to_owned(), MIXED.to_owned());
    }
    if let Some(optimizer) = configuration.optimizer {
        let loss = "softmax cross-entropy of labels as one-hot rows";
        settings.insert("loss".to_owned(), loss.to_owned());
        settings.insert("optimizer".to_owned(), optimizer.name().to_owned());
    }
    settings
}
