//! What the products of a network on grids are computed in: ONNX Runtime writes down the graph that it makes of
//! ours, and its operators say it. A session that writes keeps weights twice, and one that was made before leaves
//! caches warm, so it is made in a process of its own, which has gone before the session that is timed is
//! begun.

use std::{
    fs, io,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use models::onnx::{self, Document};
use schema::protocol::{CONTROL_VARIABLE, Load};
use worker::Products;

use crate::{
    configuration::Configuration,
    engine::extensions,
    library::{LIBRARY_VARIABLE, Library},
    model::{self, Traced},
};

/// The argument that asks this worker's program for the graph that ONNX Runtime makes of what it is given on
/// standard input: a [`Load`], in whose folder the graph is to be written.
const ASIDE: &str = "write-down";

/// What the graph is called in its folder.
const WRITTEN: &str = "optimized.onnx";

/// Operators that multiply integers of 8 bits, those of attention among them; the last, whose weights lie on grids
/// of a user's file, rounds what they are multiplied by.
const INTEGERS: [&str; 10] = [
    "ConvInteger",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "QAttention",
    "QGemm",
    "QLinearConv",
    "QLinearMatMul",
    "MatMulNBits",
];

/// What names of operators hold that multiply, fused or not.
const PRODUCTS: [&str; 8] = [
    "Attention",
    "Conv",
    "Einsum",
    "GRU",
    "Gemm",
    "LSTM",
    "MatMul",
    "RNN",
];

/// What the products of the cell's network are computed in, as `program` finds out, which is this worker's own.
pub(crate) fn products(program: &Path, library: &Library, load: &Load) -> io::Result<Products> {
    let folder = load.scratch.join("written");
    fs::create_dir_all(&folder)?;
    let load = Load {
        scratch: folder.clone(),
        ..load.clone()
    };
    let told = write_down_aside(program, library, &load).and_then(|()| {
        let written = fs::read(folder.join(WRITTEN))?;
        onnx::calls(&written).map_err(io::Error::other)
    });
    // The folder is the launch's own; what stays of it is removed with that.
    let _ = fs::remove_dir_all(&folder);
    Ok(counted(told?.iter().map(|call| call.op_type.as_str())))
}

fn write_down_aside(program: &Path, library: &Library, load: &Load) -> io::Result<()> {
    let mut child = Command::new(program)
        .arg(ASIDE)
        .env(LIBRARY_VARIABLE, &library.path)
        .env_remove(CONTROL_VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let asked = match child.stdin.take() {
        Some(stdin) => serde_json::to_writer(io::BufWriter::new(stdin), load),
        None => Ok(()),
    };
    // How it ended says more than that it read no further.
    let ended = child.wait()?;
    asked?;
    match ended.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it ended with {ended}"))),
    }
}

fn counted<'a>(operators: impl Iterator<Item = &'a str>) -> Products {
    let mut products = Products::default();
    for operator in operators {
        if INTEGERS.contains(&operator) {
            products.add_integers();
        } else if PRODUCTS.iter().any(|product| operator.contains(product)) {
            products.add_floats("fp32");
        }
    }
    products
}

/// Where the program was asked to write down a graph: does so, and gives its status. `None` where it was started to
/// serve.
#[must_use]
pub fn asked_aside() -> Option<ExitCode> {
    std::env::args()
        .nth(1)
        .filter(|argument| argument == ASIDE)?;
    Some(match write_down() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            // The log of the launch: there is nobody else to tell.
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("{reason}\n"));
            ExitCode::FAILURE
        }
    })
}

fn write_down() -> Result<(), String> {
    let load: Load = serde_json::from_reader(io::BufReader::new(io::stdin()))
        .map_err(|error| error.to_string())?;
    let write = || {
        let configuration = Configuration {
            // Which graph is made does not depend on it.
            threads: 1,
            ..Configuration::of(&load.cell)?
        };
        let library = Library::open(&Library::named()?)?;
        let extensions = extensions(&configuration);
        let document = Document::of(&load, configuration.precision, extensions)?;
        let traced = Traced {
            model: load.scratch.join(WRITTEN),
            times: None,
            weights: None,
        };
        model::commit(&document, &configuration, &library, Some(&traced)).map(drop)
    };
    write().map_err(|outcome: schema::Outcome| outcome.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_say_what_products_are_computed_in() {
        let told = |operators: &[&str]| counted(operators.iter().copied()).arithmetic();
        let mixed = [
            "QuantizeLinear",
            "QLinearConv",
            "QLinearAdd",
            "FusedConv",
            "DynamicQuantizeMatMul",
            "QLinearGlobalAveragePool",
            "MultiHeadAttention",
            "Softmax",
        ];
        assert_eq!(
            told(&mixed).as_deref(),
            Some("int8 in 2 of 4 products, fp32 in 2")
        );
        let rounded = ["QuantizeLinear", "DequantizeLinear", "Conv", "FusedGemm"];
        assert_eq!(
            told(&rounded).as_deref(),
            Some("stored as int8, computed in fp32")
        );
        assert_eq!(told(&["Relu"]), None);
    }
}
