//! A network and everything around its operators: what is fed, what is held, how each lies in
//! memory, and the session that they live in.

use std::collections::{BTreeMap, BTreeSet};

use models::infer::{self, ValueType};
use schema::{
    Graph, Outcome,
    graph::{ElementType, Input, Loss, Op, Parameter, Role},
};
use tensorflow::{
    DataType, FunctionOptions, Operation, Output, Session, SessionOptions, SessionRunArgs,
};

use crate::{
    builder::{Builder, Made},
    configuration::{Compilation, Configuration},
    exchange::Exchange,
    failure::{failed, unsupported},
    form::{Form, Order},
    proto,
    tensors::{Host, Maker},
};

/// A network with what follows from it.
pub(crate) struct Network {
    /// The graph.
    pub(crate) graph: Graph,
    /// Types of all values.
    pub(crate) types: BTreeMap<String, ValueType>,
    /// Whether it is trained, so that labels are fed.
    trains: bool,
    orders: BTreeMap<String, Order>,
}

impl Network {
    /// Checks `graph` and decides how its parameters lie.
    pub(crate) fn new(graph: &Graph, trains: bool) -> Result<Self, Outcome> {
        let types = infer::shapes(graph).map_err(|error| unsupported(error.to_string()))?;
        Ok(Self {
            orders: orders(graph, &types),
            graph: graph.clone(),
            types,
            trains,
        })
    }

    /// What is fed: the inputs, and the labels when training.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Input> {
        let labels = match &self.graph.loss {
            Some(Loss::CrossEntropy { labels, .. }) if self.trains => Some(labels),
            _ => None,
        };
        self.graph.inputs.iter().chain(labels)
    }

    /// How an input lies: images with channels last, as a TensorFlow user feeds them.
    pub(crate) fn input_form(&self, input: &Input) -> Form {
        let image = input.shape.len() == 4 && input.element == ElementType::Float;
        let order = if image {
            Order::ChannelsLast
        } else {
            Order::Plain
        };
        Form::new(&input.shape, order)
    }

    /// How a parameter lies.
    pub(crate) fn parameter_form(&self, parameter: &Parameter) -> Form {
        let order = self.orders.get(&parameter.name).copied();
        Form::new(&parameter.shape, order.unwrap_or(Order::Plain))
    }

    /// TensorFlow's type of the value called `name`.
    pub(crate) fn data_type(&self, name: &str, configuration: &Configuration) -> DataType {
        match self.types.get(name).map(|value| value.element) {
            Some(ElementType::Int64) => DataType::Int64,
            _ => configuration.float.data_type(),
        }
    }
}

/// Whether a convolution has an operator of its own in TensorFlow: every input channel by itself,
/// the same step along both axes.
pub(crate) fn is_depthwise(
    channels: u64,
    weight: &[u64],
    [down, right]: [u64; 2],
    dilations: [u64; 2],
    group: u64,
) -> bool {
    group > 1
        && group == channels
        && weight.get(1) == Some(&1)
        && down == right
        && dilations == [1, 1]
}

/// How each parameter lies best: as all who read it want it, or in the graph's order where they
/// disagree.
fn orders(graph: &Graph, types: &BTreeMap<String, ValueType>) -> BTreeMap<String, Order> {
    let mut orders: BTreeMap<String, Order> = BTreeMap::new();
    let held: BTreeSet<&String> = graph.parameters.iter().map(|held| &held.name).collect();
    for node in &graph.nodes {
        for (position, name) in node.inputs.iter().enumerate() {
            if !held.contains(name) {
                continue;
            }
            let shape = |name: Option<&String>| {
                let value = name.and_then(|name| types.get(name));
                value.map_or(&[][..], |value| &value.shape)
            };
            let wanted = match (&node.op, position) {
                (
                    Op::Conv {
                        strides,
                        dilations,
                        group,
                        ..
                    },
                    1,
                ) => {
                    let channels = shape(node.inputs.first()).get(1).copied().unwrap_or(0);
                    let weight = shape(Some(name));
                    if is_depthwise(channels, weight, *strides, *dilations, *group) {
                        Order::Depthwise(channels)
                    } else {
                        Order::Filter
                    }
                }
                (Op::ConvTranspose { .. }, 1) => Order::Filter,
                (Op::Linear, 1) | (Op::Lstm { .. }, 1..) => Order::Transposed,
                _ => Order::Plain,
            };
            let order = orders.entry(name.clone()).or_insert(wanted);
            if *order != wanted {
                *order = Order::Plain;
            }
        }
    }
    orders
}

/// An argument of a step: an input, or the handle of a variable.
pub(crate) struct Argument {
    name: String,
    output: Output,
    element: DataType,
    /// Its shape as it lies; a handle has none.
    dims: Option<Vec<u64>>,
}

