//! Compiles the shim over libtorch's C++ interface, makes the library that packages ask for, and tells
//! the linker where libtorch lives.

use std::{
    env,
    error::Error,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    fingerprint::emit("photofinish-worker-torch")?;
    line("cargo::rerun-if-env-changed=LIBTORCH");
    line("cargo::rerun-if-changed=cpp");
    let libtorch = libtorch()?;
    compile_shim(&libtorch);
    make_empty_library()?;
    link(&libtorch)
}

/// The folder that `engines install pytorch` prepares.
fn libtorch() -> Result<PathBuf, Box<dyn Error>> {
    let folder = PathBuf::from(
        env::var_os("LIBTORCH").ok_or("LIBTORCH is not set; run cargo inside the checkout")?,
    );
    if !folder.join("lib/libtorch_cpu.so").exists() {
        return Err(format!(
            "no libtorch in {}: run `photofinish engines install pytorch` first",
            folder.display()
        )
        .into());
    }
    Ok(folder)
}

fn compile_shim(libtorch: &Path) {
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .pic(true)
        // The warnings would be about libtorch's headers.
        .warnings(false)
        // What `ProcessGroupGloo.hpp` needs of a library whose headers the wheel lacks.
        .include("cpp")
        .include(libtorch.join("include"))
        .include(libtorch.join("include/torch/csrc/api/include"))
        .file("cpp/shim.cpp")
        .file("cpp/events.cpp")
        .file("cpp/package.cpp")
        .file("cpp/profile.cpp")
        .file("cpp/kineto.cpp")
        .file("cpp/ranks.cpp")
        .compile("photofinish_torch_shim");
}

/// A library that holds nothing but a name, `libtorch.so`; the worker carries it (`src/package.rs`).
fn make_empty_library() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("not in a build script")?);
    let (source, library) = (out.join("empty.c"), out.join("libtorch.so"));
    fs::write(&source, "")?;
    let status = cc::Build::new()
        .try_get_compiler()?
        .to_command()
        .args([
            "-shared",
            "-nostdlib",
            "-s",
            "-Wl,-soname,libtorch.so",
            "-o",
        ])
        .args([&library, &source])
        .status()?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the C compiler made no {}: {status}", library.display()).into())
}

/// The wheel's libraries find each other by `$ORIGIN` of the path under which they were opened,
/// so the run path must be the real folder, not one of links. `DT_RPATH` rather than
/// `DT_RUNPATH`: it holds for the libraries that those libraries need, too.
fn link(libtorch: &Path) -> Result<(), Box<dyn Error>> {
    let library = libtorch.join("lib/libtorch_cpu.so").canonicalize()?;
    let real = library.parent().ok_or("libtorch_cpu.so has no folder")?;
    line(&format!(
        "cargo::rustc-link-search=native={}",
        libtorch.join("lib").display()
    ));
    line("cargo::rustc-link-lib=dylib=torch_cpu");
    line("cargo::rustc-link-lib=dylib=c10");
    line(&format!(
        "cargo::rustc-link-arg=-Wl,-rpath,{}",
        real.display()
    ));
    line("cargo::rustc-link-arg=-Wl,--disable-new-dtags");
    Ok(())
}

/// A line for Cargo.
fn line(text: &str) {
    // Cargo reads a build script's standard output; when it is gone, so is the build.
    let _ = writeln!(std::io::stdout(), "{text}");
}
