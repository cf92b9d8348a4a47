//! A library that answers as NVML does, from a trace: for tests on machines without a GPU.
//!
//! The trace lies beside the library: `libnvml.so` plays `libnvml.so.jsonl`, so that each copy of it plays
//! a trace of its own, several in one process. Its first line describes the cards, `{"cards": [{"name":
//! "…", "uuid": "GPU-…"}]}`; every other line is a frame. A frame says what differs from the one before:
//! numbers of sensors by name, or in place of a number why there is none: `"unsupported"` (so is what no
//! frame has said anything of), `"no_permission"`, `"lost"`. `{"all": "lost"}` goes for every question. All cards
//! tell the same.
//!
//! A frame is over when a question is asked again that it has answered: the first look at the sensors sees
//! the first frame, the second the second, however much time lies between them. The last one stays.
#![expect(
    unsafe_code,
    reason = "it is called by C's conventions, and fills what pointers lead to"
)]
#![expect(
    missing_docs,
    reason = "the functions are NVML's, and documented there"
)]

use std::{
    collections::BTreeSet,
    ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulonglong, c_void},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    ptr, slice,
    sync::{Mutex, PoisonError},
};

use nix::libc;
use serde_json::{Map, Value};

/// `nvmlReturn_t`.
type Answer = c_uint;

const SUCCESS: Answer = 0;
const UNINITIALIZED: Answer = 1;
const INVALID_ARGUMENT: Answer = 2;
const NOT_SUPPORTED: Answer = 3;
const NO_PERMISSION: Answer = 4;
const NOT_FOUND: Answer = 6;
const INSUFFICIENT_SIZE: Answer = 7;
const GPU_IS_LOST: Answer = 15;

