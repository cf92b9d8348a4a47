//! The variants: how the worker behaves.

macro_rules! behaviours {
    ($($(#[$meta:meta])* $name:ident = $word:literal,)+) => {
        /// How the worker behaves: its variant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Behaviour {
            $($(#[$meta])* $name,)+
        }

        impl Behaviour {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)+];

            /// The variant's name.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }
        }
    };
}

behaviours! {
    /// A step does nothing at all.
    Noop = "noop",
    /// A step lasts as long as the factor `step_us` says (200 by default), spinning, or sleeping
    /// where the factor `wait` is `sleep`.
    Steady = "steady",
    /// Computes over what a core's own cache holds; longer by as many per cent as the command line says
    /// after `--slower`.
    Works = "works",
    /// At the boundary `device` it plays a GPU, which has half of each step.
    ByDevice = "by_device",
    /// The same, in microseconds.
    WrongUnit = "wrong_unit",
    /// Holds 40 MiB for each sample of its batch.
    Hoards = "hoards",
    /// Prints to standard output and standard error all the time, as libraries do.
    Chatter = "chatter",

    /// Says nothing for three seconds: at the start if told on the command line, else at `load`.
    SlowStart = "slow_start",
    /// Speaks the protocol of the next version; only if told on the command line.
    WrongVersion = "wrong_version",
    /// Leaves before `hello`; only if told on the command line.
    ExitAtStart = "exit_at_start",
    /// Never says `hello`; only if told on the command line.
    Mute = "mute",
    /// Answers `bye` and stays; only if told on the command line.
    IgnoresBye = "ignores_bye",

    /// Never answers `load`.
    HangAtLoad = "hang_at_load",
    /// Leaves during `load` with exit status 0.
    ExitEarly = "exit_early",
    /// Takes more and more memory during `load`.
    MemoryEater = "memory_eater",
    /// Takes half a gibibyte when it leaves, once it has answered everything, and gives it back at once.
    MemoryGulper = "memory_gulper",
    /// A child of it does, in `load`.
    MemoryEaterChild = "memory_eater_child",
    /// A child of it does, in `load`; once that is killed, all goes on as if nothing had happened.
    LosesChild = "loses_child",
    /// Starts two processes that outlive it, one of them in a process group of its own.
    ForkBombLite = "fork_bomb_lite",
    /// Moves to another process group, that of a child.
    LeavesGroup = "leaves_group",
    /// Starts a process that hides: its parent dies, it has a session of its own, and nothing in its
    /// environment.
    HiddenChild = "hidden_child",
    /// Starts such a process, which takes more and more memory, in `load`.
    HiddenMemoryEater = "hidden_memory_eater",
    /// Removes the folder that holds its scratch folder when it leaves, if a store made it.
    RemovesScratch = "removes_scratch",
    /// Fails `load` with `unsupported`.
    Unsupported = "unsupported",

    /// Outputs are off by a tenth; if told on the command line, so are those of an engine that it plays.
    WrongOutput = "wrong_output",
    /// Outputs are off by a fiftieth, as those of the reference are across kinks.
    OtherSide = "other_side",
    /// The first number of each output is not one.
    NanOutput = "nan_output",
    /// Its profile tells of a node that the graph lacks.
    StrangeProfile = "strange_profile",
    /// Its profile tells of more time than there was.
    LongProfile = "long_profile",
    /// A weight is not finite once steps were measured.
    Diverges = "diverges",

    /// Dies by a segmentation fault after its first step.
    Segfault = "segfault",
    /// Never returns from a step after its first.
    HangAtMeasure = "hang_at_measure",
    /// The same, and does not listen to SIGTERM, SIGINT or SIGHUP.
    Stubborn = "stubborn",
    /// Leaves when it is resumed after it was stopped.
    LeavesWhenResumed = "leaves_when_resumed",
    /// Writes bytes that are no message, after its first step.
    Garbage = "garbage",
    /// Writes valid messages that nobody asked for, without end, after its first step.
    Flood = "flood",
    /// Writes to standard error without end, after its first step.
    FloodStderr = "flood_stderr",
    /// Writes a message that never ends, after its first step.
    HugeMessage = "huge_message",
    /// Panics after its first step.
    Panics = "panics",
    /// Fails with `out_of_memory` after its first step, and says so.
    OutOfMemory = "out_of_memory",
}

impl Behaviour {
    /// The one of this name.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|behaviour| behaviour.word() == word)
    }
}
