//! Whether a fill makes numbers that its tensor can hold and its reader can use.

use schema::graph::{ElementType, Fill};

/// Longest row of [`Fill::Sinusoids`]: beyond any network's, and exact in binary64.
const LONGEST_ROW: u64 = 1 << 20;

/// Whether the fill suits the element type.
pub(super) fn check(element: ElementType, fill: &Fill) -> Result<(), String> {
    match (element, *fill) {
        (ElementType::Float, Fill::Uniform { low, high }) => {
            if low.is_finite() && high.is_finite() && (high - low).is_finite() && low <= high {
                Ok(())
            } else {
                Err(format!("uniform from {low} to {high} is no range"))
            }
        }
        (ElementType::Float, Fill::Constant { value }) if !value.is_finite() => {
            Err(format!("the constant {value} is not finite"))
        }
        (ElementType::Float, Fill::Sinusoids { width }) => {
            if (2..=LONGEST_ROW).contains(&width) && width.is_multiple_of(2) {
                Ok(())
            } else {
                Err(format!(
                    "sinusoids of width {width}: give an even number from 2 to {LONGEST_ROW}"
                ))
            }
        }
        (ElementType::Int64, Fill::Constant { value }) if value.fract() != 0.0 => {
            Err(format!("the constant {value} is not an integer"))
        }
        (ElementType::Int64, Fill::Integers { bound }) if bound == 0 || bound > 1 << 62 => {
            Err(format!("integers below {bound} are not possible"))
        }
        (wanted, Fill::Stored { element, .. }) if wanted == element => Ok(()),
        (_, Fill::Constant { .. })
        | (ElementType::Int64, Fill::Integers { .. } | Fill::Positions) => Ok(()),
        (ElementType::Float, _) => Err("floats cannot be filled with integers".to_owned()),
        (ElementType::Int64, _) => Err("integers cannot be filled with floats".to_owned()),
    }
}

/// Whether all numbers of an integer tensor are in `0..bound`.
pub(super) fn check_below(fill: &Fill, shape: &[u64], bound: u64) -> Result<(), String> {
    let largest = match *fill {
        Fill::Integers { bound } => bound.saturating_sub(1),
        Fill::Positions => shape.last().copied().unwrap_or(1).saturating_sub(1),
        Fill::Constant { value } if value >= 0.0 => value as u64,
        Fill::Constant { .. }
        | Fill::Uniform { .. }
        | Fill::Sinusoids { .. }
        | Fill::Stored { .. } => {
            return Err(format!(
                "must be integers from 0 to {}",
                bound.saturating_sub(1)
            ));
        }
    };
    if largest < bound {
        Ok(())
    } else {
        Err(format!(
            "reach {largest}, and only 0 to {} exist",
            bound.saturating_sub(1)
        ))
    }
}
