//! What the products of a compiled model are computed in, as OpenVINO tells of its operators: by the word
//! that each has for its kernel, `brgconv_avx512_I8` say. The plugin knows it once the model is compiled; no
//! profiling is asked for, and no step is run.
#![expect(unsafe_code, reason = "functions without a safe wrapper")]

use std::{
    collections::BTreeSet,
    ffi::{CStr, c_char},
    ptr, slice,
};

use openvino::InferRequest;
use openvino_sys::{
    ov_infer_request_get_profiling_info, ov_infer_request_t, ov_profiling_info_list_free,
    ov_profiling_info_list_t, ov_status_e,
};
use worker::Products;

/// The plugin's operators that multiply, whatever it made of their inputs; others of these names do it, too
/// (`GroupConvolution`, `FullyConnectedCompressed`).
const PRODUCTS: [&str; 6] = [
    "Convolution",
    "FullyConnected",
    "MatMul",
    "GRUSequence",
    "LSTMSequence",
    "RNNSequence",
];

/// How the word for a kernel ends that computes in integers of 8 bits.
const INTEGERS: [&str; 2] = ["I8", "U8"];

/// How the word for an operator's kernel ends that is none: the operator is a part of another.
const FUSED: &str = "undef";

/// An operator of a compiled model.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Operator {
    /// What it computes, `Convolution` for one.
    kind: String,
    /// The plugin's word for its kernel; its end says what it computes in.
    kernel: String,
}

/// What the plugin calls an operator that it makes of several, whose products it does not tell.
const LARGER: [&str; 2] = ["Attention", "Subgraph"];

/// What the model that a request is of is computed in, whose graph has so many products.
pub(crate) fn arithmetic(request: &InferRequest, products: usize) -> String {
    told(&operators(request), products)
}

fn told(operators: &[Operator], products: usize) -> String {
    let mut counted = Products::default();
    let mut larger = BTreeSet::new();
    for Operator { kind, kernel } in operators.iter().filter(|known| known.kernel != FUSED) {
        let is = |names: &[&str]| names.iter().any(|name| kind.contains(name));
        let word = match kernel.rsplit('_').next().unwrap_or(kernel) {
            word if INTEGERS.contains(&word) => None,
            "f32" => Some("fp32"),
            "f16" => Some("fp16"),
            word => Some(word),
        };
        match word {
            None if is(&PRODUCTS) => counted.add_integers(),
            Some(word) if is(&PRODUCTS) => counted.add_floats(word),
            word if is(&LARGER) => drop(larger.insert(word.unwrap_or("int8"))),
            _ => {}
        }
    }
    let Some(told) = counted.arithmetic() else {
        return "the plugin tells of no product what it computes it in".to_owned();
    };
    match products.checked_sub(counted.count()) {
        Some(more) if more > 0 && !larger.is_empty() => {
            let words: Vec<_> = larger.into_iter().collect();
            let words = words.join(" and ");
            format!("{told}; {more} more are parts of larger operators, which are in {words}")
        }
        _ => told,
    }
}

/// The operators of the model that a request is of, in the plugin's order.
fn operators(request: &InferRequest) -> Vec<Operator> {
    let mut list = ov_profiling_info_list_t {
        profiling_infos: ptr::null_mut(),
        size: 0,
    };
    // SAFETY: the request is one of OpenVINO's, and lives; the list is written to, and freed below.
    let status = unsafe { ov_infer_request_get_profiling_info(pointer(request), &raw mut list) };
    if status != ov_status_e::OK || list.profiling_infos.is_null() {
        return Vec::new();
    }
    // SAFETY: OpenVINO made a list of so many entries, which nothing else knows of.
    let told = unsafe { slice::from_raw_parts(list.profiling_infos, list.size) };
    let operators = told
        .iter()
        .map(|told| Operator {
            kind: text(told.node_type),
            kernel: text(told.exec_type),
        })
        .collect();
    // SAFETY: the list is OpenVINO's own, and nothing borrows of it any more.
    unsafe { ov_profiling_info_list_free(&raw mut list) };
    operators
}

fn text(told: *const c_char) -> String {
    if told.is_null() {
        return String::new();
    }
    // SAFETY: texts of the list end with a NUL, and live until it is freed.
    let told = unsafe { CStr::from_ptr(told) };
    told.to_string_lossy().into_owned()
}

/// OpenVINO's own request, which the `openvino` crate holds and does not lend.
fn pointer(request: &InferRequest) -> *const ov_infer_request_t {
    const {
        assert!(size_of::<InferRequest>() == size_of::<*const ov_infer_request_t>());
        assert!(align_of::<InferRequest>() == align_of::<*const ov_infer_request_t>());
    }
    // SAFETY: a request of the crate's is a struct of one field, that pointer. (The workspace pins the crate's
    // version; of this size there is no room for another field.)
    unsafe {
        ptr::from_ref(request)
            .cast::<*const ov_infer_request_t>()
            .read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_counted_by_what_their_kernels_compute_in() {
        let operator = |kind: &str, kernel: &str| Operator {
            kind: kind.to_owned(),
            kernel: kernel.to_owned(),
        };
        let operators = [
            operator("Parameter", "unknown_f32"),
            operator("Reorder", "jit_uni_I8"),
            operator("Convolution", "brgconv_avx512_I8"),
            operator("Relu", "undef"),
            operator("MatMul", "undef"),
            operator("GroupConvolution", "jit_avx512_dw_f32"),
            operator("FullyConnected", "brgemm_avx512_I8"),
            operator("MatMul", "gemm_any_bf16"),
            operator("Subgraph", "jit_avx512_f32"),
        ];
        assert_eq!(
            told(&operators, 4),
            "int8 in 2 of 4 products, bf16 in 1, fp32 in 1"
        );
        assert_eq!(
            told(&operators, 6),
            "int8 in 2 of 4 products, bf16 in 1, fp32 in 1; 2 more are parts of larger operators, which \
             are in fp32"
        );
        let rounded = &operators[5..6];
        assert_eq!(told(rounded, 1), "stored as int8, computed in fp32");
        assert!(told(&[], 1).contains("tells of no product"));
    }
}
