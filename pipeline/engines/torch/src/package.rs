//! AOTInductor's packages (`cpp/package.cpp`), made safe.
#![expect(unsafe_code, reason = "calls into C++")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    ptr::{self, NonNull},
    sync::OnceLock,
};

use tch::Tensor;
use tempfile::TempDir;

use crate::{
    device::Place,
    shim::{ShimError, checked},
};

// SAFETY: the signatures are those of `cpp/package.cpp`; no function lets an exception out.
unsafe extern "C" {
    fn photofinish_provide_library(bytes: *const u8, size: usize) -> c_int;
    fn photofinish_package_load(
        path: *const c_char,
        folder: *const c_char,
        device: c_int,
        package: *mut *mut c_void,
    ) -> c_int;
    fn photofinish_package_free(package: *mut c_void);
    fn photofinish_package_facts(package: *const c_void) -> *const c_char;
    fn photofinish_package_constants(package: *const c_void) -> usize;
    fn photofinish_package_constant(package: *const c_void, index: usize) -> *const c_char;
    fn photofinish_package_hold(
        package: *mut c_void,
        names: *const *const c_char,
        constants: *const *const c_void,
        count: usize,
    ) -> c_int;
    fn photofinish_package_feed(
        package: *mut c_void,
        inputs: *const *const c_void,
        input_count: usize,
        weights: *const *const c_void,
        weight_count: usize,
    ) -> c_int;
    fn photofinish_package_run(package: *mut c_void) -> c_int;
    fn photofinish_package_outputs(
        package: *mut c_void,
        outputs: *mut *mut c_void,
        room: usize,
        count: *mut usize,
    ) -> c_int;
    fn photofinish_package_differentiate(package: *mut c_void, loss: *mut *mut c_void) -> c_int;
}

/// A library that holds nothing but the name `libtorch.so`.
///
/// A package asks for that library, and the wheel's pulls the CUDA libraries in, which a machine
/// without a GPU lacks; all that a package uses is in `libtorch_cpu.so`, which this worker has.
const LIBTORCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtorch.so"));

/// A network that AOTInductor compiled, loaded into this process.
#[derive(Debug)]
pub(crate) struct Package {
    loaded: NonNull<c_void>,
    /// Where it is unpacked; removed when the package is gone.
    _unpacked: TempDir,
}

impl Package {
    /// Loads the package at `path`, which must be as it was written: nothing of it is verified. It
    /// is unpacked below `scratch`, this launch's folder: whoever kills this process removes it.
    pub(crate) fn load(path: &Path, place: Place, scratch: &Path) -> Result<Self, ShimError> {
        static PROVIDED: OnceLock<Result<(), ShimError>> = OnceLock::new();
        // SAFETY: the bytes are those of a library without code.
        let provide =
            || checked(unsafe { photofinish_provide_library(LIBTORCH.as_ptr(), LIBTORCH.len()) });
        PROVIDED.get_or_init(provide).clone()?;
        let unpacked = tempfile::tempdir_in(scratch)
            .map_err(|error| ShimError(format!("there is no folder to unpack into: {error}")))?;
        let path = c_string(path.as_os_str().as_bytes())?;
        let folder = c_string(unpacked.path().as_os_str().as_bytes())?;
        let device = match place {
            Place::Cpu => -1,
            Place::Cuda(index) => index,
        };
        let mut package = ptr::null_mut();
        // SAFETY: NUL-terminated paths and a valid place. Running the code of a package is what
        // it is for: PyTorch of the user's own installation compiled it, for this user.
        checked(unsafe {
            photofinish_package_load(path.as_ptr(), folder.as_ptr(), device, &raw mut package)
        })?;
        let loaded = NonNull::new(package);
        let loaded = loaded.ok_or_else(|| ShimError("the package is empty".to_owned()))?;
        Ok(Self {
            loaded,
            _unpacked: unpacked,
        })
    }

    /// What was written into the package about it, as JSON; empty where nothing was.
    pub(crate) fn facts(&self) -> String {
        // SAFETY: a live package, and a NUL-terminated string that lives as long; it is copied.
        let facts = unsafe { CStr::from_ptr(photofinish_package_facts(self.loaded.as_ptr())) };
        facts.to_string_lossy().into_owned()
    }

