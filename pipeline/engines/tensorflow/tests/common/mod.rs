//! What the tests of this worker share: cells, small graphs, and the numbers that come back.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test is a program and uses a part of it"
)]

#[path = "../../../onnxruntime/tests/support/outputs.rs"]
mod shared;

use std::collections::BTreeMap;

use photofinish_worker_tensorflow::TensorFlow;
use schema::{
    Boundary, Cell, Device, Digest, EngineVariant, Graph, HostLanguage, Mode, Model, ModelSource,
    Optimizer, Outcome, Precision, Strategy,
    graph::{ElementType, Fill, Input, Loss, Node, Op, Parameter, Role},
    protocol::Load,
};
use worker::{Engine as _, LoadReport, Session};

pub use shared::{Array, arrays, onnx_outputs, relative_l2};

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
        ..Cell::plain(graph, "tensorflow/graph".parse().unwrap())
    }
}

/// Loads `graph` as `cell` says.
pub fn load(graph: &Graph, cell: Cell) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
    TensorFlow.load(&Load {
        cell,
        graph: graph.clone(),
        files: None,
        scratch: std::env::temp_dir(),
    })
}

/// The outputs of a graph on a variant of this worker.
pub fn outputs(graph: &Graph, precision: Precision, variant: &str, weights: &str) -> Vec<Array> {
    let mut cell = cell(graph, precision, None);
    cell.engine.variant = variant.to_owned();
    cell.factors
        .insert("weights".to_owned(), weights.to_owned());
    let (mut session, _) = load(graph, cell).unwrap_or_else(|outcome| panic!("{outcome:?}"));
    session
        .step()
        .unwrap_or_else(|outcome| panic!("{outcome:?}"));
    arrays(&session.parity(1).unwrap().tensors)
}

/// An operand of a node under test.
#[derive(Clone)]
pub struct Operand {
    pub name: String,
    pub shape: Vec<u64>,
    pub fill: Fill,
    pub element: ElementType,
    /// Absent for an input.
    pub role: Option<Role>,
}

const SPREAD: Fill = Fill::Uniform {
    low: -2.0,
    high: 2.0,
};

/// Something that is fed.
pub fn fed(name: &str, shape: &[u64]) -> Operand {
    Operand {
        name: name.to_owned(),
        shape: shape.to_vec(),
        fill: SPREAD,
        element: ElementType::Float,
        role: None,
    }
}

/// A weight.
pub fn held(name: &str, shape: &[u64]) -> Operand {
    Operand {
        role: Some(Role::Weight),
        ..fed(name, shape)
    }
}

/// A running statistic: positive.
pub fn buffer(name: &str, size: u64) -> Operand {
    Operand {
        role: Some(Role::Buffer),
        fill: Fill::Uniform {
            low: 0.5,
            high: 2.0,
        },
        ..fed(name, &[size])
    }
}

/// Numbers of rows below `bound`, fed.
pub fn indices(name: &str, shape: &[u64], bound: u64) -> Operand {
    Operand {
        fill: Fill::Integers { bound },
        element: ElementType::Int64,
        ..fed(name, shape)
    }
}

/// A graph in the making.
pub struct Sketch {
    graph: Graph,
}

impl Sketch {
    pub fn new(name: &str) -> Self {
        Self {
            graph: Graph {
                name: name.to_owned(),
                inputs: vec![],
                parameters: vec![],
                nodes: vec![],
                outputs: vec![],
                loss: None,
            },
        }
    }

    /// Adds a node; operands that nothing has made yet are added, too. Gives its value's name.
    pub fn node(&mut self, op: Op, operands: &[Operand]) -> Operand {
        for operand in operands {
            self.declare(operand);
        }
        let name = format!("node{}", self.graph.nodes.len());
        self.graph.nodes.push(Node {
            name: name.clone(),
            op,
            inputs: operands.iter().map(|o| o.name.clone()).collect(),
            outputs: vec![name.clone()],
            in_place: false,
        });
        fed(&name, &[])
    }

    fn declare(&mut self, operand: &Operand) {
        let graph = &mut self.graph;
        let known = graph.inputs.iter().any(|input| input.name == operand.name)
            || graph
                .parameters
                .iter()
                .any(|held| held.name == operand.name)
            || graph.nodes.iter().any(|node| node.name == operand.name);
        let Operand {
            name,
            shape,
            fill,
            element,
            role,
        } = operand.clone();
        match (known, role) {
            (true, _) => {}
            (false, Some(role)) => graph.parameters.push(Parameter {
                name,
                shape,
                role,
                fill,
            }),
            (false, None) => graph.inputs.push(Input {
                name,
                element,
                shape,
                fill,
            }),
        }
    }

    /// The graph, which ends in `output`.
    pub fn end(mut self, output: &Operand) -> Graph {
        self.graph.outputs = vec![output.name.clone()];
        self.graph
    }

    /// The graph, which ends in `logits` and is trained to tell classes apart.
    pub fn end_with_loss(self, logits: &Operand, labels: &[u64], classes: u64) -> Graph {
        let mut graph = self.end(logits);
        graph.loss = Some(Loss::CrossEntropy {
            logits: logits.name.clone(),
            labels: Input {
                name: "labels".to_owned(),
                element: ElementType::Int64,
                shape: labels.to_vec(),
                fill: Fill::Integers { bound: classes },
            },
        });
        graph
    }
}

/// A graph of one node.
pub fn single(op: Op, operands: &[Operand]) -> Graph {
    let mut sketch = Sketch::new(op.name());
    let output = sketch.node(op, operands);
    sketch.end(&output)
}

/// A convolution with padding on all sides.
pub fn conv(stride: u64, pad: u64, group: u64) -> Op {
    Op::Conv {
        strides: [stride; 2],
        pads: [pad; 4],
        dilations: [1, 1],
        group,
    }
}
