//! What the launches' sensors come to for a cell.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    tables::{CellEnergy, EnergyFigures, Interval},
    telemetry::{
        ALL_SENSORS, CLOCK, CLOCK_LIMITS, Energy, EnergyStretch, GPU, GPU_POWER, GpuTelemetry,
        MEMORY, MEMORY_CLOCK, PROCESSES, PROCESSOR_POWER, PROCESSOR_TIME, TEMPERATURE, Telemetry,
        USE_BY_PROCESS, UTILISATION,
    },
};
use statistics::{interval, number::rounded, pair::Shared, percentile};

/// Energy of a cell whose steps are so many samples, from that of its blocks that count; `None` where it
/// was not asked for. Its interval shares its confidence with no other, as that of the step time.
pub(crate) fn energy(
    blocks: &BTreeMap<u32, Energy>,
    samples: u64,
    confidence: f64,
) -> Option<CellEnergy> {
    let first_reason = blocks.values().find_map(|energy| match energy {
        Energy::Unavailable(reason) => Some(reason.clone()),
        Energy::Measured(_) => None,
    });
    let stretches = blocks.values().filter_map(|energy| match energy {
        Energy::Measured(stretch) => Some(stretch),
        Energy::Unavailable(_) => None,
    });
    let stretches: Vec<&EnergyStretch> = stretches.collect();
    match figures(&stretches, samples, confidence) {
        Some(figures) => Some(CellEnergy::Measured(EnergyFigures {
            left_out: first_reason,
            ..figures
        })),
        None if blocks.is_empty() => None,
        None => Some(CellEnergy::Unavailable(first_reason.unwrap_or_else(|| {
            "what was recorded of it is no energy".to_owned()
        }))),
    }
}

/// What two cells differ by in power or, `of_samples`, in the energy of a sample, in the blocks that
/// measured both.
pub(crate) fn shared(
    [baseline, contender]: [&BTreeMap<u32, Energy>; 2],
    of_samples: Option<[u64; 2]>,
) -> Result<Shared, &'static str> {
    let figure = |stretch: &EnergyStretch, samples: Option<u64>| {
        let figure = match samples {
            Some(samples) => stretch.joules_of_step()? / samples.max(1) as f64,
            None => stretch.watts()?,
        };
        (figure.is_finite() && figure > 0.0).then_some(figure)
    };
    let [of_baseline, of_contender] = match of_samples {
        Some(both) => both.map(Some),
        None => [None, None],
    };
    let mut shared = Shared::default();
    for (block, reference) in baseline {
        let Some(Energy::Measured(other)) = contender.get(block) else {
            continue;
        };
        let Energy::Measured(reference) = reference else {
            continue;
        };
        let both = figure(reference, of_baseline).zip(figure(other, of_contender));
        let (one, two) = both.ok_or("a block took no more than idling does")?;
        shared.logs.push(libm::log(two / one));
        let blurred = [reference, other].map(|stretch| resolution(stretch, of_samples.is_some()));
        let [Some(blurred), Some(more)] = blurred else {
            return Err("a block took no more than its sensor can tell");
        };
        shared.resolution = shared.resolution.max(blurred + more);
    }
    Ok(shared)
}

fn figures(stretches: &[&EnergyStretch], samples: u64, confidence: f64) -> Option<EnergyFigures> {
    let first = stretches.first()?;
    let samples = samples.max(1) as f64;
    let joules = |stretch: &&EnergyStretch| Some(stretch.joules_of_step()? / samples);
    Some(EnergyFigures {
        sensor: first.sensor,
        joules: coarsest(stretches, true)
            .and_then(|blurred| centre(stretches.iter().map(joules), confidence, blurred)),
        watts: centre(
            stretches.iter().map(|stretch| stretch.watts()),
            confidence,
            coarsest(stretches, false)?,
        )?,
        idle_watts: rounded(percentile::middle(
            stretches.iter().map(|stretch| stretch.idle_watts),
        )?),
        left_out: None,
    })
}

