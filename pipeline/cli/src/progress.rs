//! What a person sees during long work. Everything is drawn between measurements; no bar ticks by
//! itself while a worker measures.

mod install;
mod sweep;

pub(crate) use install::InstallProgress;
pub(crate) use sweep::SweepProgress;
