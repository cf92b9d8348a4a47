//! The largest batch of a cell that fits into memory, out of what was tried.

use schema::{
    Device, OutcomeKind,
    record::{self, Try},
    tables::{Frontier, FrontierEnd},
};
use statistics::number::rounded;

/// What tries on a device come to. Nothing is believed of their order.
pub(crate) fn frontier(sought: record::Frontier, device: Device) -> Frontier {
    let peak_bytes = |tried: &Try| tried.memory.as_ref()?.peak_bytes(device);
    let tries = &sought.tries;
    let fitting = tries.iter().filter(|it| it.outcome.is_measured());
    let largest = fitting.clone().max_by_key(|it| it.batch);
    let smallest = fitting.min_by_key(|it| it.batch);
    let fits = largest.map(|it| it.batch);
    let beyond = tries.iter().filter(|it| !it.outcome.is_measured());
    let beyond = beyond.filter(|it| fits.is_none_or(|fits| it.batch > fits));
    // Another reason than memory says more: the search ended there.
    let end = beyond.min_by_key(|it| (it.outcome.kind == OutcomeKind::OutOfMemory, it.batch));
    let sample_bytes = largest.zip(smallest).and_then(|(largest, smallest)| {
        let [more, less] = [largest, smallest].map(peak_bytes);
        let samples = largest.batch.checked_sub(smallest.batch)?;
        let bytes = more?.checked_sub(less?)?;
        (samples > 0).then(|| rounded(bytes as f64 / samples as f64))
    });
    Frontier {
        fits,
        peak_bytes: largest.and_then(peak_bytes),
        sample_bytes,
        end: end.map(|it| FrontierEnd {
            batch: it.batch,
            outcome: it.outcome.clone(),
        }),
        tries: sought.tries,
    }
}

#[cfg(test)]
mod tests {
    use schema::{Outcome, protocol::Memory};

    use super::*;

    fn tried(batch: u64, kind: OutcomeKind, peak_bytes: u64) -> Try {
        let memory = Memory {
            resident_bytes: 1,
            peak_resident_bytes: peak_bytes,
            device_bytes: None,
            peak_device_bytes: None,
            other_ranks: Vec::new(),
        };
        Try {
            batch,
            outcome: Outcome::new(kind, "why"),
            memory: (kind == OutcomeKind::Measured).then_some(memory),
        }
    }

    #[test]
    fn the_largest_that_fits_stands_beside_the_smallest_that_does_not() {
        use OutcomeKind::{Measured, OutOfMemory, TimedOut};

        let of = |tries: Vec<Try>| frontier(record::Frontier { tries }, Device::Cpu);
        let found = of(vec![
            tried(1, Measured, 1000),
            tried(2, Measured, 1100),
            tried(4, OutOfMemory, 0),
            tried(3, Measured, 1300),
        ]);
        assert_eq!((found.fits, found.peak_bytes), (Some(3), Some(1300)));
        assert_eq!(found.sample_bytes, Some(150.0));
        assert_eq!(found.end.map(|end| end.batch), Some(4));

        // What is told of the host is not the memory of a GPU.
        let mut on_gpu = tried(2, Measured, 1000);
        let tries = vec![tried(1, Measured, 900), on_gpu.clone()];
        let found = frontier(record::Frontier { tries }, Device::Cuda(0));
        assert_eq!((found.peak_bytes, found.sample_bytes), (None, None));
        if let Some(memory) = &mut on_gpu.memory {
            memory.peak_device_bytes = Some(77);
        }
        let tries = vec![on_gpu];
        let found = frontier(record::Frontier { tries }, Device::Cuda(0));
        assert_eq!(found.peak_bytes, Some(77));

        let ended = of(vec![
            tried(1, Measured, 1000),
            tried(8, OutOfMemory, 0),
            tried(4, TimedOut, 0),
        ]);
        let end = ended.end.map(|end| (end.batch, end.outcome.kind));
        assert_eq!(end, Some((4, TimedOut)));

        let nothing = of(vec![tried(1, OutOfMemory, 0)]);
        assert_eq!((nothing.fits, nothing.sample_bytes), (None, None));
        assert_eq!(of(Vec::new()).end, None);
    }
}
