//! Convolutions and pooling.

use schema::graph::Op;

use super::{
    attributes::Attributes,
    import::{Here, Import, Value, Work},
};

/// A convolution over two axes, or over one, which becomes the second of two.
pub(super) fn conv(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let [Some(x), Some(weight), bias @ ..] = inputs else {
        return Err("reads fewer than two values".to_owned());
    };
    let (size, taps) = (import.shape_of(x)?, import.shape_of(weight)?);
    check_kernel(here.attributes, &taps)?;
    let group = u64::try_from(here.attributes.int("group", 1)).map_err(|_| "has no groups")?;
    let bias = bias.first().cloned().flatten();
    match (size.as_slice(), taps.as_slice()) {
        (&[_, _, height, width], &[_, _, rows, columns]) => {
            let window = Window::of(here.attributes, [height, width], [rows, columns])?;
            let op = window.conv(group);
            import.op(here, op, &[Some(x.clone()), Some(weight.clone()), bias])
        }
        (&[batch, channels, length], &[out, part, width]) => {
            let window = Window::line(here.attributes, length, width)?;
            let x = image(
                import,
                here,
                x,
                vec![batch, channels, 1, length],
                "as_image",
            )?;
            let taps = vec![out, part, 1, width];
            let weight = image(import, here, weight, taps, "weight_as_image")?;
            let work = Work::Op(window.conv(group));
            let made = import.between(here, "image", work, &[Some(x), Some(weight), bias])?;
            line(import, here, made)
        }
        _ => Err(format!(
            "slides {taps:?} over {size:?}: one or two axes are read"
        )),
    }
}

/// That the window a convolution names, if it does, is its weight's.
fn check_kernel(attributes: Attributes<'_>, taps: &[u64]) -> Result<(), String> {
    let named = attributes.ints("kernel_shape");
    let own = taps.get(2..).unwrap_or_default();
    let is_own = |named: &[i64]| {
        let named = named.iter().map(|&size| u64::try_from(size).ok());
        named.eq(own.iter().copied().map(Some))
    };
    match named {
        Some(named) if !is_own(named) => Err(format!(
            "names a window of {named:?} (`kernel_shape`), and its weight has {own:?}"
        )),
        _ => Ok(()),
    }
}

/// A transposed convolution over two axes, or over one, which becomes the second of two.
pub(super) fn conv_transpose(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let [Some(x), Some(weight), bias @ ..] = inputs else {
        return Err("reads fewer than two values".to_owned());
    };
    let attributes = here.attributes;
    if attributes.has("output_shape") {
        return Err("names the shape that it makes, and not its padding".to_owned());
    }
    if !matches!(
        attributes.text("auto_pad", "NOTSET"),
        "NOTSET" | "" | "VALID"
    ) {
        return Err("finds its padding by the shape that it makes".to_owned());
    }
    let (size, taps) = (import.shape_of(x)?, import.shape_of(weight)?);
    check_kernel(attributes, &taps)?;
    let group = u64::try_from(attributes.int("group", 1)).map_err(|_| "has no groups")?;
    let bias = bias.first().cloned().flatten();
    match (size.as_slice(), taps.as_slice()) {
        (&[_, _, height, width], &[_, _, rows, columns]) => {
            let window = Window::of(attributes, [height, width], [rows, columns])?;
            let (window, rest) = window.even();
            let more = attributes.list("output_padding", 0, 0)?;
            let op = window.conv_transpose(more, group);
            let operands = [Some(x.clone()), Some(weight.clone()), bias];
            if rest == [0; 4] {
                return import.op(here, op, &operands);
            }
            let made = import.between(here, "image", Work::Op(op), &operands)?;
            let made = without(import, here, made, rest)?;
            import.give(here, 0, made)
        }
        (&[batch, channels, length], &[input, part, width]) => {
            let (window, rest) = Window::line(attributes, length, width)?.even();
            let [more] = attributes.list("output_padding", 0, 0)?;
            let x = image(
                import,
                here,
                x,
                vec![batch, channels, 1, length],
                "as_image",
            )?;
            let taps = vec![input, part, 1, width];
            let weight = image(import, here, weight, taps, "weight_as_image")?;
            let work = Work::Op(window.conv_transpose([0, more], group));
            let made = import.between(here, "image", work, &[Some(x), Some(weight), bias])?;
            let made = without(import, here, made, rest)?;
            line(import, here, made)
        }
        _ => Err(format!(
            "spreads {taps:?} over {size:?}: one or two axes are read"
        )),
    }
}

