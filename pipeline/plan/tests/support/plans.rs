//! Plans of a few words.

use photofinish_plan::{ManifestFile, World, plan};
use schema::{
    Digest, Plan,
    plan::{KnownHeat, KnownState, PlannedHeat},
};

/// Jobs, without the head of their file, planned, and no ceilings for them.
pub(crate) fn planned(jobs: &str, world: &World) -> Plan {
    let text = format!("version: 1\nmeasure: {{ ceilings: false }}\njobs:\n{jobs}");
    let file = ManifestFile::from_text("test.yaml", &text)
        .unwrap_or_else(|found| panic!("{}", found[0].render(false)));
    plan(&[file], world).unwrap_or_else(|found| panic!("{}", found[0].render(false)))
}

/// Two engines over four networks.
pub(crate) const RACE: &str = "  - id: race
    matrix: { model: [resnet18, bert_tiny], batch: [1, 8], engine: [pytorch/eager, onnxruntime/cpu] }
    compare: { axis: engine, baseline: pytorch/eager }
";

/// The group of this name.
pub(crate) fn heat<'a>(plan: &'a Plan, group: &str) -> &'a PlannedHeat {
    plan.heats
        .iter()
        .find(|heat| heat.group == group)
        .unwrap_or_else(|| {
            let groups: Vec<&str> = plan.heats.iter().map(|heat| heat.group.as_str()).collect();
            panic!("no group {group} in {groups:?}")
        })
}

/// A heat of the plan as the store would know it.
pub(crate) fn sealed(heat: &PlannedHeat, started: &str) -> KnownHeat {
    KnownHeat {
        group: heat.group.clone(),
        key: heat.key,
        key_parts: heat.key_parts.clone(),
        state: KnownState::Sealed(Digest::of_bytes(started.as_bytes())),
        started: started.to_owned(),
    }
}
