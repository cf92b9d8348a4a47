//! GPUs, through NVML, the library that comes with NVIDIA's driver.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    sync::{Arc, OnceLock},
};

use nvml_wrapper::{
    Device as Card, Nvml, enums::device::SampleValue, error::NvmlError, structs::device::FieldId,
};
use schema::machine::Gpu;

/// Names another library than the system's, by its path.
pub const NVML_VARIABLE: &str = "PHOTOFINISH_NVML";

/// NVML, or why there is none.
pub(crate) type Library = Result<Arc<Nvml>, String>;

/// The library of this process: opened once, and kept until it ends, since opening it takes long where
/// there is a driver.
pub(crate) fn system() -> Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    let named = || env::var_os(NVML_VARIABLE).filter(|path| !path.is_empty());
    LIBRARY.get_or_init(|| open(named().as_deref())).clone()
}

/// The library at this path; the system's where none is given.
pub(crate) fn open(path: Option<&OsStr>) -> Library {
    let found = match path {
        Some(path) => Nvml::builder().lib_path(path).init(),
        None => Nvml::init(),
    };
    // Where the user keeps a library is nobody's business: reasons are published.
    found.map(Arc::new).map_err(|error| match (path, error) {
        (None, error) => format!("no NVIDIA driver answers ({error})"),
        (Some(_), NvmlError::LibloadingError(_)) => {
            format!("what {NVML_VARIABLE} names is no library that can be loaded")
        }
        (Some(_), error) => format!("the library that {NVML_VARIABLE} names: {error}"),
    })
}

/// The GPUs of this machine; none without a driver.
pub(crate) fn list() -> Vec<Gpu> {
    let Ok(nvml) = system() else {
        return Vec::new();
    };
    describe(&nvml).unwrap_or_default()
}

/// `NVML_FI_DEV_POWER_INSTANT` of NVML's header.
const INSTANT_POWER: u32 = 186;

/// What a GPU draws now, in milliwatts. Where the driver tells only the mean over a second, as its usual
/// answer is from Ampere on, it is that: an H200 that has just come to rest says 333 W so, and 134 W if it is
/// asked for the instant.
pub(crate) fn power_mw(card: &Card<'_>) -> Result<u32, NvmlError> {
    let told = card.field_values_for(&[FieldId(INSTANT_POWER)]);
    let sample = told.ok().and_then(|told| told.into_iter().next()?.ok());
    match sample.map(|sample| sample.value) {
        Some(Ok(SampleValue::U32(milliwatts))) => Ok(milliwatts),
        _ => card.power_usage(),
    }
}

fn describe(nvml: &Nvml) -> Result<Vec<Gpu>, NvmlError> {
    let driver = nvml.sys_driver_version()?;
    (0..nvml.device_count()?)
        .map(|index| {
            let device = nvml.device_by_index(index)?;
            Ok(Gpu {
                name: device.name()?,
                driver: driver.clone(),
                memory_bytes: device.memory_info()?.total,
            })
        })
        .collect()
}

/// What tells a card from others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    name: String,
    uuid: String,
}

/// NVML's number of a CUDA device. NVML counts by place on the bus, and knows nothing of what this
/// process lets CUDA see.
pub(crate) fn index_of(nvml: &Nvml, cuda: u32) -> Result<u32, String> {
    // A card that is gone keeps its place, and tells neither.
    let card = |index| {
        let device = nvml.device_by_index(index);
        let word = |word: Result<String, NvmlError>| word.unwrap_or_default();
        Identity {
            name: word(
                device
                    .as_ref()
                    .map_or(Ok(String::new()), |card| card.name()),
            ),
            uuid: word(
                device
                    .as_ref()
                    .map_or(Ok(String::new()), |card| card.uuid()),
            ),
        }
    };
    let count = nvml.device_count();
    let count = count.map_err(|error| format!("NVML does not list the GPUs: {error}"))?;
    let cards: Vec<Identity> = (0..count).map(card).collect();
    let variable = |name| env::var(name).ok();
    place(
        cuda,
        variable("CUDA_VISIBLE_DEVICES").as_deref(),
        variable("CUDA_DEVICE_ORDER").as_deref() == Some("PCI_BUS_ID"),
        &cards,
    )
}

