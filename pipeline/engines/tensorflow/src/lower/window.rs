//! Padding of sliding windows: from four sides to TensorFlow's schemes.

/// How TensorFlow is told of padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    /// None.
    Valid,
    /// As TensorFlow itself chooses it, which happens to be what is wanted.
    Same,
    /// Top, left, bottom, right.
    Explicit([u64; 4]),
}

/// Windows that slide over two axes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    /// Size of the image: height, width.
    pub(super) sizes: [u64; 2],
    /// What a window spans.
    pub(super) spans: [u64; 2],
    /// Step.
    pub(super) strides: [u64; 2],
    /// Padding: top, left, bottom, right.
    pub(super) pads: [u64; 4],
    /// Number of windows.
    pub(super) counts: [u64; 2],
}

impl Windows {
    /// The padding in TensorFlow's terms. Behind the image it is just what the last window
    /// needs: less than asked for where windows leave a rest, more where a partial one counts.
    pub(super) fn padding(&self) -> Padding {
        let [height, width] = self.axes();
        if height.before == 0 && width.before == 0 && height.needs() == 0 && width.needs() == 0 {
            Padding::Valid
        } else if height.is_same() && width.is_same() {
            Padding::Same
        } else {
            self.explicit()
        }
    }

    /// The same with its four sides.
    pub(super) fn explicit(&self) -> Padding {
        let [height, width] = self.axes();
        Padding::Explicit([height.before, width.before, height.needs(), width.needs()])
    }

    /// For each window how many elements of the image it sees, row by row.
    pub(super) fn seen(&self) -> Vec<f64> {
        let [height, width] = self.axes().map(|axis| axis.seen());
        height
            .iter()
            .flat_map(|rows| width.iter().map(move |columns| rows * columns))
            .collect()
    }

    fn axes(&self) -> [Axis; 2] {
        let [top, left, _, _] = self.pads;
        let [height, width] = self.sizes;
        let [span_height, span_width] = self.spans;
        let [down, right] = self.strides;
        let [rows, columns] = self.counts;
        let axis = |size, span, stride, before, count| Axis {
            size,
            span,
            stride,
            before,
            count,
        };
        [
            axis(height, span_height, down, top, rows),
            axis(width, span_width, right, left, columns),
        ]
    }
}

/// Windows along one axis. All numbers fit: shape inference bounds them.
#[derive(Debug, Clone, Copy)]
struct Axis {
    size: u64,
    span: u64,
    stride: u64,
    before: u64,
    count: u64,
}

impl Axis {
    /// Where the last window ends, from the beginning of the padding.
    const fn end(&self) -> u64 {
        (self.count - 1) * self.stride + self.span
    }

    /// Padding behind, as much as the last window needs.
    const fn needs(&self) -> u64 {
        self.end().saturating_sub(self.size + self.before)
    }

    /// Whether TensorFlow's `SAME` is the same: `⌈size/stride⌉` windows, and half of what they
    /// need before the image, rounded down.
    const fn is_same(&self) -> bool {
        let total = self.end().saturating_sub(self.size);
        self.count == self.size.div_ceil(self.stride) && self.before == total / 2
    }

    fn seen(&self) -> Vec<f64> {
        (0..self.count)
            .map(|window| {
                let start = window * self.stride;
                let end = (start + self.span).min(self.before + self.size);
                end.saturating_sub(start.max(self.before)) as f64
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(size: u64, span: u64, stride: u64, [before, after]: [u64; 2], count: u64) -> Windows {
        Windows {
            sizes: [size; 2],
            spans: [span; 2],
            strides: [stride; 2],
            pads: [before, before, after, after],
            counts: [count; 2],
        }
    }

    #[test]
    fn padding_is_told_in_tensorflows_words_where_it_has_them() {
        assert_eq!(square(8, 3, 1, [1, 1], 8).padding(), Padding::Same);
        assert_eq!(square(8, 1, 2, [0, 0], 4).padding(), Padding::Valid);
        // A rest that no window reaches.
        assert_eq!(square(8, 3, 2, [0, 0], 3).padding(), Padding::Valid);
        // TensorFlow would pad [0, 1] where PyTorch pads [1, 1] and leaves a rest.
        let explicit = Padding::Explicit([1, 1, 0, 0]);
        assert_eq!(square(8, 3, 2, [1, 1], 4).padding(), explicit);
        assert_eq!(square(7, 3, 2, [1, 1], 4).padding(), Padding::Same);
        // A last partial window, which TensorFlow would centre.
        assert_eq!(square(6, 3, 4, [0, 0], 2).padding(), Padding::Same);
        let partial = Padding::Explicit([0, 0, 2, 2]);
        assert_eq!(square(5, 4, 3, [0, 0], 2).padding(), partial);
    }

    #[test]
    fn windows_at_the_border_see_less() {
        let windows = square(4, 3, 2, [1, 1], 2);
        assert_eq!(windows.seen(), [4.0, 6.0, 6.0, 9.0]);
    }
}
