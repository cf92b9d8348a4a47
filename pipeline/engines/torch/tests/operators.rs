//! Every operator against plain loops in binary64.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::{Array, Operand, assert_close, operand, outputs, single};
use schema::graph::{
    Approximation, Border, ElementType, Fill, GridElement, Interpolation, Op, Role,
};

/// Runs one node and hands the operands' numbers to `expected`.
fn check(op: Op, operands: &[Operand], expected: impl Fn(&[Array]) -> Array) {
    let context = format!("{op:?}");
    let arrays: Vec<Array> = operands.iter().map(Operand::array).collect();
    let actual = outputs(&single(op, operands));
    assert_eq!(actual.len(), 1);
    assert_close(&actual[0], &expected(&arrays), &context);
}

/// The element of an image at signed coordinates; `None` outside.
fn pixel(image: &Array, n: usize, c: usize, y: i64, x: i64) -> Option<f64> {
    let inside = |i: i64, size: usize| usize::try_from(i).ok().filter(|&i| i < size);
    let (y, x) = (inside(y, image.shape[2])?, inside(x, image.shape[3])?);
    Some(image.at(&[n, c, y, x]))
}

#[test]
fn convolutions_with_every_attribute() {
    let conv = |strides: [u64; 2], pads: [u64; 4], dilations: [u64; 2], group: u64, bias: bool| {
        let mut operands = vec![
            operand("x", &[2, 4, 7, 6]),
            operand("w", &[6, 4 / group as usize, 3, 2]),
        ];
        if bias {
            operands.push(operand("b", &[6]));
        }
        let op = Op::Conv {
            strides,
            pads,
            dilations,
            group,
        };
        check(op, &operands, |arrays| {
            let (x, w) = (&arrays[0], &arrays[1]);
            let extent = |axis: usize| {
                let window = dilations[axis] as usize * (w.shape[2 + axis] - 1) + 1;
                let size = x.shape[2 + axis] + (pads[axis] + pads[axis + 2]) as usize;
                (size - window) / strides[axis] as usize + 1
            };
            let shape = [2, 6, extent(0), extent(1)];
            Array::from_fn(&shape, |index| {
                let [n, o, y, column] = index.try_into().unwrap();
                let first = o / (6 / group as usize) * w.shape[1];
                let mut sum = if bias { arrays[2].at(&[o]) } else { 0.0 };
                for c in 0..w.shape[1] {
                    for ky in 0..w.shape[2] {
                        for kx in 0..w.shape[3] {
                            let row = y as i64 * strides[0] as i64 - pads[0] as i64
                                + ky as i64 * dilations[0] as i64;
                            let col = column as i64 * strides[1] as i64 - pads[1] as i64
                                + kx as i64 * dilations[1] as i64;
                            let value = pixel(x, n, first + c, row, col).unwrap_or(0.0);
                            sum += value * w.at(&[o, c, ky, kx]);
                        }
                    }
                }
                sum
            })
        });
    };
    conv([1, 1], [0; 4], [1, 1], 1, false);
    conv([2, 1], [1, 1, 1, 1], [1, 1], 1, true);
    conv([1, 2], [0, 1, 2, 0], [2, 1], 2, true);
}

