//! Tensors on their way to a parity file.

use schema::{Outcome, protocol::Quantity};
use tch::{Device, Kind, TchError, Tensor};
use worker::{Tensor as Output, Values};

use crate::failure::Fault;

/// Copies `tensor` to the host: fp64 as it is, everything else widened to binary32.
pub(crate) fn output(quantity: Quantity, name: &str, tensor: &Tensor) -> Result<Output, Outcome> {
    let shape = tensor
        .size()
        .iter()
        .map(|&size| u64::try_from(size).unwrap_or(0))
        .collect();
    let values = values(tensor).map_err(|error| Fault::from(error).at(name))?;
    Ok(Output {
        quantity,
        name: name.to_owned(),
        shape,
        values,
    })
}

fn values(tensor: &Tensor) -> Result<Values, TchError> {
    let tensor = tensor.f_detach()?.f_to_device(Device::Cpu)?;
    let count = tensor.numel();
    if tensor.f_kind()? == Kind::Double {
        let mut numbers = vec![0.0_f64; count];
        tensor.f_contiguous()?.f_copy_data(&mut numbers, count)?;
        Ok(Values::F64(numbers))
    } else {
        let mut numbers = vec![0.0_f32; count];
        let tensor = tensor
            .f_to_dtype(Kind::Float, false, false)?
            .f_contiguous()?;
        tensor.f_copy_data(&mut numbers, count)?;
        Ok(Values::F32(numbers))
    }
}

/// `after − before`, without the rounding of a narrow precision.
pub(crate) fn change(
    quantity: Quantity,
    name: &str,
    after: &Tensor,
    before: &Tensor,
) -> Result<Output, Outcome> {
    let difference = || {
        let wide = |tensor: &Tensor| tensor.f_detach()?.f_to_dtype(Kind::Double, false, false);
        let difference = wide(after)?.f_sub(&wide(before)?)?;
        if after.f_kind()? == Kind::Double {
            Ok(difference)
        } else {
            difference.f_to_dtype(Kind::Float, false, false)
        }
    };
    output(
        quantity,
        name,
        &difference().map_err(|error: TchError| Fault::from(error).at(name))?,
    )
}
