//! The functions of `cpp/shim.cpp`, made safe.
#![expect(unsafe_code, reason = "calls into C++")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    fmt,
    marker::PhantomData,
    ptr,
};

use tch::Tensor;

// SAFETY: the signatures are those of `cpp/shim.cpp`; no function lets an exception out.
unsafe extern "C" {
    fn photofinish_last_error() -> *const c_char;
    fn photofinish_torch_version() -> *const c_char;
    fn photofinish_cpu_capability(name: *mut *const c_char) -> c_int;
    fn photofinish_cpu_has(capability: *const c_char, has: *mut c_int) -> c_int;
    fn photofinish_onednn_says(question: *const c_char, yes: *mut c_int) -> c_int;
    fn photofinish_load_cuda(library: *const c_char) -> c_int;
    fn photofinish_allow_tf32(allow: c_int) -> c_int;
    fn photofinish_autocast(cuda: c_int, on: c_int) -> c_int;
    fn photofinish_synchronize(device: c_int) -> c_int;
    fn photofinish_gpu(
        device: c_int,
        name: *mut c_char,
        major: *mut c_int,
        minor: *mut c_int,
    ) -> c_int;
    fn photofinish_cuda_versions(runtime: *mut i64, cudnn: *mut i64) -> c_int;
    fn photofinish_device_memory(device: c_int, current: *mut u64, peak: *mut u64) -> c_int;
    fn photofinish_inference_enter(guard: *mut *mut c_void) -> c_int;
    fn photofinish_inference_leave(guard: *mut c_void);
    fn photofinish_hardtanh(
        input: *const c_void,
        low: f64,
        high: f64,
        output: *mut *mut c_void,
    ) -> c_int;
    fn photofinish_hardtanh_(tensor: *mut c_void, low: f64, high: f64) -> c_int;
    fn photofinish_leaky_relu(input: *const c_void, slope: f64, output: *mut *mut c_void) -> c_int;
    fn photofinish_forget_gradient(tensor: *const c_void) -> c_int;
    fn photofinish_elu(input: *const c_void, alpha: f64, output: *mut *mut c_void) -> c_int;
}

/// What a C++ exception said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShimError(pub(crate) String);

