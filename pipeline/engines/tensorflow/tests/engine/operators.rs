//! Every operator against ONNX Runtime, which shares no code with this worker but the graph.

use schema::{
    Graph, Precision,
    graph::{Approximation, Border, Interpolation, Op},
};

use crate::{
    common::{
        Operand, Sketch, buffer, conv, fed, held, indices, onnx_outputs, outputs, relative_l2,
        single,
    },
    library::library,
};

/// Runs `graph` in every way in which operators differ.
fn agree(what: &str, graph: &Graph) {
    agree_where(|_, _| true, what, graph);
}

/// Whether an operator is there in a precision on a variant.
type Where = fn(Precision, &str) -> bool;

/// The same in some precisions on some variants.
fn agree_where(is_one: Where, what: &str, graph: &Graph) {
    let expected = onnx_outputs(graph, library());
    let ways = [
        (Precision::Fp32, "graph", "frozen"),
        (Precision::Fp32, "graph", "variables"),
        (Precision::Fp64, "graph", "frozen"),
        (Precision::Fp32, "xla", "variables"),
    ];
    let ways = ways.into_iter();
    for (precision, variant, weights) in ways.filter(|way| is_one(way.0, way.1)) {
        let actual = outputs(graph, precision, variant, weights);
        assert_eq!(actual.len(), expected.len(), "{what}");
        for (actual, expected) in actual.iter().zip(&expected) {
            assert_eq!(actual.shape, expected.shape, "{what} {variant}");
            let error = relative_l2(actual, expected);
            assert!(
                error < 2e-6,
                "{what} {precision} {variant} {weights}: {error:e}"
            );
        }
    }
}

fn check(op: Op, operands: &[Operand]) {
    let what = format!("{op:?}");
    agree(&what, &single(op, operands));
}

#[test]
fn an_lstm_is_one_operator() {
    let (batch, positions, features, size) = (3, 5, 4, 6);
    for bidirectional in [false, true] {
        let mut operands = vec![fed("x", &[batch, positions, features])];
        for way in 0..=u64::from(bidirectional) {
            let shapes = [
                vec![4 * size, features],
                vec![4 * size, size],
                vec![4 * size],
                vec![4 * size],
            ];
            let parameters = shapes.iter().zip(["w_ih", "w_hh", "b_ih", "b_hh"]);
            operands.extend(parameters.map(|(shape, name)| held(&format!("{name}{way}"), shape)));
        }
        let lstm = Op::Lstm { bidirectional };
        let graph = single(lstm, &operands);
        let has_one: Where =
            |precision, variant| precision == Precision::Fp32 && variant == "graph";
        agree_where(has_one, &format!("{bidirectional}"), &graph);
    }
}

#[test]
fn convolutions_with_every_attribute() {
    let image = fed("x", &[2, 4, 7, 6]);
    for (strides, pads, dilations, group, bias) in [
        ([1, 1], [0; 4], [1, 1], 1, false),
        ([1, 1], [1, 1, 1, 0], [1, 1], 1, true),
        ([2, 1], [1, 1, 1, 1], [1, 1], 1, true),
        ([1, 2], [0, 1, 2, 0], [2, 1], 2, true),
        ([2, 2], [1, 1, 1, 1], [1, 1], 4, true),
        ([1, 2], [1, 0, 1, 0], [1, 1], 4, false),
    ] {
        let out = 8;
        let mut operands = vec![image.clone(), held("w", &[out, 4 / group, 3, 2])];
        if bias {
            operands.push(held("b", &[out]));
        }
        let op = Op::Conv {
            strides,
            pads,
            dilations,
            group,
        };
        check(op, &operands);
    }
}

#[test]
fn transposed_convolutions_with_every_attribute() {
    for (size, strides, pads, output_padding, group, bias) in [
        ([3, 2], [1, 1], [0; 4], [0, 0], 1, false),
        ([2, 2], [2, 2], [0; 4], [0, 0], 1, true),
        ([4, 4], [2, 2], [1; 4], [0, 0], 1, true),
        ([3, 3], [2, 3], [1, 1, 1, 1], [1, 2], 1, true),
        ([3, 2], [2, 1], [1, 0, 0, 1], [1, 0], 2, true),
    ] {
        let [height, width] = size;
        let mut operands = vec![
            fed("x", &[2, 4, 3, 5]),
            held("w", &[4, 6 / group, height, width]),
        ];
        if bias {
            operands.push(held("b", &[6]));
        }
        let op = Op::ConvTranspose {
            strides,
            pads,
            output_padding,
            dilations: [1, 1],
            group,
        };
        check(op, &operands);
    }
}

