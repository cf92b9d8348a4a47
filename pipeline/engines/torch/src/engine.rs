//! PyTorch as the worker's loop sees it.

use std::{
    collections::BTreeMap,
    env,
    rc::Rc,
    sync::Once,
    time::{Duration, Instant},
};

use models::Numbers;
use schema::{
    Boundary, Cell, Device, Outcome, OutcomeKind, Strategy,
    protocol::{ARITHMETIC, Load},
};
use tch::{Kind, Tensor};
use worker::{
    Engine, Identity, LoadReport, PASSIVE, SPIN, Session, Store, WAIT_POLICY, World, nanoseconds,
};

use crate::{
    aot, arithmetic,
    configuration::{Configuration, ENGINE, VARIANTS},
    device::Place,
    failure::{Fault, unavailable},
    inference::Inference,
    ranks::Team,
    shim,
    strategy::{Accumulated, DataParallel, Ddp, buckets},
    tape::Tape,
    training::Training,
    values::{Maker, Share},
};

/// The variable by which libgomp is told how long idle threads spin, whatever `OMP_WAIT_POLICY` says.
const SPIN_COUNT: &str = "GOMP_SPINCOUNT";

/// The variables by which OpenMP is told to run fewer threads than it is asked for.
const THREAD_LIMIT: &str = "OMP_THREAD_LIMIT";
const DYNAMIC: &str = "OMP_DYNAMIC";

/// PyTorch, before it has a network.
#[derive(Default)]
pub struct Torch {
    /// The ranks that it is one of.
    team: Option<Team>,
}

impl Engine for Torch {
    fn hello(&self) -> Identity {
        Identity {
            engine: ENGINE.to_owned(),
            versions: BTreeMap::from([("torch".to_owned(), shim::torch_version())]),
            worker: env!("PHOTOFINISH_WORKER_DIGEST").parse().ok(),
            variants: VARIANTS.map(str::to_owned).to_vec(),
        }
    }

    fn load(&mut self, load: &Load) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
        let configuration = Configuration::of(&load.cell)?;
        check_threads(configuration.threads, |name| env::var(name).ok())?;
        check_spin(configuration.sleeps, |name| env::var(name).ok())?;
        let place = Place::open(device(&load.cell, self.team.as_ref())?)?;
        apply(&configuration).map_err(|fault| fault.at("settings"))?;
        let start = Instant::now();
        let numbers = Rc::new(Numbers::of(load)?);
        let (kind, channels_last) = (configuration.kind, configuration.channels_last);
        let share = share(&configuration, self.team.as_ref())?;
        let mut maker = Maker::new(place, kind, channels_last, numbers).with_share(share);
        let (session, told) = if configuration.compiled {
            compile(load, &configuration, &mut maker)?
        } else {
            build(load, &configuration, self.team.as_ref(), &mut maker)?
        };
        place.synchronize()?;
        let ready = start.elapsed();
        let building = ready.saturating_sub(maker.filling + told.compiling);
        let report = LoadReport {
            fill_ns: nanoseconds(maker.filling),
            build_ns: nanoseconds(building),
            compile_ns: nanoseconds(told.compiling),
            threads: u32::try_from(tch::get_num_threads()).ok(),
            spin: spin(),
            settings: settings(&configuration, place, told.settings),
        };
        Ok((session, report))
    }

    fn join(&mut self, world: &World) -> Result<Box<dyn Store>, Outcome> {
        let store = self.team.insert(Team::join(world)?).store()?;
        Ok(Box::new(store))
    }

    fn reads_weights(&self) -> bool {
        true
    }
}

/// Where this process computes: each rank has a GPU of its own.
fn device(cell: &Cell, team: Option<&Team>) -> Result<Device, Outcome> {
    match (cell.device, team) {
        (Device::Cuda(_), Some(_)) => Err(unavailable(
            "ranks on GPUs exchange through NCCL, which this worker does not load yet",
        )),
        (device, _) => Ok(device),
    }
}

