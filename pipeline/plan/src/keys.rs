//! What a heat's key is made of, and how it differs from what the store holds.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    CellId, Device, Digest, EngineVariant, Fingerprint, Measure, ModelSource,
    plan::{KnownHeat, KnownState, PlannedCell, Status},
    record,
};
use serde_json::Value;

use crate::World;

/// The variant that outputs are held against, as `engine` and `variant`.
const REFERENCE: [&str; 2] = ["pytorch", "eager"];

/// The variant that runs the user's own files, so that our reading of them is verified.
const WITNESS: [&str; 2] = ["onnxruntime", "cpu"];

/// Most changes named of one part of a key.
const SHOWN: usize = 4;

/// The setting that only decides whether there is time for a heat, or for more of it.
const BUDGET: &str = "budget_ns";

/// Settings that judge what was measured. They change nothing about a heat whose number of blocks is
/// fixed; where it is not, a heat goes on until they are met.
const JUDGING: [&str; 2] = ["confidence", "margin"];

/// What the key of a heat says whose cells are profiled; to be raised when what is asked of profilers
/// changes.
const PROFILE: &str = "1";

/// The part of a key that lists the cells.
const CELLS: &str = "cells";

/// What the keys of all heats of a job have in common, written once.
pub(crate) struct Common<'a> {
    world: &'a World,
    measure: String,
    /// What is asked besides samples; part of the key only where it is.
    profile: Option<&'static str>,
    reference: String,
    schema: String,
    conditions: String,
    /// The machine without its GPUs: they count only where one is used.
    processors: String,
    machine: String,
    /// Whether energy is asked for.
    metered: bool,
}

impl<'a> Common<'a> {
    pub(crate) fn new(measure: &Measure, is_profiled: bool, world: &'a World) -> Self {
        let processors = Fingerprint {
            gpus: Vec::new(),
            ..world.fingerprint.clone()
        };
        Self {
            world,
            measure: settings(measure),
            profile: is_profiled.then_some(PROFILE),
            reference: software(world, REFERENCE),
            schema: format!(
                "heat {}, protocol {}, procedure {}",
                record::VERSION,
                schema::protocol::VERSION,
                world.procedure
            ),
            conditions: json(&world.conditions).to_string(),
            processors: json(&processors).to_string(),
            machine: json(&world.fingerprint).to_string(),
            metered: measure.energy_ns.is_some(),
        }
    }

    /// The parts of the key of a heat with these cells, by name.
    pub(crate) fn parts(&self, cells: &[PlannedCell]) -> BTreeMap<String, String> {
        let is_on_cpu = cells.iter().all(|cell| cell.cell.device.is_cpu());
        let machine = if is_on_cpu {
            &self.processors
        } else {
            &self.machine
        };
        let mut parts = BTreeMap::from([
            (CELLS.to_owned(), cell_lines(cells)),
            ("conditions".to_owned(), self.conditions.clone()),
            ("machine".to_owned(), machine.clone()),
            ("measure".to_owned(), self.measure.clone()),
            ("reference".to_owned(), self.reference.clone()),
            ("schema".to_owned(), self.schema.clone()),
        ]);
        if let Some(asked) = self.profile {
            parts.insert("profile".to_owned(), asked.to_owned());
        }
        let has_file = |cell: &PlannedCell| cell.cell.model.source == ModelSource::Onnx;
        if cells.iter().any(has_file) {
            parts.insert("witness".to_owned(), software(self.world, WITNESS));
        }
        if self.metered {
            parts.insert("energy".to_owned(), meters(self.world, cells));
        }
        // By variant, since those of one engine may have workers and installations of their own.
        let engines: BTreeSet<&EngineVariant> =
            cells.iter().map(|cell| &cell.cell.engine).collect();
        for engine in engines {
            parts.insert(format!("engine {engine}"), lock(self.world, engine));
            parts.insert(format!("worker {engine}"), worker(self.world, engine));
            if let Some(compiler) = compiler(self.world, engine) {
                parts.insert(format!("compiler {engine}"), compiler);
            }
        }
        parts.extend(gpu_libraries(self.world, cells));
        parts
    }
}

/// Whether the energy of what runs on the devices of these cells can be measured: where that becomes
/// possible, it is to be.
fn meters(world: &World, cells: &[PlannedCell]) -> String {
    let devices: BTreeSet<Device> = cells.iter().map(|cell| cell.cell.device).collect();
    let meter = |device: Device| match world.unmetered.get(&device) {
        Some(reason) => format!("{device}: {reason}"),
        None => format!("{device}: measured"),
    };
    let meters: Vec<String> = devices.into_iter().map(meter).collect();
    meters.join("; ")
}