/// An image without so many rows above and columns at the left, rows below and columns at the right.
fn without(
    import: &mut Import<'_>,
    here: Here<'_>,
    mut image: Value,
    [top, left, bottom, right]: [u64; 4],
) -> Result<Value, String> {
    for (axis, front, back) in [(2, top, bottom), (3, left, right)] {
        if (front, back) == (0, 0) {
            continue;
        }
        let size = import.shape_of(&image)?.get(axis).copied().unwrap_or(0);
        let end = size.checked_sub(back).filter(|&end| end > front);
        let op = Op::Slice {
            axis: axis as u64,
            start: front,
            end: end.ok_or("takes all of it away")?,
        };
        image = import.between(here, "part", Work::Op(op), &[Some(image)])?;
    }
    Ok(image)
}

/// A value of one axis behind the channels as one of two, fixed numbers as they are.
fn image(
    import: &mut Import<'_>,
    here: Here<'_>,
    value: &Value,
    shape: Vec<u64>,
    part: &str,
) -> Result<Value, String> {
    match value {
        Value::Known(constant) => Ok(Value::Known(constant.with_shape(shape))),
        Value::Made(_) => {
            let work = Work::Op(Op::Reshape { shape });
            import.between(here, part, work, &[Some(value.clone())])
        }
    }
}

/// The node's output: an image of one row, as a line.
fn line(import: &mut Import<'_>, here: Here<'_>, made: Value) -> Result<(), String> {
    let shape = match import.shape_of(&made)?.as_slice() {
        &[batch, out, _, length] => vec![batch, out, length],
        other => return Err(format!("makes {other:?}")),
    };
    import.op(here, Op::Reshape { shape }, &[Some(made)])
}

/// The largest or the mean of a window over two axes, or over one, which becomes the second of two.
pub(super) fn pool(import: &mut Import<'_>, here: Here<'_>, x: &Value) -> Result<(), String> {
    let attributes = here.attributes;
    let shape = import.shape_of(x)?;
    if !attributes.has("kernel_shape") {
        return Err("has no `kernel_shape`".to_owned());
    }
    match *shape.as_slice() {
        [_, _, height, width] => {
            let kernel = attributes.list("kernel_shape", 1, 1)?;
            let window = Window::of(attributes, [height, width], kernel)?;
            let op = pooling(here, window, [height, width], import.file.opset)?;
            import.op(here, op, &[Some(x.clone())])
        }
        [batch, channels, length] => {
            let [kernel] = attributes.list("kernel_shape", 1, 1)?;
            let window = Window::line(attributes, length, kernel)?;
            let op = pooling(here, window, [1, length], import.file.opset)?;
            let x = image(
                import,
                here,
                x,
                vec![batch, channels, 1, length],
                "as_image",
            )?;
            let made = import.between(here, "image", Work::Op(op), &[Some(x)])?;
            line(import, here, made)
        }
        _ => Err(format!(
            "pools {shape:?}: one or two axes behind the channels are read"
        )),
    }
}

/// The first opset whose last window begins within what is pooled or the padding before it, as
/// PyTorch's does.
const WHOLE_WINDOWS: i64 = 22;

/// The operator of a node that pools `height` by `width`.
fn pooling(
    here: Here<'_>,
    window: Window,
    [height, width]: [u64; 2],
    opset: i64,
) -> Result<Op, String> {
    let attributes = here.attributes;
    if window.dilations != [1, 1] {
        return Err("spreads its window".to_owned());
    }
    let ceil_mode = attributes.int("ceil_mode", 0) != 0;
    let Window {
        kernel,
        strides,
        pads,
        ..
    } = window;
    Ok(if here.node.op_type == "MaxPool" {
        let begins_behind = |size: u64, begin: u64, end: u64, kernel: u64, stride: u64| {
            let padded = size.saturating_add(begin).saturating_add(end);
            let steps = padded.saturating_sub(kernel).div_ceil(stride.max(1));
            steps.saturating_mul(stride) >= size.saturating_add(begin)
        };
        let [top, left, bottom, right] = pads;
        let rows = begins_behind(height, top, bottom, kernel[0], strides[0]);
        let columns = begins_behind(width, left, right, kernel[1], strides[1]);
        if ceil_mode && opset < WHOLE_WINDOWS && (rows || columns) {
            return Err(format!(
                "has a last window that begins behind what is pooled, which opset {opset} counts \
                 (`ceil_mode`)"
            ));
        }
        Op::MaxPool {
            kernel,
            strides,
            pads,
            ceil_mode,
        }
    } else {
        let [top, left, bottom, right] = pads;
        let whole = |size: u64, begin: u64, end: u64, kernel: u64, stride: u64| {
            let padded = size.saturating_add(begin).saturating_add(end);
            padded.saturating_sub(kernel).is_multiple_of(stride.max(1))
        };
        let rows = whole(height, top, bottom, kernel[0], strides[0]);
        let columns = whole(width, left, right, kernel[1], strides[1]);
        if ceil_mode && !(rows && columns) {
            return Err("counts a last partial window (`ceil_mode`)".to_owned());
        }
        let count_include_pad = attributes.int("count_include_pad", 0) != 0;
        if [top, left] != [bottom, right] && !count_include_pad {
            return Err("pads unevenly, and does not count what it pads".to_owned());
        }
        // PyTorch refuses it.
        let is_half = |pad: u64, kernel: u64| pad <= kernel / 2;
        if !(count_include_pad || is_half(top, kernel[0]) && is_half(left, kernel[1])) {
            return Err(
                "pads by more than half of its window, and does not count what it pads".to_owned(),
            );
        }
        Op::AveragePool {
            kernel,
            strides,
            pads,
            count_include_pad,
        }
    })
}

