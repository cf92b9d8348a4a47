//! How a tensor lies in memory: TensorFlow's order of the axes against the graph's.

use schema::Outcome;

use crate::failure::too_large;

/// An order of the axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The graph's own.
    Plain,
    /// `[batch, …, channels]` for `[batch, channels, …]`; of three axes or more.
    ChannelsLast,
    /// `[height, width, in, out]` for a convolution's `[out, in, height, width]`.
    Filter,
    /// `[height, width, in, multiplier]` for a convolution's `[in · multiplier, 1, height,
    /// width]`, each input channel by itself; the number is that of input channels.
    Depthwise(u64),
    /// `[in, out]` for a matrix `[out, in]`.
    Transposed,
}

impl Order {
    /// For each axis in memory the graph's axis, for a value of `rank` axes.
    pub(crate) fn axes(self, rank: usize) -> Vec<usize> {
        match self {
            Self::ChannelsLast if rank >= 3 => (0..1).chain(2..rank).chain(1..2).collect(),
            Self::Filter if rank == 4 => vec![2, 3, 1, 0],
            // The last two axes are then split anew, which moves nothing.
            Self::Depthwise(_) if rank == 4 => vec![2, 3, 0, 1],
            Self::Transposed if rank == 2 => vec![1, 0],
            _ => (0..rank).collect(),
        }
    }
}

/// A shape and its order in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    /// The graph's shape.
    pub(crate) shape: Vec<u64>,
    /// Order of the axes.
    pub(crate) order: Order,
}

impl Form {
    /// A shape in an order.
    pub(crate) fn new(shape: &[u64], order: Order) -> Self {
        Self {
            shape: shape.to_vec(),
            order,
        }
    }

    /// The shape in memory, as TensorFlow sees it.
    pub(crate) fn dims(&self) -> Vec<u64> {
        let moved = pick(&self.shape, &self.order.axes(self.shape.len()));
        match (self.order, &moved[..]) {
            (Order::Depthwise(channels), &[height, width, out, _]) if channels > 0 => {
                vec![height, width, channels, out / channels]
            }
            _ => moved,
        }
    }

    /// Numbers in the graph's order, brought into the order in memory.
    pub(crate) fn laid_out<T: Copy>(&self, name: &str, values: Vec<T>) -> Result<Vec<T>, Outcome> {
        let axes = self.order.axes(self.shape.len());
        if axes.is_sorted() {
            return Ok(values);
        }
        let sizes = sizes(&self.shape).ok_or_else(|| too_large(name, &self.shape))?;
        Ok(permuted(&values, &sizes, &axes))
    }

    /// Numbers in the order in memory, brought into the graph's.
    pub(crate) fn restored<T: Copy>(&self, name: &str, values: Vec<T>) -> Result<Vec<T>, Outcome> {
        let axes = self.order.axes(self.shape.len());
        if axes.is_sorted() {
            return Ok(values);
        }
        let sizes = sizes(&self.shape).ok_or_else(|| too_large(name, &self.shape))?;
        Ok(permuted(&values, &pick(&sizes, &axes), &inverse(&axes)))
    }
}

fn sizes(shape: &[u64]) -> Option<Vec<usize>> {
    shape
        .iter()
        .map(|&size| usize::try_from(size).ok())
        .collect()
}

/// The elements of `values` at `indices`.
pub(crate) fn pick<T: Copy>(values: &[T], indices: &[usize]) -> Vec<T> {
    let at = |&index: &usize| values.get(index).copied();
    indices.iter().filter_map(at).collect()
}

/// The order that undoes `axes`.
pub(crate) fn inverse(axes: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&axis| axes.get(axis));
    order
}

/// An array of shape `sizes` with its axes in another order: axis `i` of the result is axis
/// `axes[i]` of `values`.
fn permuted<T: Copy>(values: &[T], sizes: &[usize], axes: &[usize]) -> Vec<T> {
    let mut stride = values.len();
    let strides: Vec<usize> = sizes
        .iter()
        .map(|&size| {
            stride = stride.checked_div(size).unwrap_or(0);
            stride
        })
        .collect();
    let mut counters: Vec<Counter> = pick(sizes, axes)
        .into_iter()
        .zip(pick(&strides, axes))
        .map(|(size, stride)| Counter {
            count: 0,
            size,
            stride,
        })
        .collect();
    let mut place = 0;
    let mut result = Vec::with_capacity(values.len());
    while result.len() < values.len() {
        let Some(&value) = values.get(place) else {
            break;
        };
        result.push(value);
        for counter in counters.iter_mut().rev() {
            counter.count += 1;
            place += counter.stride;
            if counter.count < counter.size {
                break;
            }
            counter.count = 0;
            place -= counter.stride * counter.size;
        }
    }
    result
}

/// Where a walk is along one axis.
struct Counter {
    count: usize,
    size: usize,
    /// Elements from one place of the axis to the next.
    stride: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_go_last_and_come_back() {
        let form = Form::new(&[2, 3, 1, 2], Order::ChannelsLast);
        assert_eq!(form.dims(), [2, 1, 2, 3]);
        let values: Vec<i32> = (0..12).collect();
        let memory = form.laid_out("x", values.clone()).unwrap();
        assert_eq!(memory, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
        assert_eq!(form.restored("x", memory).unwrap(), values);
    }

    #[test]
    fn filters_lie_as_tensorflow_wants_them() {
        let form = Form::new(&[4, 3, 1, 2], Order::Filter);
        assert_eq!(form.dims(), [1, 2, 3, 4]);
        let memory = form.laid_out("w", (0..24).collect::<Vec<_>>()).unwrap();
        // Element [height 0, width 1, in 2, out 3] is [out 3, in 2, height 0, width 1].
        assert_eq!(memory[12 + 2 * 4 + 3], 3 * 6 + 2 * 2 + 1);
        assert_eq!(
            form.restored("w", memory).unwrap(),
            (0..24).collect::<Vec<_>>()
        );
    }

    #[test]
    fn depthwise_filters_are_split_by_input_channel() {
        let form = Form::new(&[6, 1, 2, 1], Order::Depthwise(3));
        assert_eq!(form.dims(), [2, 1, 3, 2]);
        let memory = form.laid_out("w", (0..12).collect::<Vec<_>>()).unwrap();
        // Element [height 1, width 0, in 2, multiple 1] is [out 2·2 + 1, 0, height 1, width 0].
        assert_eq!(memory[6 + 2 * 2 + 1], 5 * 2 + 1);
        assert_eq!(
            form.restored("w", memory).unwrap(),
            (0..12).collect::<Vec<_>>()
        );
    }

    #[test]
    fn an_inverse_undoes_an_order() {
        assert_eq!(inverse(&[2, 3, 1, 0]), [3, 2, 0, 1]);
        assert_eq!(inverse(&[0, 2, 3, 1]), [0, 3, 1, 2]);
        assert_eq!(pick(&[7, 8], &[1, 0]), [8, 7]);
    }
}
