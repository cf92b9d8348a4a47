//! Who keeps the memory that a step gives back: a factor that the loop of workers carries out itself.

use nix::libc;
use schema::{Cell, Outcome};

use crate::failure::unsupported;

/// The factor.
pub const ALLOCATOR: &str = "allocator";

/// Who keeps the memory on the host that a step gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// The engine itself.
    Arena,
    /// The C library, which gives large blocks back to the kernel: each step that takes them anew
    /// pays for their pages again.
    System,
    /// The C library, which is told to give nothing back.
    Keep,
}

impl Allocator {
    /// That of a cell whose engine has no arena of its own on a CPU.
    ///
    /// # Errors
    /// As [`Allocator::of`].
    pub fn without_arena(cell: &Cell) -> Result<Self, Outcome> {
        Self::of(cell, Self::System, &[Self::Keep])
    }

    /// The manifest's word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Arena => "arena",
            Self::System => "system",
            Self::Keep => "keep",
        }
    }

    /// That of a cell: `usual` where it says nothing, or one of the `others`.
    ///
    /// # Errors
    /// `unsupported`: it is none of them, or the cell's memory is a device's.
    pub fn of(cell: &Cell, usual: Self, others: &[Self]) -> Result<Self, Outcome> {
        let Some(asked) = cell.factors.get(ALLOCATOR) else {
            return Ok(usual);
        };
        if !cell.device.is_cpu() {
            return Err(unsupported(format!(
                "`{ALLOCATOR}` is about the host's memory; the device is {}",
                cell.device
            )));
        }
        let known = || [usual].into_iter().chain(others.iter().copied());
        known().find(|known| known.word() == asked).ok_or_else(|| {
            let words: Vec<&str> = known().map(Self::word).collect();
            unsupported(format!(
                "{ALLOCATOR} is `{asked}`; known: `{}`",
                words.join("`, `")
            ))
        })
    }
}

/// Tells the C library what the cell asks of it, before an engine takes any memory. A value that
/// nobody knows is the engine's to refuse.
pub(crate) fn carry_out(cell: &Cell) -> Result<(), Outcome> {
    let asked = cell.factors.get(ALLOCATOR).map(String::as_str);
    if asked == Some(Allocator::Keep.word()) {
        return keep_all();
    }
    Ok(())
}

/// Has the C library serve large blocks from its heap, and never shrink that (mallopt(3)). It is so of
/// the main thread, which is the one that steps: the heaps of others hold blocks of up to 64 MiB, and
/// are given back when nothing is in them.
fn keep_all() -> Result<(), Outcome> {
    for (name, parameter, value) in [
        ("M_MMAP_MAX", libc::M_MMAP_MAX, 0),
        ("M_TRIM_THRESHOLD", libc::M_TRIM_THRESHOLD, -1),
    ] {
        #[expect(unsafe_code, reason = "a function without a safe wrapper")]
        // SAFETY: the function takes two numbers, and may be called at any time.
        let is_taken = unsafe { libc::mallopt(parameter, value) } == 1;
        if !is_taken {
            return Err(unsupported(format!(
                "the C library does not let {name} be set to {value}, which `{ALLOCATOR}: {}` needs",
                Allocator::Keep.word()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use schema::Device;

    use super::*;

    fn cell(asked: Option<&str>) -> Cell {
        let graph = models::sample::perceptron(1).unwrap();
        let asked = asked.map(|value| (ALLOCATOR.to_owned(), value.to_owned()));
        Cell {
            factors: asked.into_iter().collect(),
            ..Cell::plain(&graph, "pytorch/eager".parse().unwrap())
        }
    }

    #[test]
    fn a_value_is_one_of_the_engine_s() {
        let others = [Allocator::System, Allocator::Keep];
        let with_arena = |asked| Allocator::of(&cell(asked), Allocator::Arena, &others);
        assert_eq!(with_arena(None), Ok(Allocator::Arena));
        assert_eq!(with_arena(Some("system")), Ok(Allocator::System));
        let without = |asked| Allocator::without_arena(&cell(asked));
        assert_eq!(without(None), Ok(Allocator::System));
        assert_eq!(without(Some("keep")), Ok(Allocator::Keep));
        let reason = |cell: &Cell| Allocator::without_arena(cell).unwrap_err().reason;
        assert_eq!(
            reason(&cell(Some("arena"))),
            "allocator is `arena`; known: `system`, `keep`"
        );
        let on_a_device = Cell {
            device: Device::Cuda(0),
            ..cell(Some("keep"))
        };
        assert!(reason(&on_a_device).contains("the device is cuda:0"));
    }
}
