//! Products with weights, and normalisations.

use schema::graph::{Op, Role};

use super::{
    import::{Here, Import, Value, Work, first, pair},
    shapes,
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
    let (a, b) = pair(inputs)?;
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

/// Normalisation of the last axis, or of several, which become one.
pub(super) fn layer_norm(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let x = first(inputs)?;
    let shape = import.shape_of(x)?;
    let axis = shapes::axis(here.attributes.int("axis", -1), shape.len())?;
    let normalised = shape.get(axis..).unwrap_or_default();
    let width = normalised
        .iter()
        .try_fold(1_u64, |width, &size| width.checked_mul(size))
        .ok_or("normalises too much")?;
    let scale = inputs.get(1).cloned().flatten().ok_or("has no scale")?;
    let bias = match inputs.get(2).cloned().flatten() {
        Some(bias) => bias,
        None => {
            let zeros = import.budget.filled(width, 0.0)?;
            Value::Known(Constant::floats(normalised.to_vec(), zeros))
        }
    };
    let epsilon = here.attributes.float("epsilon", 1e-5);
    let op = Op::LayerNormalization { epsilon };
    if normalised.len() == 1 {
        return import.op(here, op, &[Some(x.clone()), Some(scale), Some(bias)]);
    }
    let (Value::Known(scale), Value::Known(bias)) = (&scale, &bias) else {
        return Err("computes the scale of a normalisation over several axes".to_owned());
    };
    // As many numbers in another shape may be one for each row.
    let bare = |shape: &[u64]| {
        let sizes = shape.iter().copied();
        sizes.skip_while(|&size| size == 1).collect::<Vec<_>>()
    };
    if [scale, bias]
        .iter()
        .any(|fixed| bare(&fixed.shape) != bare(normalised))
    {
        return Err(format!("has no scale for each of {width} elements"));
    }
    let [scale, bias] = [scale, bias].map(|fixed| Value::Known(fixed.with_shape(vec![width])));
    let rows = [shape.get(..axis).unwrap_or_default(), &[width]].concat();
    let rows = Work::Op(Op::Reshape { shape: rows });
    let rows = import.between(here, "rows", rows, &[Some(x.clone())])?;
    let operands = [Some(rows), Some(scale), Some(bias)];
    let made = import.between(here, "normal", Work::Op(op), &operands)?;
    import.op(here, Op::Reshape { shape }, &[Some(made)])
}

/// Normalisation of groups of channels: each becomes a channel of its own for that. Scale and bias are
/// those of groups up to opset 20, of channels from 21 on.
pub(super) fn group_norm(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let [Some(x), Some(Value::Known(scale)), Some(Value::Known(bias))] = inputs else {
        return Err("reads a value, and a scale and a bias that are fixed".to_owned());
    };
    let shape = import.shape_of(x)?;
    let (&[batch, channels], behind) = shape
        .split_first_chunk()
        .ok_or("normalises what has no channels")?;
    let groups = here.attributes.int("num_groups", 0);
    let groups = u64::try_from(groups).ok().filter(|&groups| groups > 0);
    let groups = groups.ok_or("has no groups")?;
    if !channels.is_multiple_of(groups) {
        return Err(format!("{groups} groups do not divide {channels} channels"));
    }
    let epsilon = here.attributes.float("epsilon", 1e-5);
    let op = Work::Op(Op::InstanceNormalization { epsilon });
    let whole = behind.iter().try_fold(channels / groups, |product, &size| {
        product.checked_mul(size)
    });
    let whole = whole.ok_or("normalises too much")?;
    let rows = Work::Op(Op::Reshape {
        shape: vec![batch, groups, whole],
    });
    let rows = import.between(here, "groups", rows, &[Some(x.clone())])?;
    let is_of_groups = scale.elements() == groups && groups != channels;
    let (factors, terms) = if is_of_groups {
        (scale.clone(), bias.clone())
    } else {
        let ones = import.budget.filled(groups, 1.0)?;
        let zeros = import.budget.filled(groups, 0.0)?;
        let of = |numbers| Constant::floats(vec![groups], numbers);
        (of(ones), of(zeros))
    };
    let operands = [rows, Value::Known(factors), Value::Known(terms)].map(Some);
    let normal = import.between(here, "normal", op, &operands)?;
    let reshape = Op::Reshape {
        shape: shape.clone(),
    };
    if is_of_groups {
        return import.op(here, reshape, &[Some(normal)]);
    }
    if [scale, bias]
        .iter()
        .any(|fixed| fixed.elements() != channels)
    {
        return Err(format!("has no scale for each of {channels} channels"));
    }
    let of_channels = [&[channels][..], &vec![1; behind.len()]].concat();
    let [scale, bias] = [scale, bias].map(|fixed| fixed.with_shape(of_channels.clone()));
    let normal = import.between(here, "channels", Work::Op(reshape), &[Some(normal)])?;
    let operands = [Some(normal), Some(Value::Known(scale))];
    let scaled = import.between(here, "scaled", Work::Op(Op::Mul), &operands)?;
    import.op(here, Op::Add, &[Some(scaled), Some(Value::Known(bias))])
}