/// A variable of the session.
pub(crate) struct Variable {
    /// The parameter that it holds.
    pub(crate) parameter: Parameter,
    /// How it lies.
    pub(crate) form: Form,
    /// What operators know it by.
    pub(crate) handle: Output,
    /// Its value, to be fetched.
    pub(crate) value: Output,
    /// Where its first value is fed.
    start: Operation,
    /// Takes what is fed.
    assign: Operation,
}

/// The session's graph, with what is fed and what is held.
pub(crate) struct Ground {
    /// The graph.
    pub(crate) builder: Builder,
    /// What a step is given.
    pub(crate) arguments: Vec<Argument>,
    /// What is held in variables.
    pub(crate) variables: Vec<Variable>,
    fed: Vec<(Operation, Host)>,
    functions: u32,
}

impl Ground {
    /// Makes the placeholders and their values; variables for the parameters unless `frozen`.
    /// Constants are nobody's to move, and never variables.
    pub(crate) fn new(
        network: &Network,
        configuration: &Configuration,
        frozen: bool,
        maker: &mut Maker,
    ) -> Result<Self, Outcome> {
        let mut ground = Self {
            builder: Builder::new(configuration.float, configuration.compilation),
            arguments: Vec::new(),
            variables: Vec::new(),
            fed: Vec::new(),
            functions: 0,
        };
        for input in network.inputs() {
            let form = network.input_form(input);
            let value = maker.input(input, &form)?;
            ground.feed(&input.name, value, &form)?;
        }
        for parameter in &network.graph.parameters {
            if !frozen && parameter.role != Role::Constant {
                let form = network.parameter_form(parameter);
                ground.hold(parameter, form)?;
            }
        }
        ground.builder.enter("");
        Ok(ground)
    }

    fn feed(&mut self, name: &str, value: Host, form: &Form) -> Result<(), Outcome> {
        self.builder.enter(name);
        let dims = form.dims();
        let element = value.data_type();
        let placeholder = self
            .builder
            .placeholder(element, Some(&dims))
            .map_err(|status| failed(name, &status))?;
        self.arguments.push(Argument {
            name: name.to_owned(),
            output: placeholder.clone().into(),
            element,
            dims: Some(dims),
        });
        self.fed.push((placeholder, value));
        Ok(())
    }

    fn hold(&mut self, parameter: &Parameter, form: Form) -> Result<(), Outcome> {
        let name = &parameter.name;
        self.builder.enter(name);
        let variable = self
            .variable(parameter, form)
            .map_err(|status| failed(name, &status))?;
        self.arguments.push(Argument {
            name: name.clone(),
            output: variable.handle.clone(),
            element: DataType::Resource,
            dims: None,
        });
        self.variables.push(variable);
        Ok(())
    }

    /// A variable besides the network's, and its handle by the name that it is given under.
    pub(crate) fn slot(
        &mut self,
        purpose: &str,
        element: DataType,
        dims: &[u64],
    ) -> Result<(String, Output), Outcome> {
        let mut name = purpose.to_owned();
        while self.arguments.iter().any(|taken| taken.name == name) {
            name.push('\'');
        }
        let output = handle(&mut self.builder, &name, element, dims)
            .map_err(|status| failed(&name, &status))?;
        self.arguments.push(Argument {
            name: name.clone(),
            output: output.clone(),
            element: DataType::Resource,
            dims: None,
        });
        Ok((name, output))
    }

    fn variable(&mut self, parameter: &Parameter, form: Form) -> Made<Variable> {
        let builder = &mut self.builder;
        let element = builder.float.data_type();
        let dims = form.dims();
        let handle = handle(builder, &parameter.name, element, &dims)?;
        let value = builder.read(&handle, element)?;
        let start = builder.placeholder(element, Some(&dims))?;
        let assign = assign(builder, &handle, &start.clone().into(), element)?;
        Ok(Variable {
            parameter: parameter.clone(),
            form,
            handle,
            value,
            start,
            assign,
        })
    }

