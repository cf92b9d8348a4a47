//! What keeps a cell from running here, as far as can be known without trying.

use models::rewrite;
use schema::{
    Cell, Device, ModelSource, Outcome, OutcomeKind, Precision, TF32_OVERRIDE, VariantDescription,
};

use crate::{
    World,
    networks::{Network, Which},
};

/// The engine whose kernels in double precision are too few for networks that no file asks for.
const FEW_IN_DOUBLE: &str = "onnxruntime";

/// What is worth saying of a model that only engines which read ONNX run.
pub(crate) fn outlined(model: &Which, network: &Network) -> Option<String> {
    let unread = network.unread.as_ref()?;
    unread.as_it_is.map(|precision| {
        format!(
            "`{}` is run as it is, in {precision}, by engines that read ONNX themselves, and its outputs \
             are held against ONNX Runtime's with optimisation off; what a step costs is not known: {}",
            model.title(),
            unread.reason
        )
    })
}

/// What of a user's model the cell cannot run.
pub(crate) fn unread(
    variant: Option<&VariantDescription>,
    cell: &Cell,
    network: &Network,
) -> Option<Outcome> {
    let unread = network.unread.as_ref()?;
    let reason = &unread.reason;
    let is_unrolled = || {
        let form = cell.factors.get(rewrite::RECURRENT);
        form.is_some_and(|form| form == rewrite::UNROLLED)
    };
    let reason = match unread.as_it_is {
        None => reason.clone(),
        Some(_) if !variant.is_some_and(|variant| variant.reads_onnx) => {
            format!("{reason}; {} does not read ONNX itself", cell.engine)
        }
        Some(precision) if precision != cell.precision => {
            format!(
                "{reason}; the file is run as it is, and that is in {precision}: ask for `precision: \
                 {precision}`"
            )
        }
        Some(_) if is_unrolled() => {
            format!("{reason}; the file is run as it is, and nothing of it is spelt out")
        }
        Some(_) => return None,
    };
    Some(Outcome::new(OutcomeKind::Unsupported, reason))
}

/// Why a cell cannot run here, as far as can be known without trying.
pub(crate) fn obstacle(
    world: &World,
    variant: &VariantDescription,
    cell: &Cell,
    network: &Network,
) -> Option<Outcome> {
    unsupported(variant, cell, network)
        .map(|reason| Outcome::new(OutcomeKind::Unsupported, reason))
        .or_else(|| {
            unavailable(world, cell).map(|reason| Outcome::new(OutcomeKind::Unavailable, reason))
        })
}

fn unsupported(variant: &VariantDescription, cell: &Cell, network: &Network) -> Option<String> {
    let engine = &cell.engine;
    if !variant.modes.contains(&cell.mode) {
        return Some(format!("{engine} does no {}", cell.mode));
    }
    if !variant
        .devices
        .iter()
        .any(|kind| kind == cell.device.kind())
    {
        return Some(format!("{engine} does not run on {}", cell.device));
    }
    if cell.precision == Precision::Tf32 && cell.device.is_cpu() {
        return Some("tf32 is an arithmetic of NVIDIA GPUs; the device is cpu".to_owned());
    }
    if !variant.precisions.contains(&cell.precision) {
        let lacks = format!("{engine} does not compute in {}", cell.precision);
        let reason = variant.lacks.get(&cell.precision);
        return Some(reason.map_or(lacks.clone(), |reason| format!("{lacks}: {reason}")));
    }
    if engine.engine == FEW_IN_DOUBLE && cell.precision == Precision::Fp64 && !is_in_double(network)
    {
        let reason = "ONNX Runtime has kernels in double precision for some operators alone: it runs \
                      files that are in it, and no other network";
        return Some(reason.to_owned());
    }
    if let Some(reason) = unspread(variant, cell) {
        return Some(reason);
    }
    if !cell.boundary.exists_on(cell.device) {
        return Some(format!(
            "boundary `{}` is between events of a GPU; the device is {}",
            cell.boundary, cell.device
        ));
    }
    if !variant.boundaries.contains(&cell.boundary) {
        return Some(format!(
            "{engine} cannot be timed at the boundary `{}`",
            cell.boundary
        ));
    }
    let unknown = cell.factors.iter().find_map(|(factor, value)| {
        let known = variant.factors.get(factor)?;
        (!known.values.contains(value))
            .then(|| format!("{engine} does not know `{factor}: {value}`"))
    });
    unknown
        .or_else(|| no_network_of_its_own(variant, cell))
        .or_else(|| {
            let mut refuses = variant.refuses.iter();
            let refusal = refuses.find(|refusal| refusal.concerns(cell))?;
            Some(refusal.reason.clone())
        })
        .or_else(|| undivided(variant, cell))
}