/// See NVIDIA's CUDA C++ Programming Guide, "CUDA Environment Variables".
fn place(
    cuda: u32,
    visible: Option<&str>,
    by_bus: bool,
    cards: &[Identity],
) -> Result<u32, String> {
    let number = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
    let named = match visible {
        None => cuda.to_string(),
        Some(list) => {
            let name = list.split(',').map(str::trim).nth(cuda as usize);
            let name = name.filter(|name| !name.is_empty());
            let missing = || format!("CUDA_VISIBLE_DEVICES hides cuda:{cuda}");
            name.ok_or_else(missing)?.to_owned()
        }
    };
    if named.starts_with("MIG-") {
        return Err(format!(
            "cuda:{cuda} is a part of a GPU (MIG), which has no sensors of its own"
        ));
    }
    if named.starts_with("GPU-") {
        let found = cards.iter().position(|card| card.uuid.starts_with(&named));
        return found
            .map(number)
            .ok_or_else(|| format!("NVML knows no GPU {named}, which CUDA_VISIBLE_DEVICES names"));
    }
    let index: u32 = named
        .parse()
        .map_err(|_| format!("CUDA_VISIBLE_DEVICES names no GPU for cuda:{cuda}: `{named}`"))?;
    if index as usize >= cards.len() {
        return Err(format!("NVML knows no GPU number {index}"));
    }
    // CUDA puts the fastest first, and leaves equal ones where the bus has them.
    let names: BTreeSet<&str> = cards.iter().map(|card| card.name.as_str()).collect();
    let different = names.iter().filter(|name| !name.is_empty()).count();
    if by_bus || different < 2 {
        Ok(index)
    } else {
        Err(format!(
            "which of unequal GPUs cuda:{cuda} is depends on CUDA: set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        ))
    }
}

/// Whether a GPU that answers so is gone until somebody sees to it.
pub(crate) const fn is_lost(error: &NvmlError) -> bool {
    matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired)
}

/// That a GPU is gone, for a reader.
pub(crate) fn lost(cuda: u32, error: &NvmlError) -> String {
    format!(
        "cuda:{cuda} is gone ({error}): reset it (nvidia-smi --gpu-reset), or start the machine anew"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(names: &[&str]) -> Vec<Identity> {
        let card = |(place, name): (usize, &&str)| Identity {
            name: (*name).to_owned(),
            uuid: format!("GPU-{place}{place}{place}"),
        };
        names.iter().enumerate().map(card).collect()
    }

    #[test]
    fn a_cuda_device_is_found_by_what_is_visible() {
        let equal = cards(&["A", "A", "A"]);
        assert_eq!(place(1, None, false, &equal), Ok(1));
        assert_eq!(place(1, Some("2, 0"), false, &equal), Ok(0));
        assert_eq!(place(0, Some("GPU-22"), false, &equal), Ok(2));
        for (cuda, visible, why) in [
            (3, None, "no GPU number 3"),
            (2, Some("2,0"), "hides cuda:2"),
            (0, Some(""), "hides cuda:0"),
            (0, Some("GPU-9"), "GPU-9"),
            (0, Some("MIG-1"), "MIG"),
            (0, Some("-1"), "`-1`"),
        ] {
            let refused = place(cuda, visible, false, &equal).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_card_that_is_gone_keeps_its_place() {
        assert_eq!(place(1, None, false, &cards(&["", "A", "A"])), Ok(1));
        assert_eq!(place(0, None, false, &cards(&["", "A", "A"])), Ok(0));
    }

    #[test]
    fn unequal_cards_need_an_order() {
        let unequal = cards(&["slow", "fast"]);
        let refused = place(0, None, false, &unequal).unwrap_err();
        assert!(refused.contains("CUDA_DEVICE_ORDER"), "{refused}");
        assert_eq!(place(0, None, true, &unequal), Ok(0));
        assert_eq!(place(0, Some("GPU-1"), false, &unequal), Ok(1));
    }

    #[test]
    fn a_library_that_is_none_says_so() {
        let refused = open(Some(OsStr::new("/nowhere/libnvidia-ml.so"))).err();
        let refused = refused.unwrap();
        assert!(refused.contains(NVML_VARIABLE), "{refused}");
        assert!(!refused.contains("/nowhere"), "{refused}");
    }
}