#[test]
fn images_in_other_sizes() {
    for sizes in [[8, 15], [3, 2], [7, 5]] {
        // It interpolates in single precision alone, and XLA between other pixels.
        let linear = |precision: Precision, variant: &str| {
            precision == Precision::Fp32 && variant == "graph"
        };
        let ways: [(Interpolation, Where); 3] = [
            (Interpolation::Nearest, |_, _| true),
            (Interpolation::Linear, linear),
            (Interpolation::LinearCorners, linear),
        ];
        for (interpolation, is_one) in ways {
            let op = Op::Resize {
                sizes,
                interpolation,
            };
            let what = format!("{op:?}");
            let graph = single(op, &[fed("x", &[2, 3, 4, 5])]);
            agree_where(is_one, &what, &graph);
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
    let quarter = Border::Constant { value: 0.25 };
    check(
        pad(&[1, 0, 2], &[0, 1, 0], quarter),
        &[fed("x", &[2, 3, 4])],
    );
    let image = [fed("x", &[2, 3, 4, 5])];
    check(pad(&[0, 1, 2, 0], &[0, 0, 1, 3], quarter), &image);
    check(pad(&[0, 0, 2, 0], &[0, 0, 1, 3], Border::Reflect), &image);
}

#[test]
fn pools_with_even_and_uneven_padding() {
    let x = [fed("x", &[2, 3, 7, 8])];
    for (pads, ceil_mode) in [
        ([0; 4], false),
        ([0; 4], true),
        ([1; 4], false),
        ([1; 4], true),
        ([0, 0, 1, 0], false),
        ([0, 0, 1, 1], false),
    ] {
        let op = Op::MaxPool {
            kernel: [3, 3],
            strides: [2, 2],
            pads,
            ceil_mode,
        };
        check(op, &x);
    }
    for pads in [[0; 4], [1; 4], [0, 0, 1, 1]] {
        for count_include_pad in [true, false] {
            for stride in [1, 2] {
                let op = Op::AveragePool {
                    kernel: [3, 3],
                    strides: [stride; 2],
                    pads,
                    count_include_pad,
                };
                check(op, &x);
            }
        }
    }
    check(Op::GlobalAveragePool, &x);
}

#[test]
fn normalisations() {
    for shape in [&[2, 3, 4, 5][..], &[4, 3]] {
        let operands = [
            fed("x", shape),
            held("scale", &[3]),
            held("bias", &[3]),
            buffer("mean", 3),
            buffer("var", 3),
        ];
        let op = Op::BatchNormalization {
            epsilon: 1e-3,
            momentum: 0.1,
        };
        check(op, &operands);
    }
    let operands = [
        fed("x", &[2, 3, 5]),
        held("scale", &[5]),
        held("bias", &[5]),
    ];
    for shape in [&[2, 3, 4, 5][..], &[2, 3, 7]] {
        let operands = [fed("x", shape), held("scale", &[3]), held("bias", &[3])];
        check(Op::InstanceNormalization { epsilon: 1e-3 }, &operands);
    }
    for epsilon in [1e-5, 1e-2] {
        check(Op::LayerNormalization { epsilon }, &operands);
    }
}

#[test]
fn pointwise_operators() {
    let clip = |min, max| Op::Clip { min, max };
    let gelu = |approximate| Op::Gelu { approximate };
    for shape in [&[3, 4][..], &[2, 3, 4, 5]] {
        for op in [
            Op::Relu,
            clip(-0.5, 1.5),
            clip(0.0, 6.0),
            Op::Sigmoid,
            Op::HardSigmoid,
            Op::HardSwish,
            Op::Silu,
            Op::Tanh,
            Op::LeakyRelu { alpha: 0.3 },
            Op::Elu { alpha: 1.0 },
            Op::Elu { alpha: 0.7 },
            Op::Softplus,
            Op::Exp,
            Op::Abs,
            Op::Sin,
            Op::Cos,
            Op::LogSoftmax { axis: 0 },
            Op::LogSoftmax { axis: -1 },
            gelu(Approximation::None),
            gelu(Approximation::Tanh),
            Op::Dropout { ratio: 0.5 },
            Op::Softmax { axis: 0 },
            Op::Softmax { axis: -1 },
            Op::Softmax { axis: 1 },
        ] {
            check(op, &[fed("x", shape)]);
        }
    }
}

/// oneDNN's softmax takes five axes.
#[test]
fn shares_among_more_axes_than_a_kernel_takes() {
    let x = [fed("x", &[2, 1, 3, 2, 2, 4])];
    for axis in [0, 2, -1] {
        check(Op::Softmax { axis }, &x);
        check(Op::LogSoftmax { axis }, &x);
    }
}

#[test]
fn sums_and_products_broadcast() {
    for (x, y) in [
        (&[2, 3, 4][..], &[3, 1][..]),
        (&[2, 3, 4, 5], &[2, 3, 1, 1]),
        (&[2, 3, 4, 5], &[3, 1, 1]),
        (&[2, 3, 4, 5], &[5]),
        (&[2, 3, 4, 5], &[]),
        (&[1], &[2, 3, 4, 5]),
        (&[2, 3, 4, 5], &[6, 2, 3, 4, 5]),
    ] {
        check(Op::Add, &[fed("x", x), held("y", y)]);
        check(Op::Mul, &[fed("x", x), held("y", y)]);
        check(Op::Div, &[fed("x", x), held("y", y)]);
        check(Op::Max, &[fed("x", x), held("y", y)]);
        check(Op::Min, &[fed("x", x), held("y", y)]);
    }
}

#[test]
fn slopes_of_each_channel() {
    for (x, slope) in [
        (&[2, 3][..], &[3][..]),
        (&[2, 3, 4, 5], &[3, 1, 1]),
        (&[2, 3, 4, 5], &[1]),
        (&[2, 3, 4, 5], &[]),
    ] {
        check(Op::PRelu, &[fed("x", x), held("slope", slope)]);
    }
}

#[test]
fn roots_of_positive_numbers() {
    check(Op::Sqrt, &[buffer("x", 12)]);
    check(Op::Log, &[buffer("x", 12)]);
}

#[test]
fn matrix_products() {
    for (a, b) in [
        (&[3, 4][..], &[4, 5][..]),
        (&[2, 3, 4], &[4, 5]),
        (&[2, 3, 4], &[2, 4, 5]),
        (&[6, 1, 3, 4], &[2, 4, 5]),
    ] {
        check(Op::MatMul, &[fed("a", a), fed("b", b)]);
    }
    for x in [&[3, 4][..], &[2, 3, 4], &[4]] {
        for bias in [false, true] {
            let mut linear = vec![fed("x", x), held("w", &[5, 4])];
            let mut gemm = vec![fed("x", x), held("w", &[4, 5])];
            if bias {
                linear.push(held("b", &[5]));
                gemm.push(held("b", &[5]));
            }
            check(Op::Linear, &linear);
            check(Op::Gemm, &gemm);
        }
    }
}

#[test]
fn attention_sees_what_it_may() {
    for (heads, causal, keys) in [(3, false, 4), (3, true, 4), (1, false, 5)] {
        let operands = [
            fed("q", &[2, 4, 6]),
            fed("k", &[2, keys, 6]),
            fed("v", &[2, keys, 6]),
        ];
        check(Op::Attention { heads, causal }, &operands);
    }
}

#[test]
fn shapes_and_places() {
    for axis in 0..4 {
        check(Op::Flatten { axis }, &[fed("x", &[2, 3, 4, 5])]);
    }
    let reshape = |shape: &[u64]| Op::Reshape {
        shape: shape.to_vec(),
    };
    check(reshape(&[2, 3, 20]), &[fed("x", &[2, 3, 4, 5])]);
    check(reshape(&[6, 20]), &[fed("x", &[2, 3, 4, 5])]);
    check(reshape(&[2, 3, 2, 10]), &[fed("x", &[2, 3, 4, 5])]);
    for perm in [[0, 2, 3, 1], [0, 3, 1, 2], [3, 2, 1, 0], [0, 1, 2, 3]] {
        let op = Op::Transpose {
            perm: perm.to_vec(),
        };
        check(op, &[fed("x", &[2, 3, 4, 5])]);
    }
    for axis in 0..4 {
        let op = Op::Slice {
            axis,
            start: 1,
            end: 2,
        };
        check(op, &[fed("x", &[2, 3, 4, 5])]);
        let mut shape = [2, 3, 4, 5];
        shape[axis as usize] = 1;
        check(Op::Squeeze { axis }, &[fed("x", &shape)]);
        check(
            Op::Concat { axis },
            &[fed("x", &shape), fed("y", &[2, 3, 4, 5])],
        );
    }
    check(Op::Concat { axis: 1 }, &[fed("x", &[2, 3])]);
    for (from, to) in [
        (&[1, 1, 3][..], vec![2, 1, 3]),
        (&[2, 1], vec![4, 1, 3]),
        (&[2, 1, 4, 5], vec![2, 3, 4, 5]),
    ] {
        check(Op::Expand { shape: to }, &[fed("x", from)]);
    }
    check(
        Op::Gather,
        &[held("table", &[5, 4]), indices("i", &[2, 3], 5)],
    );
}

/// What convolutions leave with channels last keeps its meaning wherever it goes.
#[test]
fn channels_last_is_nobody_elses_business() {
    let ends: [fn(&mut Sketch, Operand) -> Operand; 7] = [
        |sketch, x| sketch.node(Op::Flatten { axis: 1 }, &[x]),
        |sketch, x| {
            let flat = sketch.node(
                Op::Reshape {
                    shape: vec![2, 8, 12],
                },
                &[x],
            );
            let perm = vec![0, 2, 1];
            sketch.node(Op::Transpose { perm }, &[flat])
        },
        |sketch, x| {
            let flat = sketch.node(
                Op::Reshape {
                    shape: vec![2, 8, 12],
                },
                &[x],
            );
            let sum = sketch.node(Op::Add, &[flat, held("bias", &[8, 1])]);
            sketch.node(Op::Softmax { axis: -1 }, &[sum])
        },
        |sketch, x| {
            let pooled = sketch.node(Op::GlobalAveragePool, std::slice::from_ref(&x));
            let gate = sketch.node(Op::Sigmoid, &[pooled]);
            sketch.node(Op::Mul, &[x, gate])
        },
        |sketch, x| {
            let pooled = sketch.node(Op::GlobalAveragePool, &[x]);
            let flat = sketch.node(Op::Flatten { axis: 1 }, &[pooled]);
            sketch.node(Op::Linear, &[flat, held("fc", &[5, 8])])
        },
        |sketch, x| sketch.node(Op::MatMul, &[x, held("matrix", &[3, 7])]),
        |sketch, x| sketch.node(Op::Add, &[x, held("grid", &[8, 4, 3])]),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let mut sketch = Sketch::new("net");
        let x = sketch.node(
            conv(1, 1, 1),
            &[fed("x", &[2, 4, 4, 3]), held("w", &[8, 4, 3, 3])],
        );
        let output = end(&mut sketch, x);
        agree(&format!("end {number}"), &sketch.end(&output));
    }
}

#[test]
fn weights_that_two_operators_read_keep_their_meaning() {
    let mut sketch = Sketch::new("tied");
    let table = held("table", &[5, 4]);
    let rows = sketch.node(Op::Gather, &[table.clone(), indices("i", &[2, 3], 5)]);
    let logits = sketch.node(Op::Linear, &[rows, table]);
    agree("table", &sketch.end(&logits));

    let mut sketch = Sketch::new("filters");
    let weight = held("w", &[4, 1, 3, 3]);
    let deep = sketch.node(conv(1, 1, 4), &[fed("x", &[1, 4, 5, 5]), weight.clone()]);
    let first = sketch.node(
        Op::Slice {
            axis: 1,
            start: 0,
            end: 1,
        },
        &[deep],
    );
    let shallow = sketch.node(conv(2, 0, 1), &[first, weight]);
    agree("filters", &sketch.end(&shallow));
}
