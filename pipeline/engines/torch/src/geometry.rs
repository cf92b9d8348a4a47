//! Padding and windows: from ONNX's four-sided form to PyTorch's.

/// ONNX's padding (top, left, bottom, right) in PyTorch's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Padding {
    /// What the operator itself takes: height, width; the same on both sides.
    pub(crate) symmetric: [i64; 2],
    /// A border to lay around first, where the sides differ: left, right, top, bottom.
    pub(crate) border: Option<[i64; 4]>,
}

impl Padding {
    /// Of an operator that takes any symmetric padding.
    pub(crate) fn new([top, left, bottom, right]: [i64; 4]) -> Self {
        if top == bottom && left == right {
            Self {
                symmetric: [top, left],
                border: None,
            }
        } else {
            Self {
                symmetric: [0, 0],
                border: Some([left, right, top, bottom]),
            }
        }
    }

    /// Of a pooling operator, which takes at most half of its window.
    pub(crate) fn of_window(pads: [i64; 4], [height, width]: [i64; 2]) -> Self {
        let padding = Self::new(pads);
        let [vertical, horizontal] = padding.symmetric;
        if vertical <= height / 2 && horizontal <= width / 2 {
            return padding;
        }
        let [top, left, bottom, right] = pads;
        Self {
            symmetric: [0, 0],
            border: Some([left, right, top, bottom]),
        }
    }
}

/// The size that PyTorch's pooling makes along one axis, as `pooling_output_shape` in
/// `aten/src/ATen/native/Pool.h`: with `ceil`, a last window that would start in the padding
/// behind the input is left out. `None` where it would refuse.
pub(crate) fn pooled_size(
    input: i64,
    window: i64,
    stride: i64,
    pad: i64,
    ceil: bool,
) -> Option<i64> {
    let span = pad
        .checked_mul(2)?
        .checked_add(input)?
        .checked_sub(window)?;
    if stride < 1 || span < 0 {
        return None;
    }
    let up = if ceil { stride.checked_sub(1)? } else { 0 };
    let size = span.checked_add(up)?.checked_div(stride)?.checked_add(1)?;
    let last_start = size.checked_sub(1)?.checked_mul(stride)?;
    let end = input.checked_add(pad)?;
    Some(if ceil && last_start >= end {
        size.checked_sub(1)?
    } else {
        size
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sides_stay_with_the_operator() {
        assert_eq!(
            Padding::new([1, 2, 1, 2]),
            Padding {
                symmetric: [1, 2],
                border: None
            }
        );
        assert_eq!(
            Padding::new([0, 1, 2, 3]),
            Padding {
                symmetric: [0, 0],
                border: Some([1, 3, 0, 2])
            }
        );
    }

    #[test]
    fn a_pool_takes_at_most_half_a_window() {
        assert_eq!(Padding::of_window([1; 4], [3, 3]).border, None);
        assert_eq!(Padding::of_window([1; 4], [1, 3]).border, Some([1; 4]));
    }

    #[test]
    fn pooled_sizes_are_pytorchs() {
        // max_pool2d(112, 3, 2, 1) of ResNet.
        assert_eq!(pooled_size(112, 3, 2, 1, false), Some(56));
        // torch.nn.functional.max_pool1d(torch.zeros(1, 1, 4), 1, 3, 0, ceil_mode=…).
        assert_eq!(pooled_size(4, 1, 3, 0, false), Some(2));
        assert_eq!(pooled_size(3, 1, 3, 0, true), Some(1));
        assert_eq!(pooled_size(5, 2, 2, 0, true), Some(3));
        assert_eq!(pooled_size(2, 3, 1, 0, false), None);
        assert_eq!(pooled_size(i64::MAX, 3, 1, i64::MAX, true), None);
    }
}