#[test]
fn transposed_convolutions_with_every_attribute() {
    for (strides, pads, more, dilations, group, bias) in [
        ([1, 1], [0; 4], [0, 0], [1, 1], 1, false),
        ([2, 3], [1, 0, 1, 0], [1, 2], [1, 1], 1, true),
        ([2, 1], [0, 1, 0, 1], [0, 0], [2, 1], 2, true),
    ] {
        let mut operands = vec![
            operand("x", &[2, 4, 3, 5]),
            operand("w", &[4, 6 / group as usize, 3, 2]),
        ];
        if bias {
            operands.push(operand("b", &[6]));
        }
        let op = Op::ConvTranspose {
            strides,
            pads,
            output_padding: more,
            dilations,
            group,
        };
        check(op, &operands, |arrays| {
            let (x, w) = (&arrays[0], &arrays[1]);
            let extent = |axis: usize| {
                let reach = dilations[axis] as usize * (w.shape[2 + axis] - 1) + 1;
                let starts = strides[axis] as usize * (x.shape[2 + axis] - 1);
                starts + reach + more[axis] as usize - (pads[axis] + pads[axis + 2]) as usize
            };
            let per_group = w.shape[1];
            Array::from_fn(&[2, 6, extent(0), extent(1)], |index| {
                let [n, o, y, column] = index.try_into().unwrap();
                let mut sum = if bias { arrays[2].at(&[o]) } else { 0.0 };
                let inputs = x.shape[1] / group as usize;
                let first = o / per_group * inputs;
                // Which elements reach this one, by which tap.
                for ky in 0..w.shape[2] {
                    for kx in 0..w.shape[3] {
                        let from = |place: usize, tap: usize, axis: usize| {
                            let at = place + pads[axis] as usize;
                            let left = at.checked_sub(tap * dilations[axis] as usize)?;
                            let stride = strides[axis] as usize;
                            left.is_multiple_of(stride)
                                .then_some((left / stride) as i64)
                        };
                        let (Some(row), Some(col)) = (from(y, ky, 0), from(column, kx, 1)) else {
                            continue;
                        };
                        for c in first..first + inputs {
                            let value = pixel(x, n, c, row, col).unwrap_or(0.0);
                            sum += value * w.at(&[c, o % per_group, ky, kx]);
                        }
                    }
                }
                sum
            })
        });
    }
}

#[test]
fn images_in_other_sizes() {
    let x = || [operand("x", &[2, 3, 4, 5])];
    for sizes in [[8, 15], [3, 2], [7, 5]] {
        let resize = |interpolation| Op::Resize {
            sizes,
            interpolation,
        };
        let [rows, columns] = sizes.map(|size| size as usize);
        check(resize(Interpolation::Nearest), &x(), |a| {
            Array::from_fn(&[2, 3, rows, columns], |i| {
                a[0].at(&[i[0], i[1], i[2] * 4 / rows, i[3] * 5 / columns])
            })
        });
        for (interpolation, place) in [
            (
                Interpolation::Linear,
                (|i, m, n| (i + 0.5) * m / n - 0.5) as fn(f64, f64, f64) -> f64,
            ),
            (Interpolation::LinearCorners, |i, m, n| {
                i * (m - 1.0) / (n - 1.0)
            }),
        ] {
            let neighbours = |i: usize, m: usize, n: usize| {
                let place = place(i as f64, m as f64, n as f64).clamp(0.0, m as f64 - 1.0);
                let low = place.floor() as usize;
                [
                    (low, 1.0 - place.fract()),
                    ((low + 1).min(m - 1), place.fract()),
                ]
            };
            check(resize(interpolation), &x(), |a| {
                Array::from_fn(&[2, 3, rows, columns], |i| {
                    let mut sum = 0.0;
                    for (row, share) in neighbours(i[2], 4, rows) {
                        for (column, part) in neighbours(i[3], 5, columns) {
                            sum += share * part * a[0].at(&[i[0], i[1], row, column]);
                        }
                    }
                    sum
                })
            });
        }
    }
}

#[test]
fn borders() {
    let pad = |begins: &[u64], ends: &[u64], border| Op::Pad {
        begins: begins.to_vec(),
        ends: ends.to_vec(),
        border,
    };
    let op = pad(&[1, 0, 2], &[0, 1, 0], Border::Constant { value: 0.25 });
    check(op, &[operand("x", &[2, 3, 4])], |a| {
        Array::from_fn(&[3, 4, 6], |i| {
            if i[0] < 1 || i[1] > 2 || i[2] < 2 {
                0.25
            } else {
                a[0].at(&[i[0] - 1, i[1], i[2] - 2])
            }
        })
    });
    for (above, below) in [(2, 1), (0, 0)] {
        let op = pad(&[0, 0, above, 0], &[0, 0, below, 3], Border::Reflect);
        check(op, &[operand("x", &[2, 3, 4, 5])], |a| {
            let rows = 4 + (above + below) as usize;
            Array::from_fn(&[2, 3, rows, 8], |i| {
                let mirrored = |place: i64, size: i64| {
                    let place = place.abs();
                    if place < size {
                        place
                    } else {
                        2 * (size - 1) - place
                    }
                };
                let row = mirrored(i[2] as i64 - above as i64, 4) as usize;
                let column = mirrored(i[3] as i64, 5) as usize;
                a[0].at(&[i[0], i[1], row, column])
            })
        });
    }
}