    /// The names of the constants that it reads.
    pub(crate) fn constants(&self) -> Vec<String> {
        // SAFETY: a live package.
        let count = unsafe { photofinish_package_constants(self.loaded.as_ptr()) };
        let name = |index| {
            // SAFETY: a live package; the string lives as long, and is copied.
            let name = unsafe { photofinish_package_constant(self.loaded.as_ptr(), index) };
            // SAFETY: as above, where it is not null.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
        };
        let names = (0..count).filter_map(name);
        names.map(|it| it.to_string_lossy().into_owned()).collect()
    }

    /// Gives it all of its constants, by their names. It reads them where they lie.
    pub(crate) fn hold(&mut self, constants: &[(String, Tensor)]) -> Result<(), ShimError> {
        let names = constants.iter().map(|(name, _)| c_string(name.as_bytes()));
        let names: Vec<CString> = names.collect::<Result<_, _>>()?;
        let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let tensors = pointers(constants.iter().map(|(_, tensor)| tensor));
        // SAFETY: as many names as tensors, all of them live; the package counts its references.
        checked(unsafe {
            photofinish_package_hold(
                self.loaded.as_ptr(),
                names.as_ptr(),
                tensors.as_ptr(),
                tensors.len(),
            )
        })
    }

    /// Says what every run reads, and which weights get the gradients of one, in the package's
    /// order.
    pub(crate) fn feed(
        &mut self,
        inputs: &[&Tensor],
        weights: &[&Tensor],
    ) -> Result<(), ShimError> {
        let inputs = pointers(inputs.iter().copied());
        let weights = pointers(weights.iter().copied());
        // SAFETY: live tensors, of which the package takes references of its own.
        checked(unsafe {
            photofinish_package_feed(
                self.loaded.as_ptr(),
                inputs.as_ptr(),
                inputs.len(),
                weights.as_ptr(),
                weights.len(),
            )
        })
    }

    /// One run whose outputs nobody keeps.
    pub(crate) fn run(&mut self) -> Result<(), ShimError> {
        // SAFETY: a live package.
        checked(unsafe { photofinish_package_run(self.loaded.as_ptr()) })
    }

    /// One run, and its outputs, of which there must be so many.
    pub(crate) fn outputs(&mut self, count: usize) -> Result<Vec<Tensor>, ShimError> {
        let mut outputs = vec![ptr::null_mut(); count];
        let mut made = 0;
        // SAFETY: a live package, room for `count` outputs, a valid place.
        checked(unsafe {
            photofinish_package_outputs(
                self.loaded.as_ptr(),
                outputs.as_mut_ptr(),
                count,
                &raw mut made,
            )
        })?;
        let given = outputs.into_iter().filter(|output| !output.is_null());
        // SAFETY: tensors of our own, which `tch` will delete.
        let given = given.map(|output| unsafe { Tensor::from_ptr(output.cast()) });
        let outputs: Vec<_> = given.collect();
        if made == count {
            return Ok(outputs);
        }
        Err(ShimError(format!(
            "the package gives {made} outputs instead of {count}"
        )))
    }

    /// One forward and backward pass: the fed weights get their gradients; gives the loss.
    pub(crate) fn differentiate(&mut self) -> Result<Tensor, ShimError> {
        let mut loss = ptr::null_mut();
        // SAFETY: a live package, a valid place.
        checked(unsafe { photofinish_package_differentiate(self.loaded.as_ptr(), &raw mut loss) })?;
        // SAFETY: on success the shim hands over a tensor of its own, which `tch` will delete.
        Ok(unsafe { Tensor::from_ptr(loss.cast()) })
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        // SAFETY: made by `photofinish_package_load`, freed once.
        unsafe { photofinish_package_free(self.loaded.as_ptr()) }
    }
}

fn c_string(bytes: &[u8]) -> Result<CString, ShimError> {
    CString::new(bytes).map_err(|error| ShimError(error.to_string()))
}

fn pointers<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Vec<*const c_void> {
    tensors.map(|tensor| tensor.as_ptr().cast()).collect()
}
