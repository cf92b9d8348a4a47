//! How large constants get that are not worked out. What engines are given as it is, they work out
//! themselves: a file of a hundred bytes may double a list until no memory holds it. So sizes are followed on,
//! where there are more numbers than are computed while reading.

use super::{
    ReadError,
    arithmetic::{binary, unary},
    attributes::Attributes,
    import::{Import, Value},
    shapes, whole,
};
use crate::{
    infer::{MAX_RANK, ValueType, broadcast},
    onnx::proto::NodeProto,
};
use schema::graph::ElementType;

impl Import<'_> {
    /// Whether a node reads constants alone, some of which were not worked out.
    pub(super) fn reads_grown(&self, node: &NodeProto) -> bool {
        let mut read = node.input.iter().filter(|name| !name.is_empty());
        self.is_constant(node) && read.any(|name| self.grown.contains(name))
    }

    fn is_constant(&self, node: &NodeProto) -> bool {
        let mut read = node.input.iter().filter(|name| !name.is_empty());
        read.all(|name| {
            let is_known = matches!(self.values.get(name), Some(Value::Known(_)));
            is_known || self.grown.contains(name)
        })
    }

    /// Follows the size of what a node makes of constants that is not worked out.
    pub(super) fn grow(&mut self, node: &NodeProto) -> Result<(), ReadError> {
        let (Some(output), true) = (node.output.first(), self.is_constant(node)) else {
            return Ok(());
        };
        if output.is_empty() || self.values.contains_key(output) || !whole::is_onnx(&node.domain) {
            return Ok(());
        }
        let Some(shape) = self.grown_shape(node).filter(|it| it.len() <= MAX_RANK) else {
            return Ok(());
        };
        if let Err(reason) = self.budget.follow(&shape) {
            let name = whole::name_of(node).to_owned();
            return Err(self.refusal(node.op_type.clone(), name, reason));
        }
        // Its numbers are looked at nowhere.
        let element = ElementType::Float;
        self.types
            .insert(output.clone(), ValueType { element, shape });
        self.values
            .insert(output.clone(), Value::Made(output.clone()));
        self.grown.insert(output.clone());
        Ok(())
    }

    fn grown_shape(&self, node: &NodeProto) -> Option<Vec<u64>> {
        let attributes = Attributes(node);
        let shape = |at: usize| self.operand_shape(node, at);
        let sizes = |at: usize| -> Option<Vec<u64>> {
            let sizes = self.few(node, at)?.into_iter();
            sizes.map(|size| u64::try_from(size).ok()).collect()
        };
        match node.op_type.as_str() {
            "Cast" | "CastLike" | "Clip" | "CumSum" | "Dropout" | "Identity" | "Softmax"
            | "Trilu" => shape(0),
            "Concat" => {
                let mut whole = shape(0)?;
                let axis = shapes::axis(attributes.int("axis", 0), whole.len()).ok()?;
                let mut size = 0_u64;
                for at in 0..node.input.len() {
                    size = size.saturating_add(*shape(at)?.get(axis)?);
                }
                *whole.get_mut(axis)? = size;
                Some(whole)
            }
            "ConstantOfShape" => sizes(0),
            "Expand" => broadcast(&shape(0)?, &sizes(1)?).ok(),
            "Flatten" => Some(vec![shape(0)?.into_iter().fold(1, u64::saturating_mul), 1]),
            "Gather" => {
                let from = shape(0)?;
                let axis = shapes::axis(attributes.int("axis", 0), from.len()).ok()?;
                let (before, after) = from.split_at_checked(axis)?;
                Some([before, &shape(1)?, after.get(1..)?].concat())
            }
            "MatMul" => {
                let (a, b) = (shape(0)?, shape(1)?);
                let (rows, left) = a.split_last_chunk::<2>().map(|(l, &[rows, _])| (rows, l))?;
                let (columns, right) =
                    b.split_last_chunk::<2>().map(|(r, &[_, last])| (last, r))?;
                let stack = broadcast(left, right).ok()?;
                Some([stack.as_slice(), &[rows, columns]].concat())
            }
            "Range" => {
                let number = |at: usize| match self.values.get(node.input.get(at)?)? {
                    Value::Known(constant) => constant.scalar(),
                    Value::Made(_) => None,
                };
                let count = ((number(1)? - number(0)?) / number(2)?).ceil();
                count.is_finite().then(|| vec![count.max(0.0) as u64])
            }
            "Reshape" => {
                let zero_is_size = attributes.int("allowzero", 0) != 0;
                shapes::reshaped(&shape(0)?, &self.few(node, 1)?, zero_is_size).ok()
            }
            "Squeeze" => match node.input.len() {
                1 => shapes::squeezed(&shape(0)?, None).ok(),
                _ => shapes::squeezed(&shape(0)?, Some(&self.few(node, 1)?)).ok(),
            },
            "Tile" => {
                let (from, times) = (shape(0)?, sizes(1)?);
                let sizes = from.iter().zip(&times);
                (from.len() == times.len()).then(|| {
                    sizes
                        .map(|(size, times)| size.saturating_mul(*times))
                        .collect()
                })
            }
            "Transpose" => {
                let from = shape(0)?;
                let Some(order) = attributes.ints("perm") else {
                    return Some(from.into_iter().rev().collect());
                };
                let at = |&at: &i64| from.get(usize::try_from(at).ok()?).copied();
                order.iter().map(at).collect()
            }
            "Unsqueeze" => shapes::unsqueezed(&shape(0)?, &self.few(node, 1)?).ok(),
            "Max" | "Min" | "Sum" | "Where" => self.together(node),
            op if node.input.len() == 1 && unary(op).is_some() => shape(0),
            op if binary(op, attributes).is_some() => self.together(node),
            _ => None,
        }
    }

    /// The shape of all operands, one with the other.
    fn together(&self, node: &NodeProto) -> Option<Vec<u64>> {
        let mut whole = Vec::new();
        for at in 0..node.input.len() {
            whole = broadcast(&whole, &self.operand_shape(node, at)?).ok()?;
        }
        Some(whole)
    }
}
