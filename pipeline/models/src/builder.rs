//! Writing a network down: values go in, values come out, names are paths.
//!
//! # Numbers that keep activations alive
//! Every layer starts from uniform weights with a bound that makes the variance of its output 1,
//! given the second moment `m = E[x²]` of its input: `bound = √(3 / (fan_in · m))`, since a uniform
//! number in `±b` has variance `b²/3` (the rule of He et al. 2015, with `m` in place of the ½ that
//! follows a ReLU). [`moment`] holds `m` behind each activation. Running statistics then lie near
//! those of a real batch (mean 0, variance 1), so inference and training see activations of the
//! same order. Scales, shifts and statistics are spread a little around their usual 1 and 0, so
//! that a lowering that mixes them up is found out by parity.

use schema::{
    Graph,
    graph::{ElementType, Fill, Input, Loss, Node, Op, Parameter, Role},
};

use crate::{ModelError, infer::Scope};

/// Second moments `E[x²]` behind an activation whose input has variance 1 and mean 0.
pub mod moment {
    /// No activation.
    pub const LINEAR: f64 = 1.0;
    /// Half of a symmetric distribution is cut away.
    pub const RELU: f64 = 0.5;
    /// `E[(x·sigmoid(x))²]`, by numerical integration.
    pub const SILU: f64 = 0.3557;
    /// `E[(x·Φ(x))²]`, by numerical integration.
    pub const GELU: f64 = 0.4252;
    /// Outputs of an LSTM as [`super::GraphBuilder::recurrent`] fills it, by simulation.
    pub const LSTM: f64 = 0.05;
    /// Outputs of a GRU as [`super::GraphBuilder::recurrent`] fills it, by simulation.
    pub const GRU: f64 = 0.2;
}

/// Half the width of the spread of scales, shifts and running statistics.
const SPREAD: f32 = 0.1;

/// A value of the graph under construction.
#[derive(Debug, Clone)]
pub struct Value(String);

/// A convolution.
#[derive(Debug, Clone, Copy)]
pub struct Conv {
    /// Output channels.
    pub out: u64,
    /// Height and width of the kernel.
    pub kernel: [u64; 2],
    /// Padding above and below, left and right.
    pub padding: [u64; 2],
    /// Step along height and width.
    pub strides: [u64; 2],
    /// Number of groups.
    pub group: u64,
    /// Whether it adds a bias.
    pub bias: bool,
    /// Second moment of its input; see [`moment`].
    pub moment: f64,
}

impl Conv {
    /// A convolution with a square kernel, step 1, one group and no bias, behind no activation.
    /// Its padding is `kernel / 2` on all sides: "same" for odd kernels.
    #[must_use]
    pub const fn new(out: u64, kernel: u64) -> Self {
        Self::rectangle(out, [kernel; 2])
    }

    /// As [`Conv::new`], with another height than width.
    #[must_use]
    pub const fn rectangle(out: u64, kernel: [u64; 2]) -> Self {
        Self {
            out,
            kernel,
            padding: [kernel[0] / 2, kernel[1] / 2],
            strides: [1; 2],
            group: 1,
            bias: false,
            moment: moment::LINEAR,
        }
    }

    /// Without padding.
    #[must_use]
    pub const fn valid(self) -> Self {
        Self {
            padding: [0; 2],
            ..self
        }
    }

    /// With another step.
    #[must_use]
    pub const fn stride(self, stride: u64) -> Self {
        self.strides([stride; 2])
    }

    /// With other steps along height and width.
    #[must_use]
    pub const fn strides(self, strides: [u64; 2]) -> Self {
        Self { strides, ..self }
    }

    /// In groups.
    #[must_use]
    pub const fn group(self, group: u64) -> Self {
        Self { group, ..self }
    }

    /// With a bias.
    #[must_use]
    pub const fn bias(self) -> Self {
        Self { bias: true, ..self }
    }

    /// Behind an activation with this second moment.
    #[must_use]
    pub const fn after(self, moment: f64) -> Self {
        Self { moment, ..self }
    }
}

/// What a recurrent layer does at each position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecurrentCell {
    /// [`Op::Lstm`].
    Lstm,
    /// [`Op::Gru`].
    Gru,
}

