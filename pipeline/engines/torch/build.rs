//! Compiles the shim over libtorch's C++ interface, and tells the linker where libtorch lives.

use std::{
    env,
    error::Error,
    io::Write as _,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    fingerprint::emit("photofinish-worker-torch")?;
    line("cargo::rerun-if-env-changed=LIBTORCH");
    line("cargo::rerun-if-changed=cpp/shim.cpp");
    let libtorch = libtorch()?;
    compile_shim(&libtorch);
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
        .include(libtorch.join("include"))
        .include(libtorch.join("include/torch/csrc/api/include"))
        .file("cpp/shim.cpp")
        .compile("photofinish_torch_shim");
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