#[test]
fn each_channel_of_each_sample_is_normalised() {
    for shape in [&[2, 3, 4, 5][..], &[2, 3, 7]] {
        let operands = [
            operand("x", shape),
            operand("scale", &[3]),
            operand("bias", &[3]),
        ];
        let op = Op::InstanceNormalization { epsilon: 1e-3 };
        check(op, &operands, |a| {
            let count: usize = shape[2..].iter().product();
            Array::from_fn(shape, |index| {
                let first = (index[0] * 3 + index[1]) * count;
                let channel = &a[0].data[first..first + count];
                let mean = channel.iter().sum::<f64>() / count as f64;
                let squares = channel.iter().map(|x| (x - mean).powi(2));
                let variance = squares.sum::<f64>() / count as f64;
                let normal = (a[0].at(index) - mean) / (variance + 1e-3).sqrt();
                normal * a[1].at(&index[1..2]) + a[2].at(&index[1..2])
            })
        });
    }
}

#[test]
fn normalisations() {
    let positive = Fill::Uniform {
        low: 0.5,
        high: 2.0,
    };
    let mut operands = ["x", "scale", "bias", "mean", "var"].map(|name| operand(name, &[3]));
    operands[0].shape = vec![2, 3, 4, 5];
    operands[4].fill = positive;
    for buffer in &mut operands[3..] {
        buffer.role = Role::Buffer;
    }
    let op = Op::BatchNormalization {
        epsilon: 1e-3,
        momentum: 0.1,
    };
    check(op, &operands, |arrays| {
        Array::from_fn(&arrays[0].shape, |index| {
            let of = |operand: usize| arrays[operand].at(&index[1..2]);
            let centred = arrays[0].at(index) - of(3);
            centred / (of(4) + 1e-3).sqrt() * of(1) + of(2)
        })
    });

    let operands = [
        operand("x", &[2, 3, 5]),
        operand("scale", &[5]),
        operand("bias", &[5]),
    ];
    check(
        Op::LayerNormalization { epsilon: 1e-5 },
        &operands,
        |arrays| {
            Array::from_fn(&arrays[0].shape, |index| {
                let row: Vec<f64> = (0..5)
                    .map(|i| arrays[0].at(&[index[0], index[1], i]))
                    .collect();
                let mean = row.iter().sum::<f64>() / 5.0;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 5.0;
                let normal = (row[index[2]] - mean) / (variance + 1e-5).sqrt();
                normal * arrays[1].at(&index[2..]) + arrays[2].at(&index[2..])
            })
        },
    );
}

