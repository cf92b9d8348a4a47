//! Records damaged at random: typed errors or readable tables, and never a panic.

use photofinish_aggregate::{downloads, failures};
use proptest::{prelude::*, sample::Index};
use schema::{
    Outcome, OutcomeKind, Tables,
    plan::Relation,
    record::{HeatResult, Round},
};
use synthetic::Synthetic;

use crate::race::{heat, run, try_tables};

/// A damage: what it does, where, and with which number.
#[derive(Debug, Clone)]
struct Damage {
    what: u8,
    place: Index,
    number: u64,
}

const KINDS: u8 = 22;

fn damage() -> impl Strategy<Value = Damage> {
    let number = prop_oneof![
        0_u64..4,
        Just(u64::MAX),
        Just(1 << 53),
        Just((1 << 53) + 1),
        any::<u64>()
    ];
    (0..KINDS, any::<Index>(), number).prop_map(|(what, place, number)| Damage {
        what,
        place,
        number,
    })
}

/// A floating-point number of any kind, infinities and NaN included.
fn float(number: u64) -> f64 {
    match number {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => 0.0,
        3 => -1.0,
        bits => f64::from_bits(bits),
    }
}

fn apply(run: &mut Synthetic, damage: &Damage) {
    let Damage {
        what,
        place,
        number,
    } = damage;
    let number = *number;
    let small = u32::try_from(number % 7).unwrap();
    let group = place.index(run.record.heats.len().max(1));
    if run
        .record
        .heats
        .get(group)
        .is_none_or(|entry| !matches!(entry.heat, HeatResult::Sealed(_)))
    {
        return;
    }
    let job = &mut run.record.plan.jobs[0];
    match what {
        0 => job.measure.confidence = float(number),
        1 => job.measure.margin = float(number),
        2 => job.claims[0].expect.relation = Relation::Equal,
        3 => job.claims[0].expect.at.clear(),
        4 => job.claims[0].expect.axis = "model".to_owned(),
        5 => job.comparisons[0].pairs.truncate(small as usize),
        6 => run.record.heats[group].heat = HeatResult::NotReached("why".to_owned()),
        7 => drop(run.record.heats.remove(group)),
        8 => run.record.plan.heats[group].cells[0].flops = number,
        9 => run.record.plan.heats[group].cells[0].coordinates.clear(),
        _ => damage_heat(run, group, *what, place, number),
    }
}

fn damage_heat(run: &mut Synthetic, group: usize, what: u8, place: &Index, number: u64) {
    let small = u32::try_from(number % 7).unwrap();
    let heat = heat(run, group);
    if heat.blocks.is_empty() {
        return;
    }
    let cell = place.index(heat.footer.outcomes.len().max(1));
    let block = place.index(heat.blocks.len());
    match what {
        10 => heat.footer.outcomes.truncate(small as usize),
        11 => heat.reference.parity.truncate(small as usize),
        12 => heat.blocks[block].index = small,
        13 => heat.blocks.truncate(small as usize),
        14 => heat.blocks[block].launches.truncate(small as usize),
        15 => heat.footer.finished = number.to_string(),
        16 => {
            let kind = OutcomeKind::ALL[place.index(OutcomeKind::ALL.len())];
            if let Some(outcome) = heat.footer.outcomes.get_mut(cell) {
                *outcome = Outcome::new(kind, "why");
            }
        }
        17 => {
            if let Some(Some(parity)) = heat.reference.parity.get_mut(cell) {
                parity.worst_share = float(number);
            }
        }
        _ => {
            let launches = &mut heat.blocks[block].launches;
            let launch = place.index(launches.len().max(1));
            let Some(launch) = launches.get_mut(launch) else {
                return;
            };
            match what {
                18 => launch.slot = small,
                19 => launch.rounds.truncate(small as usize % 3),
                20 => launch.rounds.push(Round {
                    sequence: small,
                    samples_ns: vec![number; 3],
                }),
                _ => launch.start_ns = Some(number),
            }
        }
    }
}

proptest! {

    #[test]
    fn damaged_records_never_panic(damages in proptest::collection::vec(damage(), 1..6)) {
        let mut run = run(3, 6);
        for damage in &damages {
            apply(&mut run, damage);
        }
        if let Ok(tables) = try_tables(&run) {
            // NaN and infinity cannot be written as JSON and read back.
            let text = serde_json::to_string(&tables).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Tables>(&text).unwrap(), &tables);
            prop_assert!(downloads(&tables).is_ok());
            let shown = tables.cells.iter().filter(|row| row.speed.is_some());
            for row in shown {
                prop_assert!(matches!(row.outcome.kind, OutcomeKind::Measured | OutcomeKind::Unstable));
                prop_assert!(row.parity.as_ref().is_some_and(|parity| parity.worst_share <= 1.0));
            }
            let failed = failures(&tables).len();
            prop_assert!(failed <= tables.cells.len());
        }
    }
}
