//! The command line as its users write it. Behaviour lives elsewhere.

use std::path::PathBuf;

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{PathBufValueParser, TypedValueParser},
};

/// Race deep-learning engines on this machine and publish the result as a static site.
///
/// A run goes through four stages: plan, run, aggregate, report. `bench` does all of them; what is
/// in the store already is not measured again.
#[derive(Debug, Parser)]
#[command(
    name = "photofinish",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_help = "Exit codes:
  0    done
  1    a check failed
  2    bad usage or manifest, or a run, bundle or store that cannot be used
  3    some cells ended in a failure that the manifest does not allow
  4    this machine lacks what was asked for, or refused it: an engine, room on a disk, a permission
  70   something failed that should not have: please report it
  130  interrupted; the same command goes on where it stopped

Environment:
  PHOTOFINISH_STORE    folder of measured artifacts, where --store names none
  PHOTOFINISH_ENGINES  folder that engines are installed in
  PHOTOFINISH_NVML     library that tells of NVIDIA's GPUs, by its path; the driver's is libnvidia-ml.so.1

Start here: photofinish bench jobs/quickstart.yaml")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Folder of measured artifacts [env: PHOTOFINISH_STORE] [default: .photofinish]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// How to print results
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t
    )]
    pub(crate) output_format: OutputFormat,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for people
    #[default]
    Human,
    /// One JSON document on standard output
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Do everything: plan, install engines, run, aggregate, report
    ///
    /// Installs and builds what the manifests need, measures what the store lacks, and renders the
    /// site. Interrupt it with Ctrl-C at any time: the same command goes on where it stopped.
    Bench(Bench),
    /// Show what a run would do, and change nothing
    Plan(Plan),
    /// Measure what the store lacks
    Run(Run),
    /// Make the tables of a run: statistics, verdicts, claims
    ///
    /// Succeeds whatever the verdicts and outcomes are; `bench` and `run` judge them.
    Aggregate(Stored),
    /// Render the site of a run
    Report(Report),
    /// List, install and check engines
    Engines {
        #[command(subcommand)]
        command: Engines,
    },
    /// Say what this machine can measure and what makes it noisy
    Doctor {
        /// Do not measure for half a minute how far apart identical work comes out
        #[arg(long)]
        quick: bool,
    },
    /// Pack a run into one file, or unpack it into the store
    Bundle {
        #[command(subcommand)]
        command: Bundle,
    },
    /// Look after the store
    Store {
        #[command(subcommand)]
        command: Store,
    },
    /// Measure a part of a plan, as a task of a cluster
    #[command(hide = true)]
    Part(Part),
    /// Print the JSON Schema of a document
    Schema(Schema),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// The questions.
#[derive(Debug, Clone, Args)]
pub(crate) struct Manifests {
    /// Manifests, or folders that hold them; `-` reads one from standard input
    #[arg(required = true, value_name = "MANIFEST")]
    pub(crate) manifests: Vec<PathBuf>,
    /// Most cells that a plan may have
    #[arg(long, value_name = "CELLS", default_value_t = 20_000)]
    pub(crate) cell_limit: usize,
}

/// How what is lacking is measured.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Measuring {
    /// Measure everything anew, beside what the store has
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Who measures
    #[arg(long, value_enum, value_name = "EXECUTOR", default_value_t)]
    pub(crate) executor: Executor,
}

/// Who measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Executor {
    /// This machine
    #[default]
    Local,
    /// Nodes like this one of a Slurm cluster that see the store and the engines: a job array, a comparison
    /// group a task. Partition, account and the like are sbatch's own variables (SBATCH_PARTITION, ...)
    Slurm,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) manifests: Manifests,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) site: Site,
}

/// Where the site goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Site {
    /// Folder of the rendered site
    #[arg(long, value_name = "DIR", default_value = "site/dist")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) manifests: Manifests,
    /// Say of each group why it is cached, stale or new, and what its key is made of
    #[arg(long)]
    pub(crate) explain: bool,
    /// Plan as `bench --fresh` would
    #[arg(long)]
    pub(crate) fresh: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) manifests: Manifests,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// A task of a cluster's, started by `run --executor slurm`.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// The folder of what was submitted
    pub(crate) folder: PathBuf,
    /// The number of the part
    pub(crate) part: usize,
}

/// A run that is in the store.
#[derive(Debug, Clone, Args)]
pub(crate) struct Stored {
    /// The run, by its hash [default: the latest that was not interrupted]
    #[arg(long, value_name = "HASH")]
    pub(crate) run: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) stored: Stored,
    /// Render from a bundle: no engine needs to be installed, and without --store or PHOTOFINISH_STORE none is touched
    #[arg(long, value_name = "FILE", conflicts_with = "run", value_parser = bundle_file())]
    pub(crate) bundle: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) site: Site,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Engines {
    /// List engines, their variants and whether they are installed
    List,
    /// Install engines into the user's cache and build their workers
    ///
    /// Packages are pinned, and their hashes checked. What is complete is left alone; what was
    /// interrupted goes on; what is broken is mended, but for packages of yours that --from links to.
    Install {
        /// Engines, or `engine/variant` for no more than that variant needs [default: all]
        #[arg(value_name = "ENGINE")]
        engines: Vec<String>,
        /// Check the content of every installed file, not only names and sizes
        ///
        /// Of packages that were adopted by --from, which are yours, only their lists of files are looked at.
        #[arg(long)]
        verify: bool,
        /// Download nothing: link to the packages that this Python has
        ///
        /// For machines without a network, and for builds of your own, ONNX Runtime's for GPUs, say. The
        /// engine must be there in its pinned version; where what it stands on is of another, this says
        /// so, and results are kept apart from those of what is pinned.
        #[arg(long, value_name = "PYTHON", conflicts_with = "verify")]
        from: Option<PathBuf>,
        /// Download what is pinned, where packages were adopted by --from before
        #[arg(long, conflicts_with_all = ["from", "verify"])]
        pinned: bool,
    },
    /// Drive a worker through the protocol and say where it deviates
    Check {
        /// Engines, or single variants as `engine/variant` [default: all that are installed]
        #[arg(value_name = "ENGINE")]
        engines: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bundle {
    /// Write a run with everything that its site is made from into one file
    Pack {
        #[command(flatten)]
        stored: Stored,
        /// The file to write
        #[arg(value_name = "FILE", value_parser = bundle_file())]
        file: PathBuf,
    },
    /// Check a bundle and put its run into the store
    Open {
        /// The file to read
        #[arg(value_name = "FILE", value_parser = bundle_file())]
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// List the runs, the newest last
    List,
    /// Remove what no kept run needs
    ///
    /// What an interrupted run left stays for 30 days, or until it is gone on with.
    Gc {
        /// Keep the newest runs that were not interrupted, this many
        #[arg(long, value_name = "RUNS", default_value_t = 10)]
        keep: usize,
        /// Say what would go, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The document
    #[arg(value_enum, default_value_t)]
    pub(crate) document: Document,
}

/// Documents that have a JSON Schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    /// What a user writes
    #[default]
    Manifest,
    /// What `plan --output-format json` prints
    Plan,
    /// What a run leaves in the store, a line each
    Heat,
    /// What `aggregate --output-format json` prints
    Tables,
    /// What the supervisor sends to a worker
    Request,
    /// What a worker answers
    Reply,
}

/// A bundle's path. `-`, which is standard input for manifests, would be a file of that name.
fn bundle_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.as_os_str() == "-" {
            Err("a bundle is a file and no stream; a file of that name is `./-`")
        } else {
            Ok(path)
        }
    })
}