/// The rows of the batch that this process is fed.
fn share(configuration: &Configuration, team: Option<&Team>) -> Result<Share, Outcome> {
    let (workers, passes) = (configuration.workers, configuration.passes);
    match (configuration.strategy, team) {
        (Strategy::Single | Strategy::Accumulated | Strategy::DataParallel, _) => {
            Ok(Share::whole(workers.saturating_mul(passes)))
        }
        (Strategy::Ddp, Some(team)) if team.size() == workers => {
            Ok(Share::of_worker(team.rank(), workers, passes))
        }
        (Strategy::Ddp, _) => Err(Outcome::new(
            OutcomeKind::Crashed,
            format!("this process is not one of {workers} ranks"),
        )),
    }
}

/// What is told of a network besides the cell's own settings.
struct Told {
    /// Time spent compiling.
    compiling: Duration,
    settings: BTreeMap<String, String>,
}

/// The network, operator by operator.
fn build(
    load: &Load,
    configuration: &Configuration,
    team: Option<&Team>,
    maker: &mut Maker,
) -> Result<(Box<dyn Session>, Told), Outcome> {
    let (graph, boundary) = (&load.graph, configuration.boundary);
    let casts = configuration.autocast.then_some(maker.place);
    let Some(optimizer) = configuration.optimizer else {
        let session = Inference::build(graph, maker, boundary, casts)?;
        let told = told(session.in_place());
        return Ok((Box::new(session), told));
    };
    let tape = Tape::build(graph, casts)?;
    let mut told = told(tape.in_place());
    let (workers, passes) = (configuration.workers, configuration.passes);
    let session: Box<dyn Session> = match (configuration.strategy, team) {
        (Strategy::Ddp, Some(team)) => {
            let ddp = |values: &[&Tensor]| {
                Ddp::build(tape, graph, values, team, configuration.exchanging, passes)
            };
            let mut training = Training::build(graph, optimizer, boundary, maker, ddp)?;
            if configuration.searches_bucket {
                let begun = Instant::now();
                told.settings.extend(buckets::search(&mut training, team)?);
                told.compiling += begun.elapsed();
            }
            Box::new(training)
        }
        (Strategy::DataParallel, _) => {
            let devices = maker.place.replicas(workers)?;
            let replicas = DataParallel::new(tape, graph, devices, configuration.threads);
            let replicas = |_: &[&Tensor]| Ok(replicas);
            Box::new(Training::build(
                graph, optimizer, boundary, maker, replicas,
            )?)
        }
        (Strategy::Single, _) if passes == 1 => {
            Box::new(Training::build(graph, optimizer, boundary, maker, |_| {
                Ok(tape)
            })?)
        }
        (Strategy::Accumulated | Strategy::Single | Strategy::Ddp, _) => {
            let accumulated = Accumulated::new(tape, graph, workers as usize, passes as usize);
            let accumulated = |_: &[&Tensor]| Ok(accumulated);
            Box::new(Training::build(
                graph,
                optimizer,
                boundary,
                maker,
                accumulated,
            )?)
        }
    };
    Ok((session, told))
}

/// What is told of a network that is run operator by operator.
fn told(in_place: usize) -> Told {
    let in_place = ("operators in place".to_owned(), in_place.to_string());
    Told {
        compiling: Duration::ZERO,
        settings: BTreeMap::from([in_place]),
    }
}

/// The network as AOTInductor compiled it.
fn compile(
    load: &Load,
    configuration: &Configuration,
    maker: &mut Maker,
) -> Result<(Box<dyn Session>, Told), Outcome> {
    let (graph, boundary) = (&load.graph, configuration.boundary);
    let compiled = aot::prepare(load, maker.place)?;
    let told = Told {
        compiling: compiled.compiling,
        settings: compiled.settings.clone(),
    };
    let session: Box<dyn Session> = match configuration.optimizer {
        None => Box::new(aot::Inference::build(graph, compiled, maker, boundary)?),
        Some(optimizer) => Box::new(Training::build(
            graph,
            optimizer,
            boundary,
            maker,
            |values| aot::Joint::build(graph, compiled, values),
        )?),
    };
    Ok((session, told))
}

