//! What a cell asks of ONNX Runtime, checked and in its words.

use std::collections::BTreeMap;

use models::{
    quantise::{self, CALIBRATION, WEIGHT_BITS},
    rewrite::{ATTENTION, FUSED, PLAIN, RECURRENT},
};
use ort::session::builder::GraphOptimizationLevel;
use schema::{Cell, Mode, Outcome, Precision};
use worker::{ALLOCATOR, Allocator};

use crate::{failure::unsupported, provider::Provider};

/// The name of the engine in manifests.
pub(crate) const ENGINE: &str = "onnxruntime";

/// The factor that decides how far the graph is rewritten.
const OPTIMIZATION: &str = "optimization";

/// The factor that decides whether idle threads spin.
const SPIN: &str = "spin";

/// Every factor. Whether recurrent layers are spelt out, and on which grids, is decided in the graph
/// that comes.
const FACTORS: [&str; 7] = [
    ALLOCATOR,
    ATTENTION,
    CALIBRATION,
    OPTIMIZATION,
    RECURRENT,
    SPIN,
    WEIGHT_BITS,
];

/// A cell, understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Configuration {
    /// Who computes.
    pub(crate) provider: Provider,
    /// Element type of the graph.
    pub(crate) precision: Precision,
    /// Threads of one operator.
    pub(crate) threads: usize,
    /// How far the graph is rewritten.
    pub(crate) optimization: Optimization,
    /// Whether idle threads spin between operators.
    pub(crate) spins: bool,
    /// Who keeps what a step gives back of the host's memory.
    pub(crate) allocator: Allocator,
    /// Whether attention is an operator of ONNX Runtime's own, rather than composed.
    pub(crate) fuses_attention: bool,
    /// Whether each step begins and ends in the caller's memory.
    pub(crate) takes_requests: bool,
}

/// A level of graph optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Optimization {
    All,
    Extended,
    Basic,
    Off,
}

impl Optimization {
    /// The manifest's word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Extended => "extended",
            Self::Basic => "basic",
            Self::Off => "off",
        }
    }

    /// ONNX Runtime's level.
    pub(crate) const fn level(self) -> GraphOptimizationLevel {
        match self {
            Self::All => GraphOptimizationLevel::All,
            Self::Extended => GraphOptimizationLevel::Level2,
            Self::Basic => GraphOptimizationLevel::Level1,
            Self::Off => GraphOptimizationLevel::Disable,
        }
    }

    /// Whether cells of this precision are what they say. ONNX Runtime's optimiser is what makes
    /// kernels for integers of a network on grids that are known beforehand, and from the level
    /// `extended` on: below, numbers are rounded to the grids and products computed in floats.
    /// (Dynamic grids come in operators for integers, which need no optimiser.)
    fn accepts(self, precision: Precision) -> Result<(), Outcome> {
        match (self, precision) {
            (Self::Basic | Self::Off, Precision::Int8Static) => Err(unsupported(format!(
                "ONNX Runtime computes {precision} in floats below `{OPTIMIZATION}: {}`",
                Self::Extended.word()
            ))),
            _ => Ok(()),
        }
    }
}

impl Configuration {
    /// Understands `cell`, or says what of it this worker does not run.
    pub(crate) fn of(cell: &Cell) -> Result<Self, Outcome> {
        if cell.engine.engine != ENGINE {
            return Err(unsupported(format!(
                "this worker runs {ENGINE}, not {}",
                cell.engine
            )));
        }
        if cell.mode != Mode::Inference {
            return Err(unsupported(
                "ONNX Runtime's inference library does not train",
            ));
        }
        worker::check_drive(cell, worker::BY_HOST, worker::ALONE)?;
        let provider = Provider::of(&cell.engine.variant, cell.device)?;
        provider.accepts(cell.precision)?;
        let threads = worker::threads(cell)?;
        quantise::check(cell).map_err(unsupported)?;
        let optimization = optimization(&cell.factors)?;
        optimization.accepts(cell.precision)?;
        Ok(Self {
            provider,
            precision: cell.precision,
            threads,
            optimization,
            spins: !worker::choice(cell, SPIN, ["default", "off"])?,
            allocator: Allocator::of(
                cell,
                Allocator::Arena,
                &[Allocator::System, Allocator::Keep],
            )?,
            fuses_attention: worker::choice(cell, ATTENTION, [PLAIN, FUSED])?,
            takes_requests: worker::takes_requests(cell),
        })
    }
}