/// What the resolution of its sensor may have done to the logarithm of the energy of a stretch, what idling takes
/// subtracted (`is_net`) or not; `None` where that may have been all of it.
fn resolution(stretch: &EnergyStretch, is_net: bool) -> Option<f64> {
    let (joules, blurred) = match is_net {
        true => (stretch.joules(), stretch.blurred_net_joules()),
        false => (stretch.energy_uj as f64 / 1e6, stretch.blurred_joules()),
    };
    let share = blurred / joules;
    (joules > 0.0 && share < 1.0).then(|| -libm::log1p(-share))
}

/// The same of the one of which it may have done most.
fn coarsest(stretches: &[&EnergyStretch], is_net: bool) -> Option<f64> {
    let all = stretches.iter();
    all.map(|stretch| resolution(stretch, is_net))
        .try_fold(0.0, |most, one| Some(one?.max(most)))
}

/// The centre of what blocks took, in logarithms as that of step times; `None` unless each took something.
fn centre(
    values: impl Iterator<Item = Option<f64>>,
    confidence: f64,
    resolution: f64,
) -> Option<Interval> {
    let positive = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
    let logs = values.map(|value| positive(value).map(libm::log));
    let logs: Vec<f64> = logs.collect::<Option<_>>()?;
    interval::of_logs(&logs, confidence, resolution)
}

/// What sensors told over launches: clocks, powers and shares are medians of the launches', heat and memory
/// the most of any.
pub(crate) fn telemetry(launches: &[Telemetry]) -> Option<Telemetry> {
    let all = || launches.iter();
    let middle =
        |of: fn(&Telemetry) -> Option<f64>| percentile::middle(all().filter_map(of)).map(rounded);
    (!launches.is_empty()).then(|| {
        let gpus: Vec<&GpuTelemetry> = all().filter_map(|told| told.gpu.as_ref()).collect();
        let looks = all().fold(0_u32, |sum, told| sum.saturating_add(told.looks));
        let unavailable = all().flat_map(|told| &told.unavailable);
        let tells = |gpu: &GpuTelemetry| *gpu != GpuTelemetry::default();
        let of_gpu = |is_told: fn(&GpuTelemetry) -> bool| gpus.iter().any(|told| is_told(told));
        // What a sensor told in another launch is told.
        let is_told = |sensor: &str| match sensor {
            ALL_SENSORS => looks > 0,
            PROCESSOR_TIME => all().any(|told| told.busy.is_some()),
            PROCESSOR_POWER => all().any(|told| told.package_watts.is_some()),
            // Two are called so, one of them where there is no GPU.
            CLOCK => {
                let of_processors = all().any(|told| told.cpu_mhz.is_some());
                of_processors && (gpus.is_empty() || of_gpu(|told| told.sm_mhz.is_some()))
            }
            GPU => of_gpu(tells),
            GPU_POWER => of_gpu(|told| told.watts.is_some()),
            MEMORY_CLOCK => of_gpu(|told| told.memory_mhz.is_some()),
            TEMPERATURE => of_gpu(|told| told.celsius.is_some()),
            UTILISATION => of_gpu(|told| told.utilisation.is_some()),
            MEMORY => of_gpu(|told| told.memory_bytes.is_some()),
            // That nothing limits clocks and nobody else is there is told, too: by a launch that does not lack it.
            CLOCK_LIMITS | PROCESSES | USE_BY_PROCESS => all().any(|told| {
                let is_there = told.gpu.as_ref().is_some_and(tells);
                is_there && !told.unavailable.contains_key(sensor)
            }),
            _ => false,
        };
        Telemetry {
            looks,
            cpu_mhz: middle(|told| told.cpu_mhz),
            busy: middle(|told| told.busy),
            steal: middle(|told| told.steal),
            throttled: middle(|told| told.throttled),
            worker_cpus: middle(|told| told.worker_cpus),
            package_watts: middle(|told| told.package_watts),
            gpu: gpu(&gpus),
            unavailable: unavailable
                .filter(|(sensor, _)| !is_told(sensor))
                .map(|(sensor, reason)| (sensor.clone(), reason.clone()))
                .collect(),
        }
    })
}