/// `nvmlProcessInfo_v2_t`.
#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    used_gpu_memory: c_ulonglong,
    gpu_instance_id: c_uint,
    compute_instance_id: c_uint,
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
pub struct ProcessSample {
    pid: c_uint,
    time_stamp: c_ulonglong,
    sm_util: c_uint,
    mem_util: c_uint,
    enc_util: c_uint,
    dec_util: c_uint,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlUtilization_t`.
#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// A trace that is being played.
struct Player {
    cards: Vec<Value>,
    frames: Vec<Value>,
    /// The frame that is next.
    next: usize,
    /// What all frames so far come to.
    state: Map<String, Value>,
    /// What the current one was asked.
    asked: BTreeSet<&'static str>,
}

static PLAYER: Mutex<Option<Player>> = Mutex::new(None);

/// The file of this library, as it was loaded.
fn own_path() -> Option<PathBuf> {
    // SAFETY: all zeros is a valid `Dl_info`, which the call fills.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is of this library, and `info` outlives the call.
    let found = unsafe { libc::dladdr((&raw const PLAYER).cast::<c_void>(), &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own text, which lives as long as this library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

impl Player {
    fn new() -> Option<Self> {
        let mut trace = own_path()?.into_os_string();
        trace.push(".jsonl");
        let text = fs::read_to_string(trace).ok()?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let lines: Result<Vec<Value>, _> = lines.map(serde_json::from_str).collect();
        let mut lines = lines.ok()?.into_iter();
        let cards = lines.next()?.get("cards")?.as_array()?.clone();
        let mut player = Self {
            cards,
            frames: lines.collect(),
            next: 0,
            state: Map::new(),
            asked: BTreeSet::new(),
        };
        player.turn();
        Some(player)
    }

    /// Goes on to the next frame, if there is one.
    fn turn(&mut self) {
        if let Some(frame) = self.frames.get(self.next).and_then(Value::as_object) {
            self.state.extend(frame.clone());
            self.next += 1;
            self.asked.clear();
        }
    }

    /// What the trace says to a question.
    fn answer(&mut self, question: &'static str) -> Result<Value, Answer> {
        if self.asked.contains(question) {
            self.turn();
        }
        self.asked.insert(question);
        let said = self.state.get("all").or_else(|| self.state.get(question));
        match said {
            Some(Value::String(why)) => Err(match why.as_str() {
                "lost" => GPU_IS_LOST,
                "no_permission" => NO_PERMISSION,
                _ => NOT_SUPPORTED,
            }),
            Some(Value::Null) | None => Err(NOT_SUPPORTED),
            Some(value) => Ok(value.clone()),
        }
    }
}

/// Does something with the player.
fn with<T>(work: impl FnOnce(&mut Player) -> Result<T, Answer>) -> Result<T, Answer> {
    let mut player = PLAYER.lock().unwrap_or_else(PoisonError::into_inner);
    work(player.as_mut().ok_or(UNINITIALIZED)?)
}

fn number(question: &'static str) -> Result<u64, Answer> {
    with(|player| player.answer(question)?.as_u64().ok_or(NOT_SUPPORTED))
}

fn list(question: &'static str) -> Result<Vec<Value>, Answer> {
    with(|player| {
        Ok(player
            .answer(question)?
            .as_array()
            .ok_or(NOT_SUPPORTED)?
            .clone())
    })
}

/// What was said last, without a question.
fn told(question: &'static str) -> Vec<Value> {
    let state = |player: &mut Player| Ok(player.state.get(question).cloned());
    let said = with(state).ok().flatten();
    said.and_then(|value| value.as_array().cloned())
        .unwrap_or_default()
}

/// Fills what a pointer leads to.
fn fill<T>(place: *mut T, value: Result<T, Answer>) -> Answer {
    match value {
        Err(answer) => answer,
        Ok(_) if place.is_null() => INVALID_ARGUMENT,
        Ok(value) => {
            // SAFETY: the caller's own variable of this type, as NVML's interface asks.
            unsafe { ptr::write(place, value) };
            SUCCESS
        }
    }
}

fn fill_number(place: *mut c_uint, question: &'static str) -> Answer {
    fill(place, number(question).map(|number| number as c_uint))
}

/// Fills a text with the zero at its end.
fn fill_text(place: *mut c_char, length: c_uint, text: &str) -> Answer {
    if place.is_null() || text.len() >= length as usize {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: the caller's buffer is `length` long, and the text with its zero is no longer.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), text.len());
        *place.add(text.len()) = 0;
    }
    SUCCESS
}

/// A card's number: handles are numbers from 1, so that none is null.
fn card(handle: *mut c_void) -> usize {
    (handle as usize).wrapping_sub(1)
}

fn fill_word(handle: *mut c_void, place: *mut c_char, length: c_uint, word: &str) -> Answer {
    let text = with(|player| {
        let card = player.cards.get(card(handle)).ok_or(INVALID_ARGUMENT)?;
        let text = card.get(word).and_then(Value::as_str);
        Ok(text.ok_or(NOT_SUPPORTED)?.to_owned())
    });
    match text {
        Ok(text) => fill_text(place, length, &text),
        Err(answer) => answer,
    }
}

fn field(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// A number, or `"self"` for the process that asks.
fn pid(value: &Value) -> c_uint {
    match value.get("pid").and_then(Value::as_u64) {
        Some(pid) => pid as c_uint,
        None => std::process::id(),
    }
}

/// Answers with a list as NVML does: its length where there is no room.
fn fill_list<T>(
    count: *mut c_uint,
    place: *mut T,
    question: &'static str,
    entry: impl Fn(&Value) -> T,
) -> Answer {
    if count.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's own variable.
    let room = unsafe { *count } as usize;
    // The length is asked for first, which is the question; what follows is its answer.
    let said = match place.is_null() {
        true => list(question),
        false => Ok(told(question)),
    };
    let entries = match said {
        Ok(entries) => entries,
        Err(answer) => return answer,
    };
    // SAFETY: likewise.
    unsafe { *count = entries.len() as c_uint };
    if place.is_null() || room < entries.len() {
        return if entries.is_empty() {
            SUCCESS
        } else {
            INSUFFICIENT_SIZE
        };
    }
    for (index, value) in entries.iter().enumerate() {
        // SAFETY: the caller's buffer has room for them all.
        unsafe { ptr::write(place.add(index), entry(value)) };
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Answer {
    let mut player = PLAYER.lock().unwrap_or_else(PoisonError::into_inner);
    *player = Player::new();
    if player.is_some() { SUCCESS } else { NOT_FOUND }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Answer {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(place: *mut c_char, length: c_uint) -> Answer {
    fill_text(place, length, "570.00")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(place: *mut c_uint) -> Answer {
    fill(place, with(|player| Ok(player.cards.len() as c_uint)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, place: *mut *mut c_void) -> Answer {
    let handle = with(|player| {
        let card = player.cards.get(index as usize);
        card.map(|_| (index as usize + 1) as *mut c_void)
            .ok_or(INVALID_ARGUMENT)
    });
    fill(place, handle)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(
    handle: *mut c_void,
    place: *mut c_char,
    length: c_uint,
) -> Answer {
    fill_word(handle, place, length, "name")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(
    handle: *mut c_void,
    place: *mut c_char,
    length: c_uint,
) -> Answer {
    fill_word(handle, place, length, "uuid")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerUsage(_: *mut c_void, place: *mut c_uint) -> Answer {
    fill_number(place, "power_mw")
}

/// One of the fields that are asked for together.
#[repr(C)]
pub struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency_us: i64,
    kind: c_uint,
    answer: Answer,
    value: c_ulonglong,
}

/// The fields that somebody asks for.
fn fields_of<'a>(fields: *mut FieldValue, count: c_int) -> &'a mut [FieldValue] {
    match usize::try_from(count) {
        // SAFETY: the caller's array is so long, and the caller's alone.
        Ok(count) if !fields.is_null() => unsafe { slice::from_raw_parts_mut(fields, count) },
        _ => &mut [],
    }
}

/// Knows one field, the power of the instant (`NVML_FI_DEV_POWER_INSTANT`), an unsigned number.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetFieldValues(
    _: *mut c_void,
    count: c_int,
    fields: *mut FieldValue,
) -> Answer {
    for field in fields_of(fields, count) {
        let told = match field.field {
            186 => number("instant_mw"),
            _ => Err(NOT_SUPPORTED),
        };
        (field.kind, field.answer) = (1, told.as_ref().err().copied().unwrap_or(SUCCESS));
        field.value = told.unwrap_or(0);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    _: *mut c_void,
    place: *mut c_ulonglong,
) -> Answer {
    fill(place, number("energy_mj"))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetClockInfo(
    _: *mut c_void,
    clock: c_uint,
    place: *mut c_uint,
) -> Answer {
    fill_number(place, if clock == 2 { "memory_mhz" } else { "sm_mhz" })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperature(
    _: *mut c_void,
    _: c_uint,
    place: *mut c_uint,
) -> Answer {
    fill_number(place, "celsius")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(_: *mut c_void, place: *mut Utilization) -> Answer {
    let rates = number("utilisation").map(|percent| Utilization {
        gpu: percent as c_uint,
        memory: 0,
    });
    fill(place, rates)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(_: *mut c_void, place: *mut Memory) -> Answer {
    let total: c_ulonglong = 80 << 30;
    let memory = number("memory_used").map(|used| Memory {
        version: 2,
        total,
        reserved: 0,
        free: total.saturating_sub(used),
        used,
    });
    fill(place, memory)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    _: *mut c_void,
    place: *mut c_ulonglong,
) -> Answer {
    fill(place, number("reasons"))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    _: *mut c_void,
    count: *mut c_uint,
    place: *mut ProcessInfo,
) -> Answer {
    fill_list(count, place, "processes", |process| ProcessInfo {
        pid: pid(process),
        used_gpu_memory: field(process, "bytes"),
        gpu_instance_id: c_uint::MAX,
        compute_instance_id: c_uint::MAX,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetProcessUtilization(
    _: *mut c_void,
    place: *mut ProcessSample,
    count: *mut c_uint,
    since: c_ulonglong,
) -> Answer {
    fill_list(count, place, "use", |process| ProcessSample {
        pid: pid(process),
        time_stamp: since + 1,
        sm_util: field(process, "sm") as c_uint,
        mem_util: 0,
        enc_util: 0,
        dec_util: 0,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPersistenceMode(_: *mut c_void, place: *mut c_uint) -> Answer {
    fill_number(place, "persistence")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetApplicationsClock(
    _: *mut c_void,
    _: c_uint,
    place: *mut c_uint,
) -> Answer {
    fill_number(place, "application_mhz")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetDefaultApplicationsClock(
    _: *mut c_void,
    _: c_uint,
    place: *mut c_uint,
) -> Answer {
    fill_number(place, "default_mhz")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxClockInfo(
    _: *mut c_void,
    _: c_uint,
    place: *mut c_uint,
) -> Answer {
    fill_number(place, "most_mhz")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerManagementLimit(_: *mut c_void, place: *mut c_uint) -> Answer {
    fill_number(place, "limit_mw")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerManagementDefaultLimit(
    _: *mut c_void,
    place: *mut c_uint,
) -> Answer {
    fill_number(place, "default_limit_mw")
}
