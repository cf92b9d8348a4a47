//! Makes tables and downloads of an invented run, and says what it took:
//! `cargo run --release -p photofinish-aggregate --example synthetic -- CELLS [FOLDER]`.
//! With a folder, the downloads are written there; `tables.json` is what the report reads.
#![expect(clippy::print_stdout, reason = "an example prints its figures")]

use std::{error::Error, path::PathBuf, time::Instant};

use synthetic::Size;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let cells = arguments.next().map_or(Ok(10_000), |cells| cells.parse())?;
    let folder = arguments.next().map(PathBuf::from);

    let run = synthetic::run(Size {
        cells,
        blocks: 6,
        rounds: 2,
        samples: 9,
    });
    let began = Instant::now();
    let tables = photofinish_aggregate::aggregate(&run.record, &|key, heat| run.heat(key, heat))?;
    println!("aggregate: {:.2} s", began.elapsed().as_secs_f64());

    let began = Instant::now();
    let downloads = photofinish_aggregate::downloads(&tables)?;
    println!("downloads: {:.2} s", began.elapsed().as_secs_f64());
    for download in &downloads {
        println!("  {:<16} {:>12} bytes", download.file, download.bytes.len());
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(&download.file), &download.bytes)?;
        }
    }
    Ok(())
}
