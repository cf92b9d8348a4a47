//! Writes the graph that `tensorflow/graph` runs, with frozen weights, for the race against Python:
//! `graph_def NETWORK BATCH FILE`, and beside it `FILE.json` with the names of its ends.

use std::{collections::BTreeMap, env, error::Error, fs};

use photofinish_worker_tensorflow::inference_graph;
use schema::{Cell, protocol::Load};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [network, batch, file] = &arguments[..] else {
        return Err("graph_def NETWORK BATCH FILE".into());
    };
    let dims = BTreeMap::from([("batch".to_owned(), batch.parse()?)]);
    let graph = models::zoo::build(network, &dims)?;
    let cell = Cell {
        dims,
        ..Cell::plain(&graph, "tensorflow/graph".parse()?)
    };
    let load = Load {
        cell,
        graph,
        files: None,
        scratch: env::temp_dir(),
    };
    let written = inference_graph(&load)
        .map_err(|outcome| format!("{}: {}", outcome.kind, outcome.reason))?;
    let ends = BTreeMap::from([("feeds", written.feeds), ("fetches", written.fetches)]);
    fs::write(file, written.graph)?;
    fs::write(format!("{file}.json"), serde_json::to_string(&ends)?)?;
    Ok(())
}
