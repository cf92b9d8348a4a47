//! Plans the manifests named on the command line against a made-up machine, and tells the time:
//! `cargo run --release -p photofinish-plan --example plan_manifests -- jobs`. Without arguments,
//! a matrix of 10,000 cells.

#![expect(clippy::print_stdout, reason = "an example prints its figures")]

use std::{path::PathBuf, time::Instant};

use photofinish_plan::{Diagnostic, ManifestFile, explain, plan, read_manifests};

#[path = "../tests/support/mod.rs"]
mod support;

/// 5 models × 25 batches × 4 precisions × 10 thread counts × 2 engines.
fn large() -> String {
    let batches: Vec<String> = (1..=25).map(|batch| batch.to_string()).collect();
    format!(
        "version: 1\njobs:\n  - id: large\n    matrix:\n      \
         model: [resnet18, resnet50, mobilenet_v2, bert_tiny, vgg16]\n      batch: [{}]\n      \
         precision: [fp64, fp32, bf16, fp16]\n      threads: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n      \
         engine: [pytorch/eager, onnxruntime/cpu]\n    compare: {{ axis: engine }}\n",
        batches.join(", ")
    )
}

fn read(paths: &[PathBuf]) -> Result<Vec<ManifestFile>, Vec<Diagnostic>> {
    if paths.is_empty() {
        return ManifestFile::from_text("large.yaml", &large()).map(|file| vec![file]);
    }
    read_manifests(paths)
}

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let began = Instant::now();
    match read(&paths).and_then(|files| plan(&files, &support::world())) {
        Ok(plan) if paths.is_empty() => {
            println!("{} cells in {:?}", plan.cell_count(), began.elapsed());
        }
        Ok(plan) => println!("{}planned in {:?}", explain(&plan, true), began.elapsed()),
        Err(diagnostics) => {
            for diagnostic in &diagnostics {
                println!("{}\n", diagnostic.render(false));
            }
            println!("refused in {:?}", began.elapsed());
        }
    }
}
