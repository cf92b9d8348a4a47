//! What a plan depends on besides its manifests.

use std::collections::BTreeMap;

use schema::{
    Availability, Device, EngineDescription, EngineVariant, Fingerprint, VariantDescription,
    plan::KnownHeat,
};

/// The engines, the machine and the store as they are when the plan is made.
#[derive(Debug, Clone)]
pub struct World {
    /// The engines that manifests may name.
    pub engines: Vec<EngineDescription>,
    /// Whether each of their variants can be used here.
    pub availability: BTreeMap<EngineVariant, Availability>,
    /// The machine.
    pub fingerprint: Fingerprint,
    /// What the user set that changes how fast it is, by name: governor, environment variables.
    pub conditions: BTreeMap<String, String>,
    /// Why the energy of what runs on a device cannot be measured here. Of a device that is not named, it
    /// can.
    pub unmetered: BTreeMap<Device, String>,
    /// Version of the procedure by which heats are measured.
    pub procedure: u32,
    /// What the store holds.
    pub known: Vec<KnownHeat>,
    /// Most combinations of a plan; 20,000 unless the user says otherwise.
    pub cell_limit: usize,
    /// To measure anew what the store holds, but for these: an interrupted run that measured
    /// anew, too, and is to be gone on with, left them.
    pub fresh: Option<Vec<KnownHeat>>,
}

impl World {
    /// The default of `cell_limit`.
    pub const CELL_LIMIT: usize = 20_000;

    /// The description of an engine's variant.
    pub(crate) fn variant(&self, name: &EngineVariant) -> Option<&VariantDescription> {
        self.engines
            .iter()
            .find(|engine| engine.name == name.engine)
            .and_then(|engine| engine.variant(&name.variant))
    }

    /// Every `engine/variant`.
    pub(crate) fn variants(&self) -> impl Iterator<Item = String> + '_ {
        self.engines.iter().flat_map(|engine| {
            engine
                .variants
                .iter()
                .map(|variant| format!("{}/{}", engine.name, variant.name))
        })
    }
}
