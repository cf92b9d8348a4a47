//! The arithmetic of sliding windows.

/// Largest kernel, step, spacing or padding: engines hold them in signed 32 bits.
const LARGEST: u64 = i32::MAX as u64;

const TOO_LARGE: &str = "its window is too large";

/// A window over one axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) kernel: u64,
    pub(super) stride: u64,
    pub(super) dilation: u64,
    pub(super) pad_begin: u64,
    pub(super) pad_end: u64,
}

impl Window {
    /// How many elements the window reaches over.
    fn span(&self) -> Result<u64, String> {
        if self.kernel == 0 || self.stride == 0 || self.dilation == 0 {
            return Err("kernel, strides and dilations must be at least 1".to_owned());
        }
        let numbers = [
            self.kernel,
            self.stride,
            self.dilation,
            self.pad_begin,
            self.pad_end,
        ];
        if numbers.iter().any(|&number| number > LARGEST) {
            return Err(
                "a number of its window is above 2^31 − 1, which no engine takes".to_owned(),
            );
        }
        let reach = (self.kernel - 1).checked_mul(self.dilation);
        let span = reach.and_then(|reach| reach.checked_add(1));
        Ok(span.ok_or(TOO_LARGE)?)
    }

    /// Size of the axis over which the window has `count` positions, and `more` elements; the
    /// padding is no part of it. The formula is that of ONNX's ConvTranspose.
    fn spread(&self, count: u64, more: u64) -> Result<u64, String> {
        let span = self.span()?;
        if more >= self.stride {
            return Err(format!(
                "{more} elements more at the end are a step of {} or longer",
                self.stride
            ));
        }
        let starts = count
            .checked_sub(1)
            .and_then(|last| last.checked_mul(self.stride));
        let padded = starts
            .and_then(|start| start.checked_add(span)?.checked_add(more))
            .ok_or(TOO_LARGE)?;
        // Neither is above 2^31.
        let pads = self.pad_begin + self.pad_end;
        match padded.checked_sub(pads) {
            Some(size) if size > 0 => Ok(size),
            _ => Err(format!(
                "nothing is left of {padded} elements when {pads} are cut off"
            )),
        }
    }

    /// Number of positions of the window over an axis of `size`.
    ///
    /// The formula is that of ONNX's Conv and MaxPool; with `ceil`, a last partial window counts
    /// where it starts inside the axis or the padding before it, as in PyTorch's pooling and in
    /// ONNX from opset 22 on.
    pub(super) fn positions(&self, size: u64, ceil: bool) -> Result<u64, String> {
        let span = self.span()?;
        let padded = size
            .checked_add(self.pad_begin)
            .and_then(|sum| sum.checked_add(self.pad_end))
            .ok_or(TOO_LARGE)?;
        let room = padded.checked_sub(span).ok_or_else(|| {
            format!("a window of {span} does not fit an axis of {size} padded to {padded}")
        })?;
        let full = room / self.stride + 1;
        let starts_inside = full
            .checked_mul(self.stride)
            .is_some_and(|start| start < size.saturating_add(self.pad_begin));
        Ok(if ceil && room % self.stride != 0 && starts_inside {
            full + 1
        } else {
            full
        })
    }
}

/// Sizes of both axes after sliding a window over them.
pub(super) fn slide(
    sizes: [u64; 2],
    kernel: [u64; 2],
    strides: [u64; 2],
    dilations: [u64; 2],
    pads: [u64; 4],
    ceil: bool,
) -> Result<[u64; 2], String> {
    let [height, width] = sizes;
    let [rows, columns] = windows(kernel, strides, dilations, pads);
    Ok([
        rows.positions(height, ceil)?,
        columns.positions(width, ceil)?,
    ])
}

/// Sizes of both axes over which a window slides to `counts` positions, and `more` at the end.
pub(super) fn spread(
    counts: [u64; 2],
    kernel: [u64; 2],
    strides: [u64; 2],
    dilations: [u64; 2],
    pads: [u64; 4],
    more: [u64; 2],
) -> Result<[u64; 2], String> {
    let [rows, columns] = windows(kernel, strides, dilations, pads);
    Ok([
        rows.spread(counts[0], more[0])?,
        columns.spread(counts[1], more[1])?,
    ])
}

/// Windows over height and width.
const fn windows(
    kernel: [u64; 2],
    strides: [u64; 2],
    dilations: [u64; 2],
    [top, left, bottom, right]: [u64; 4],
) -> [Window; 2] {
    [
        Window {
            kernel: kernel[0],
            stride: strides[0],
            dilation: dilations[0],
            pad_begin: top,
            pad_end: bottom,
        },
        Window {
            kernel: kernel[1],
            stride: strides[1],
            dilation: dilations[1],
            pad_begin: left,
            pad_end: right,
        },
    ]
}

/// Pooling must not see windows of padding alone.
pub(super) fn check_pool_pads(kernel: [u64; 2], pads: [u64; 4]) -> Result<(), String> {
    let [top, left, bottom, right] = pads;
    if top.max(bottom) < kernel[0] && left.max(right) < kernel[1] {
        Ok(())
    } else {
        Err(format!(
            "padding {pads:?} must be smaller than the kernel {kernel:?}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kernel: u64, stride: u64, pad: u64) -> Window {
        Window {
            kernel,
            stride,
            dilation: 1,
            pad_begin: pad,
            pad_end: pad,
        }
    }

    #[test]
    fn positions_follow_the_formula() {
        assert_eq!(window(7, 2, 3).positions(224, false), Ok(112));
        assert_eq!(window(3, 2, 1).positions(112, false), Ok(56));
        assert_eq!(window(2, 2, 0).positions(7, false), Ok(3));
        assert_eq!(window(2, 2, 0).positions(7, true), Ok(4));
        // The fourth window would start in the padding after the axis: PyTorch drops it.
        assert_eq!(window(2, 3, 1).positions(8, true), Ok(3));
    }

    #[test]
    fn what_a_window_slides_over_is_found_again() {
        // ConvTranspose2d(…, 4, stride=2, padding=1), and (…, 3, stride=2, padding=1, output_padding=1).
        assert_eq!(window(4, 2, 1).spread(7, 0), Ok(14));
        assert_eq!(window(3, 2, 1).spread(7, 1), Ok(14));
        for (kernel, stride, pad) in [(2, 2, 0), (3, 1, 1), (4, 3, 1)] {
            for more in 0..stride {
                let window = window(kernel, stride, pad);
                let size = window.spread(5, more).unwrap();
                assert_eq!(window.positions(size, false), Ok(5), "{window:?} {more}");
            }
        }
        assert!(window(3, 2, 1).spread(7, 2).is_err());
        assert!(window(1, 1, 1).spread(2, 0).is_err());
        assert!(window(3, LARGEST, 0).spread(u64::MAX, 0).is_err());
    }

    #[test]
    fn hostile_windows_are_refused() {
        assert!(window(0, 1, 0).positions(4, false).is_err());
        assert!(window(1, 0, 0).positions(4, false).is_err());
        assert!(window(5, 1, 0).positions(4, false).is_err());
        assert!(window(u64::MAX, 1, 0).positions(4, false).is_err());
        assert!(window(1, 1, u64::MAX).positions(4, false).is_err());
        let wide = Window {
            dilation: u64::MAX,
            ..window(u64::MAX, 1, 0)
        };
        assert!(wide.positions(4, false).is_err());
        assert!(window(1, u64::MAX, 0).positions(4, false).is_err());
        assert_eq!(window(1, LARGEST, 0).positions(4, true), Ok(1));
    }
}