fn gpu(launches: &[&GpuTelemetry]) -> Option<GpuTelemetry> {
    let all = || launches.iter().copied();
    let middle = |of: fn(&GpuTelemetry) -> Option<f64>| {
        percentile::middle(all().filter_map(of)).map(rounded)
    };
    let limits: BTreeSet<_> = all()
        .flat_map(|told| told.limited.keys())
        .copied()
        .collect();
    // A launch that says nothing of a limit was not held down by it.
    let limited = limits.into_iter().filter_map(|limit| {
        let shares = all().map(|told| told.limited.get(&limit).copied().unwrap_or(0.0));
        Some((limit, rounded(percentile::middle(shares)?)))
    });
    let mut foreign: BTreeMap<String, Option<f64>> = BTreeMap::new();
    for (name, share) in all().flat_map(|told| &told.foreign) {
        let most = foreign.entry(name.clone()).or_insert(*share);
        *most = most.zip(*share).map(|(most, share)| most.max(share));
    }
    (!launches.is_empty()).then(|| GpuTelemetry {
        watts: middle(|told| told.watts),
        sm_mhz: middle(|told| told.sm_mhz),
        memory_mhz: middle(|told| told.memory_mhz),
        celsius: all().filter_map(|told| told.celsius).reduce(f64::max),
        utilisation: middle(|told| told.utilisation),
        memory_bytes: all().filter_map(|told| told.memory_bytes).max(),
        worker_bytes: all().filter_map(|told| told.worker_bytes).max(),
        limited: limited.collect(),
        foreign,
    })
}

#[cfg(test)]
mod tests {
    use schema::telemetry::{EnergySensor, Limit};

    use super::*;

    fn stretch(joules: u64, steps: u64) -> Energy {
        Energy::Measured(EnergyStretch {
            sensor: EnergySensor::GpuCounter,
            energy_uj: joules * 1_000_000,
            time_ns: 10_000_000_000,
            steps,
            idle_watts: 50.0,
        })
    }

    fn of(blocks: Vec<Energy>) -> Option<CellEnergy> {
        energy(&(0..).zip(blocks).collect(), 8, 0.95)
    }

    #[test]
    fn energy_of_a_sample_is_that_of_a_step_without_idling() {
        let found = of(vec![stretch(2500, 250); 6]);
        let Some(CellEnergy::Measured(found)) = found else {
            panic!("{found:?}");
        };
        // (2500 − 500) J ÷ 250 steps ÷ 8 samples.
        let joules = found.joules.unwrap();
        assert_eq!((joules.centre, joules.blocks), (1.0, 6));
        assert!(joules.low.unwrap() < 1.0 && joules.high.unwrap() > 1.0);
        assert_eq!((found.watts.centre, found.idle_watts), (250.0, 50.0));
        assert_eq!(found.left_out, None);
    }

    #[test]
    fn blocks_that_agree_are_known_no_better_than_their_sensor_tells() {
        let of_sensor = |sensor| {
            let stretch = Energy::Measured(EnergyStretch {
                sensor,
                energy_uj: 3_000_000_000,
                time_ns: 10_000_000_000,
                steps: 250,
                idle_watts: 150.0,
            });
            let Some(CellEnergy::Measured(found)) = of(vec![stretch; 6]) else {
                panic!("it was measured");
            };
            let width = |interval: &Interval| interval.high.unwrap() / interval.centre - 1.0;
            (width(&found.watts), width(&found.joules.unwrap()))
        };
        // 100 ms of ten seconds, and of two seconds at rest, when half as much is drawn: 30 of 3,000 J, and 105 of the
        // 1,500 J that are left without idling. Then 1 ms of them.
        let (watts, joules) = of_sensor(EnergySensor::GpuCounter);
        assert!((watts - 0.010_10).abs() < 1e-4, "{watts}");
        assert!((joules - 0.075_27).abs() < 1e-4, "{joules}");
        let (watts, joules) = of_sensor(EnergySensor::Packages);
        assert!((watts - 1e-4).abs() < 2e-5, "{watts}");
        assert!((joules - 7e-4).abs() < 2e-5, "{joules}");
    }