/// Refuses a process in which OpenMP would silently run fewer threads than the cell says; PyTorch
/// itself reports what it was asked for. libgomp reads the variables once, when it is loaded.
fn check_threads(threads: i32, variable: impl Fn(&str) -> Option<String>) -> Result<(), Outcome> {
    let refuse = |name: &str, value: &str| {
        let reason = format!(
            "{name}={value} keeps PyTorch from running {threads} threads: unset it, or ask for one thread"
        );
        Err(Outcome::new(OutcomeKind::Unavailable, reason))
    };
    if let Some(value) = variable(THREAD_LIMIT)
        && value
            .trim()
            .parse::<i32>()
            .is_ok_and(|limit| (1..threads).contains(&limit))
    {
        return refuse(THREAD_LIMIT, &value);
    }
    if let Some(value) = variable(DYNAMIC)
        && threads > 1
        && value.trim().eq_ignore_ascii_case("true")
    {
        return refuse(DYNAMIC, &value);
    }
    Ok(())
}

/// Refuses a process in which idle threads wait otherwise than the cell says, if it says anything. libgomp
/// reads the variables once, when it is loaded, so that the launch has to set them.
fn check_spin(
    sleeps: Option<bool>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), Outcome> {
    let Some(sleeps) = sleeps else {
        return Ok(());
    };
    if let Some(count) = variable(SPIN_COUNT) {
        return Err(unavailable(format!(
            "{SPIN_COUNT}={count} has idle threads wait as it says, whatever `{SPIN}` is: unset it"
        )));
    }
    match variable(WAIT_POLICY) {
        Some(policy) if !sleeps => Err(unavailable(format!(
            "{WAIT_POLICY}={policy} has idle threads wait otherwise than PyTorch's users get it, which is what \
             `{SPIN}: default` asks for: unset it"
        ))),
        Some(policy) if policy.trim().eq_ignore_ascii_case(PASSIVE) => Ok(()),
        _ if sleeps => Err(unavailable(format!(
            "`{SPIN}: off` needs {WAIT_POLICY}={PASSIVE} when the worker is started, and it is not set so"
        ))),
        _ => Ok(()),
    }
}

/// Sets what is global to the process.
fn apply(configuration: &Configuration) -> Result<(), Fault> {
    /// PyTorch refuses a second call.
    static INTEROP: Once = Once::new();
    INTEROP.call_once(|| tch::set_num_interop_threads(1));
    tch::set_num_threads(configuration.threads);
    shim::allow_tf32(configuration.tf32)?;
    tch::Cuda::cudnn_set_benchmark(configuration.autotune == Some(true));
    Ok(())
}

/// How idle threads wait. libgomp reads the variable once, when it is loaded.
fn spin() -> String {
    match env::var(WAIT_POLICY) {
        Ok(policy) => format!("{WAIT_POLICY}={policy}"),
        Err(_) => "spin a while, then sleep (libgomp's default)".to_owned(),
    }
}

/// The settings in force, with those that are `told` of the network.
fn settings(
    configuration: &Configuration,
    place: Place,
    told: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let layout = if configuration.channels_last {
        "channels last"
    } else {
        "contiguous (NCHW)"
    };
    let gradients = match configuration.optimizer {
        None => "off (inference mode)",
        Some(_) => "on",
    };
    let mut settings = BTreeMap::from([
        (
            "element type".to_owned(),
            format!("{:?}", configuration.kind).to_lowercase(),
        ),
        ("gradients".to_owned(), gradients.to_owned()),
        (
            "inter-op threads".to_owned(),
            tch::get_num_interop_threads().to_string(),
        ),
        ("memory layout of images".to_owned(), layout.to_owned()),
        ("oneDNN".to_owned(), on_or_off(tch::utils::has_mkldnn())),
        ("TF32".to_owned(), on_or_off(configuration.tf32)),
    ]);
    let tries = configuration
        .autotune
        .map(|tries| ("cuDNN tries all algorithms".to_owned(), on_or_off(tries)));
    settings.extend(tries);
    let mixed = "weights in float32, operators under autocast in bfloat16";
    let mixed = configuration.autocast.then_some(mixed.to_owned());
    settings.extend(mixed.map(|words| ("mixed precision".to_owned(), words)));
    settings.extend(told);
    let edges = match configuration.boundary {
        Boundary::Step => None,
        Boundary::Device => Some(("clock", worker::EVENTS)),
        Boundary::Request => Some(("inputs and outputs", worker::REQUEST)),
    };
    settings.extend(edges.map(|(name, words)| (name.to_owned(), words.to_owned())));
    if let Ok(capability) = shim::cpu_capability() {
        settings.insert("widest CPU kernels".to_owned(), capability);
    }
    if let (Place::Cuda(_), Ok([runtime, cudnn])) = (place, shim::cuda_versions()) {
        let versions = [("CUDA runtime", runtime), ("cuDNN", cudnn)];
        settings.extend(versions.map(|(name, version)| (name.to_owned(), version)));
    }
    if place == Place::Cpu {
        let kind = match configuration.autocast {
            true => Kind::BFloat16,
            false => configuration.kind,
        };
        let arithmetic =
            arithmetic::on_cpu(kind).unwrap_or_else(|error| Some(format!("not known: {error}")));
        settings.extend(arithmetic.map(|words| (ARITHMETIC.to_owned(), words)));
    }
    if let Some(optimizer) = configuration.optimizer {
        let text = format!(
            "{}, one tensor after another (foreach=False)",
            optimizer.name()
        );
        settings.insert("optimizer".to_owned(), text);
    }
    settings
}