/// The error function by its Maclaurin series (Abramowitz and Stegun 7.1.5).
fn erf(x: f64) -> f64 {
    let (mut sum, mut term) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn pointwise_operators() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let x = || [operand("x", &[3, 4])];
    check(Op::Relu, &x(), |a| a[0].map(|x| x.max(0.0)));
    check(
        Op::Clip {
            min: -0.5,
            max: 1.5,
        },
        &x(),
        |a| a[0].map(|x| x.clamp(-0.5, 1.5)),
    );
    let (min, max) = (f32::MIN, f32::MAX);
    check(Op::Clip { min: -0.5, max }, &x(), |a| {
        a[0].map(|x| x.max(-0.5))
    });
    check(Op::Clip { min, max: 0.5 }, &x(), |a| {
        a[0].map(|x| x.min(0.5))
    });
    check(Op::Sigmoid, &x(), |a| a[0].map(sigmoid));
    check(Op::Silu, &x(), |a| a[0].map(|x| x * sigmoid(x)));
    check(Op::Tanh, &x(), |a| a[0].map(f64::tanh));
    let wide = Fill::Uniform {
        low: -5.0,
        high: 5.0,
    };
    let positive = Fill::Uniform {
        low: 0.5,
        high: 2.0,
    };
    let filled = |fill| {
        let [x] = x();
        [Operand { fill, ..x }]
    };
    let gate = |x: f64| (x / 6.0 + 0.5).clamp(0.0, 1.0);
    check(Op::HardSigmoid, &filled(wide), |a| a[0].map(gate));
    check(Op::HardSwish, &filled(wide), |a| a[0].map(|x| x * gate(x)));
    check(Op::Sqrt, &filled(positive), |a| a[0].map(f64::sqrt));
    check(Op::Log, &filled(positive), |a| a[0].map(f64::ln));
    check(Op::Exp, &x(), |a| a[0].map(f64::exp));
    check(Op::Abs, &x(), |a| a[0].map(f64::abs));
    check(Op::Sin, &filled(wide), |a| a[0].map(f64::sin));
    check(Op::Cos, &filled(wide), |a| a[0].map(f64::cos));
    check(Op::Softplus, &filled(wide), |a| {
        a[0].map(|x| x.exp().ln_1p())
    });
    check(Op::LeakyRelu { alpha: 0.3 }, &x(), |a| {
        a[0].map(|x| if x > 0.0 { x } else { 0.3 * x })
    });
    check(Op::Elu { alpha: 0.7 }, &x(), |a| {
        a[0].map(|x| if x > 0.0 { x } else { 0.7 * x.exp_m1() })
    });
    for slope in [&[4][..], &[1], &[]] {
        check(
            Op::PRelu,
            &[operand("x", &[3, 4]), operand("slope", slope)],
            |a| {
                Array::from_fn(&[3, 4], |index| {
                    let slope = a[1].data[index[1].min(a[1].data.len() - 1)];
                    let x = a[0].at(index);
                    if x > 0.0 { x } else { slope * x }
                })
            },
        );
    }
    let gelu = |approximate| Op::Gelu { approximate };
    check(gelu(Approximation::None), &x(), |a| {
        a[0].map(|x| x * 0.5 * (1.0 + erf(x / 2_f64.sqrt())))
    });
    check(gelu(Approximation::Tanh), &x(), |a| {
        let slope = (2.0 / std::f64::consts::PI).sqrt();
        a[0].map(|x| x * 0.5 * (1.0 + (slope * (x + 0.044715 * x.powi(3))).tanh()))
    });
    check(Op::Dropout { ratio: 0.5 }, &x(), |a| a[0].clone());
    for axis in [0, -1] {
        let share = |a: &[Array], index: &[usize]| {
            let sum: f64 = if axis == 0 {
                (0..3).map(|i| a[0].at(&[i, index[1]]).exp()).sum()
            } else {
                (0..4).map(|i| a[0].at(&[index[0], i]).exp()).sum()
            };
            a[0].at(index).exp() / sum
        };
        check(Op::Softmax { axis }, &x(), |a| {
            Array::from_fn(&[3, 4], |index| share(a, index))
        });
        check(Op::LogSoftmax { axis }, &x(), |a| {
            Array::from_fn(&[3, 4], |index| share(a, index).ln())
        });
    }
}