/// Why the cell's network is none of those that the variant has, where it does not run all.
fn no_network_of_its_own(variant: &VariantDescription, cell: &Cell) -> Option<String> {
    let networks = &variant.networks;
    if networks.is_empty() {
        return None;
    }
    let model = &cell.model;
    let is_own = model.source == ModelSource::Zoo && networks.contains(&model.name);
    let what = match model.source {
        ModelSource::Zoo => format!("`{}`", model.name),
        ModelSource::Onnx => "a file".to_owned(),
    };
    (!is_own).then(|| {
        format!(
            "{} does not run {what}: of the zoo it runs `{}`, and no file",
            cell.engine,
            networks.join("`, `")
        )
    })
}

/// Why the value of a factor, a number of equal parts, does not do for the size that it divides.
fn undivided(variant: &VariantDescription, cell: &Cell) -> Option<String> {
    cell.factors.iter().find_map(|(factor, value)| {
        let dimension = variant.factors.get(factor)?.divides.as_ref()?;
        let size = cell.dims.get(dimension)?;
        let parts: u64 = value.parse().ok()?;
        (!size.is_multiple_of(parts)).then(|| {
            format!("`{dimension}: {size}` cannot be split into {parts} equal parts, as `{factor}: {value}` asks")
        })
    })
}

/// Why the variant does not spread the cell's training as it asks.
fn unspread(variant: &VariantDescription, cell: &Cell) -> Option<String> {
    let (engine, strategy) = (&cell.engine, cell.strategy);
    if !variant.strategies.contains(&strategy) {
        return Some(format!("{engine} does not train by `{strategy}`"));
    }
    cell.part_dims().is_none().then(|| {
        undivided(variant, cell).unwrap_or_else(|| {
            let (batch, parts) = (cell.batch(), cell.parts());
            format!("a batch of {batch} does not fall into {parts} equal parts")
        })
    })
}

/// Whether the network is a user's file whose floats have 64 bits: no graph is made of such a one.
fn is_in_double(network: &Network) -> bool {
    let unread = network.unread.as_ref();
    unread.is_some_and(|unread| unread.as_it_is == Some(Precision::Fp64))
}

fn unavailable(world: &World, cell: &Cell) -> Option<String> {
    let engine = &cell.engine;
    let Some(availability) = world.availability.get(engine) else {
        return Some(format!("nothing is known about {engine} on this machine"));
    };
    if let Some(reason) = &availability.missing {
        return Some(reason.clone());
    }
    // Each rank and each replica has a GPU of its own.
    let gpus = cell.at_once() as usize;
    match cell.device {
        Device::Cpu => None,
        Device::Cuda(index)
            if gpus > 1
                && !world.fingerprint.gpus.is_empty()
                && index as usize + gpus > world.fingerprint.gpus.len() =>
        {
            Some(format!(
                "{} in {gpus} takes as many GPUs from number {index} on: this machine has {}",
                cell.strategy,
                world.fingerprint.gpus.len()
            ))
        }
        Device::Cuda(index) if (index as usize) < world.fingerprint.gpus.len() => {
            let value = world.conditions.get(TF32_OVERRIDE);
            (cell.precision == Precision::Tf32
                && value.is_some_and(|value| schema::forbids_tf32(value)))
            .then(|| format!("{TF32_OVERRIDE}=0 keeps NVIDIA's libraries from tf32: unset it"))
        }
        Device::Cuda(_) if world.fingerprint.gpus.is_empty() => {
            Some("this machine has no NVIDIA GPU".to_owned())
        }
        Device::Cuda(index) => Some(format!(
            "this machine has no GPU number {index}: it has {}",
            world.fingerprint.gpus.len()
        )),
    }
}
