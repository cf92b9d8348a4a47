//! Looking at the sensors while rounds run, in a thread of its own.
//!
//! It takes as little as it can: files of the kernel are opened once, handles of NVML are kept, nothing is
//! looked at between rounds, and the dearer a look is, the longer the thread sleeps after it, so that it
//! uses at most [`SHARE`] of a processor; where a look is so dear that one in [`LONGEST`] is more than
//! that, it is one in [`LONGEST`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::time::{ClockId, clock_gettime};
use nvml_wrapper::Nvml;
use schema::{
    Device,
    telemetry::{ALL_SENSORS, CLOCK, PROCESSOR_POWER, PROCESSOR_TIME},
};

use crate::{
    gpu_eyes::{GpuEyes, Watched},
    limits,
    load::{NO_TIMES, Times, mean, mean_mhz},
    look::{GpuSeries, Look, Series},
    probe::Probe,
    rapl::{Counters, Rapl},
    sensors::Sensors,
};

/// Between two looks, at least.
const INTERVAL: Duration = Duration::from_millis(100);
/// Most of one processor that looking may take.
const SHARE: f64 = 0.004;
/// Between two looks at most, however dear they are: a round without any tells nothing.
const LONGEST: Duration = Duration::from_secs(5);
/// Processors whose clocks are read, where each has a file of its own; spread over all.
const CLOCKS: usize = 8;
/// Most that is read of a file of the kernel.
const MOST_BYTES: usize = 64 << 10;

/// Whose a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Ours, or a worker's.
    Ours,
    /// Another's, that is called so.
    Other(String),
    /// No process of this number is to be seen: it has ended, or numbers are counted otherwise where the
    /// driver lives.
    Unknown,
}

/// Tells whose the process of a number is.
pub type Whose = dyn Fn(u32) -> Owner + Send + Sync;

/// Looks at the sensors while rounds run.
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    rounds: u32,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The round that runs.
    turn: Option<Turn>,
    ended: bool,
    series: Series,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    round: u32,
    slot: Option<u32>,
    device: Device,
}

impl Sampler {
    /// Begins, before any worker runs on these devices: who computes on a GPU now is none of ours. Nothing
    /// is looked at before a round begins.
    #[must_use]
    pub fn start(sensors: &Sensors, devices: &BTreeSet<Device>, whose: Arc<Whose>) -> Self {
        let mut series = Series {
            processors: sensors.probe.processors(),
            ..Series::default()
        };
        let mut watched = Vec::new();
        for device in devices {
            if let Device::Cuda(cuda) = device {
                let (gpu, of_series) = Watched::begin(sensors, *cuda, &whose);
                watched.extend(gpu);
                series.gpus.insert(*device, of_series);
            }
        }
        let eyes = Eyes::open(&sensors.probe, &mut series.unavailable);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                series,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("sensors".to_owned())
            .spawn(move || watch(&theirs, eyes, &watched, &*whose));
        if let Err(error) = &thread {
            let reason = format!("no thread to look at them: {error}");
            shared.lock().series.unavailable.insert(ALL_SENSORS, reason);
        }
        Self {
            shared,
            thread: thread.ok(),
            rounds: 0,
        }
    }

    /// A round on a device begins, of the cell of a slot, or of none that is to be told of.
    pub fn begin(&mut self, slot: Option<u32>, device: Device) {
        self.shared.lock().turn = Some(Turn {
            round: self.rounds,
            slot,
            device,
        });
        self.rounds = self.rounds.wrapping_add(1);
        self.shared.changed.notify_one();
    }

    /// It is over.
    pub fn rest(&self) {
        self.shared.lock().turn = None;
    }

    /// Why a GPU is gone, if a look found it so.
    #[must_use]
    pub fn lost(&self, device: Device) -> Option<String> {
        self.shared.lock().series.gpus.get(&device)?.lost.clone()
    }

    /// Looks that were kept so far.
    #[must_use]
    pub fn looks(&self) -> usize {
        self.shared.lock().series.looks.len()
    }

    /// Ends it.
    #[must_use]
    pub fn end(mut self) -> Series {
        self.stop();
        std::mem::take(&mut self.shared.lock().series)
    }

