//! What a job must be that seeks the largest batch that fits into memory.

use schema::{Measure, plan::PlannedCell};

use crate::{
    axes::{Axis, Typed},
    context::{Context, key, name},
    networks::{BATCH, Which},
};

/// The axis of networks.
const MODEL: &str = "model";

/// Notes what keeps a job from seeking it.
pub(crate) fn check(
    context: &mut Context<'_>,
    axes: &[Axis],
    cells: &[PlannedCell],
    measure: &Measure,
) {
    if measure.frontier.is_none() {
        return;
    }
    if axes.iter().any(|axis| axis.name == BATCH) {
        context.error_with_help(
            &[key("matrix"), key(BATCH)],
            "`frontier` seeks the batch itself",
            "leave the axis out of this job",
        );
    }
    if !context.job.compare.is_empty() {
        context.error_with_help(
            &[key("compare")],
            "a job that seeks the largest batch times nothing that could be compared",
            "leave it out: its page has the batches of all cells side by side",
        );
    }
    // Of those that cannot run on this machine as well: elsewhere they may.
    let mut cells = cells.iter();
    let is_fixed = |cell: &&PlannedCell| {
        !which(axes, cell).is_some_and(|which| which.is_batch_open(&cell.cell.dims))
    };
    if let Some(cell) = cells.clone().find(is_fixed) {
        let message = format!(
            "`{}` has no open dimension `{BATCH}`: its batch is fixed in the file",
            cell.cell.model.name
        );
        context.error_with_help(
            &[key("matrix"), key(MODEL)],
            message,
            "export it with an open first axis",
        );
    }
    if let Some(cell) = cells.clone().find(|cell| cell.cell.precision.is_int8()) {
        let message = format!(
            "the largest batch is not sought in {}: its grids would be found anew for each",
            cell.cell.precision
        );
        context.error_with_help(
            &[key("matrix"), key("precision")],
            message,
            "leave it out of this job",
        );
    }
    let is_on_cpu = cells.any(|cell| cell.cell.device.is_cpu());
    if is_on_cpu && measure.memory_limit_bytes.is_none() {
        context.error_with_help(
            &[name("id")],
            "the largest batch that fits on a CPU depends on what a worker may take",
            "say how much that is: `measure: { memory_limit: 2GiB }`",
        );
    }
}

/// The model of a cell, as the matrix has it.
fn which<'a>(axes: &'a [Axis], cell: &PlannedCell) -> Option<&'a Which> {
    let title = cell.coordinates.get(MODEL)?;
    let axis = axes.iter().find(|axis| axis.name == MODEL)?;
    let value = axis.values.get(axis.index(title)?);
    value.and_then(|(_, typed)| match typed {
        Typed::Model(which) => Some(which),
        _ => None,
    })
}
