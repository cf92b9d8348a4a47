//! How idle threads wait for work: a factor that the environment of a launch carries out where an engine's threads
//! are OpenMP's.

use schema::Cell;

/// The factor.
pub const SPIN: &str = "spin";

/// The variable by which OpenMP is told how idle threads wait. Its library reads it once, when it is loaded: no
/// worker can set it for itself.
pub const WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// What has them sleep at once.
pub const PASSIVE: &str = "passive";

/// Whether a cell asks that idle threads sleep at once. A value that nobody knows is the engine's to refuse.
pub(crate) fn sleeps(cell: &Cell) -> bool {
    cell.factors.get(SPIN).is_some_and(|asked| asked == "off")
}
