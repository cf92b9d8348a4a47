//! What came from outside to a GPU while a block was measured.
//!
//! A power limit that an engine runs into, and the heat that it makes, are the engine's own and no
//! disturbance, also where the hardware itself acts on them; they are kept with its launches. Clocks that are set lower all the time hit all cells
//! alike, and are none either.

use schema::{Device, plan::Disturbance, printed::percent, telemetry::Limit};
use statistics::percentile;
use telemetry::{GpuLook, GpuSeries, Series, foreign, limited};

use crate::disturbance::rounded_percent;

/// Share of looks that may find a GPU slowed down: it is so for a moment whenever it changes its clocks.
const SLOWED: f64 = 0.05;
/// Looks that may, however few there are.
const SLOWED_LOOKS: f64 = 1.0;
/// Clocks that are set keep it down by this much at least, or they do not matter.
const LOWER: f64 = 0.05;

/// What is no engine's own doing. Heat is, whether the driver or the hardware acts on it; and a slowdown by
/// the hardware that is neither of heat nor of the power supply is of a power that rose too fast.
const EXTERNAL: [Limit; 2] = [Limit::PowerBrake, Limit::SyncBoost];

/// Why a block cannot be believed in which GPUs were looked at so; `None` where it can.
pub(crate) fn disturbed(series: &Series, limits: &Disturbance) -> Option<String> {
    let mut gpus = series.gpus.iter();
    gpus.find_map(|(device, gpu)| {
        let looks: Vec<&GpuLook> = series.of_gpu(*device).collect();
        used_by_others(*device, &looks, limits)
            .or_else(|| changed(*device, gpu))
            .or_else(|| slowed(*device, &looks))
            .or_else(|| locked(*device, &looks))
    })
}

/// Others that compute on it. Of a process that only holds memory the driver says that it uses nothing;
/// where it does not say, it cannot be told from one that computes.
fn used_by_others(device: Device, looks: &[&GpuLook], limits: &Disturbance) -> Option<String> {
    let others = foreign(looks.iter().copied());
    let mut others: Vec<(String, Option<f64>)> = others.into_iter().collect();
    // What is not told counts for most.
    others.sort_by(|(_, one), (_, other)| {
        let used = |share: &Option<f64>| share.unwrap_or(f64::INFINITY);
        used(other).total_cmp(&used(one))
    });
    let all: f64 = others.iter().filter_map(|(_, share)| *share).sum();
    let several = others
        .iter()
        .filter(|(_, share)| *share > Some(0.0))
        .count()
        > 1;
    match others.into_iter().next()? {
        (name, None) => Some(format!(
            "{name} was on {device}, and the driver does not tell what it used"
        )),
        (name, Some(_)) if all > limits.foreign => {
            let (share, most) = (rounded_percent(all), percent(limits.foreign));
            let who = if several {
                format!("{name} and others")
            } else {
                name
            };
            Some(format!("{who} used {share} of {device}, more than {most}"))
        }
        _ => None,
    }
}

/// Somebody set it otherwise meanwhile.
fn changed(device: Device, gpu: &GpuSeries) -> Option<String> {
    let [before, after] = gpu.settings;
    let differ = |before: Option<u32>, after: Option<u32>| {
        let both = before.zip(after);
        both.filter(|(before, after)| before != after)
    };
    if let Some((before, after)) = differ(before.application_mhz, after.application_mhz) {
        return Some(format!(
            "somebody set the clock of {device} from {before} to {after} MHz"
        ));
    }
    let (before, after) = differ(before.limit_mw, after.limit_mw)?;
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
    Some(format!(
        "somebody set the power limit of {device} from {} to {} W",
        watts(before),
        watts(after)
    ))
}

/// It was slowed down by what no engine does.
fn slowed(device: Device, looks: &[&GpuLook]) -> Option<String> {
    let shares = limited(looks.iter().copied());
    let share = |limit: &Limit| shares.get(limit).copied().unwrap_or(0.0);
    let limit = EXTERNAL
        .into_iter()
        .max_by(|one, other| share(one).total_cmp(&share(other)))?;
    let share = share(&limit);
    let told = |look: &&&GpuLook| !look.is_idle && look.limits.is_some();
    let told = looks.iter().filter(told).count();
    let is_much = share > SLOWED && share * told as f64 > SLOWED_LOOKS;
    is_much.then(|| {
        let (share, most) = (rounded_percent(share), percent(SLOWED));
        let what = limit.words();
        format!("{device} was slowed down by {what} in {share} of the looks at its work, more than {most}")
    })
}

