//! The graphs of a heat's cells, each built once.

use std::collections::BTreeMap;

use models::rewrite::Rewriting;
use schema::{Cell, Digest, Graph, Outcome, OutcomeKind, plan::PlannedCell};

/// A network at its sizes, and what is spelt out of it.
type Key = (Digest, Rewriting);

/// The graphs of a heat's cells.
pub(crate) struct Graphs(BTreeMap<Key, Result<Graph, Outcome>>);

impl Graphs {
    pub(crate) fn of(cells: &[PlannedCell]) -> Self {
        let mut graphs = BTreeMap::new();
        for PlannedCell { cell, .. } in cells {
            // The reference runs the network as the model has it.
            for rewriting in [Rewriting::default(), asked(cell)] {
                graphs
                    .entry((network(cell), rewriting))
                    .or_insert_with(|| build(cell, rewriting));
            }
        }
        Self(graphs)
    }

    /// The graph of a cell, or of the reference for a cell.
    pub(crate) fn get(&self, cell: &Cell) -> Result<&Graph, Outcome> {
        match self.0.get(&(network(cell), asked(cell))) {
            Some(Ok(graph)) => Ok(graph),
            Some(Err(outcome)) => Err(outcome.clone()),
            None => Err(Outcome::new(
                OutcomeKind::Unsupported,
                "the heat has no such model",
            )),
        }
    }
}

fn network(cell: &Cell) -> Digest {
    Digest::of_value(&(&cell.model, &cell.dims, cell.mode))
}

fn asked(cell: &Cell) -> Rewriting {
    Rewriting::asked_by(&cell.factors)
}

fn build(cell: &Cell, rewriting: Rewriting) -> Result<Graph, Outcome> {
    models::resolve(&cell.model, &cell.dims, cell.mode)
        .and_then(|graph| rewriting.apply(graph))
        .map_err(|error| Outcome::new(OutcomeKind::Unsupported, error.to_string()))
}

#[cfg(test)]
mod tests {
    use models::{rewrite, zoo};
    use schema::{
        Boundary, Device, EngineVariant, HostLanguage, Mode, Model, ModelSource, Precision,
        Strategy,
    };

    use super::*;

    /// A cell of the LSTM language model with this value of `recurrent`.
    fn planned(recurrent: &str) -> PlannedCell {
        let dims = zoo::resolve_dims("lstm_lm", &[("seq".to_owned(), 3)].into()).unwrap();
        let graph = zoo::build("lstm_lm", &dims).unwrap();
        let cell = Cell {
            model: Model {
                name: "lstm_lm".to_owned(),
                source: ModelSource::Zoo,
                graph: Digest::of_value(&graph),
            },
            dims,
            precision: Precision::Fp32,
            mode: Mode::Inference,
            optimizer: None,
            engine: EngineVariant {
                engine: "any".to_owned(),
                variant: "any".to_owned(),
            },
            host_language: HostLanguage::Rust,
            device: Device::Cpu,
            threads: 1,
            strategy: Strategy::Single,
            world_size: 1,
            boundary: Boundary::Step,
            factors: [(rewrite::RECURRENT.to_owned(), recurrent.to_owned())].into(),
        };
        PlannedCell {
            id: cell.id(),
            coordinates: BTreeMap::new(),
            twin_of: None,
            obstacle: None,
            predicted_step_ns: 1,
            predicted_bytes: 1,
            flops: 1,
            bytes: 1,
            parameters: 1,
            cell,
        }
    }

    #[test]
    fn a_cell_gets_the_form_it_asks_for_and_the_reference_the_model_s_own() {
        let [long, own] = ["unrolled", "fused"].map(planned);
        // The heat has nothing but the spelt-out form; its reference is the model's own.
        let graphs = Graphs::of(std::slice::from_ref(&long));
        let layers = |cell: &Cell| {
            let nodes = graphs.get(cell).unwrap().nodes.iter();
            nodes
                .filter(|node| rewrite::decides(rewrite::RECURRENT, &node.op))
                .count()
        };
        assert_eq!((layers(&long.cell), layers(&own.cell)), (0, 2));
    }

    #[test]
    fn a_form_that_is_too_large_is_unsupported_and_says_so() {
        let mut planned = planned("unrolled");
        planned.cell.model.name = "deepspeech2".to_owned();
        planned.cell.dims =
            zoo::resolve_dims("deepspeech2", &[("frames".to_owned(), 4000)].into()).unwrap();
        let graph = zoo::build("deepspeech2", &planned.cell.dims).unwrap();
        planned.cell.model.graph = Digest::of_value(&graph);
        let graphs = Graphs::of(std::slice::from_ref(&planned));
        let outcome = graphs.get(&planned.cell).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        assert!(outcome.reason.contains("shorter sequence"), "{outcome:?}");
    }
}