    /// Adds a computation over the arguments: compiled as a whole, or operator by operator.
    /// `body` gets the arguments by name and gives the outputs, with their types.
    pub(crate) fn call(
        &mut self,
        body: impl FnOnce(&mut Builder, &BTreeMap<String, Output>) -> Result<Vec<Output>, Outcome>,
        types: &[DataType],
    ) -> Result<Vec<Output>, Outcome> {
        if self.builder.compilation != Compilation::Whole {
            let given = self.arguments.iter();
            let given = given.map(|given| (given.name.clone(), given.output.clone()));
            return body(&mut self.builder, &given.collect());
        }
        let refused = |status| failed("the function that XLA compiles", &status);
        let mut inner = Builder::new(self.builder.float, self.builder.compilation);
        let mut inputs = Vec::with_capacity(self.arguments.len());
        let mut given = BTreeMap::new();
        for argument in &self.arguments {
            let placeholder = inner
                .placeholder(argument.element, argument.dims.as_deref())
                .map_err(refused)?;
            let output = Output::from(placeholder);
            given.insert(argument.name.clone(), output.clone());
            inputs.push(output);
        }
        let outputs = body(&mut inner, &given)?;
        self.functions += 1;
        let name = format!("step_{}", self.functions);
        let function = inner
            .graph
            .to_function(
                &name,
                false,
                None,
                &inputs,
                &outputs,
                None::<&[&str]>,
                &FunctionOptions::new(),
                None,
            )
            .map_err(refused)?;
        self.builder
            .graph
            .copy_function(&function, None)
            .map_err(refused)?;
        let operation = self.compiled(&name, types).map_err(refused)?;
        Ok((0..types.len())
            .map(|index| operation.output(index))
            .collect())
    }

    /// A call of the function `name` that must be compiled.
    fn compiled(&mut self, name: &str, types: &[DataType]) -> Made<Operation> {
        let inputs: Vec<Output> = self
            .arguments
            .iter()
            .map(|argument| argument.output.clone())
            .collect();
        let elements: Vec<DataType> = self
            .arguments
            .iter()
            .map(|argument| argument.element)
            .collect();
        self.builder.operation("StatefulPartitionedCall", |call| {
            call.add_input_list(&inputs);
            call.set_attr_type_list("Tin", &elements)?;
            call.set_attr_type_list("Tout", types)?;
            call.set_attr_func_name("f", name)?;
            Ok(call.set_attr_bool("_XlaMustCompile", true)?)
        })
    }

    /// Where a step is given what it is given, in order.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Operation> {
        self.fed.iter().map(|(placeholder, _)| placeholder)
    }

    /// Feeds everything that a step is given.
    pub(crate) fn feed_to<'a>(&'a self, args: &mut SessionRunArgs<'a>) {
        for (placeholder, value) in &self.fed {
            value.feed(args, placeholder);
        }
    }

    /// Takes what is fed into the caller's memory.
    pub(crate) fn exchange(&mut self) -> Exchange {
        Exchange::of(self.fed.iter_mut().map(|(_, value)| value))
    }

    /// Copies what the caller sends to what is fed.
    pub(crate) fn send(&mut self, exchange: &Exchange) -> Result<(), Outcome> {
        exchange.send(self.fed.iter_mut().map(|(_, value)| value))
    }

    /// A session over the graph.
    pub(crate) fn session(&self, configuration: &Configuration) -> Result<Session, Outcome> {
        let mut options = SessionOptions::new();
        options
            .set_config(&proto::session(configuration))
            .and_then(|()| Session::new(&options, &self.builder.graph))
            .map_err(|status| failed("session", &status))
    }

    /// Puts every variable to its first value. (TensorFlow takes the memory over: nothing is
    /// copied, and the first update of a variable makes its own.)
    pub(crate) fn restart(&self, session: &Session, maker: &mut Maker) -> Result<(), Outcome> {
        if self.variables.is_empty() {
            return Ok(());
        }
        let mut values = Vec::with_capacity(self.variables.len());
        for variable in &self.variables {
            values.push(maker.parameter(&variable.parameter, &variable.form)?);
        }
        let mut args = SessionRunArgs::new();
        for (variable, value) in self.variables.iter().zip(&values) {
            value.feed(&mut args, &variable.start);
            args.add_target(&variable.assign);
        }
        session
            .run(&mut args)
            .map_err(|status| failed("variables", &status))
    }
}

/// The handle of a variable of this name.
fn handle(builder: &mut Builder, name: &str, element: DataType, dims: &[u64]) -> Made<Output> {
    let sizes = dims.iter().map(|&size| Some(crate::builder::wide(size)));
    let shape = tensorflow::Shape::new(Some(sizes.collect()));
    builder.with("VarHandleOp", &[], |variable| {
        variable.set_attr_type("dtype", element)?;
        variable.set_attr_shape("shape", &shape)?;
        Ok(variable.set_attr_string("shared_name", name)?)
    })
}

/// Gives a variable a value.
pub(crate) fn assign(
    builder: &mut Builder,
    handle: &Output,
    value: &Output,
    element: DataType,
) -> Made<Operation> {
    builder.operation("AssignVariableOp", |assign| {
        assign.add_input(handle.clone());
        assign.add_input(value.clone());
        Ok(assign.set_attr_type("dtype", element)?)
    })
}