impl fmt::Display for ShimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The result of a call that returned `status`.
pub(crate) fn checked(status: c_int) -> Result<(), ShimError> {
    if status == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

fn last_error() -> ShimError {
    // SAFETY: the function returns a NUL-terminated string of this thread that stays valid until
    // the thread's next failing call; it is copied here.
    let text = unsafe { CStr::from_ptr(photofinish_last_error()) };
    ShimError(text.to_string_lossy().into_owned())
}

/// The version of libtorch that this worker was compiled against.
pub(crate) fn torch_version() -> String {
    // SAFETY: a string literal of the shim.
    let text = unsafe { CStr::from_ptr(photofinish_torch_version()) };
    text.to_string_lossy().into_owned()
}

/// Whether the CPU has what PyTorch calls so.
pub(crate) fn cpu_has(capability: &CStr) -> Result<bool, ShimError> {
    let mut has = 0;
    // SAFETY: a string that ends in NUL, and a valid place.
    checked(unsafe { photofinish_cpu_has(capability.as_ptr(), &raw mut has) })?;
    Ok(has != 0)
}

/// What an operator of PyTorch says that takes nothing and gives a truth value.
pub(crate) fn onednn_says(question: &CStr) -> Result<bool, ShimError> {
    let mut yes = 0;
    // SAFETY: a string that ends in NUL, and a valid place.
    checked(unsafe { photofinish_onednn_says(question.as_ptr(), &raw mut yes) })?;
    Ok(yes != 0)
}

/// The widest instruction set that PyTorch's own kernels use here, for example `AVX512`.
pub(crate) fn cpu_capability() -> Result<String, ShimError> {
    let mut name = ptr::null();
    // SAFETY: `name` is a valid place; on success it points to a string that lives as long as the
    // process.
    checked(unsafe { photofinish_cpu_capability(&raw mut name) })?;
    // SAFETY: see above.
    let text = unsafe { CStr::from_ptr(name) };
    Ok(text.to_string_lossy().into_owned())
}

/// Opens PyTorch's CUDA library, whose initialisers register its kernels.
pub(crate) fn load_cuda(library: &str) -> Result<(), ShimError> {
    let name = CString::new(library).map_err(|error| ShimError(error.to_string()))?;
    // SAFETY: a NUL-terminated name. Running the initialisers of PyTorch's own library, of the
    // wheel that this worker is linked against, is what PyTorch itself does.
    checked(unsafe { photofinish_load_cuda(name.as_ptr()) })
}

/// Whether matrix products and convolutions of binary32 may round their multiplicands to TF32.
pub(crate) fn allow_tf32(allow: bool) -> Result<(), ShimError> {
    // SAFETY: no pointers.
    checked(unsafe { photofinish_allow_tf32(c_int::from(allow)) })
}

/// Waits for everything on CUDA device `device`.
pub(crate) fn synchronize(device: c_int) -> Result<(), ShimError> {
    // SAFETY: no pointers.
    checked(unsafe { photofinish_synchronize(device) })
}

/// The model and the compute capability of CUDA device `device`, for example
/// `NVIDIA H100 80GB HBM3, 9.0`.
pub(crate) fn gpu(device: c_int) -> Result<String, ShimError> {
    let mut name: [c_char; 256] = [0; 256];
    let (mut major, mut minor) = (0, 0);
    // SAFETY: room for as many characters as the shim fills, and two valid places.
    checked(unsafe { photofinish_gpu(device, name.as_mut_ptr(), &raw mut major, &raw mut minor) })?;
    // SAFETY: at least the last character is still 0.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Ok(format!("{}, {major}.{minor}", name.to_string_lossy()))
}

/// Versions of the CUDA runtime and of cuDNN, for example `13.0` and `9.19.0`. Only to be asked once the
/// CUDA library is loaded: PyTorch remembers for good that it found none.
pub(crate) fn cuda_versions() -> Result<[String; 2], ShimError> {
    let (mut runtime, mut cudnn) = (0, 0);
    // SAFETY: both are valid places.
    checked(unsafe { photofinish_cuda_versions(&raw mut runtime, &raw mut cudnn) })?;
    Ok([
        format!("{}.{}", runtime / 1000, runtime % 1000 / 10),
        format!(
            "{}.{}.{}",
            cudnn / 10_000,
            cudnn % 10_000 / 100,
            cudnn % 100
        ),
    ])
}

/// Bytes in use and at the peak in PyTorch's allocator for CUDA device `device`.
pub(crate) fn device_memory(device: c_int) -> Result<(u64, u64), ShimError> {
    let (mut current, mut peak) = (0, 0);
    // SAFETY: both are valid places.
    checked(unsafe { photofinish_device_memory(device, &raw mut current, &raw mut peak) })?;
    Ok((current, peak))
}

/// `min(max(x, low), high)` as `nn.ReLU6` computes it.
pub(crate) fn hardtanh(input: &Tensor, low: f64, high: f64) -> Result<Tensor, ShimError> {
    let mut output = ptr::null_mut();
    // SAFETY: `input` is a live tensor, `output` a valid place.
    checked(unsafe { photofinish_hardtanh(input.as_ptr().cast(), low, high, &raw mut output) })?;
    // SAFETY: on success the shim hands over a tensor of its own, which `tch` will delete.
    Ok(unsafe { Tensor::from_ptr(output.cast()) })
}

/// [`hardtanh`] in place.
pub(crate) fn hardtanh_in_place(tensor: &mut Tensor, low: f64, high: f64) -> Result<(), ShimError> {
    // SAFETY: a live tensor, borrowed mutably.
    checked(unsafe { photofinish_hardtanh_(tensor.as_mut_ptr().cast(), low, high) })
}

/// `max(x, 0) + slope · min(x, 0)`: `tch` has the operator without its number.
pub(crate) fn leaky_relu(input: &Tensor, slope: f64) -> Result<Tensor, ShimError> {
    let mut output = ptr::null_mut();
    // SAFETY: `input` is a live tensor, `output` a valid place.
    checked(unsafe { photofinish_leaky_relu(input.as_ptr().cast(), slope, &raw mut output) })?;
    // SAFETY: on success the shim hands over a tensor of its own, which `tch` will delete.
    Ok(unsafe { Tensor::from_ptr(output.cast()) })
}

/// `max(x, 0) + alpha · (e^min(x, 0) − 1)`, likewise.
pub(crate) fn elu(input: &Tensor, alpha: f64) -> Result<Tensor, ShimError> {
    let mut output = ptr::null_mut();
    // SAFETY: as above.
    checked(unsafe { photofinish_elu(input.as_ptr().cast(), alpha, &raw mut output) })?;
    // SAFETY: as above.
    Ok(unsafe { Tensor::from_ptr(output.cast()) })
}

/// The weight without its gradient, as `weight.grad = None` leaves it in Python.
pub(crate) fn forget_gradient(weight: &Tensor) -> Result<(), ShimError> {
    // SAFETY: a live tensor.
    checked(unsafe { photofinish_forget_gradient(weight.as_ptr().cast()) })
}

/// PyTorch's inference mode, on this thread, while the guard lives.
pub(crate) struct InferenceMode {
    guard: *mut c_void,
    /// The mode belongs to the thread: the guard must not leave it.
    _thread: PhantomData<*mut ()>,
}

impl InferenceMode {
    /// Enters the mode.
    pub(crate) fn enter() -> Result<Self, ShimError> {
        let mut guard = ptr::null_mut();
        // SAFETY: writes a guard, which the drop below gives back, where it gives 0.
        checked(unsafe { photofinish_inference_enter(&raw mut guard) })?;
        Ok(Self {
            guard,
            _thread: PhantomData,
        })
    }
}

impl Drop for InferenceMode {
    fn drop(&mut self) {
        // SAFETY: made by `photofinish_inference_enter` on this thread.
        unsafe { photofinish_inference_leave(self.guard) }
    }
}

/// Operators of this thread compute under autocast in bfloat16 until this is dropped.
pub(crate) struct Autocast {
    cuda: c_int,
    /// It is the thread's: the guard must not leave it.
    _thread: PhantomData<*mut ()>,
}

impl Autocast {
    /// Turns it on for a GPU, or for the processors.
    pub(crate) fn enter(on_gpu: bool) -> Result<Self, ShimError> {
        let cuda = c_int::from(on_gpu);
        // SAFETY: no pointers; the drop below turns it off.
        checked(unsafe { photofinish_autocast(cuda, 1) })?;
        Ok(Self {
            cuda,
            _thread: PhantomData,
        })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // SAFETY: as above, on the same thread. It has nothing that could fail and be told of here.
        let _ = unsafe { photofinish_autocast(self.cuda, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_an_error() {
        let error = load_cuda("/nowhere/libtorch_cuda.so").unwrap_err();
        assert!(error.0.contains("/nowhere/libtorch_cuda.so"), "{error}");
    }

    #[test]
    fn no_function_of_the_shim_can_unwind() {
        let sources = [
            include_str!("../cpp/shim.cpp"),
            include_str!("../cpp/events.cpp"),
            include_str!("../cpp/package.cpp"),
            include_str!("../cpp/kineto.cpp"),
            include_str!("../cpp/profile.cpp"),
            include_str!("../cpp/ranks.cpp"),
        ];
        for source in sources {
            let (_, called) = source.split_once("extern \"C\" {\n").unwrap();
            let mut functions = 0;
            // What is indented goes on with a function; a definition begins at the margin.
            for (at, _) in called.match_indices(" photofinish_") {
                let line = called[..at].rsplit('\n').next().unwrap();
                if line.starts_with([' ', '/']) {
                    continue;
                }
                let (signature, _) = called[at..].split_once('{').unwrap();
                assert!(signature.trim_end().ends_with(" noexcept"), "{signature}");
                functions += 1;
            }
            assert!(functions > 0);
        }
    }
}
