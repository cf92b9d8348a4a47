//! What shows how fast a device is at all: one product of matrices, and one pass over more memory than
//! any cache holds. No manifest can name them, and no list offers them as models.
//!
//! Both operands of the product are inputs, so that no engine can work it out beforehand or lay a
//! weight out anew. The pass over memory is a mean, which reads all and writes next to nothing: an
//! elementwise sum would write as much as it reads, into memory that PyTorch asks of the kernel in each
//! step, and would show what page faults cost (on a virtual machine of two cores 2 GB/s, where reading
//! went at 28).

use schema::{
    Graph,
    graph::{ElementType, Fill, Op},
};

use super::{Entry, Sizes, dims};
use crate::{ModelError, builder::GraphBuilder};

/// The network that is one product of two square matrices: `2·size³` operations.
pub const PRODUCT: &str = "ceiling_product";

/// The network that reads `mib` MiB of fp32 once, and of other precisions as many numbers.
pub const READING: &str = "ceiling_reading";

/// The dimension of [`PRODUCT`]: rows and columns of each matrix.
pub const SIZE: &str = "size";

/// The dimension of [`READING`]: MiB of numbers in fp32.
pub const MIB: &str = "mib";

/// Rows and columns of what is averaged to one number. A mebibyte has 64 of them: enough for every
/// thread, and for every multiprocessor of a GPU, to have some of its own.
const SIDE: u64 = 64;

/// Of numbers in fp32, in a mebibyte.
const PLANES_OF_A_MIB: u64 = (1 << 20) / (4 * SIDE * SIDE);

/// Numbers of either sign, as activations are: what GPUs draw for a product depends on them.
const NUMBERS: Fill = Fill::Uniform {
    low: -1.0,
    high: 1.0,
};

/// Their mean is not next to zero, so that its error is a matter of rounding and not of cancellation.
const POSITIVE: Fill = Fill::Uniform {
    low: 0.0,
    high: 1.0,
};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: PRODUCT,
        factors: &[],
        dims: dims::PRODUCT,
        sized: &[],
        build: product,
    },
    Entry {
        name: READING,
        factors: &[],
        dims: dims::READING,
        sized: &[],
        build: reading,
    },
];

fn product(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let size = sizes.get(SIZE);
    let mut net = GraphBuilder::new(sizes.name);
    let a = net.input("a", ElementType::Float, &[size, size], NUMBERS);
    let b = net.input("b", ElementType::Float, &[size, size], NUMBERS);
    let product = net.node("product", Op::MatMul, &[&a, &b]);
    net.output(&product, "ab");
    net.finish()
}

fn reading(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let planes = sizes.get(MIB).saturating_mul(PLANES_OF_A_MIB);
    let shape = [1, planes, SIDE, SIDE];
    let mut net = GraphBuilder::new(sizes.name);
    let x = net.input("x", ElementType::Float, &shape, POSITIVE);
    let means = net.node("mean", Op::GlobalAveragePool, &[&x]);
    net.output(&means, "means");
    net.finish()
}