    #[test]
    fn blocks_without_energy_are_left_out_and_told() {
        let lacking = || Energy::Unavailable("set back".to_owned());
        assert_eq!(of(vec![]), None);
        let why = CellEnergy::Unavailable("set back".to_owned());
        assert_eq!(of(vec![lacking(), lacking()]), Some(why));
        let found = of(vec![stretch(2500, 250), lacking(), stretch(2500, 250)]);
        let Some(CellEnergy::Measured(found)) = found else {
            panic!("{found:?}");
        };
        assert_eq!(found.joules.unwrap().blocks, 2);
        assert_eq!(found.left_out.as_deref(), Some("set back"));
    }

    #[test]
    fn a_step_that_takes_no_more_than_idling_has_no_energy_of_its_own() {
        let found = of(vec![stretch(2500, 250), stretch(499, 250)]);
        let Some(CellEnergy::Measured(found)) = found else {
            panic!("{found:?}");
        };
        assert_eq!(found.joules, None);
        assert_eq!(found.watts.blocks, 2);
        // Nothing at all is no power, and what no run can have written no energy.
        assert!(matches!(
            of(vec![stretch(0, 0)]),
            Some(CellEnergy::Unavailable(_))
        ));
    }

    #[test]
    fn launches_come_to_medians_and_extremes() {
        let launch = |watts, celsius, capped: Option<f64>| Telemetry {
            looks: 3,
            cpu_mhz: Some(watts),
            gpu: Some(GpuTelemetry {
                watts: Some(watts),
                celsius: Some(celsius),
                limited: capped
                    .map(|share| (Limit::PowerCap, share))
                    .into_iter()
                    .collect(),
                ..GpuTelemetry::default()
            }),
            ..Telemetry::default()
        };
        let launches = [
            launch(100.0, 60.0, Some(1.0)),
            launch(300.0, 80.0, Some(0.5)),
            launch(200.0, 70.0, None),
        ];
        let found = telemetry(&launches).unwrap();
        let gpu = found.gpu.unwrap();
        assert_eq!((found.looks, found.cpu_mhz), (9, Some(200.0)));
        assert_eq!((gpu.watts, gpu.celsius), (Some(200.0), Some(80.0)));
        assert_eq!(gpu.limited, [(Limit::PowerCap, 0.5)].into());
        assert_eq!(telemetry(&[]), None);
    }

    #[test]
    fn what_a_sensor_told_in_another_launch_is_not_lacking() {
        let sensors = [
            ALL_SENSORS,
            CLOCK,
            CLOCK_LIMITS,
            GPU,
            GPU_POWER,
            MEMORY,
            MEMORY_CLOCK,
            PROCESSES,
            PROCESSOR_POWER,
            PROCESSOR_TIME,
            TEMPERATURE,
            USE_BY_PROCESS,
            UTILISATION,
        ];
        let silent = Telemetry {
            gpu: Some(GpuTelemetry::default()),
            unavailable: sensors
                .map(|sensor| (sensor.to_owned(), "it was silent".to_owned()))
                .into(),
            ..Telemetry::default()
        };
        let telling = Telemetry {
            looks: 1,
            cpu_mhz: Some(2000.0),
            busy: Some(0.5),
            package_watts: Some(40.0),
            gpu: Some(GpuTelemetry {
                watts: Some(300.0),
                sm_mhz: Some(1500.0),
                memory_mhz: Some(2600.0),
                celsius: Some(60.0),
                utilisation: Some(0.9),
                memory_bytes: Some(1),
                ..GpuTelemetry::default()
            }),
            ..Telemetry::default()
        };
        let found = telemetry(&[silent.clone(), telling.clone()]).unwrap();
        assert_eq!(found.unavailable, BTreeMap::new());
        // Silent in all of them, it is lacking.
        let found = telemetry(&[silent.clone(), silent.clone()]).unwrap();
        assert_eq!(found.unavailable, silent.unavailable);
        // Two sensors are called a clock: that of the processors alone does not speak for the other.
        let mut without_gpu = telling;
        without_gpu.gpu = Some(GpuTelemetry::default());
        let found = telemetry(&[silent, without_gpu]).unwrap();
        assert!(found.unavailable.contains_key(CLOCK), "{found:?}");
        assert!(!found.unavailable.contains_key(PROCESSOR_TIME), "{found:?}");
    }
}