/// A window over height and width.
struct Window {
    kernel: [u64; 2],
    strides: [u64; 2],
    pads: [u64; 4],
    dilations: [u64; 2],
}

impl Window {
    fn of(attributes: Attributes<'_>, size: [u64; 2], kernel: [u64; 2]) -> Result<Self, String> {
        let strides = attributes.list("strides", 1, 1)?;
        let dilations = attributes.list("dilations", 1, 1)?;
        let window = Self {
            kernel,
            strides,
            pads: attributes.list("pads", 0, 0)?,
            dilations,
        };
        window.padded(attributes, size)
    }

    /// Over one axis, as the second of two.
    fn line(attributes: Attributes<'_>, length: u64, width: u64) -> Result<Self, String> {
        let [stride] = attributes.list("strides", 1, 1)?;
        let [dilation] = attributes.list("dilations", 1, 1)?;
        let [begin, end] = attributes.list("pads", 0, 0)?;
        let window = Self {
            kernel: [1, width],
            strides: [1, stride],
            pads: [0, begin, 0, end],
            dilations: [1, dilation],
        };
        window.padded(attributes, [1, length])
    }

    /// With the padding that `auto_pad` asks for.
    fn padded(self, attributes: Attributes<'_>, size: [u64; 2]) -> Result<Self, String> {
        let upper = match attributes.text("auto_pad", "NOTSET") {
            "NOTSET" | "" => return Ok(self),
            "VALID" => {
                return Ok(Self {
                    pads: [0; 4],
                    ..self
                });
            }
            "SAME_UPPER" => true,
            "SAME_LOWER" => false,
            other => return Err(format!("pads by the rule `{other}`")),
        };
        let [vertical, horizontal] = [0, 1].map(|at: usize| {
            let pick = |list: [u64; 2]| if at == 0 { list[0] } else { list[1] };
            let (size, stride) = (pick(size), pick(self.strides).max(1));
            let reach = pick(self.kernel)
                .saturating_sub(1)
                .saturating_mul(pick(self.dilations))
                .saturating_add(1);
            let positions = size.div_ceil(stride);
            let needed = positions
                .saturating_sub(1)
                .saturating_mul(stride)
                .saturating_add(reach)
                .saturating_sub(size);
            let (less, more) = (needed / 2, needed - needed / 2);
            if upper { (less, more) } else { (more, less) }
        });
        let pads = [vertical.0, horizontal.0, vertical.1, horizontal.1];
        Ok(Self { pads, ..self })
    }

    /// The same with padding that is as large on both sides, the smaller of the two, which is all that PyTorch
    /// has for transposed convolutions; and what of the image is to be taken away besides.
    fn even(self) -> (Self, [u64; 4]) {
        let [top, left, bottom, right] = self.pads;
        let (rows, columns) = (top.min(bottom), left.min(right));
        let rest = [top - rows, left - columns, bottom - rows, right - columns];
        let pads = [rows, columns, rows, columns];
        (Self { pads, ..self }, rest)
    }

    const fn conv_transpose(&self, output_padding: [u64; 2], group: u64) -> Op {
        Op::ConvTranspose {
            strides: self.strides,
            pads: self.pads,
            output_padding,
            dilations: self.dilations,
            group,
        }
    }

    const fn conv(&self, group: u64) -> Op {
        Op::Conv {
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            group,
        }
    }
}
