//! What a cell asks of OpenVINO, checked and in its words.

use std::{collections::BTreeMap, fs};

use models::{
    quantise::{self, CALIBRATION, WEIGHT_BITS},
    rewrite::RECURRENT,
};
use schema::{Cell, Device, Mode, Outcome, Precision};

use crate::failure::unsupported;

/// The name of the engine in manifests.
pub(crate) const ENGINE: &str = "openvino";

/// The variant of this worker.
pub(crate) const VARIANT: &str = "cpu";

/// What Linux says of the processors.
const PROCESSORS: &str = "/proc/cpuinfo";

/// Every factor. Whether recurrent layers are spelt out, and on which grids, is decided in the graph
/// that comes.
const FACTORS: [&str; 4] = [AFFINITY, CALIBRATION, RECURRENT, WEIGHT_BITS];

/// The factor that decides whether threads are bound to cores.
const AFFINITY: &str = "affinity";

/// A cell, understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// Threads of one call.
    pub(crate) threads: u32,
    /// What operators compute in, where they can: OpenVINO's `INFERENCE_PRECISION_HINT`.
    pub(crate) arithmetic: &'static str,
    /// Whether the network is on grids, to be computed in integers.
    pub(crate) is_quantised: bool,
    /// Whether no thread is bound to a core; else OpenVINO does as it sees fit.
    pub(crate) is_free: bool,
    /// Whether each step begins and ends in the caller's memory.
    pub(crate) takes_requests: bool,
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
        worker::check_drive(cell, worker::BY_HOST, worker::ALONE)?;
        check_factors(&cell.factors)?;
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
        check_processor(
            cell.precision,
            &fs::read_to_string(PROCESSORS).unwrap_or_default(),
        )?;
        quantise::check(cell).map_err(unsupported)?;
        Ok(Self {
            threads: worker::threads(cell)?,
            arithmetic,
            is_free: worker::choice(cell, AFFINITY, ["default", "free"])?,
            is_quantised: cell.precision.is_int8(),
            takes_requests: worker::takes_requests(cell),
        })
    }
}

/// Refuses a narrow precision that the processor has no arithmetic for. OpenVINO takes any AVX-512 for
/// enough for bf16, and imitates it there.
fn check_processor(precision: Precision, cpuinfo: &str) -> Result<(), Outcome> {
    let known = match precision {
        Precision::Bf16 => ["avx512_bf16", "amx_bf16"],
        Precision::Fp16 => ["avx512_fp16", "amx_fp16"],
        _ => return Ok(()),
    };
    let flags = cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    if flags.split_whitespace().any(|flag| known.contains(&flag)) {
        return Ok(());
    }
    Err(unsupported(format!(
        "this CPU has no instructions for {precision} ({}), and OpenVINO would imitate it, or compute \
         in another precision",
        known.map(str::to_uppercase).join(" or ")
    )))
}

fn check_factors(factors: &BTreeMap<String, String>) -> Result<(), Outcome> {
    let mut names = factors.keys();
    match names.find(|name| !FACTORS.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(unsupported(format!(
            "factor `{name}` is not known to {ENGINE}; known: `{}`",
            FACTORS.join("`, `")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use schema::OutcomeKind;

    use super::*;

    #[test]
    fn a_narrow_precision_needs_instructions_of_its_own() {
        let cpu = |flags: &str| format!("processor\t: 0\nflags\t\t: fpu avx2 {flags}\n");
        for (precision, flags, runs) in [
            (Precision::Bf16, "avx512f avx512bw avx512_vnni", false),
            (Precision::Bf16, "avx512_bf16", true),
            (Precision::Bf16, "amx_bf16", true),
            (Precision::Fp16, "avx512f avx512_bf16 f16c", false),
            (Precision::Fp16, "avx512_fp16", true),
            (Precision::Fp16, "amx_fp16", true),
            (Precision::Fp32, "", true),
            (Precision::Int8Static, "", true),
        ] {
            let checked = check_processor(precision, &cpu(flags));
            assert_eq!(checked.is_ok(), runs, "{precision} on {flags}");
        }
        let outcome = check_processor(Precision::Bf16, "").unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        assert!(
            outcome.reason.contains("AVX512_BF16 or AMX_BF16"),
            "{outcome:?}"
        );
    }

    #[test]
    fn threads_are_free_where_they_are_to_be() {
        let graph = models::sample::perceptron(1).unwrap();
        let asked = |value: Option<&str>| {
            let value = value.map(|value| (AFFINITY.to_owned(), value.to_owned()));
            let cell = Cell {
                factors: value.into_iter().collect(),
                ..Cell::plain(&graph, "openvino/cpu".parse().unwrap())
            };
            Configuration::of(&cell).map(|known| known.is_free)
        };
        assert_eq!(asked(None), Ok(false));
        assert_eq!(
            (asked(Some("default")), asked(Some("free"))),
            (Ok(false), Ok(true))
        );
        assert!(asked(Some("loose")).unwrap_err().reason.contains("`loose`"));
    }

    #[test]
    fn other_factors_are_refused() {
        let checked = |name: &str| check_factors(&BTreeMap::from([(name.into(), "any".into())]));
        assert!(check_factors(&BTreeMap::new()).is_ok());
        for name in FACTORS {
            assert!(checked(name).is_ok(), "{name}");
        }
        for name in ["attention", "layout"] {
            assert!(checked(name).unwrap_err().reason.contains(name));
        }
    }
}
