//! What the tests of this worker share: cells, one-node graphs, and plain arithmetic in binary64
//! to hold PyTorch's results against.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test is a program and uses a part of it"
)]

pub mod ranks;

use models::fill;
use photofinish_worker_torch::Torch;
use schema::{
    Cell, Graph, Mode, Optimizer, Outcome, Precision,
    graph::{ElementType, Fill, Input, Node, Op, Parameter, Role},
    protocol::Load,
};
use worker::{Engine as _, LoadReport, Session, Values};

/// A cell for `graph` on this worker, on one thread of the CPU.
pub fn cell(graph: &Graph, precision: Precision, optimizer: Option<Optimizer>) -> Cell {
    Cell {
        precision,
        mode: if optimizer.is_some() {
            Mode::Training
        } else {
            Mode::Inference
        },
        optimizer,
        ..Cell::plain(graph, "pytorch/eager".parse().unwrap())
    }
}

/// Loads `graph` as `cell` says.
pub fn load(graph: &Graph, cell: Cell) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
    let scratch = tempfile::tempdir().unwrap();
    Torch::default().load(&Load {
        cell,
        graph: graph.clone(),
        files: None,
        scratch: scratch.path().to_owned(),
    })
}

/// SGD with everything that it has.
pub const SGD: Optimizer = Optimizer::Sgd {
    learning_rate: 0.1,
    momentum: 0.9,
    weight_decay: 0.01,
};

/// Numbers with a shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

impl Array {
    pub fn new(shape: &[usize], data: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len());
        Self {
            shape: shape.to_vec(),
            data,
        }
    }

    /// The numbers of a tensor filled with `fill`, as every worker makes them.
    pub fn filled(name: &str, shape: &[usize], fill: Fill) -> Self {
        let count = shape.iter().product();
        let data = fill::floats(name, &fill, count);
        Self::new(shape, data.into_iter().map(f64::from).collect())
    }

    /// The element at `index`.
    pub fn at(&self, index: &[usize]) -> f64 {
        let flat = self
            .shape
            .iter()
            .zip(index)
            .fold(0, |flat, (size, i)| flat * size + i);
        self.data[flat]
    }

    /// An array computed element by element.
    pub fn from_fn(shape: &[usize], mut f: impl FnMut(&[usize]) -> f64) -> Self {
        let count: usize = shape.iter().product();
        let mut index = vec![0; shape.len()];
        let data = (0..count)
            .map(|flat| {
                let mut rest = flat;
                for axis in (0..shape.len()).rev() {
                    index[axis] = rest % shape[axis];
                    rest /= shape[axis];
                }
                f(&index)
            })
            .collect();
        Self::new(shape, data)
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(&self.shape, self.data.iter().map(|&x| f(x)).collect())
    }
}

/// An operand of a node under test: a name, a shape, numbers.
pub struct Operand {
    pub name: &'static str,
    pub shape: Vec<usize>,
    pub fill: Fill,
    pub element: ElementType,
    pub role: Role,
}

pub fn operand(name: &'static str, shape: &[usize]) -> Operand {
    Operand {
        name,
        shape: shape.to_vec(),
        fill: Fill::Uniform {
            low: -2.0,
            high: 2.0,
        },
        element: ElementType::Float,
        role: Role::Weight,
    }
}

impl Operand {
    pub fn array(&self) -> Array {
        match self.element {
            ElementType::Float => Array::filled(self.name, &self.shape, self.fill),
            ElementType::Int64 => {
                let shape = wide(&self.shape);
                let data = fill::integers(self.name, &self.fill, &shape);
                Array::new(&self.shape, data.into_iter().map(|i| i as f64).collect())
            }
        }
    }
}

pub fn wide(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&size| size as u64).collect()
}

/// A graph of one node. The first operand is an input, as are integers; the others are held.
pub fn single(op: Op, operands: &[Operand]) -> Graph {
    let (inputs, parameters): (Vec<_>, Vec<_>) = operands
        .iter()
        .enumerate()
        .partition(|(position, operand)| *position == 0 || operand.element == ElementType::Int64);
    Graph {
        name: op.name().to_owned(),
        inputs: inputs
            .into_iter()
            .map(|(_, operand)| Input {
                name: operand.name.to_owned(),
                element: operand.element,
                shape: wide(&operand.shape),
                fill: operand.fill,
            })
            .collect(),
        parameters: parameters
            .into_iter()
            .map(|(_, operand)| Parameter {
                name: operand.name.to_owned(),
                shape: wide(&operand.shape),
                role: operand.role,
                fill: operand.fill,
            })
            .collect(),
        nodes: vec![Node {
            name: "node".to_owned(),
            op,
            inputs: operands
                .iter()
                .map(|operand| operand.name.to_owned())
                .collect(),
            outputs: vec!["output".to_owned()],
            in_place: false,
        }],
        outputs: vec!["output".to_owned()],
        loss: None,
    }
}

/// The tensors of a parity answer, in binary64.
pub fn arrays(tensors: &[worker::Tensor]) -> Vec<Array> {
    tensors
        .iter()
        .map(|tensor| {
            let shape: Vec<usize> = tensor.shape.iter().map(|&size| size as usize).collect();
            let data = match &tensor.values {
                Values::F32(values) => values.iter().map(|&x| f64::from(x)).collect(),
                Values::F64(values) => values.clone(),
            };
            Array::new(&shape, data)
        })
        .collect()
}

/// The outputs of a graph in fp64.
pub fn outputs(graph: &Graph) -> Vec<Array> {
    let (mut session, _) = load(graph, cell(graph, Precision::Fp64, None)).unwrap();
    arrays(&session.parity(1).unwrap().tensors)
}

/// Asserts that two arrays agree to binary64's precision.
pub fn assert_close(actual: &Array, expected: &Array, context: &str) {
    assert_eq!(actual.shape, expected.shape, "{context}: shapes");
    for (i, (a, e)) in actual.data.iter().zip(&expected.data).enumerate() {
        let close = (a - e).abs() <= 1e-12 * (1.0 + e.abs());
        assert!(close, "{context}: element {i} is {a}, expected {e}");
    }
}