fn optimization(factors: &BTreeMap<String, String>) -> Result<Optimization, Outcome> {
    if let Some(name) = factors
        .keys()
        .find(|name| !FACTORS.contains(&name.as_str()))
    {
        return Err(unsupported(format!(
            "factor `{name}` is not known to {ENGINE}; known: `{}`",
            FACTORS.join("`, `")
        )));
    }
    let levels = [
        Optimization::All,
        Optimization::Extended,
        Optimization::Basic,
        Optimization::Off,
    ];
    match factors.get(OPTIMIZATION) {
        None => Ok(Optimization::All),
        Some(word) => levels
            .into_iter()
            .find(|level| level.word() == word)
            .ok_or_else(|| {
                unsupported(format!(
                    "{OPTIMIZATION} is `{word}`; known: `all`, `extended`, `basic`, `off`"
                ))
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn factors_have_defaults_and_known_values() {
        assert_eq!(optimization(&BTreeMap::new()), Ok(Optimization::All));
        assert_eq!(
            optimization(&factors(OPTIMIZATION, "basic")),
            Ok(Optimization::Basic)
        );
        assert!(optimization(&factors(OPTIMIZATION, "most")).is_err());
        assert!(optimization(&factors("layout", "nchw")).is_err());
        let graph = models::sample::perceptron(1).unwrap();
        let asked = |factors: BTreeMap<String, String>| {
            Configuration::of(&Cell {
                factors,
                ..Cell::plain(&graph, "onnxruntime/cpu".parse().unwrap())
            })
        };
        let spins = |factors| asked(factors).map(|known| known.spins);
        assert_eq!(spins(BTreeMap::new()), Ok(true));
        assert_eq!(spins(factors(SPIN, "off")), Ok(false));
        assert!(spins(factors(SPIN, "on")).is_err());
        let fuses = |factors| asked(factors).map(|known| known.fuses_attention);
        assert_eq!(fuses(BTreeMap::new()), Ok(false));
        assert_eq!(fuses(factors(ATTENTION, FUSED)), Ok(true));
        assert!(fuses(factors(ATTENTION, "flash")).is_err());
        let allocator = |factors| asked(factors).map(|known| known.allocator);
        assert_eq!(allocator(BTreeMap::new()), Ok(Allocator::Arena));
        assert_eq!(allocator(factors(ALLOCATOR, "keep")), Ok(Allocator::Keep));
        assert!(allocator(factors(ALLOCATOR, "pool")).is_err());
    }

    #[test]
    fn integers_that_would_be_floats_are_refused() {
        let graph = models::sample::perceptron(1).unwrap();
        let asked = |precision, level: &str| {
            let mut cell = Cell {
                precision,
                ..Cell::plain(&graph, "onnxruntime/cpu".parse().unwrap())
            };
            cell.factors = factors(OPTIMIZATION, level);
            Configuration::of(&cell)
        };
        for level in ["all", "extended"] {
            assert!(asked(Precision::Int8Static, level).is_ok(), "{level}");
        }
        for level in ["basic", "off"] {
            let outcome = asked(Precision::Int8Static, level).unwrap_err();
            assert_eq!(outcome.kind, schema::OutcomeKind::Unsupported);
            assert!(
                outcome.reason.contains("`optimization: extended`"),
                "{outcome:?}"
            );
            for precision in [Precision::Int8Dynamic, Precision::Fp32] {
                assert!(asked(precision, level).is_ok(), "{level} {precision}");
            }
        }
    }
}
