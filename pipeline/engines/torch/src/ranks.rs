//! Several processes that train together (`cpp/ranks.cpp`), made safe.
#![expect(unsafe_code, reason = "calls into C++")]

use std::{
    ffi::{CString, c_char, c_int, c_void},
    ptr::{self, NonNull},
    slice,
    time::Duration,
};

use schema::{Outcome, OutcomeKind};
use tch::Tensor;
use worker::{Store, World};

use crate::{
    failure::Fault,
    shim::{ShimError, checked},
};

// SAFETY: the signatures are those of `cpp/ranks.cpp`; no function lets an exception out.
unsafe extern "C" {
    fn photofinish_store_new(
        host: *const c_char,
        port: u16,
        serves: c_int,
        world: u64,
        patience_ms: i64,
        store: *mut *mut c_void,
    ) -> c_int;
    fn photofinish_store_free(store: *mut c_void);
    fn photofinish_store_port(store: *const c_void) -> u16;
    fn photofinish_store_set(
        store: *const c_void,
        name: *const c_char,
        value: *const u8,
        length: usize,
    ) -> c_int;
    fn photofinish_store_get(
        store: *const c_void,
        name: *const c_char,
        patience_ms: i64,
        value: *mut *mut u8,
        length: *mut usize,
    ) -> c_int;
    fn photofinish_bytes_free(bytes: *mut u8);
    fn photofinish_store_forget(store: *const c_void, name: *const c_char) -> c_int;
    fn photofinish_group_new(
        store: *const c_void,
        rank: c_int,
        world: c_int,
        address: *const c_char,
        group: *mut *mut c_void,
    ) -> c_int;
    fn photofinish_group_free(group: *mut c_void);
    fn photofinish_group_barrier(group: *const c_void) -> c_int;
    fn photofinish_ddp_new(
        group: *const c_void,
        weights: *const *const c_void,
        weight_count: usize,
        buffers: *const *const c_void,
        buffer_count: usize,
        bucket_mib: i64,
        bucket_views: c_int,
        static_graph: c_int,
        compression: c_int,
        notes: c_int,
        ddp: *mut *mut c_void,
    ) -> c_int;
    fn photofinish_ddp_free(ddp: *mut c_void);
    fn photofinish_ddp_before_forward(ddp: *mut c_void, first: c_int, exchanged: c_int) -> c_int;
    fn photofinish_ddp_before_backward(ddp: *mut c_void) -> c_int;
    fn photofinish_ddp_after_backward(ddp: *mut c_void) -> c_int;
    fn photofinish_ddp_now() -> u64;
    fn photofinish_ddp_notes(
        ddp: *mut c_void,
        numbers: *mut u64,
        room: usize,
        count: *mut usize,
    ) -> c_int;
}

/// How long a rank waits for the one that serves the store.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exchanges that are handed over at once.
const EXCHANGES: usize = 4096;

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn c_string(text: &str) -> Result<CString, ShimError> {
    CString::new(text).map_err(|error| ShimError(error.to_string()))
}

/// PyTorch's own store, over TCP.
pub(crate) struct TcpStore(NonNull<c_void>);

impl TcpStore {
    /// That of these ranks, which this process may serve.
    fn open(world: &World, serves: bool) -> Result<Self, ShimError> {
        let mut store = ptr::null_mut();
        let host = c_string(&world.address)?;
        // SAFETY: a NUL-terminated string and a valid place.
        checked(unsafe {
            photofinish_store_new(
                host.as_ptr(),
                world.port,
                c_int::from(serves),
                world.size.into(),
                milliseconds(PATIENCE),
                &raw mut store,
            )
        })?;
        let store = NonNull::new(store);
        store
            .map(Self)
            .ok_or_else(|| ShimError("there is no store".to_owned()))
    }

    fn find(&self, name: &str, patience: Duration) -> Result<Option<Vec<u8>>, ShimError> {
        let (mut value, mut length) = (ptr::null_mut(), 0);
        let name = c_string(name)?;
        // SAFETY: a live store, a NUL-terminated string and two valid places.
        checked(unsafe {
            photofinish_store_get(
                self.0.as_ptr(),
                name.as_ptr(),
                milliseconds(patience),
                &raw mut value,
                &raw mut length,
            )
        })?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: the shim made so many bytes, which are freed after they were copied.
        let copied = unsafe { slice::from_raw_parts(value, length) }.to_vec();
        // SAFETY: made by `photofinish_store_get`, freed once.
        unsafe { photofinish_bytes_free(value) };
        Ok(Some(copied))
    }
}

// SAFETY: the store holds a lock while it speaks over its connection, and no thread is special to it.
unsafe impl Send for TcpStore {}

impl Drop for TcpStore {
    fn drop(&mut self) {
        // SAFETY: made by `photofinish_store_new`, freed once.
        unsafe { photofinish_store_free(self.0.as_ptr()) }
    }
}

