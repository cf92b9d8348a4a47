//! The graphs of a heat's cells, each built once.

use std::collections::BTreeMap;

use schema::{Cell, Digest, Graph, Outcome, OutcomeKind, plan::PlannedCell};

/// The graphs of a heat's cells.
pub(crate) struct Graphs(BTreeMap<Digest, Result<Graph, Outcome>>);

impl Graphs {
    pub(crate) fn of(cells: &[PlannedCell]) -> Self {
        let mut graphs = BTreeMap::new();
        for planned in cells {
            graphs
                .entry(key(&planned.cell))
                .or_insert_with(|| build(&planned.cell));
        }
        Self(graphs)
    }

    /// The graph of a cell, or of the reference for a cell, which is the same.
    pub(crate) fn get(&self, cell: &Cell) -> Result<&Graph, Outcome> {
        match self.0.get(&key(cell)) {
            Some(Ok(graph)) => Ok(graph),
            Some(Err(outcome)) => Err(outcome.clone()),
            None => Err(Outcome::new(
                OutcomeKind::Unsupported,
                "the heat has no such model",
            )),
        }
    }
}

fn key(cell: &Cell) -> Digest {
    Digest::of_value(&(&cell.model, &cell.dims, cell.mode))
}

fn build(cell: &Cell) -> Result<Graph, Outcome> {
    models::resolve(&cell.model, &cell.dims, cell.mode)
        .map_err(|error| Outcome::new(OutcomeKind::Unsupported, error.to_string()))
}
