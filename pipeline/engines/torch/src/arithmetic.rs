//! What a CPU computes in where a cell asks for less than binary32.

use std::{env, ffi::CStr};

use tch::Kind;

use crate::shim::{self, ShimError};

/// The variables by which oneDNN is told to do without instructions.
const LIMITS: [&str; 2] = ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"];

/// A narrow type.
struct Narrow {
    name: &'static str,
    /// What PyTorch calls the instructions that compute in it, on x86 and on ARM.
    instructions: &'static [&'static CStr],
    /// The operator that says whether oneDNN takes it; for bf16 any AVX-512 is enough, by which it
    /// imitates it.
    taken: &'static CStr,
}

impl Narrow {
    fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::BFloat16 => Some(Self {
                name: "bfloat16",
                instructions: &[c"avx512_bf16", c"amx_bf16", c"bf16", c"sve_bf16"],
                taken: c"mkldnn::_is_mkldnn_bf16_supported",
            }),
            Kind::Half => Some(Self {
                name: "float16",
                instructions: &[c"avx512_fp16", c"amx_fp16", c"fp16_arith"],
                taken: c"mkldnn::_is_mkldnn_fp16_supported",
            }),
            _ => None,
        }
    }

    /// What is computed in on a CPU that has `found`, if oneDNN takes the type or not.
    fn words(&self, found: &[String], is_taken: bool) -> String {
        let name = self.name;
        if found.is_empty() {
            format!(
                "stored as {name}, computed in float32: this CPU has no instructions for {name}"
            )
        } else if is_taken {
            let found = found.join(", ");
            format!(
                "products in {name} where oneDNN has kernels ({found}), all else in float32, rounded \
                 to {name}"
            )
        } else {
            let found = found.join(" and ");
            format!("stored as {name}, computed in float32: oneDNN does without {found}")
        }
    }
}

/// What operators on a CPU compute in, where the element type alone does not say so: PyTorch runs bf16
/// and fp16 on a CPU that knows neither, and says nothing.
pub(crate) fn on_cpu(kind: Kind) -> Result<Option<String>, ShimError> {
    let Some(narrow) = Narrow::of(kind) else {
        return Ok(None);
    };
    let mut found = Vec::new();
    for &instruction in narrow.instructions {
        if shim::cpu_has(instruction)? {
            found.push(instruction.to_string_lossy().to_uppercase());
        }
    }
    let mut words = narrow.words(&found, shim::onednn_says(narrow.taken)?);
    for limit in LIMITS {
        if let Some(value) = env::var_os(limit) {
            words.push_str(&format!("; {limit}={}", value.to_string_lossy()));
        }
    }
    Ok(Some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_narrow_type_is_computed_in_another() {
        for kind in [Kind::Float, Kind::Double, Kind::Int64] {
            assert_eq!(on_cpu(kind).unwrap(), None);
        }
        for kind in [Kind::BFloat16, Kind::Half] {
            assert!(on_cpu(kind).unwrap().unwrap().contains("float32"));
        }
    }

    #[test]
    fn a_cpu_without_instructions_computes_in_binary32() {
        let narrow = Narrow::of(Kind::BFloat16).unwrap();
        let amx = ["AVX512_BF16".to_owned(), "AMX_BF16".to_owned()];
        for (found, is_taken, says) in [
            (&[][..], true, "no instructions for bfloat16"),
            (&amx, false, "without AVX512_BF16 and AMX_BF16"),
            (&amx, true, "kernels (AVX512_BF16, AMX_BF16)"),
        ] {
            let words = narrow.words(found, is_taken);
            assert!(words.contains(says), "{words}");
            assert_eq!(words.starts_with("products"), is_taken && !found.is_empty());
        }
    }
}