/// Adds to the parts of the key of a heat without twins that it has these, which are `cells` with
/// their twins behind them.
pub(crate) fn add_twins(parts: &mut BTreeMap<String, String>, cells: &[PlannedCell]) {
    parts.insert(CELLS.to_owned(), cell_lines(cells));
}

/// Ends the words of a twin's line.
const TWIN: &str = " twin";

/// One line a cell, with what tells it apart for a reader and its identity; twins once more. In an
/// order of their own: that of the manifest decides what is shown first, and no measurement.
fn cell_lines(cells: &[PlannedCell]) -> String {
    let mut lines: Vec<String> = cells
        .iter()
        .map(|cell| {
            let obstacle = cell
                .obstacle
                .as_ref()
                .map(|outcome| format!(" ({}: {})", outcome.kind, outcome.reason))
                .unwrap_or_default();
            let twin = if cell.twin_of.is_some() { TWIN } else { "" };
            format!(
                "{}{obstacle}{twin} #{}",
                cell.cell.describe_whole(),
                cell.id
            )
        })
        .collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// The settings that decide what is measured. The target is one in any case: a warm-up ends when steps
/// are as steady as that.
fn settings(measure: &Measure) -> String {
    let mut settings = json(measure);
    let is_fixed = measure.looks().len() < 2;
    let decides = |field: &str| field != BUDGET && !(is_fixed && JUDGING.contains(&field));
    if let Some(fields) = settings.as_object_mut() {
        fields.retain(|field, _| decides(field));
    }
    settings.to_string()
}

fn json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// What a variant is made of: its installation and its worker.
fn software(world: &World, variant: [&str; 2]) -> String {
    let [engine, variant] = variant.map(str::to_owned);
    let variant = EngineVariant { engine, variant };
    format!("{} {}", lock(world, &variant), worker(world, &variant))
}

fn lock(world: &World, engine: &EngineVariant) -> String {
    match world.availability.get(engine) {
        None => "unknown".to_owned(),
        Some(availability) => match (&availability.missing, &availability.lock) {
            (Some(reason), _) => format!("missing: {reason}"),
            (None, Some(lock)) => lock.to_string(),
            (None, None) => "supplied by the user".to_owned(),
        },
    }
}

fn worker(world: &World, engine: &EngineVariant) -> String {
    world.availability.get(engine).map_or_else(
        || "unknown".to_owned(),
        |availability| availability.worker.to_string(),
    )
}

/// What the libraries are from that engines take from others on a GPU: those of the cells there, and PyTorch
/// eager, which tells what rounding does to them.
fn gpu_libraries(world: &World, cells: &[PlannedCell]) -> BTreeMap<String, String> {
    let [engine, variant] = REFERENCE.map(str::to_owned);
    let reference = EngineVariant { engine, variant };
    let on_gpus = cells.iter().filter(|cell| !cell.cell.device.is_cpu());
    let engines = on_gpus.flat_map(|cell| [&cell.cell.engine, &reference]);
    let of = |engine: &EngineVariant| {
        let gpu = world.availability.get(engine)?.gpu?;
        Some((format!("GPU libraries {engine}"), gpu.to_string()))
    };
    engines.filter_map(of).collect()
}

fn compiler(world: &World, engine: &EngineVariant) -> Option<String> {
    let compiler = world.availability.get(engine)?.compiler?;
    Some(compiler.to_string())
}

/// A planned heat: the parts of its key without its twins, and those.
type Planned = (BTreeMap<String, String>, Vec<CellId>);

/// What the store holds, ordered for looking up.
pub(crate) struct Known<'a> {
    by_key: ByKey<'a>,
    /// What counts where everything is to be measured anew.
    fresh: Option<ByKey<'a>>,
    last_of_group: BTreeMap<&'a str, &'a KnownHeat>,
    /// What may lend its twins, by its cells without them.
    by_originals: BTreeMap<String, Vec<&'a KnownHeat>>,
    /// What is planned already, likewise.
    planned: BTreeMap<String, Vec<Planned>>,
}

/// Orders the heats of a group by what they tell of it: one that was begun and has measured nothing
/// tells less than an older one that was measured, perhaps with these very settings.
fn weight(heat: &KnownHeat) -> (bool, &str) {
    let has_measured = !matches!(heat.state, KnownState::Open(0));
    (has_measured, heat.started.as_str())
}