/// A process among the ranks of a cell, and where they meet.
pub(crate) struct Team {
    /// What the group is made by: whoever waits there for a rank lets nobody else ask.
    store: TcpStore,
    world: World,
    /// Whether all ranks are on this machine, started by rank 0.
    is_local: bool,
}

impl Team {
    /// Joins the others. A port that is left to the system is one of ranks that this process starts.
    pub(crate) fn join(world: &World) -> Result<Self, Outcome> {
        let store = TcpStore::open(world, world.rank == 0);
        Ok(Self {
            store: store.map_err(|error| unreached(world, &error))?,
            is_local: world.address == LOOPBACK,
            world: world.clone(),
        })
    }

    /// The store, over a connection of its own.
    pub(crate) fn store(&self) -> Result<TcpStore, Outcome> {
        let world = World {
            port: self.store.port(),
            ..self.world.clone()
        };
        TcpStore::open(&world, false).map_err(|error| unreached(&world, &error))
    }

    /// This rank's number.
    pub(crate) fn rank(&self) -> u32 {
        self.world.rank
    }

    /// How many ranks there are.
    pub(crate) fn size(&self) -> u32 {
        self.world.size
    }

    /// The group in which they exchange.
    pub(crate) fn group(&self) -> Result<Group, Outcome> {
        let make = || {
            let mut group = ptr::null_mut();
            let address = c_string(if self.is_local { LOOPBACK } else { "" })?;
            // SAFETY: a live store, a NUL-terminated string and a valid place.
            checked(unsafe {
                photofinish_group_new(
                    self.store.0.as_ptr(),
                    self.world.rank.cast_signed(),
                    self.world.size.cast_signed(),
                    address.as_ptr(),
                    &raw mut group,
                )
            })?;
            let group = NonNull::new(group);
            group
                .map(Group)
                .ok_or_else(|| ShimError("there is no group".to_owned()))
        };
        make().map_err(|error| Fault::from(error).at("process group"))
    }
}

/// The address of ranks that rank 0 starts.
const LOOPBACK: &str = "127.0.0.1";

/// What it means that there is no store.
fn unreached(world: &World, ShimError(reason): &ShimError) -> Outcome {
    let what = match world.rank {
        0 => "cannot serve the store at which ranks meet",
        _ => "rank 0 is not reached",
    };
    let (address, port) = (&world.address, world.port);
    let reason = worker::failure::shortened(reason);
    Outcome::new(
        OutcomeKind::Unavailable,
        format!("{what} ({address}:{port}): {reason}"),
    )
}

impl Store for TcpStore {
    fn port(&self) -> u16 {
        // SAFETY: a live store.
        unsafe { photofinish_store_port(self.0.as_ptr()) }
    }

    fn set(&self, name: &str, value: &[u8]) -> Result<(), Outcome> {
        let set = || {
            let name = c_string(name)?;
            // SAFETY: a live store, a NUL-terminated string, and as many bytes as are said.
            checked(unsafe {
                photofinish_store_set(self.0.as_ptr(), name.as_ptr(), value.as_ptr(), value.len())
            })
        };
        set().map_err(|error| Fault::from(error).at(STORE))
    }

    fn get(&self, name: &str, patience: Duration) -> Result<Option<Vec<u8>>, Outcome> {
        let found = self.find(name, patience);
        found.map_err(|error| Fault::from(error).at(STORE))
    }

    fn forget(&self, name: &str) -> Result<(), Outcome> {
        let forget = || {
            let name = c_string(name)?;
            // SAFETY: a live store and a NUL-terminated string.
            checked(unsafe { photofinish_store_forget(self.0.as_ptr(), name.as_ptr()) })
        };
        forget().map_err(|error| Fault::from(error).at(STORE))
    }
}

const STORE: &str = "the store at which ranks meet";

/// All ranks, as they exchange tensors.
pub(crate) struct Group(NonNull<c_void>);

impl Group {
    /// Waits until all ranks are here.
    pub(crate) fn barrier(&self) -> Result<(), Outcome> {
        // SAFETY: a live group.
        checked(unsafe { photofinish_group_barrier(self.0.as_ptr()) })
            .map_err(|error| Fault::from(error).at("barrier"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: made by `photofinish_group_new`, freed once.
        unsafe { photofinish_group_free(self.0.as_ptr()) }
    }
}

/// What becomes of gradients on their way to the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// They go as they are.
    None = 0,
    /// IEEE binary16.
    Fp16 = 1,
    /// bfloat16.
    Bf16 = 2,
}

/// PyTorch's own size of a bucket, with a smaller one first: what it does where nobody says otherwise.
pub(crate) const USUAL_BUCKET_MIB: u32 = 25;

/// What the reducer is asked for where buckets are to be of this size: nothing for PyTorch's own.
pub(crate) fn asked(bucket_mib: u32) -> Option<u32> {
    (bucket_mib != USUAL_BUCKET_MIB).then_some(bucket_mib)
}

/// How gradients are exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchanging {
    /// How much a bucket holds; `None` is PyTorch's default, whose first bucket is smaller than the
    /// others.
    pub(crate) bucket_mib: Option<u32>,
    /// Whether gradients live in the buckets.
    pub(crate) bucket_views: bool,
    /// Whether the same weights take part in every iteration, as it is promised.
    pub(crate) static_graph: bool,
    /// What becomes of gradients on their way.
    pub(crate) compression: Compression,
}

