//! The time of a step by a GPU's own clock (`cpp/events.cpp`), made safe.
#![expect(unsafe_code, reason = "calls into C++")]

use std::{
    ffi::{c_int, c_void},
    ptr::{self, NonNull},
};

use crate::shim::{ShimError, checked};

// SAFETY: the signatures are those of `cpp/events.cpp`; no function lets an exception out.
unsafe extern "C" {
    fn photofinish_events_new(device: c_int, events: *mut *mut c_void) -> c_int;
    fn photofinish_events_free(events: *mut c_void);
    fn photofinish_events_before(events: *mut c_void) -> c_int;
    fn photofinish_events_after(events: *mut c_void) -> c_int;
    fn photofinish_events_nanoseconds(events: *const c_void, nanoseconds: *mut u64) -> c_int;
}

/// Two events of a CUDA device, on the stream that this thread's work is queued on.
#[derive(Debug)]
pub(crate) struct Events(NonNull<c_void>);

impl Events {
    /// Those of CUDA device `device`, whose library must be open.
    pub(crate) fn of(device: c_int) -> Result<Self, ShimError> {
        let mut events = ptr::null_mut();
        // SAFETY: a valid place.
        checked(unsafe { photofinish_events_new(device, &raw mut events) })?;
        let events = NonNull::new(events);
        events
            .map(Self)
            .ok_or_else(|| ShimError("there are no events".to_owned()))
    }

    /// What is asked of the device from here on comes after the first event.
    pub(crate) fn before(&mut self) -> Result<(), ShimError> {
        // SAFETY: live events, borrowed mutably.
        checked(unsafe { photofinish_events_before(self.0.as_ptr()) })
    }

    /// What was asked of it before comes before the second.
    pub(crate) fn after(&mut self) -> Result<(), ShimError> {
        // SAFETY: as above.
        checked(unsafe { photofinish_events_after(self.0.as_ptr()) })
    }

    /// From the one to the other; an error unless the device has passed both.
    pub(crate) fn nanoseconds(&self) -> Result<u64, ShimError> {
        let mut nanoseconds = 0;
        // SAFETY: live events, and a valid place.
        checked(unsafe { photofinish_events_nanoseconds(self.0.as_ptr(), &raw mut nanoseconds) })?;
        Ok(nanoseconds)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: made by `photofinish_events_new`, freed once.
        unsafe { photofinish_events_free(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_cuda_library_there_are_no_events() {
        let error = Events::of(0).unwrap_err();
        assert!(error.0.to_lowercase().contains("cuda"), "{error}");
    }
}