    fn stop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked but by a bug, and what it saw before stands.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it leaves it half-done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a round and for the time of a look; `None` at the end.
    fn wait(&self, due: Instant) -> Option<Turn> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            let wait = due.saturating_duration_since(Instant::now());
            state = match state.turn {
                Some(turn) if wait.is_zero() => return Some(turn),
                Some(_) => {
                    let woken = self.changed.wait_timeout(state, wait);
                    woken.map_or_else(|broken| broken.into_inner().0, |(state, _)| state)
                }
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Looks at the sensors until the end.
fn watch(shared: &Shared, mut eyes: Eyes, watched: &[Watched], whose: &Whose) {
    let libraries: Vec<Arc<Nvml>> = watched.iter().map(Watched::nvml).collect();
    let mut gpus: BTreeMap<Device, GpuEyes<'_>> = BTreeMap::new();
    for (gpu, nvml) in watched.iter().zip(&libraries) {
        gpus.insert(gpu.device(), gpu.open(nvml));
    }
    let began = Instant::now();
    let mut due = began;
    while let Some(turn) = shared.wait(due) {
        let before = own_time();
        let mut look = Look {
            round: turn.round,
            slot: turn.slot,
            at_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            ..eyes.look()
        };
        let gpu = gpus.get_mut(&turn.device);
        look.gpu = gpu.and_then(|gpu| gpu.look(whose));
        let cost = own_time().saturating_sub(before);
        due = Instant::now() + pause(cost);
        let mut state = shared.lock();
        for (device, gpu) in &gpus {
            note(&mut state.series.gpus, *device, gpu);
        }
        // A look that the end of its round came into saw something else in part.
        if state.turn == Some(turn) {
            state.series.push(look);
        }
    }
    let mut state = shared.lock();
    for (device, gpu) in &gpus {
        note(&mut state.series.gpus, *device, gpu);
        if let Some(series) = state.series.gpus.get_mut(device) {
            series.settings[1] = gpu.settings();
        }
    }
    state.series.unavailable.extend(eyes.unavailable);
}

/// Keeps what was found out about a GPU itself.
fn note(gpus: &mut BTreeMap<Device, GpuSeries>, device: Device, eyes: &GpuEyes<'_>) {
    if let Some(series) = gpus.get_mut(&device) {
        series.lost = eyes.lost();
        if series.unavailable != *eyes.unavailable() {
            series.unavailable.clone_from(eyes.unavailable());
        }
    }
}

/// How long to sleep after a look that took so much of a processor.
fn pause(cost: Duration) -> Duration {
    INTERVAL.max(cost.div_f64(SHARE)).min(LONGEST)
}

/// Processor time of this thread.
fn own_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// What looks at the sensors of the machine.
struct Eyes {
    stat: Option<File>,
    /// What tells of the control group's quota, where there is one.
    throttle: Option<File>,
    clocks: Clocks,
    rapl: Option<Rapl>,
    /// The last reading of the packages' counters, and their energy since the first.
    packages: Option<(Counters, Instant, u64)>,
    buffer: Vec<u8>,
    unavailable: BTreeMap<&'static str, String>,
}

/// Where clocks of processors are read.
enum Clocks {
    /// Files with a number of kHz each.
    Files(Vec<File>),
    /// `/proc/cpuinfo`.
    All(File),
    None,
}

impl Eyes {
    fn open(probe: &Probe, unavailable: &mut BTreeMap<&'static str, String>) -> Self {
        let mut file = |sensor, path: &str| {
            let file = File::open(probe.root.join(path));
            file.map_err(|error| unavailable.insert(sensor, format!("/{path}: {error}")))
                .ok()
        };
        let stat = file(PROCESSOR_TIME, "proc/stat");
        let scaled = Clocks::files(probe);
        let clocks = match scaled.is_empty() {
            false => Clocks::Files(scaled),
            true => file(CLOCK, "proc/cpuinfo").map_or(Clocks::None, Clocks::All),
        };
        let rapl = Rapl::open(probe);
        let rapl = rapl.map_err(|reason| unavailable.insert(PROCESSOR_POWER, reason));
        let throttle = probe.throttle().and_then(|path| File::open(path).ok());
        Self {
            stat,
            throttle,
            clocks,
            rapl: rapl.ok(),
            packages: None,
            buffer: vec![0; MOST_BYTES],
            unavailable: BTreeMap::new(),
        }
    }

    fn look(&mut self) -> Look {
        Look {
            times: self.times(),
            throttled_ns: self.throttled_ns(),
            cpu_mhz: self.cpu_mhz(),
            package_uj: self.package_uj(),
            ..Look::default()
        }
    }

    fn times(&mut self) -> Option<Times> {
        let stat = self.stat.as_ref()?;
        let buffer = self.buffer.get_mut(..512);
        let text = buffer.and_then(|buffer| read(stat, buffer));
        let times = text.and_then(Times::parse);
        if times.is_none() {
            self.stat = None;
            let reason = NO_TIMES.to_owned();
            self.unavailable.insert(PROCESSOR_TIME, reason);
        }
        times
    }

    fn throttled_ns(&mut self) -> Option<u64> {
        let buffer = self.buffer.get_mut(..4096)?;
        limits::throttled_ns(read(self.throttle.as_ref()?, buffer)?)
    }

    fn cpu_mhz(&mut self) -> Option<f64> {
        let buffer = &mut self.buffer;
        match &self.clocks {
            Clocks::Files(files) => {
                let mhz = |file| Some(read(file, buffer)?.trim().parse::<f64>().ok()? / 1e3);
                mean(files.iter().filter_map(mhz))
            }
            Clocks::All(file) => mean_mhz(read(file, buffer)?),
            Clocks::None => None,
        }
    }

    /// Since the first look: each reading is held against the last, so that counters may begin anew as
    /// often as they like.
    fn package_uj(&mut self) -> Option<u64> {
        let rapl = self.rapl.as_ref()?;
        let now = Instant::now();
        let sum = rapl.read().and_then(|counters| {
            let sum = match &self.packages {
                None => 0,
                Some((last, at, sum)) => {
                    sum + rapl.between(last, &counters, now.duration_since(*at))?
                }
            };
            self.packages = Some((counters, now, sum));
            Ok(sum)
        });
        sum.map_err(|reason| {
            self.rapl = None;
            self.unavailable.insert(PROCESSOR_POWER, reason);
        })
        .ok()
    }
}

impl Clocks {
    fn files(probe: &Probe) -> Vec<File> {
        let processors = probe.folders("sys/devices/system/cpu", "cpu");
        let apart = processors.len().div_ceil(CLOCKS).max(1);
        let open = |folder: &String| {
            let path = format!("{folder}/cpufreq/scaling_cur_freq");
            File::open(probe.root.join(path)).ok()
        };
        let spread = processors.iter().step_by(apart);
        spread.filter_map(open).collect()
    }
}

/// As much of `buffer` as reading fills: the kernel gives a page at a time of most of its files.
fn filled(
    buffer: &mut [u8],
    read_at: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> Option<&[u8]> {
    let mut count = 0;
    while let Some(room) = buffer.get_mut(count..).filter(|room| !room.is_empty()) {
        match read_at(room, count as u64).ok()? {
            0 => break,
            more => count += more,
        }
    }
    buffer.get(..count)
}

/// The text of a file of the kernel, from its beginning, as far as it fits.
fn read<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    let bytes = filled(buffer, |room, at| file.read_at(room, at))?;
    match str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // Cut within a character.
        Err(error) => str::from_utf8(bytes.get(..error.valid_up_to())?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn processors_whose_time_is_not_told_are_no_idle_ones() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let look = |stat: &str| {
            fs::write(root.path().join("proc/stat"), stat).unwrap();
            let mut eyes = Eyes::open(&Probe::at(root.path()), &mut BTreeMap::new());
            let times = eyes.look().times;
            (times, eyes.unavailable.remove(PROCESSOR_TIME))
        };
        let (times, lacking) = look("cpu  100 0 50 800 10 0 0 40 5 0\n");
        assert_eq!((times.is_some(), lacking), (true, None));
        for silent in ["cpu  0 0 0 0 0 0 0 0 0 0\n", ""] {
            assert_eq!(look(silent), (None, Some(NO_TIMES.to_owned())));
        }
    }

    #[test]
    fn a_quota_is_looked_at_where_there_is_one() {
        let root = tempfile::tempdir().unwrap();
        let probe = Probe::at(root.path());
        let look = || Eyes::open(&probe, &mut BTreeMap::new()).look().throttled_ns;
        probe.put("proc/self/cgroup", "0::/pod\n");
        probe.put("sys/fs/cgroup/pod/cpu.stat", "throttled_usec 7\n");
        probe.put("sys/fs/cgroup/pod/cpu.max", "max 100000\n");
        assert_eq!(look(), None);
        probe.put("sys/fs/cgroup/pod/cpu.max", "200000 100000\n");
        assert_eq!(look(), Some(7000));
    }

    #[test]
    fn the_dearer_a_look_is_the_longer_is_waited() {
        let millis = |cost| pause(Duration::from_millis(cost)).as_millis();
        assert_eq!([millis(0), millis(1), millis(20)], [100, 250, 5000]);
        assert_eq!(millis(1000), 5000);
    }

    #[test]
    fn a_file_is_read_to_its_end_however_little_comes_at_a_time() {
        let text = "cpu MHz : 2000\n".repeat(9);
        let page = |room: &mut [u8], at: u64| {
            let rest = text.as_bytes().get(at as usize..).unwrap_or_default();
            let count = rest.len().min(room.len()).min(40);
            room[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        let mut buffer = [0; 1000];
        assert_eq!(filled(&mut buffer, page), Some(text.as_bytes()));
        let mut small = [0; 50];
        assert_eq!(filled(&mut small, page), text.as_bytes().get(..50));
        let fails = |_: &mut [u8], _| Err(io::ErrorKind::Other.into());
        assert_eq!(filled(&mut buffer, fails), None);
    }
}