/// A bucket's way to the other ranks and back, in nanoseconds of [`now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchanged {
    /// The number of the bucket; they go out in its order.
    pub(crate) bucket: u64,
    /// What goes out.
    pub(crate) bytes: u64,
    /// When it was handed to the group.
    pub(crate) began_ns: u64,
    /// When it was back.
    pub(crate) ended_ns: u64,
}

/// The clock by which exchanges are noted, in nanoseconds.
pub(crate) fn now() -> u64 {
    // SAFETY: no pointers.
    unsafe { photofinish_ddp_now() }
}

/// PyTorch's reducer over this rank's weights.
pub(crate) struct Reducer(NonNull<c_void>);

impl Reducer {
    /// One that takes care of `weights`, and of `buffers`, which are those of rank 0 in every forward pass. With
    /// `notes`, what is exchanged is noted, and goes through a hook that is not there otherwise.
    pub(crate) fn new(
        group: &Group,
        weights: &[&Tensor],
        buffers: &[&Tensor],
        exchanging: Exchanging,
        notes: bool,
    ) -> Result<Self, Outcome> {
        let make = || {
            let mut reducer = ptr::null_mut();
            let pointers = |tensors: &[&Tensor]| -> Vec<*const c_void> {
                tensors
                    .iter()
                    .map(|tensor| tensor.as_ptr().cast())
                    .collect()
            };
            let (weights, buffers) = (pointers(weights), pointers(buffers));
            // SAFETY: a live group, live tensors, as many as are said, and a valid place.
            checked(unsafe {
                photofinish_ddp_new(
                    group.0.as_ptr(),
                    weights.as_ptr(),
                    weights.len(),
                    buffers.as_ptr(),
                    buffers.len(),
                    exchanging.bucket_mib.map_or(0, i64::from),
                    c_int::from(exchanging.bucket_views),
                    c_int::from(exchanging.static_graph),
                    exchanging.compression as c_int,
                    c_int::from(notes),
                    &raw mut reducer,
                )
            })?;
            let reducer = NonNull::new(reducer);
            reducer
                .map(Self)
                .ok_or_else(|| ShimError("there is no reducer".to_owned()))
        };
        make().map_err(|error| Fault::from(error).at("reducer"))
    }

    /// To be called before a forward pass: the first of an iteration or another, and one whose backward pass
    /// exchanges gradients or leaves them to a later one. [`Reducer::before_backward`] is for the former alone.
    pub(crate) fn before_forward(&mut self, first: bool, exchanged: bool) -> Result<(), Outcome> {
        let (first, exchanged) = (c_int::from(first), c_int::from(exchanged));
        // SAFETY: a live reducer, borrowed mutably.
        checked(unsafe { photofinish_ddp_before_forward(self.0.as_ptr(), first, exchanged) })
            .map_err(|error| Fault::from(error).at("before the forward pass"))
    }

    /// Before the backward pass.
    pub(crate) fn before_backward(&mut self) -> Result<(), Outcome> {
        // SAFETY: as above.
        checked(unsafe { photofinish_ddp_before_backward(self.0.as_ptr()) })
            .map_err(|error| Fault::from(error).at("before the backward pass"))
    }

    /// After it.
    pub(crate) fn after_backward(&mut self) -> Result<(), Outcome> {
        // SAFETY: as above.
        checked(unsafe { photofinish_ddp_after_backward(self.0.as_ptr()) })
            .map_err(|error| Fault::from(error).at("after the backward pass"))
    }

    /// What was noted since it was last asked for.
    pub(crate) fn notes(&mut self) -> Result<Vec<Exchanged>, Outcome> {
        let mut numbers = vec![0_u64; 4 * EXCHANGES];
        let mut count = 0;
        // SAFETY: a live reducer, room for as many as are said, and a valid place.
        checked(unsafe {
            photofinish_ddp_notes(
                self.0.as_ptr(),
                numbers.as_mut_ptr(),
                EXCHANGES,
                &raw mut count,
            )
        })
        .map_err(|error| Fault::from(error).at("what was exchanged"))?;
        let noted = numbers.chunks_exact(4).take(count);
        Ok(noted
            .filter_map(|note| {
                let &[bucket, bytes, began_ns, ended_ns] = note else {
                    return None;
                };
                Some(Exchanged {
                    bucket,
                    bytes,
                    began_ns,
                    ended_ns,
                })
            })
            .collect())
    }
}

impl Drop for Reducer {
    fn drop(&mut self) {
        // SAFETY: made by `photofinish_ddp_new`, freed once.
        unsafe { photofinish_ddp_free(self.0.as_ptr()) }
    }
}
