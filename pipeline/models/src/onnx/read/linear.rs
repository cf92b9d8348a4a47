//! Products with weights, and normalisations.

use schema::graph::{Op, Role};

use super::{
    import::{Here, Import, Value, Work, first},
    tensor::{Constant, Data},
};

/// `alpha·A·B + beta·C`, either factor transposed.
pub(super) fn gemm(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let attributes = here.attributes;
    let [Some(a), Some(b), c @ ..] = inputs else {
        return Err("reads fewer than two values".to_owned());
    };
    let (alpha, beta) = (
        attributes.float("alpha", 1.0),
        attributes.float("beta", 1.0),
    );
    let turned = |import: &mut Import<'_>, value: &Value, part: &str| {
        let perm = vec![1, 0];
        import.between(
            here,
            part,
            Work::Op(Op::Transpose { perm }),
            &[Some(value.clone())],
        )
    };
    let a = if attributes.int("transA", 0) != 0 {
        turned(import, a, "a_transposed")?
    } else {
        a.clone()
    };
    // A factor goes into what is fixed.
    let b = match b {
        Value::Known(constant) => Value::Known(scaled(import, constant, alpha)?),
        Value::Made(_) if alpha == 1.0 => b.clone(),
        Value::Made(_) => {
            let factor = Value::Known(import.scalar(alpha));
            import.between(
                here,
                "scaled",
                Work::Op(Op::Mul),
                &[Some(b.clone()), Some(factor)],
            )?
        }
    };
    let op = if attributes.int("transB", 0) != 0 {
        Op::Linear
    } else {
        Op::Gemm
    };
    let out = match (&op, import.shape_of(&b)?.as_slice()) {
        (Op::Linear, &[out, _]) | (_, &[_, out]) => out,
        (_, shape) => return Err(format!("its weight {shape:?} is no matrix")),
    };
    let c = match c.first().and_then(Option::as_ref) {
        None => return import.op(here, op, &[Some(a), Some(b)]),
        Some(Value::Known(constant)) => Value::Known(scaled(import, constant, beta)?),
        Some(made) if beta == 1.0 => made.clone(),
        Some(made) => {
            let factor = Value::Known(import.scalar(beta));
            import.between(
                here,
                "c_scaled",
                Work::Op(Op::Mul),
                &[Some(made.clone()), Some(factor)],
            )?
        }
    };
    match &c {
        Value::Known(bias) if bias.elements() == out && bias.shape.last() == Some(&out) => {
            let bias = Value::Known(bias.with_shape(vec![out]));
            import.op(here, op, &[Some(a), Some(b), Some(bias)])
        }
        _ => {
            let product = import.between(here, "product", Work::Op(op), &[Some(a), Some(b)])?;
            import.op(here, Op::Add, &[Some(product), Some(c)])
        }
    }
}

fn scaled(import: &mut Import<'_>, constant: &Constant, factor: f32) -> Result<Constant, String> {
    if factor == 1.0 {
        return Ok(constant.clone());
    }
    match import.budget.data(constant)? {
        Data::Floats(numbers) => {
            let numbers = numbers.into_iter().map(|number| number * factor).collect();
            Ok(Constant::floats(constant.shape.clone(), numbers))
        }
        Data::Integers(_) => Err("multiplies integers".to_owned()),
    }
}

/// A product of matrices; with a fixed matrix on the right, a map of the last axis.
pub(super) fn matmul(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let [Some(a), Some(b)] = inputs else {
        return Err("reads two values".to_owned());
    };
    let (left, right) = (import.shape_of(a)?, import.shape_of(b)?);
    if let (Value::Made(_), Value::Known(_), 2, 2..) = (a, b, right.len(), left.len()) {
        return import.op(here, Op::Gemm, inputs);
    }
    if left.len() < 2 || right.len() < 2 {
        return Err(format!("multiplies a vector: {left:?} and {right:?}"));
    }
    import.op(here, Op::MatMul, inputs)
}

/// Normalisation by fixed statistics.
pub(super) fn batch_norm(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let [Some(x), Some(scale), Some(bias), Some(mean), Some(variance)] = inputs else {
        return Err("reads five values".to_owned());
    };
    if here.attributes.int("training_mode", 0) != 0 {
        return Err("is in training mode; export the model for inference".to_owned());
    }
    let is_fixed = |value: &&Value| matches!(value, Value::Known(_));
    if ![mean, variance].iter().all(is_fixed) {
        return Err("its statistics are computed".to_owned());
    }
    let op = Op::BatchNormalization {
        epsilon: here.attributes.float("epsilon", 1e-5),
        // ONNX's momentum is the weight of the old statistics.
        momentum: (1.0 - here.attributes.float("momentum", 0.9)).clamp(0.0, 1.0),
    };
    let mut buffer = |value: &Value| import.operand(value, Role::Buffer).map(Value::Made);
    let statistics = [buffer(mean)?, buffer(variance)?];
    let given = [x, scale, bias].map(Clone::clone);
    let operands: Vec<_> = given.into_iter().chain(statistics).map(Some).collect();
    import.op(here, op, &operands)
}

/// Normalisation of the last axis.
pub(super) fn layer_norm(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let x = first(inputs)?;
    let shape = import.shape_of(x)?;
    let axis = here.attributes.int("axis", -1);
    if axis != -1 && axis != shape.len() as i64 - 1 {
        return Err(format!(
            "normalises more than the last axis: axis {axis} of {shape:?}"
        ));
    }
    let width = shape.last().copied().ok_or("normalises a scalar")?;
    let scale = inputs.get(1).cloned().flatten().ok_or("has no scale")?;
    let bias = match inputs.get(2).cloned().flatten() {
        Some(bias) => bias,
        None => {
            let zeros = import.budget.filled(width, 0.0)?;
            Value::Known(Constant::floats(vec![width], zeros))
        }
    };
    let epsilon = here.attributes.float("epsilon", 1e-5);
    let op = Op::LayerNormalization { epsilon };
    import.op(here, op, &[Some(x.clone()), Some(scale), Some(bias)])
}
