//! Who is told where the program is, and says what ran there; and the functions of `cpp/profile.cpp`, made
//! safe: which operators PyTorch ran on a processor, and how long they took.
#![expect(unsafe_code, reason = "calls into C++")]

use std::{
    ffi::{CStr, c_char, c_int},
    marker::PhantomData,
    ptr,
};

use schema::Outcome;

use crate::{
    device::Place,
    failure::Fault,
    kineto::Kineto,
    shim::{ShimError, checked},
};

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
pub(crate) const NOWHERE: i64 = -1;

/// What was recorded of one operator, or of one kernel of a GPU, at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Where the program was; `None`: nowhere in it.
    pub(crate) place: Option<usize>,
    /// Its name.
    pub(crate) name: String,
    /// Whether it only converts.
    pub(crate) converts: bool,
    /// Time that it took in all, in nanoseconds, but for conversions within it.
    pub(crate) time_ns: u64,
    /// How often it was called.
    pub(crate) calls: u64,
}

/// What times a step, piece by piece.
pub(crate) enum Recorder {
    /// The operators, on a processor: each is done when it returns.
    Operators(Operators),
    /// The kernels, on a GPU: operators only launch them.
    Kernels(Kineto),
}

impl Recorder {
    /// The one for this device; it waits for its start.
    pub(crate) fn new(device: Place) -> Result<Self, Outcome> {
        match device {
            Place::Cpu => Ok(Self::Operators(Operators::new())),
            Place::Cuda(_) => Kineto::prepare().map(Self::Kernels).map_err(failed),
        }
    }

    /// Whether a step before its start makes it ready.
    pub(crate) const fn warms_up(&self) -> bool {
        matches!(self, Self::Kernels(_))
    }

    /// Begins to record.
    pub(crate) fn start(&self) -> Result<(), Outcome> {
        match self {
            Self::Operators(operators) => operators.start(),
            Self::Kernels(kineto) => kineto.start(),
        }
        .map_err(failed)
    }

    /// From here on the program is at this place.
    pub(crate) fn at(&self, place: usize) {
        self.arrive(Some(place));
    }

    /// From here on it is at no place.
    pub(crate) fn nowhere(&self) {
        self.arrive(None);
    }

    fn arrive(&self, place: Option<usize>) {
        match self {
            Self::Operators(operators) => operators.at(place),
            Self::Kernels(kineto) => kineto.at(place),
        }
    }

    /// What was recorded, and how many kernels that were: on a processor, operators that called no other
    /// and did something.
    pub(crate) fn end(self) -> Result<(Vec<Row>, u64), Outcome> {
        match self {
            Self::Operators(operators) => operators.end().map_err(failed),
            Self::Kernels(kineto) => kineto.end(),
        }
    }
}

fn failed(error: ShimError) -> Outcome {
    Fault::from(error).at("profile")
}

/// Records the operators of this thread from its start on while it lives.
pub(crate) struct Operators {
    /// Places belong to the thread: the recorder must not leave it.
    _thread: PhantomData<*mut ()>,
}

impl Operators {
    /// Waits for its start.
    pub(crate) const fn new() -> Self {
        Self {
            _thread: PhantomData,
        }
    }

    fn start(&self) -> Result<(), ShimError> {
        // SAFETY: no pointers.
        checked(unsafe { photofinish_record_begin() })
    }

    fn at(&self, place: Option<usize>) {
        let place = place.and_then(|place| i64::try_from(place).ok());
        // SAFETY: no pointers.
        unsafe { photofinish_record_at(place.unwrap_or(NOWHERE)) }
    }

    fn end(self) -> Result<(Vec<Row>, u64), ShimError> {
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

impl Drop for Operators {
    fn drop(&mut self) {
        let (mut count, mut launched) = (0, 0);
        // SAFETY: both are valid places. That it has ended already does no harm; why it did not end
        // can be told nobody.
        let _ = unsafe { photofinish_record_end(&raw mut count, &raw mut launched) };
    }
}