fn on_or_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

#[cfg(test)]
mod tests {
    use schema::{Cell, Device};

    use super::*;

    #[test]
    fn a_page_tells_what_keeps_the_time() {
        let graph = models::sample::perceptron(1).unwrap();
        let told = |boundary| {
            let cell = Cell {
                boundary,
                device: Device::Cuda(0),
                ..Cell::plain(&graph, "pytorch/eager".parse().unwrap())
            };
            let configuration = Configuration::of(&cell).unwrap();
            let mut told = settings(&configuration, Place::Cuda(0), BTreeMap::new());
            (told.remove("clock"), told.remove("inputs and outputs"))
        };
        assert_eq!(told(Boundary::Step), (None, None));
        assert_eq!(
            told(Boundary::Device),
            (Some(worker::EVENTS.to_owned()), None)
        );
        assert_eq!(
            told(Boundary::Request),
            (None, Some(worker::REQUEST.to_owned()))
        );
    }

    #[test]
    fn idle_threads_that_wait_otherwise_than_asked_for_are_refused() {
        let check = |sleeps, set: &[(&str, &str)]| {
            check_spin(sleeps, |asked| {
                let found = set.iter().find(|(name, _)| *name == asked);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let (passive, active) = ((WAIT_POLICY, "PASSIVE "), (WAIT_POLICY, "active"));
        let count = (SPIN_COUNT, "1000");
        for (sleeps, set, named) in [
            (true, vec![], "needs OMP_WAIT_POLICY=passive"),
            (true, vec![active], "needs OMP_WAIT_POLICY=passive"),
            (true, vec![passive, count], "GOMP_SPINCOUNT=1000"),
            (false, vec![passive], "OMP_WAIT_POLICY=PASSIVE"),
            (false, vec![active], "OMP_WAIT_POLICY=active"),
            (false, vec![count], "GOMP_SPINCOUNT=1000"),
        ] {
            let outcome = check(Some(sleeps), &set).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::Unavailable);
            assert!(outcome.reason.contains(named), "{}", outcome.reason);
        }
        for (sleeps, set) in [
            (Some(true), vec![passive]),
            (Some(false), vec![]),
            (None, vec![passive]),
            (None, vec![active, count]),
        ] {
            assert!(check(sleeps, &set).is_ok(), "{sleeps:?} {set:?}");
        }
    }

    #[test]
    fn fewer_threads_than_asked_for_are_refused() {
        let check = |threads, name: &'static str, value: &'static str| {
            check_threads(threads, |asked| (asked == name).then(|| value.to_owned()))
        };
        for (threads, name, value) in [(2, THREAD_LIMIT, "1"), (2, DYNAMIC, "TRUE")] {
            let outcome = check(threads, name, value).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::Unavailable);
            assert!(outcome.reason.contains(name), "{}", outcome.reason);
        }
        for (threads, name, value) in [
            (1, THREAD_LIMIT, "1"),
            (2, THREAD_LIMIT, "2"),
            (2, THREAD_LIMIT, "0"),
            (2, THREAD_LIMIT, "many"),
            (1, DYNAMIC, "true"),
            (2, DYNAMIC, "false"),
        ] {
            assert!(check(threads, name, value).is_ok(), "{name}={value}");
        }
    }
}
