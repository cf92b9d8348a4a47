//! Kernels' names, short enough to be read.

/// Parts of the names of kernels that do nothing but change the order of numbers, or make room among them,
/// for the kernel of a library, and of copies from and to a device.
const CONVERSIONS: [&str; 6] = [
    "nchwToNhwc",
    "nhwcToNchw",
    "AddPadding",
    "Memcpy HtoD",
    "Memcpy DtoH",
    "Memcpy PtoP",
];

/// Words that say nothing about what a kernel does.
const EMPTY: [&str; 4] = ["void", "const", "operator", "static"];

/// Ends a type that is there only where a template's conditions hold.
const RETURNED: &str = "::type ";

/// A name that many libraries give their kernels, each in a namespace that tells them apart.
const COMMON: &str = "kernel";

/// Whether what has this name only brings numbers into another order or memory, whoever launched it.
pub(super) fn is_conversion(name: &str) -> bool {
    CONVERSIONS.iter().any(|part| name.contains(part))
}

/// The name without what it returns and is given, without namespaces and without the lambdas that it is
/// made from: `vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>`.
pub(super) fn shortened(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let mut short = String::with_capacity(name.len());
    let mut word = String::new();
    for letter in without_parentheses(&name).chars().chain([' ']) {
        if letter.is_alphanumeric() || "_:{}#$~".contains(letter) {
            word.push(letter);
            continue;
        }
        short.push_str(&last_part(&word));
        word.clear();
        short.push(letter);
    }
    let mut short = short.split_whitespace().collect::<Vec<_>>().join(" ");
    for (long, brief) in [
        (" >", ">"),
        (" <", "<"),
        (" ,", ","),
        (" *", "*"),
        (" &", "&"),
    ] {
        short = short.replace(long, brief);
    }
    // What it returns, where templates decide that.
    let short = match short.split_once(RETURNED) {
        Some((before, after)) if before.starts_with("enable_if<") => after.to_owned(),
        _ => short,
    };
    if short.is_empty() { name } else { short }
}

fn without_parentheses(name: &str) -> String {
    let mut depth = 0_usize;
    let outside = name.chars().filter(|letter| match letter {
        '(' => {
            depth += 1;
            false
        }
        ')' => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    });
    outside.collect()
}

/// Of `at::native::add` the last part; what follows a template keeps its colons.
fn last_part(word: &str) -> String {
    let is_told = |part: &&str| !part.is_empty() && !part.starts_with('{') && !EMPTY.contains(part);
    let mut parts = word.split("::").filter(is_told).collect::<Vec<_>>();
    let last = parts.pop();
    match (last, parts.pop()) {
        (Some(COMMON), Some(space)) => format!("{space}::{COMMON}"),
        (Some(last), _) if word.starts_with("::") => format!("::{last}"),
        (Some(last), _) => last.to_owned(),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_what_tells_kernels_apart() {
        let expected = [
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
                "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>",
            ),
            (
                "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1} const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<float>(at::TensorIteratorBase&)::{lambda(int)#1})",
                "elementwise_kernel<128, 2, gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>",
            ),
            (
                "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 5, false, false>(float*, float const*, int, int, int, bool const*, int, bool)",
                "softmax_warp_forward<float, float, float, 5, false, false>",
            ),
            (
                "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, true, true, (cudnnKernelDataType_t)2>(cudnn::engines_precompiled::nchw2nhwc_params_t<float>, float const*, float*)",
                "nchwToNhwcKernel<float, float, float, true, true, 2>",
            ),
            (
                "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4::Params)",
                "Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>",
            ),
            (
                "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas",
                "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas",
            ),
            (
                "at::native::Reducer<float>::reduce<float const*, 4>(int)",
                "Reducer<float>::reduce<float*, 4>",
            ),
            (
                "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float, false, true, true, false, 7, false, cublasGemvParamsEx<int, float> >(cublasGemvParamsEx<int, float>)",
                "gemvx::kernel<int, int, float, float, float, float, false, true, true, false, 7, false, cublasGemvParamsEx<int, float>>",
            ),
            ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
            ("Memset (Device)", "Memset"),
            ("(odd", "(odd"),
        ];
        for (name, short) in expected {
            assert_eq!(shortened(name), short, "{name}");
        }
    }

    #[test]
    fn kernels_that_only_reorder_or_carry_are_known_by_their_names() {
        let converting = [
            "void cudnn::ops::nchwToNhwcKernel<float>(float)",
            "void cudnn::ops::nhwcToNchwKernel<float>(float)",
            "void nhwcAddPaddingKernel<__half>(__half)",
            "Memcpy HtoD (Pageable -> Device)",
            "Memcpy DtoH (Device -> Pinned)",
        ];
        assert!(converting.iter().all(|name| is_conversion(name)));
        let others = ["Memcpy DtoD (Device -> Device)", "Memset (Device)", "gemm"];
        assert!(!others.iter().any(|name| is_conversion(name)));
    }
}
