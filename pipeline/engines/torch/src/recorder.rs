//! The functions of `cpp/profile.cpp`, made safe: which operators PyTorch ran, and how long they took.
#![expect(unsafe_code, reason = "calls into C++")]

use std::{
    ffi::{CStr, c_char, c_int},
    marker::PhantomData,
    ptr,
};

use crate::shim::{ShimError, checked};

// SAFETY: the signatures are those of `cpp/profile.cpp`; no function lets an exception out.
unsafe extern "C" {
    fn photofinish_record_begin() -> c_int;
    fn photofinish_record_at(place: i64);
    fn photofinish_record_end(count: *mut u64, launched: *mut u64) -> c_int;
    fn photofinish_record_row(
        index: u64,
        place: *mut i64,
        name: *mut *const c_char,
        converts: *mut c_int,
        time_ns: *mut u64,
        calls: *mut u64,
    ) -> c_int;
}

/// A place that is none of the program's.
const NOWHERE: i64 = -1;

/// What was recorded of one operator at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Where the program was; `None`: nowhere in it.
    pub(crate) place: Option<usize>,
    /// The operator's name.
    pub(crate) name: String,
    /// Whether it only converts.
    pub(crate) converts: bool,
    /// Time that it took in all, in nanoseconds, but for conversions within it.
    pub(crate) time_ns: u64,
    /// How often it was called.
    pub(crate) calls: u64,
}

/// Records the operators of this thread while it lives.
pub(crate) struct Recorder {
    /// Places belong to the thread: the recorder must not leave it.
    _thread: PhantomData<*mut ()>,
}

impl Recorder {
    /// Begins to record.
    pub(crate) fn begin() -> Result<Self, ShimError> {
        // SAFETY: no pointers.
        checked(unsafe { photofinish_record_begin() })?;
        Ok(Self {
            _thread: PhantomData,
        })
    }

    /// From here on the program is at this place.
    pub(crate) fn at(&self, place: usize) {
        // SAFETY: no pointers.
        unsafe { photofinish_record_at(i64::try_from(place).unwrap_or(NOWHERE)) }
    }

    /// From here on it is at no place.
    pub(crate) fn nowhere(&self) {
        // SAFETY: no pointers.
        unsafe { photofinish_record_at(NOWHERE) }
    }

    /// What was recorded, and how many operators called no other and did something.
    pub(crate) fn end(self) -> Result<(Vec<Row>, u64), ShimError> {
        let (mut count, mut launched) = (0, 0);
        // SAFETY: both are valid places.
        checked(unsafe { photofinish_record_end(&raw mut count, &raw mut launched) })?;
        let rows = (0..count).map(Self::row).collect::<Result<_, _>>()?;
        Ok((rows, launched))
    }

    fn row(index: u64) -> Result<Row, ShimError> {
        let (mut place, mut name, mut converts) = (NOWHERE, ptr::null(), 0);
        let (mut time_ns, mut calls) = (0, 0);
        // SAFETY: all are valid places; on success the name ends in NUL and stays where it is until
        // this thread's next recording, which begins once this recorder is gone at the earliest.
        let name = unsafe {
            checked(photofinish_record_row(
                index,
                &raw mut place,
                &raw mut name,
                &raw mut converts,
                &raw mut time_ns,
                &raw mut calls,
            ))?;
            CStr::from_ptr(name)
        };
        Ok(Row {
            place: usize::try_from(place).ok(),
            name: name.to_string_lossy().into_owned(),
            converts: converts != 0,
            time_ns,
            calls,
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let (mut count, mut launched) = (0, 0);
        // SAFETY: both are valid places. That it has ended already does no harm; why it did not end
        // can be told nobody.
        let _ = unsafe { photofinish_record_end(&raw mut count, &raw mut launched) };
    }
}