#[test]
fn sums_and_products_broadcast() {
    let operands = || [operand("x", &[2, 3, 4]), operand("y", &[3, 1])];
    let other = |a: &[Array], index: &[usize]| a[1].at(&[index[1], 0]);
    check(Op::Add, &operands(), |a| {
        Array::from_fn(&[2, 3, 4], |index| a[0].at(index) + other(a, index))
    });
    check(Op::Mul, &operands(), |a| {
        Array::from_fn(&[2, 3, 4], |index| a[0].at(index) * other(a, index))
    });
    check(Op::Div, &operands(), |a| {
        Array::from_fn(&[2, 3, 4], |index| a[0].at(index) / other(a, index))
    });
    check(Op::Max, &operands(), |a| {
        Array::from_fn(&[2, 3, 4], |index| a[0].at(index).max(other(a, index)))
    });
    check(Op::Min, &operands(), |a| {
        Array::from_fn(&[2, 3, 4], |index| a[0].at(index).min(other(a, index)))
    });
}

#[test]
fn matrix_products() {
    let operands = [operand("x", &[2, 3, 4]), operand("y", &[4, 5])];
    check(Op::MatMul, &operands, |a| {
        Array::from_fn(&[2, 3, 5], |i| {
            (0..4)
                .map(|k| a[0].at(&[i[0], i[1], k]) * a[1].at(&[k, i[2]]))
                .sum()
        })
    });
    for bias in [false, true] {
        let mut operands = vec![operand("x", &[2, 3, 4]), operand("w", &[5, 4])];
        if bias {
            operands.push(operand("b", &[5]));
        }
        check(Op::Linear, &operands, |a| {
            Array::from_fn(&[2, 3, 5], |i| {
                let product: f64 = (0..4)
                    .map(|k| a[0].at(&[i[0], i[1], k]) * a[1].at(&[i[2], k]))
                    .sum();
                product + if bias { a[2].at(&[i[2]]) } else { 0.0 }
            })
        });
    }
}

#[test]
fn products_with_weights_that_lie_the_other_way() {
    for (bias, leading) in [
        (false, &[2, 3][..]),
        (true, &[2, 3]),
        (true, &[6]),
        (false, &[6]),
        (true, &[]),
    ] {
        let shape = |last: usize| [leading, &[last]].concat();
        let mut operands = vec![operand("x", &shape(4)), operand("w", &[4, 5])];
        if bias {
            operands.push(operand("b", &[5]));
        }
        check(Op::Gemm, &operands, |a| {
            Array::from_fn(&shape(5), |i| {
                let (row, column) = (&i[..leading.len()], i[leading.len()]);
                let at = |k: usize| a[0].at(&[row, &[k]].concat()) * a[1].at(&[k, column]);
                let product: f64 = (0..4).map(at).sum();
                product + if bias { a[2].at(&[column]) } else { 0.0 }
            })
        });
    }
}

#[test]
fn attention_looks_at_another_text() {
    let operands = [
        operand("q", &[2, 3, 4]),
        operand("k", &[2, 5, 4]),
        operand("v", &[2, 5, 4]),
    ];
    let op = Op::Attention {
        heads: 1,
        causal: false,
    };
    check(op, &operands, |a| {
        Array::from_fn(&[2, 3, 4], |i| {
            let score = |p: usize| {
                let product = |s| a[0].at(&[i[0], i[1], s]) * a[1].at(&[i[0], p, s]);
                (0..4).map(product).sum::<f64>() / 2.0
            };
            let total: f64 = (0..5).map(|p| score(p).exp()).sum();
            let seen = |p| score(p).exp() / total * a[2].at(&[i[0], p, i[2]]);
            (0..5).map(seen).sum()
        })
    });
}

#[test]
fn attention_sees_what_it_may() {
    for causal in [false, true] {
        let operands = ["q", "k", "v"].map(|name| operand(name, &[2, 4, 6]));
        check(Op::Attention { heads: 3, causal }, &operands, |a| {
            Array::from_fn(&[2, 4, 6], |i| {
                let head = i[2] / 2 * 2;
                let score = |p: usize| -> f64 {
                    let product: f64 = (0..2)
                        .map(|s| a[0].at(&[i[0], i[1], head + s]) * a[1].at(&[i[0], p, head + s]))
                        .sum();
                    (product / 2_f64.sqrt()).exp()
                };
                let seen = if causal { i[1] + 1 } else { 4 };
                let total: f64 = (0..seen).map(score).sum();
                (0..seen)
                    .map(|p| score(p) / total * a[2].at(&[i[0], p, i[2]]))
                    .sum()
            })
        });
    }
}

