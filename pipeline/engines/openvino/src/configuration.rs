//! What a cell asks of OpenVINO, checked and in its words.

use std::collections::BTreeMap;

use models::{
    quantise::{self, CALIBRATION},
    rewrite::{ATTENTION, FUSED, PLAIN, RECURRENT},
};
use schema::{Cell, Device, Mode, Outcome, Precision};

use crate::failure::unsupported;

/// The name of the engine in manifests.
pub(crate) const ENGINE: &str = "openvino";

/// The variant of this worker.
pub(crate) const VARIANT: &str = "cpu";

/// Every factor. Whether recurrent layers are spelt out, and on which grids, is decided in the graph
/// that comes.
const FACTORS: [&str; 3] = [ATTENTION, CALIBRATION, RECURRENT];

/// A cell, understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// Threads of one call.
    pub(crate) threads: u32,
    /// What operators compute in, where they can: OpenVINO's `INFERENCE_PRECISION_HINT`.
    pub(crate) arithmetic: &'static str,
    /// Whether attention is one operator, rather than composed.
    pub(crate) fuses_attention: bool,
}

impl Configuration {
    /// Understands `cell`, or says what of it this worker does not run.
    pub(crate) fn of(cell: &Cell) -> Result<Self, Outcome> {
        let engine = &cell.engine;
        if engine.engine != ENGINE || engine.variant != VARIANT {
            return Err(unsupported(format!(
                "this worker runs {ENGINE}/{VARIANT}, not {engine}"
            )));
        }
        if cell.mode != Mode::Inference {
            return Err(unsupported("OpenVINO does not train"));
        }
        worker::check_drive(cell)?;
        if cell.device != Device::Cpu {
            return Err(unsupported(format!(
                "variant `{VARIANT}` does not run on {}",
                cell.device
            )));
        }
        let arithmetic = match cell.precision {
            // In integers where the network is on grids.
            Precision::Fp32 | Precision::Int8Static => "f32",
            Precision::Bf16 => "bf16",
            Precision::Fp16 => "f16",
            other => {
                return Err(unsupported(format!(
                    "OpenVINO is not run in {other} here; fp32, bf16, fp16 and int8-static are"
                )));
            }
        };
        quantise::check(cell).map_err(unsupported)?;
        Ok(Self {
            threads: worker::threads(cell)?,
            arithmetic,
            fuses_attention: fuses_attention(&cell.factors)?,
        })
    }
}

fn fuses_attention(factors: &BTreeMap<String, String>) -> Result<bool, Outcome> {
    if let Some(name) = factors
        .keys()
        .find(|name| !FACTORS.contains(&name.as_str()))
    {
        return Err(unsupported(format!(
            "factor `{name}` is not known to {ENGINE}; known: `{}`",
            FACTORS.join("`, `")
        )));
    }
    match factors.get(ATTENTION).map(String::as_str) {
        None | Some(PLAIN) => Ok(false),
        Some(FUSED) => Ok(true),
        Some(other) => Err(unsupported(format!(
            "{ATTENTION} is `{other}`; known: `{PLAIN}`, `{FUSED}`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_defaults_and_known_values() {
        let factors =
            |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(fuses_attention(&BTreeMap::new()), Ok(false));
        assert_eq!(fuses_attention(&factors(RECURRENT, FUSED)), Ok(false));
        assert_eq!(fuses_attention(&factors(ATTENTION, FUSED)), Ok(true));
        assert!(fuses_attention(&factors(ATTENTION, "flash")).is_err());
        assert!(fuses_attention(&factors("layout", "nchw")).is_err());
    }
}
