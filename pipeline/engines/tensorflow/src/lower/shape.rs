//! Operators that move elements and compute nothing.

use schema::graph::{Border, Node};

use super::{Lowering, Value, moves_nothing};
use crate::{
    builder::{narrow, small},
    failure::Fault,
    form::{Form, Order, pick},
};

impl Lowering<'_> {
    /// Another shape of the same elements, in the graph's order.
    pub(super) fn reshape(&mut self, node: &Node) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let shape = self.output_shape(node)?;
        // Where only height and width become one axis, channels can stay last: what a vision
        // transformer does to its patches.
        if x.form.order == Order::ChannelsLast
            && let (&[batch, channels, height, width], &[first, second, third]) =
                (&x.form.shape[..], &shape[..])
            && [first, second, third] == [batch, channels, height * width]
        {
            let form = Form::new(&shape, Order::ChannelsLast);
            let output = self.builder.reshape(&x.output, &form.dims())?;
            return Ok(Value { output, form });
        }
        let axes = x.form.order.axes(x.form.shape.len());
        let input = if moves_nothing(&x.form.shape, &axes) {
            x.output
        } else {
            self.plain(&x)?
        };
        let output = self.builder.reshape(&input, &shape)?;
        self.made(node, output)
    }

    pub(super) fn transpose(&mut self, node: &Node, perm: &[u64]) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let rank = x.form.shape.len();
        if let Order::Plain | Order::ChannelsLast = x.form.order {
            // From where the axes lie to where they shall lie: nothing, often.
            let lies = x.form.order.axes(rank);
            let place = |axis: &u64| {
                let axis = usize::try_from(*axis).ok()?;
                lies.iter().position(|&lying| lying == axis)
            };
            let axes: Vec<usize> = perm.iter().filter_map(place).collect();
            let output = self.builder.transpose(&x.output, &axes)?;
            return self.made(node, output);
        }
        let axes: Vec<usize> = perm
            .iter()
            .filter_map(|&axis| usize::try_from(axis).ok())
            .collect();
        let plain = self.plain(&x)?;
        let output = self.builder.transpose(&plain, &axes)?;
        self.made(node, output)
    }

    pub(super) fn expand(&mut self, node: &Node) -> Result<Value, Fault> {
        let x = self.plain_operand(node, 0)?;
        let dims = self.output_shape(node)?;
        let dims = self.builder.integers(&narrow(&dims)?)?;
        let output = self.builder.op("BroadcastTo", &[&x, &dims])?;
        self.made(node, output)
    }

    pub(super) fn concat(&mut self, node: &Node, axis: u64) -> Result<Value, Fault> {
        let mut parts = Vec::with_capacity(node.inputs.len());
        for position in 0..node.inputs.len() {
            parts.push(self.operand(node, position)?);
        }
        let last = |value: &Value| value.form.order == Order::ChannelsLast;
        let order = if parts.iter().any(last) {
            Order::ChannelsLast
        } else {
            Order::Plain
        };
        let rank = self.output_shape(node)?.len();
        let axis = lying(order, rank, axis)?;
        let mut outputs = Vec::with_capacity(parts.len());
        for part in &parts {
            outputs.push(self.ordered(part, order)?);
        }
        let output = self.join(&outputs, small(axis))?;
        self.made_in(node, output, order)
    }

    /// A border around a value as it lies.
    pub(super) fn pad(
        &mut self,
        node: &Node,
        begins: &[u64],
        ends: &[u64],
        border: Border,
    ) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let order = match x.form.order {
            Order::ChannelsLast => Order::ChannelsLast,
            _ => Order::Plain,
        };
        let input = self.ordered(&x, order)?;
        let axes = order.axes(x.form.shape.len());
        let sides = pick(begins, &axes).into_iter().zip(pick(ends, &axes));
        let sides: Vec<u64> = sides.flat_map(|(begin, end)| [begin, end]).collect();
        let sides = narrow(&sides)?;
        let sides = self.builder.indices(&[axes.len() as u64, 2], &sides)?;
        let output = match border {
            Border::Constant { value } => {
                let number = self.builder.scalar(f64::from(value))?;
                self.builder.op("PadV2", &[&input, &sides, &number])?
            }
            Border::Reflect => self.builder.with("MirrorPad", &[&input, &sides], |pad| {
                Ok(pad.set_attr_string("mode", "REFLECT")?)
            })?,
        };
        self.made_in(node, output, order)
    }

    /// Joins values along an axis as they lie.
    pub(super) fn join(
        &mut self,
        parts: &[tensorflow::Output],
        axis: i32,
    ) -> Result<tensorflow::Output, Fault> {
        if let [only] = parts {
            return Ok(only.clone());
        }
        let axis = self.builder.integer(axis)?;
        let joined = self.builder.operation("ConcatV2", |concat| {
            concat.add_input_list(parts);
            concat.add_input(axis);
            Ok(())
        })?;
        Ok(joined.into())
    }

    pub(super) fn slice(
        &mut self,
        node: &Node,
        axis: u64,
        start: u64,
        end: u64,
    ) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let order = match x.form.order {
            Order::ChannelsLast => Order::ChannelsLast,
            _ => Order::Plain,
        };
        let input = self.ordered(&x, order)?;
        let rank = x.form.shape.len();
        let axis = lying(order, rank, axis)?;
        let mut begins = vec![0; rank];
        let mut sizes = pick(&x.form.shape, &order.axes(rank));
        for (place, (begin, size)) in begins.iter_mut().zip(&mut sizes).enumerate() {
            if place == axis {
                *begin = start;
                *size = end.saturating_sub(start);
            }
        }
        let begins = self.builder.integers(&narrow(&begins)?)?;
        let sizes = self.builder.integers(&narrow(&sizes)?)?;
        let output = self.builder.op("Slice", &[&input, &begins, &sizes])?;
        self.made_in(node, output, order)
    }
}

/// Where the graph's `axis` lies.
fn lying(order: Order, rank: usize, axis: u64) -> Result<usize, Fault> {
    usize::try_from(axis)
        .ok()
        .and_then(|axis| order.axes(rank).iter().position(|&lying| lying == axis))
        .ok_or_else(|| Fault::Unsupported(format!("axis {axis} does not exist")))
}