/// Pools the windows of `x`; `reduce` gets the values inside and the window's area.
fn pool(
    x: &Array,
    [height, width]: [usize; 2],
    stride: usize,
    pads: [usize; 4],
    out: [usize; 2],
    reduce: impl Fn(&[f64], usize) -> f64,
) -> Array {
    Array::from_fn(&[x.shape[0], x.shape[1], out[0], out[1]], |i| {
        let mut inside = Vec::new();
        for y in 0..height {
            for column in 0..width {
                let row = (i[2] * stride + y) as i64 - pads[0] as i64;
                let col = (i[3] * stride + column) as i64 - pads[1] as i64;
                inside.extend(pixel(x, i[0], i[1], row, col));
            }
        }
        reduce(&inside, height * width)
    })
}

#[test]
fn pools_with_even_and_uneven_padding() {
    let largest = |values: &[f64], _| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let x = || [operand("x", &[2, 3, 7, 8])];
    for (pads, ceil_mode, out) in [
        ([1, 1, 1, 1], false, [4, 4]),
        ([1, 1, 1, 1], true, [4, 5]),
        ([0, 0, 1, 0], false, [3, 3]),
        ([0; 4], true, [3, 4]),
    ] {
        let op = Op::MaxPool {
            kernel: [3, 3],
            strides: [2, 2],
            pads,
            ceil_mode,
        };
        check(op, &x(), |a| {
            pool(&a[0], [3, 3], 2, pads.map(|pad| pad as usize), out, largest)
        });
    }
    for (pads, count_include_pad, out) in [
        ([1, 1, 1, 1], true, [4, 4]),
        ([1, 1, 1, 1], false, [4, 4]),
        ([0, 0, 1, 1], true, [3, 4]),
    ] {
        let op = Op::AveragePool {
            kernel: [3, 3],
            strides: [2, 2],
            pads,
            count_include_pad,
        };
        check(op, &x(), |a| {
            pool(
                &a[0],
                [3, 3],
                2,
                pads.map(|pad| pad as usize),
                out,
                |values, area| {
                    let count = if count_include_pad {
                        area
                    } else {
                        values.len()
                    };
                    values.iter().sum::<f64>() / count as f64
                },
            )
        });
    }
    check(Op::GlobalAveragePool, &x(), |a| {
        pool(&a[0], [7, 8], 1, [0; 4], [1, 1], |values, area| {
            values.iter().sum::<f64>() / area as f64
        })
    });
}