impl<'a> Known<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        let mut last_of_group: BTreeMap<&str, &KnownHeat> = BTreeMap::new();
        for heat in &world.known {
            let last = last_of_group.entry(heat.group.as_str()).or_insert(heat);
            if weight(last) < weight(heat) {
                *last = heat;
            }
        }
        let mut by_originals: BTreeMap<String, Vec<&KnownHeat>> = BTreeMap::new();
        // What is measured anew is drawn anew, whatever the store has: a run that was interrupted goes
        // on with the keys that it began with.
        for heat in world.known.iter().filter(|_| world.fresh.is_none()) {
            if let Some(cells) = heat.key_parts.get(CELLS) {
                let lines: Vec<&str> = cells.lines().filter(|line| !is_twin(line)).collect();
                by_originals.entry(lines.join("\n")).or_default().push(heat);
            }
        }
        Self {
            by_key: ByKey::new(&world.known),
            fresh: world.fresh.as_deref().map(ByKey::new),
            last_of_group,
            by_originals,
            planned: BTreeMap::new(),
        }
    }

    /// The cells that have a twin in a heat whose key has these parts but for its twins, of which they
    /// know nothing: the group's own, or one that is planned for another group, or else one that the
    /// store has for another. Of several the newest that is whole, or else the newest.
    pub(crate) fn twins(
        &self,
        group: &str,
        parts: &BTreeMap<String, String>,
    ) -> Option<Vec<CellId>> {
        fn others(parts: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, &String)> {
            parts.iter().filter(|(name, _)| *name != CELLS)
        }
        let cells = parts.get(CELLS)?;
        let is_same = |found: &BTreeMap<String, String>| others(found).eq(others(parts));
        let known = || {
            let heats = self.by_originals.get(cells).into_iter().flatten();
            heats.filter(|heat| is_same(&heat.key_parts))
        };
        let rank = |heat: &&&'a KnownHeat| {
            let is_sealed = matches!(heat.state, KnownState::Sealed(_));
            (is_sealed, heat.started.as_str())
        };
        if let Some(own) = known().filter(|heat| heat.group == group).max_by_key(rank) {
            return Some(twins_of(own));
        }
        let planned = self.planned.get(cells).into_iter().flatten();
        if let Some((_, twins)) = planned.into_iter().find(|(found, _)| is_same(found)) {
            return Some(twins.clone());
        }
        known().max_by_key(rank).map(|heat| twins_of(heat))
    }

    /// Notes a heat that is planned, by the parts of its key without its twins.
    pub(crate) fn plan(&mut self, parts: BTreeMap<String, String>, twins: Vec<CellId>) {
        if let Some(cells) = parts.get(CELLS) {
            self.planned
                .entry(cells.clone())
                .or_default()
                .push((parts, twins));
        }
    }

    /// Whether the store has a heat, and what changed since the last of its group.
    pub(crate) fn status(
        &self,
        group: &str,
        key: &Digest,
        parts: &BTreeMap<String, String>,
    ) -> Status {
        let counts = self.fresh.as_ref().unwrap_or(&self.by_key);
        if let Some(heat) = counts.sealed(key) {
            return Status::Cached { heat };
        }
        if let Some(blocks) = counts.open(key) {
            return Status::Open { blocks };
        }
        if self.by_key.has(key) {
            return Status::Stale {
                changed: vec!["nothing: a fresh heat was asked for".to_owned()],
            };
        }
        match self.last_of_group.get(group) {
            Some(last) => Status::Stale {
                changed: changes(&last.key_parts, parts),
            },
            None => Status::New,
        }
    }
}

/// Heats by their key.
struct ByKey<'a>(BTreeMap<Digest, Vec<&'a KnownHeat>>);

impl<'a> ByKey<'a> {
    fn new(heats: &'a [KnownHeat]) -> Self {
        let mut by_key: BTreeMap<Digest, Vec<&KnownHeat>> = BTreeMap::new();
        for heat in heats {
            by_key.entry(heat.key).or_default().push(heat);
        }
        Self(by_key)
    }

    fn has(&self, key: &Digest) -> bool {
        self.0.contains_key(key)
    }

    /// The content of the newest sealed heat.
    fn sealed(&self, key: &Digest) -> Option<Digest> {
        self.newest(key, |state| match state {
            KnownState::Sealed(content) => Some(content),
            KnownState::Open(_) => None,
        })
    }

    /// The number of blocks of the newest open heat.
    fn open(&self, key: &Digest) -> Option<u32> {
        self.newest(key, |state| match state {
            KnownState::Open(blocks) => Some(blocks),
            KnownState::Sealed(_) => None,
        })
    }

