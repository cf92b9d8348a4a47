//! What a model makes: each output by a step of its own name, in the shape that it comes out. What
//! the file says of it is not asked: PyTorch's exporters write wrong shapes there, which ONNX Runtime
//! passes over, too.

use std::collections::BTreeSet;

use schema::graph::Op;

use super::{
    ReadError,
    attributes::Attributes,
    import::{Here, Import, Value, Work},
    tensor::{Element, Kind},
    whole,
};
use crate::onnx::proto::{NodeProto, ValueInfoProto};

/// Most outputs of a model: each is looked for among all.
const MOST_OUTPUTS: usize = 1024;

impl Import<'_> {
    /// Names of the outputs, which leave the model once each.
    pub(super) fn output_names(&self) -> Result<Vec<String>, ReadError> {
        let outputs = &self.nodes.output;
        if outputs.is_empty() || outputs.len() > MOST_OUTPUTS {
            let count = outputs.len();
            let reason = format!("it has {count} outputs, and 1 to {MOST_OUTPUTS} are read");
            return Err(ReadError::Malformed(reason));
        }
        let is_no_tensor = |of: &&ValueInfoProto| {
            let declared = of.r#type.as_ref();
            declared.is_some_and(|declared| declared.tensor_type.is_none())
        };
        if let Some(output) = outputs.iter().find(is_no_tensor) {
            let reason = format!(
                "its output `{}` is no tensor, and only tensors are read",
                output.name
            );
            return Err(ReadError::Malformed(reason));
        }
        // A value that is returned twice leaves the model once: engines tell outputs by their names.
        let mut there = BTreeSet::new();
        let names = outputs.iter().map(|output| &output.name);
        Ok(names.filter(|name| there.insert(*name)).cloned().collect())
    }

    /// Refuses an output that is said to be of floats and is of integers, or the other way round: ONNX
    /// Runtime, by which every file is run, refuses it.
    pub(super) fn check_output_types(&self) -> Result<(), ReadError> {
        for output in &self.nodes.output {
            let declared = output
                .r#type
                .as_ref()
                .and_then(|of| of.tensor_type.as_ref());
            let declared = declared.and_then(|of| Element::of(of.elem_type).ok());
            let Some(declared) = declared.filter(|declared| declared.kind != Kind::Other) else {
                continue;
            };
            let is_said = declared.kind == Kind::Float;
            if self.is_float(&output.name) == Some(!is_said) {
                let name = &output.name;
                let mut nodes = self.nodes.node.iter();
                let maker = nodes.find(|node| node.output.contains(name));
                let maker = maker.map_or(name.as_str(), whole::name_of);
                let (said, made) = match is_said {
                    true => ("floats", "integers or truth values"),
                    false => ("integers or truth values", "floats"),
                };
                return Err(ReadError::Malformed(format!(
                    "its output `{name}` is said to be of {said}, and the node `{maker}` makes {made}"
                )));
            }
        }
        Ok(())
    }

    /// Names of the outputs, each made by a step of its own name.
    pub(super) fn outputs(&mut self) -> Result<Vec<String>, ReadError> {
        let names = self.output_names()?;
        self.check_output_types()?;
        for name in &names {
            let wrong =
                |reason: String| ReadError::Malformed(format!("its output `{name}` {reason}"));
            let value = self.values.get(name).cloned();
            let value = value.ok_or_else(|| wrong("is made by nothing".to_owned()))?;
            let shape = self.shape_of(&value).map_err(wrong)?;
            let is_fed = self.inputs.iter().any(|input| input.name == *name);
            if is_fed || self.file.initializers.contains_key(name) {
                let reason = "it is fed, or one of the file's tensors, and no node makes it";
                let reason = format!("the output `{name}` leaves as it comes: {reason}");
                return Err(self.refusal("Identity".to_owned(), name.clone(), reason));
            }
            if !self.is_made_as(&value, name) {
                let node = NodeProto {
                    op_type: "Identity".to_owned(),
                    ..NodeProto::default()
                };
                let here = Here {
                    node: &node,
                    attributes: Attributes(&node),
                };
                let reshape = Work::Op(Op::Reshape { shape });
                let made = self.step(here, name.clone(), reshape, &[Some(value)]);
                made.map_err(|reason| self.not_left(name, &reason))?;
            }
        }
        Ok(names)
    }

    /// Why an output cannot leave the model, by the node that makes it.
    fn not_left(&self, name: &String, reason: &str) -> ReadError {
        let mut nodes = self.nodes.node.iter();
        let maker = nodes.find(|node| node.output.contains(name));
        let op = maker.map_or("Identity", |node| &node.op_type);
        let node = maker.map_or(name.as_str(), whole::name_of);
        let reason = format!("makes the output `{name}`, which {reason}");
        self.refusal(op.to_owned(), node.to_owned(), reason)
    }

    /// Whether a step makes the value by this name; a value that only copies of it lead out of the
    /// model gets the name.
    fn is_made_as(&mut self, value: &Value, name: &str) -> bool {
        let Value::Made(made) = value else {
            return false;
        };
        let is_step = self.steps.iter().any(|step| step.output == *made);
        let is_output = self.nodes.output.iter().any(|output| output.name == *made);
        if !is_step || made == name || is_output || self.types.contains_key(name) {
            return is_step && made == name;
        }
        if let Some(value) = self.types.remove(made) {
            self.types.insert(name.to_owned(), value);
        }
        for step in &mut self.steps {
            let named = step.inputs.iter_mut().chain([&mut step.output]);
            named
                .filter(|used| *used == made)
                .for_each(|used| name.clone_into(used));
        }
        for value in self.values.values_mut() {
            if let Value::Made(used) = value
                && used == made
            {
                name.clone_into(used);
            }
        }
        true
    }
}