#[test]
fn shapes_and_places() {
    let x = |shape: &[usize]| [operand("x", shape)];
    check(Op::Flatten { axis: 1 }, &x(&[2, 3, 4]), |a| {
        Array::new(&[2, 12], a[0].data.clone())
    });
    check(Op::Reshape { shape: vec![4, 6] }, &x(&[2, 3, 4]), |a| {
        Array::new(&[4, 6], a[0].data.clone())
    });
    check(
        Op::Transpose {
            perm: vec![2, 0, 1],
        },
        &x(&[2, 3, 4]),
        |a| Array::from_fn(&[4, 2, 3], |i| a[0].at(&[i[1], i[2], i[0]])),
    );
    check(
        Op::Slice {
            axis: 1,
            start: 1,
            end: 3,
        },
        &x(&[2, 4, 2]),
        |a| Array::from_fn(&[2, 2, 2], |i| a[0].at(&[i[0], i[1] + 1, i[2]])),
    );
    check(Op::Squeeze { axis: 1 }, &x(&[2, 1, 3]), |a| {
        Array::new(&[2, 3], a[0].data.clone())
    });
    for (from, shape, to) in [
        (&[1, 1, 3][..], vec![2, 1, 3], [2, 1, 3]),
        (&[2, 1], vec![4, 1, 3], [4, 2, 3]),
    ] {
        check(Op::Expand { shape }, &x(from), |a| {
            Array::from_fn(&to, |i| {
                let last = i[3 - from.len()..].iter().zip(from);
                let place: Vec<usize> = last.map(|(&i, &size)| i.min(size - 1)).collect();
                a[0].at(&place)
            })
        });
    }
    let operands = [operand("x", &[2, 3]), operand("y", &[2, 2])];
    check(Op::Concat { axis: 1 }, &operands, |a| {
        Array::from_fn(&[2, 5], |i| {
            if i[1] < 3 {
                a[0].at(i)
            } else {
                a[1].at(&[i[0], i[1] - 3])
            }
        })
    });
    let indices = Operand {
        name: "indices",
        shape: vec![2, 3],
        fill: Fill::Integers { bound: 5 },
        element: ElementType::Int64,
        role: Role::Constant,
    };
    check(Op::Gather, &[operand("table", &[5, 4]), indices], |a| {
        Array::from_fn(&[2, 3, 4], |i| a[0].at(&[a[1].at(&i[..2]) as usize, i[2]]))
    });
}

/// `x` on the grid, element by element.
fn on_grid(x: f64, scale: f64, zero_point: f64, [least, most]: [f64; 2]) -> f64 {
    let integer = ((x / scale).round_ties_even() + zero_point).clamp(least, most);
    scale * (integer - zero_point)
}

#[test]
fn grids_of_integers() {
    let constant = |name, shape: &[usize], value| Operand {
        fill: Fill::Constant { value },
        ..operand(name, shape)
    };
    let round = |axis, zero_point, element| Op::QuantizeDequantize {
        axis,
        zero_point,
        element,
    };
    // Numbers of -2 to 2: the ends of the first grid are cut off, and a half is hit by the second.
    for (scale, zero_point, element, bounds) in [
        (0.01, 100, GridElement::Uint8, [0.0, 255.0]),
        (0.25, 0, GridElement::Int8, [-128.0, 127.0]),
        (
            0.001,
            0,
            GridElement::Int32,
            [-2.0_f64.powi(31), 2.0_f64.powi(31)],
        ),
    ] {
        let operands = [operand("x", &[3, 5]), constant("scale", &[], scale)];
        check(round(None, zero_point, element), &operands, |a| {
            let scale = a[1].data[0];
            a[0].map(|x| on_grid(x, scale, zero_point as f64, bounds))
        });
    }
    let positive = Fill::Uniform {
        low: 0.001,
        high: 0.1,
    };
    for axis in 0..3 {
        let shape = [4, 2, 3];
        let scales = Operand {
            fill: positive,
            ..operand("scale", &[shape[axis]])
        };
        let operands = [operand("x", &shape), scales];
        check(
            round(Some(axis as u64), 0, GridElement::Int8),
            &operands,
            |a| {
                Array::from_fn(&shape, |i| {
                    on_grid(a[0].at(i), a[1].at(&[i[axis]]), 0.0, [-128.0, 127.0])
                })
            },
        );
    }
    for (low, high) in [(-2.0, 2.0), (0.5, 2.0), (-2.0, -0.5)] {
        let x = Operand {
            fill: Fill::Uniform { low, high },
            ..operand("x", &[4, 50])
        };
        check(Op::DynamicQuantizeDequantize, &[x], |a| {
            let low = a[0].data.iter().copied().fold(0.0, f64::min);
            let scale = (a[0].data.iter().copied().fold(0.0, f64::max) - low) / 255.0;
            let zero_point = (-low / scale).round_ties_even();
            a[0].map(|x| on_grid(x, scale, zero_point, [0.0, 255.0]))
        });
    }
    let zeros = [constant("x", &[2, 3], 0.0)];
    check(Op::DynamicQuantizeDequantize, &zeros, |a| a[0].clone());
}