/// Clocks that are set came or went meanwhile, and kept it down.
fn locked(device: Device, looks: &[&GpuLook]) -> Option<String> {
    let working = || looks.iter().filter(|look| !look.is_idle);
    let clocks = |is_set: bool| {
        let clocks = working().filter_map(move |look| {
            let limits = look.limits.as_ref()?;
            // What else keeps it down may come and go.
            let others = limits.iter().any(|limit| *limit != Limit::ClockSetting);
            let found = limits.contains(&Limit::ClockSetting);
            look.sm_mhz.filter(|_| found == is_set && !others)
        });
        clocks.collect::<Vec<f64>>()
    };
    let (set, free) = (clocks(true), clocks(false));
    let seldom = (working().count() as f64 * SLOWED).max(SLOWED_LOOKS);
    if set.len() as f64 <= seldom || free.len() as f64 <= seldom {
        return None;
    }
    let (set, free) = (percentile::middle(set)?, percentile::middle(free)?);
    (set < free * (1.0 - LOWER)).then(|| {
        format!(
            "somebody held the clock of {device} at {set:.0} MHz for a part of the time, where it \
             runs at {free:.0}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use telemetry::{GpuProcess, GpuSettings, Look};

    use super::*;
    use crate::sample::LIMITS;

    /// A series of looks at `cuda:0`.
    fn series(looks: impl IntoIterator<Item = GpuLook>) -> Series {
        let mut series = Series::default();
        series.gpus.insert(Device::Cuda(0), GpuSeries::default());
        for gpu in looks {
            series.push(Look {
                gpu: Some(gpu),
                ..Look::default()
            });
        }
        series
    }

    fn at(sm_mhz: f64, limits: &[Limit]) -> GpuLook {
        GpuLook {
            sm_mhz: Some(sm_mhz),
            limits: Some(limits.iter().copied().collect::<BTreeSet<_>>()),
            ..GpuLook::default()
        }
    }

    fn said(looks: impl IntoIterator<Item = GpuLook>) -> Option<String> {
        disturbed(&series(looks), &LIMITS)
    }

    #[test]
    fn what_an_engine_does_is_no_disturbance() {
        let own = [
            Limit::PowerCap,
            Limit::Heat,
            Limit::HardwareHeat,
            Limit::HardwareSlowdown,
        ];
        assert_eq!(said((0..50).map(|_| at(1400.0, &own))), None);
        // Clocks that are set from the beginning to the end.
        let set = [Limit::ClockSetting];
        assert_eq!(said((0..50).map(|_| at(1200.0, &set))), None);
        // An engine that runs into its power limit is slower than one that only keeps to a set clock.
        let mixed = (0..50).map(|look| match look % 2 {
            0 => at(1100.0, &[Limit::PowerCap]),
            _ => at(1200.0, &set),
        });
        assert_eq!(said(mixed), None);
        assert_eq!(said([]), None);
    }

    #[test]
    fn slowdowns_of_the_hardware_have_a_limit() {
        for limit in EXTERNAL {
            let slowed = |of: usize| {
                (0..100).map(move |look| {
                    let is_slowed = look < of;
                    at(1980.0, if is_slowed { &[Limit::PowerCap] } else { &[] })
                })
            };
            let with = |of: usize| {
                slowed(of).map(move |mut look| {
                    if let Some(limits) = look.limits.as_mut().filter(|limits| !limits.is_empty()) {
                        limits.insert(limit);
                    }
                    look
                })
            };
            assert_eq!(said(with(5)), None, "{limit:?}");
            let told = said(with(6)).unwrap_or_default();
            let words = limit.words();
            assert!(told.starts_with("cuda:0 was slowed down by "), "{told}");
            assert!(told.contains(words) && told.contains("6 %"), "{told}");
        }
        // One look of few is a moment.
        assert_eq!(said([at(900.0, &[Limit::PowerBrake])]), None);
        let twice = [(); 2].map(|()| at(900.0, &[Limit::PowerBrake]));
        assert!(said(twice).is_some());
        // Of an idle GPU nothing is slowed down, and looks at one make no others few.
        let idle = || {
            (0..9).map(|_| GpuLook {
                is_idle: true,
                ..at(300.0, &[Limit::PowerBrake])
            })
        };
        assert_eq!(said(idle()), None);
        let once = [at(900.0, &[Limit::PowerBrake])];
        assert_eq!(said(once.into_iter().chain(idle())), None);
    }

    #[test]
    fn a_lock_that_comes_in_between_is_seen() {
        let halves = |set_mhz: f64| {
            (0..40).map(move |look| match look < 20 {
                true => at(1980.0, &[]),
                false => at(set_mhz, &[Limit::ClockSetting]),
            })
        };
        let told = said(halves(1200.0)).unwrap_or_default();
        assert!(told.contains("1200 MHz") && told.contains("1980"), "{told}");
        assert_eq!(said(halves(1950.0)), None);
    }

    #[test]
    fn others_are_named() {
        let other = |name: &str, sm_percent| GpuProcess {
            foreign: Some(format!("`{name}`")),
            bytes: None,
            sm_percent,
        };
        let of = |processes: &[GpuProcess]| GpuLook {
            processes: Some(processes.to_vec()),
            ..at(1980.0, &[])
        };
        let with = |sm_percent| of(&[other("game", sm_percent)]);
        let used = "`game` used 30 % of cuda:0, more than 5 %";
        assert_eq!(said([with(Some(30))]).as_deref(), Some(used));
        // What none of them does alone, they may do together.
        let two = of(&[other("film", Some(3)), other("game", Some(4))]);
        let used = "`game` and others used 7 % of cuda:0, more than 5 %";
        assert_eq!(said([two]).as_deref(), Some(used));
        assert_eq!(said([with(Some(4))]), None);
        // It holds memory, and computes nothing.
        assert_eq!(said([with(Some(0))]), None);
        let unknown = said([with(None)]).unwrap_or_default();
        assert!(unknown.starts_with("`game` was on cuda:0"), "{unknown}");
    }

    #[test]
    fn settings_are_to_stay() {
        let mut changing = series([]);
        let gpu = changing
            .gpus
            .get_mut(&Device::Cuda(0))
            .expect("it is there");
        let set = |application_mhz, limit_mw| GpuSettings {
            application_mhz,
            limit_mw,
        };
        gpu.settings = [set(Some(1980), Some(700_000)), set(None, Some(700_000))];
        assert_eq!(disturbed(&changing, &LIMITS), None);
        for (after, said) in [
            (set(Some(1200), Some(700_000)), "from 1980 to 1200 MHz"),
            (set(Some(1980), Some(350_000)), "from 700 to 350 W"),
        ] {
            let gpu = changing
                .gpus
                .get_mut(&Device::Cuda(0))
                .expect("it is there");
            gpu.settings[1] = after;
            let told = disturbed(&changing, &LIMITS).unwrap_or_default();
            assert!(told.contains(said), "{told}");
        }
    }
}
