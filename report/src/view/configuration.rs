//! What a cell is, in words.

use schema::{ModelSource, Optimizer, OutcomeKind, tables::CellRow};

use crate::{
    units,
    words::{self, Fact, fact},
};

/// Every field of the configuration: nothing is implicit.
pub(crate) fn resolved(row: &CellRow) -> Vec<Fact> {
    let cell = &row.cell;
    let source = match cell.model.source {
        ModelSource::Zoo => "zoo, graph",
        ModelSource::Onnx => "ONNX file, content",
    };
    let mut facts = vec![
        fact("Model", &cell.model.name),
        fact("Source", format!("{source} {}", cell.model.graph.short())),
    ];
    facts.extend(cell.model.weights.as_ref().map(|weights| {
        let file = format!("{}, content {}", weights.path, weights.content.short());
        fact("Weights", file)
    }));
    facts.extend(
        cell.dims
            .iter()
            .map(|(name, size)| fact(format!("Dimension {name}"), units::count(*size))),
    );
    facts.extend([
        fact("Precision", cell.precision.word()),
        fact("Mode", cell.mode.word()),
        fact("Engine", cell.engine.to_string()),
        fact("Host language", cell.host_language.word()),
        fact("Device", cell.device.to_string()),
        fact("Threads", cell.threads.to_string()),
        fact(
            "Strategy",
            format!("{}, world size {}", cell.strategy, cell.world_size),
        ),
        fact("Boundary", words::boundary(cell.boundary)),
    ]);
    facts.extend(
        cell.optimizer
            .as_ref()
            .map(|optimizer| fact("Optimiser", describe_optimizer(optimizer))),
    );
    facts.extend(
        cell.factors
            .iter()
            .map(|(name, value)| fact(format!("Factor {name}"), value)),
    );
    if row.is_outline() {
        let why = match row.outcome.kind {
            OutcomeKind::Unsupported => "not known",
            _ => {
                "not known: the file holds operators or floats that no graph has, and is run as it is"
            }
        };
        facts.push(fact("What a step costs", why));
    } else {
        facts.extend([
            fact("Parameters", units::count(row.parameters)),
            fact(
                "Operations a step",
                units::quantity(row.flops as f64, "FLOP"),
            ),
            fact("Bytes a step in fp32, at least", units::bytes(row.bytes)),
        ]);
    }
    facts.push(fact("Group", &row.group));
    facts
}

fn describe_optimizer(optimizer: &Optimizer) -> String {
    match optimizer {
        Optimizer::Sgd {
            learning_rate,
            momentum,
            weight_decay,
        } => {
            format!(
                "SGD, learning rate {learning_rate}, momentum {momentum}, weight decay {weight_decay}"
            )
        }
        Optimizer::Adam {
            learning_rate,
            beta1,
            beta2,
            epsilon,
            weight_decay,
        } => format!(
            "Adam, learning rate {learning_rate}, β₁ {beta1}, β₂ {beta2}, ε {epsilon}, weight decay {weight_decay}"
        ),
    }
}

/// What the engine itself reported.
pub(crate) fn reported(row: &CellRow) -> Vec<Fact> {
    let Some(loaded) = row.got_ready() else {
        return Vec::new();
    };
    let threads = loaded.threads.map_or_else(
        || "cannot be asked".to_owned(),
        |threads| threads.to_string(),
    );
    let mut facts = vec![
        fact("threads in use", threads),
        fact("idle threads", &loaded.spin),
    ];
    facts.extend(
        loaded
            .settings
            .iter()
            .map(|(name, value)| fact(name, value)),
    );
    facts
}

/// Memory of host and device.
pub(crate) fn memory(row: &CellRow) -> Vec<Fact> {
    let Some(memory) = &row.memory else {
        return Vec::new();
    };
    let mut facts = vec![
        fact(
            "Resident, largest",
            units::bytes(memory.peak_resident_bytes),
        ),
        fact("Resident, at the end", units::bytes(memory.resident_bytes)),
    ];
    facts.extend(
        memory
            .peak_device_bytes
            .map(|bytes| fact("Device, largest", units::bytes(bytes))),
    );
    facts.extend(
        memory
            .device_bytes
            .map(|bytes| fact("Device, at the end", units::bytes(bytes))),
    );
    facts
}
