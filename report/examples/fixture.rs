//! Renders a site from tables made by hand, to look at: `fixture OUT [hostile | CELLS SAMPLES]`,
//! or from tables in a file: `fixture OUT tables.json`.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = PathBuf::from(
        arguments
            .next()
            .ok_or("say where: fixture OUT [hostile | CELLS SAMPLES]")?,
    );
    let tables = match arguments.next().as_deref() {
        None => fixture::realistic::tables(),
        Some("hostile") => fixture::hostile::tables(),
        Some(file) if file.ends_with(".json") => serde_json::from_slice(&std::fs::read(file)?)?,
        Some(cells) => {
            let samples = arguments.next().as_deref().unwrap_or("100").parse()?;
            fixture::large::tables(cells.parse()?, samples)
        }
    };
    photofinish_report::render(&tables, &fixture::realistic::downloads(), &out)?;
    Ok(())
}