    fn newest<T: Ord>(&self, key: &Digest, of: impl Fn(KnownState) -> Option<T>) -> Option<T> {
        let heats = self.0.get(key)?.iter();
        let dated = heats.filter_map(|heat| Some((&heat.started, of(heat.state)?)));
        dated.max().map(|(_, found)| found)
    }
}

/// The parts that differ, in words.
fn changes(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<String> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names
        .into_iter()
        .filter_map(|name| match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) => Some(change(name, old, new)),
            (None, _) => Some(format!("{name}: added")),
            (_, None) => Some(format!("{name}: no longer used")),
        })
        .collect()
}

fn change(name: &str, old: &str, new: &str) -> String {
    let details = match name {
        "cells" => cell_changes(old, new),
        "conditions" | "machine" | "measure" => field_changes(old, new),
        _ if new.starts_with("missing: ") => vec![new.to_owned()],
        _ if old.starts_with("missing: ") => vec!["can be used now".to_owned()],
        _ => Vec::new(),
    };
    if details.is_empty() {
        return format!("{name} changed");
    }
    let more = details.len().saturating_sub(SHOWN);
    let mut shown = details
        .into_iter()
        .take(SHOWN)
        .collect::<Vec<_>>()
        .join("; ");
    if more > 0 {
        shown.push_str(&format!("; and {more} more"));
    }
    format!("{name}: {shown}")
}

/// What became of the cells; their twins follow them.
fn cell_changes(old: &str, new: &str) -> Vec<String> {
    let originals = |lines: &'_ str| -> BTreeSet<String> {
        let lines = lines.lines().filter(|line| !is_twin(line));
        lines.map(str::to_owned).collect()
    };
    let (before, after) = (originals(old), originals(new));
    let removed: Vec<&str> = before
        .difference(&after)
        .map(|line| described(line))
        .collect();
    let added: Vec<&str> = after
        .difference(&before)
        .map(|line| described(line))
        .collect();
    if removed.is_empty() && added.is_empty() {
        return vec!["another cell has a twin".to_owned()];
    }
    if removed.len() != added.len() {
        let added = added.iter().map(|cell| format!("added {cell}"));
        let removed = removed.iter().map(|cell| format!("removed {cell}"));
        return added.chain(removed).collect();
    }
    let changes: BTreeSet<String> = removed
        .iter()
        .zip(&added)
        .map(|(removed, added)| became(removed, added))
        .collect();
    changes.into_iter().collect()
}

/// The words of a cell that changed.
fn became(removed: &str, added: &str) -> String {
    // A number of threads is one word.
    let words = |cell: &str| -> Vec<String> {
        let cell = cell.replace(" thread", "_thread");
        let words = cell.split(' ').map(|word| word.trim_end_matches(','));
        words
            .map(|word| word.replace("_thread", " thread"))
            .collect()
    };
    let (old, new) = (words(removed), words(added));
    let only = |words: &[String], others: &[String]| {
        let own = words.iter().filter(|word| !others.contains(word));
        own.cloned().collect::<Vec<_>>().join(" ")
    };
    match (only(&old, &new), only(&new, &old)) {
        (gone, come) if gone.is_empty() && come.is_empty() => {
            format!("the network of {added}, or a setting that has no word")
        }
        (gone, come) if gone.is_empty() => format!("{come} is new"),
        (gone, come) if come.is_empty() => format!("{gone} is gone"),
        (gone, come) => format!("{gone} became {come}"),
    }
}

/// The cells that have a twin in a heat.
fn twins_of(heat: &KnownHeat) -> Vec<CellId> {
    let lines = heat.key_parts.get(CELLS).map_or("", String::as_str).lines();
    let ids = lines.filter(|line| is_twin(line)).filter_map(|line| {
        let (_, id) = line.rsplit_once(" #")?;
        Some(CellId(id.to_owned()))
    });
    ids.collect()
}

/// Whether a cell's line is a twin's.
fn is_twin(line: &str) -> bool {
    described(line).ends_with(TWIN)
}

/// A cell's line without its identity.
fn described(line: &str) -> &str {
    line.rsplit_once(" #")
        .map_or(line, |(described, _)| described)
}

fn field_changes(old: &str, new: &str) -> Vec<String> {
    let fields = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    new.iter()
        .filter_map(|(field, value)| match old.get(field) {
            Some(before) if before == value => None,
            Some(before) => Some(format!("{field} was {before}, is {value}")),
            None => Some(format!("{field} is new")),
        })
        .chain(
            old.keys()
                .filter(|field| !new.contains_key(*field))
                .map(|field| format!("{field} is gone")),
        )
        .collect()
}