/// A recurrent layer.
#[derive(Debug, Clone, Copy)]
pub struct Recurrent {
    /// What it does at each position.
    pub cell: RecurrentCell,
    /// Units of one direction.
    pub size: u64,
    /// Whether it reads the sequence from both ends.
    pub bidirectional: bool,
    /// Second moment of its input; see [`moment`].
    pub moment: f64,
}

/// Collects a graph. The first mistake is kept and comes out of [`GraphBuilder::finish`], so that
/// definitions read without error handling at every line.
pub struct GraphBuilder {
    graph: Graph,
    scope: Scope,
    error: Option<ModelError>,
}

impl GraphBuilder {
    /// An empty graph.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            graph: Graph {
                name: name.to_owned(),
                inputs: Vec::new(),
                parameters: Vec::new(),
                nodes: Vec::new(),
                outputs: Vec::new(),
                loss: None,
            },
            scope: Scope::new(name),
            error: None,
        }
    }

    /// Size of an axis of a value; 1 where an earlier mistake left it unknown.
    #[must_use]
    pub fn size(&self, value: &Value, axis: usize) -> u64 {
        self.scope
            .get(&value.0)
            .and_then(|value| value.shape.get(axis))
            .copied()
            .unwrap_or(1)
    }

    /// Something that a caller feeds.
    pub fn input(&mut self, name: &str, element: ElementType, shape: &[u64], fill: Fill) -> Value {
        let input = Input {
            name: name.to_owned(),
            element,
            shape: shape.to_vec(),
            fill,
        };
        let checked = self.scope.add_input(&input);
        self.note(checked);
        self.graph.inputs.push(input);
        Value(name.to_owned())
    }

    /// A batch of square RGB images with mean 0 and variance 1, like normalised photographs.
    pub fn images(&mut self, batch: u64, image: u64) -> Value {
        let bound = uniform_bound(1.0);
        let fill = Fill::Uniform {
            low: -bound,
            high: bound,
        };
        self.input("input", ElementType::Float, &[batch, 3, image, image], fill)
    }

    /// A weight, buffer or constant.
    pub fn parameter(&mut self, name: &str, shape: &[u64], role: Role, fill: Fill) -> Value {
        let parameter = Parameter {
            name: name.to_owned(),
            shape: shape.to_vec(),
            role,
            fill,
        };
        let checked = self.scope.add_parameter(&parameter);
        self.note(checked);
        self.graph.parameters.push(parameter);
        Value(name.to_owned())
    }

    /// A weight with mean 0 and this variance.
    pub fn weight(&mut self, name: &str, shape: &[u64], variance: f64) -> Value {
        let bound = uniform_bound(variance);
        self.parameter(
            name,
            shape,
            Role::Weight,
            Fill::Uniform {
                low: -bound,
                high: bound,
            },
        )
    }

    /// Any operator.
    pub fn node(&mut self, name: &str, op: Op, inputs: &[&Value]) -> Value {
        self.push(name, op, inputs, false)
    }

    /// An operator that the published PyTorch code runs in place: over its first operand.
    pub fn node_in_place(&mut self, name: &str, op: Op, inputs: &[&Value]) -> Value {
        self.push(name, op, inputs, true)
    }

    fn push(&mut self, name: &str, op: Op, inputs: &[&Value], in_place: bool) -> Value {
        let node = Node {
            name: name.to_owned(),
            op,
            inputs: inputs.iter().map(|value| value.0.clone()).collect(),
            outputs: vec![name.to_owned()],
            in_place,
        };
        // After a mistake, later complaints would only be its echoes.
        if self.error.is_none() {
            let checked = self.scope.add_node(&node);
            self.note(checked);
        }
        self.graph.nodes.push(node);
        Value(name.to_owned())
    }

    /// A convolution with weights `name.weight` and `name.bias`.
    pub fn conv(&mut self, x: &Value, name: &str, conv: Conv) -> Value {
        let Conv {
            out,
            kernel: [height, width],
            padding: [above, left],
            strides,
            group,
            bias,
            moment,
        } = conv;
        let per_group = self.size(x, 1) / group.max(1);
        let fan_in = (per_group * height * width) as f64;
        let shape = [out, per_group, height, width];
        let weight = self.weight(&format!("{name}.weight"), &shape, 1.0 / (fan_in * moment));
        let op = Op::Conv {
            strides,
            pads: [above, left, above, left],
            dilations: [1; 2],
            group,
        };
        if bias {
            let bias = self.shift(&format!("{name}.bias"), out);
            self.node(name, op, &[x, &weight, &bias])
        } else {
            self.node(name, op, &[x, &weight])
        }
    }

    /// Batch normalisation with PyTorch's defaults (epsilon 1e-5, momentum 0.1), scales around
    /// `scale`.
    pub fn batch_norm(&mut self, x: &Value, name: &str, scale: f32) -> Value {
        self.batch_norm_with(x, name, scale, 1e-5)
    }

    /// As [`GraphBuilder::batch_norm`], with another epsilon.
    pub fn batch_norm_with(&mut self, x: &Value, name: &str, scale: f32, epsilon: f32) -> Value {
        let channels = self.size(x, 1);
        let gamma = self.scale(&format!("{name}.weight"), channels, Role::Weight, scale);
        let beta = self.shift(&format!("{name}.bias"), channels);
        let mean = self.parameter(
            &format!("{name}.running_mean"),
            &[channels],
            Role::Buffer,
            Fill::Uniform {
                low: -SPREAD,
                high: SPREAD,
            },
        );
        let variance = self.scale(&format!("{name}.running_var"), channels, Role::Buffer, 1.0);
        let op = Op::BatchNormalization {
            epsilon,
            momentum: 0.1,
        };
        self.node(name, op, &[x, &gamma, &beta, &mean, &variance])
    }

    /// Layer normalisation over the last axis.
    pub fn layer_norm(&mut self, x: &Value, name: &str, epsilon: f32) -> Value {
        let width = self.last(x);
        let gamma = self.scale(&format!("{name}.weight"), width, Role::Weight, 1.0);
        let beta = self.shift(&format!("{name}.bias"), width);
        self.node(
            name,
            Op::LayerNormalization { epsilon },
            &[x, &gamma, &beta],
        )
    }

    /// `x · weightᵀ + bias` behind an activation with second moment `moment`; the output's
    /// variance is `variance`.
    pub fn linear(&mut self, x: &Value, name: &str, out: u64, moment: f64, variance: f64) -> Value {
        let width = self.last(x);
        let weight_variance = variance / (width as f64 * moment);
        let weight = self.weight(&format!("{name}.weight"), &[out, width], weight_variance);
        let bias = self.shift(&format!("{name}.bias"), out);
        self.node(name, Op::Linear, &[x, &weight, &bias])
    }

    /// `x · weight + bias` with a weight that lies as `[in, out]`: Hugging Face's `Conv1D`; otherwise
    /// as [`GraphBuilder::linear`].
    pub fn gemm(&mut self, x: &Value, name: &str, out: u64, moment: f64, variance: f64) -> Value {
        let width = self.last(x);
        let weight_variance = variance / (width as f64 * moment);
        let weight = self.weight(&format!("{name}.weight"), &[width, out], weight_variance);
        let bias = self.shift(&format!("{name}.bias"), out);
        self.node(name, Op::Gemm, &[x, &weight, &bias])
    }

    /// A layer of long short-term memory or of gated recurrent units, whose parameters have the
    /// names that they have in PyTorch's module `module` as its layer `layer`. Of the variance of
    /// what enters a gate, the input (with second moment `moment`) makes 1 and the state ¼: enough
    /// to matter, too little to turn rounding into chaos.
    pub fn recurrent(&mut self, x: &Value, module: &str, layer: u64, what: Recurrent) -> Value {
        let Recurrent {
            cell,
            size,
            bidirectional,
            moment,
        } = what;
        let (gates, state_moment, op) = match cell {
            RecurrentCell::Lstm => (4, moment::LSTM, Op::Lstm { bidirectional }),
            RecurrentCell::Gru => (3, moment::GRU, Op::Gru { bidirectional }),
        };
        let (rows, features) = (gates * size, self.last(x));
        let mut reads = vec![x.clone()];
        let directions: &[&str] = if bidirectional {
            &["", "_reverse"]
        } else {
            &[""]
        };
        for direction in directions {
            let own = |part: &str| format!("{module}.{part}_l{layer}{direction}");
            let input_variance = 1.0 / (features as f64 * moment);
            let state_variance = 0.25 / (size as f64 * state_moment);
            reads.extend([
                self.weight(&own("weight_ih"), &[rows, features], input_variance),
                self.weight(&own("weight_hh"), &[rows, size], state_variance),
                self.shift(&own("bias_ih"), rows),
                self.shift(&own("bias_hh"), rows),
            ]);
        }
        let reads: Vec<&Value> = reads.iter().collect();
        self.node(&format!("{module}.l{layer}"), op, &reads)
    }

    /// Rows of a table `name.weight` with entries of this variance.
    pub fn embedding(
        &mut self,
        ids: &Value,
        name: &str,
        rows: u64,
        width: u64,
        variance: f64,
    ) -> Value {
        let table = self.weight(&format!("{name}.weight"), &[rows, width], variance);
        self.node(name, Op::Gather, &[&table, ids])
    }

    /// Elementwise sum, published as `a + b`.
    pub fn add(&mut self, a: &Value, b: &Value, name: &str) -> Value {
        self.node(name, Op::Add, &[a, b])
    }

    /// Elementwise sum, published as `a += b`.
    pub fn add_to(&mut self, a: &Value, b: &Value, name: &str) -> Value {
        self.node_in_place(name, Op::Add, &[a, b])
    }

    /// Declares an output and gives the value its lasting name. The handle `value` is stale
    /// afterwards, so outputs come last.
    pub fn output(&mut self, value: &Value, name: &str) {
        if self.scope.get(name).is_some() {
            let reason = "an output's name is taken by another value".to_owned();
            let graph = self.graph.name.clone();
            self.note(Err(ModelError::Value {
                graph,
                value: name.to_owned(),
                reason,
            }));
        }
        let named = self
            .graph
            .nodes
            .iter_mut()
            .flat_map(|node| node.inputs.iter_mut().chain(node.outputs.iter_mut()));
        named
            .filter(|used| **used == value.0)
            .for_each(|used| name.clone_into(used));
        self.graph.outputs.push(name.to_owned());
    }

    /// Declares the loss: cross-entropy of the output `logits` over its last axis, against labels
    /// that cover all classes.
    pub fn cross_entropy(&mut self, logits: &str, positions: &[u64], classes: u64) {
        self.graph.loss = Some(Loss::CrossEntropy {
            logits: logits.to_owned(),
            labels: Input {
                name: "labels".to_owned(),
                element: ElementType::Int64,
                shape: positions.to_vec(),
                fill: Fill::Integers { bound: classes },
            },
        });
    }

    /// The graph, checked as a whole.
    ///
    /// # Errors
    /// The first mistake that was made.
    pub fn finish(self) -> Result<Graph, ModelError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        crate::infer::shapes(&self.graph)?;
        Ok(self.graph)
    }

    fn scale(&mut self, name: &str, size: u64, role: Role, centre: f32) -> Value {
        let (low, high) = (centre * (1.0 - SPREAD), centre * (1.0 + SPREAD));
        self.parameter(name, &[size], role, Fill::Uniform { low, high })
    }

    fn shift(&mut self, name: &str, size: u64) -> Value {
        let fill = Fill::Uniform {
            low: -SPREAD,
            high: SPREAD,
        };
        self.parameter(name, &[size], Role::Weight, fill)
    }

    fn last(&self, value: &Value) -> u64 {
        self.scope
            .get(&value.0)
            .and_then(|value| value.shape.last())
            .copied()
            .unwrap_or(1)
    }

    fn note(&mut self, checked: Result<(), ModelError>) {
        if let Err(error) = checked {
            self.error.get_or_insert(error);
        }
    }
}

/// Bound of a uniform distribution around 0 with this variance.
fn uniform_bound(variance: f64) -> f32 {
    (3.0 * variance).sqrt() as f32
}
