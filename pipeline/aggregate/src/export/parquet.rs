//! Samples as Parquet: one row a step, as pandas reads it.

use std::{collections::BTreeMap, sync::Arc};

use parquet::{
    basic::{Compression, ZstdLevel},
    data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::parser::parse_message_type,
};
use schema::{Tables, tables::LaunchRow};

use crate::ExportError;

const FILE: &str = "samples.parquet";

/// Steps of a row group, at least but for the last: 48 MiB here, and no more than a launch's above it.
const GROUP_ROWS: usize = 1 << 20;

/// Words that are laid out at once.
const CHUNK_ROWS: usize = 1 << 14;

/// Columns of words, each word written once.
const WORDS: [&str; 5] = ["job", "cell", "group", "engine", "outcome"];

/// Columns of numbers: the twin is 0 for the cell itself and counts its twins from 1; the launch
/// counts from 0 within its cell or twin, rounds and steps within their launch and round.
const PLACES: [&str; 5] = ["twin", "block", "launch", "round", "step"];

/// The last column.
const SAMPLE: &str = "sample_ns";

/// All samples of all launches of cells, then of twins, whatever their outcome: the column
/// `outcome` is the launch's.
pub(super) fn samples(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    write(tables).map_err(|source| ExportError::Parquet {
        file: FILE.to_owned(),
        source,
    })
}

fn write(tables: &Tables) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .build();
    let columns = Arc::new(parse_message_type(&columns())?);
    let mut writer = SerializedFileWriter::new(Vec::new(), columns, Arc::new(properties))?;
    let mut rows = Rows::default();
    for source in sources(tables) {
        for (number, launch) in source.launches.iter().enumerate() {
            rows.add(&source, number, launch);
            if rows.samples_ns.len() >= GROUP_ROWS {
                std::mem::take(&mut rows).write(&mut writer)?;
            }
        }
    }
    // Some readers refuse a group of no rows.
    if !rows.samples_ns.is_empty() {
        rows.write(&mut writer)?;
    }
    writer.into_inner()
}

/// The columns in Parquet's own notation.
fn columns() -> String {
    let words = WORDS.map(|name| format!("required binary {name} (string);"));
    let places = PLACES.map(|name| format!("required int32 {name} (integer(32,false));"));
    let sample = format!("required int64 {SAMPLE} (integer(64,false));");
    format!(
        "message samples {{ {} {} {sample} }}",
        words.join(" "),
        places.join(" ")
    )
}

/// A cell or a twin, with its samples.
struct Source<'a> {
    job: &'a str,
    cell: &'a str,
    group: &'a str,
    engine: String,
    twin: u32,
    launches: &'a [LaunchRow],
}

fn sources(tables: &Tables) -> impl Iterator<Item = Source<'_>> {
    let cells = tables.cells.iter().map(|row| Source {
        job: &row.job,
        cell: &row.id.0,
        group: &row.group,
        engine: row.cell.engine.to_string(),
        twin: 0,
        launches: &row.launches,
    });
    let twins = tables.twins.iter().map(|row| Source {
        job: &row.job,
        cell: &row.cell.0,
        group: &row.group,
        engine: row.engine.clone(),
        twin: row.number,
        launches: &row.launches,
    });
    cells.chain(twins)
}

/// Rows on their way into a row group, by column. Parquet keeps numbers without a sign in those with one.
#[derive(Default)]
struct Rows {
    words: [Words; WORDS.len()],
    places: [Vec<i32>; PLACES.len()],
    samples_ns: Vec<i64>,
}

/// A column of words: each word once, and a reference to it a row.
#[derive(Default)]
struct Words {
    known: BTreeMap<String, u32>,
    values: Vec<ByteArray>,
    keys: Vec<u32>,
}

impl Words {
    fn key(&mut self, word: &str) -> u32 {
        if let Some(&key) = self.known.get(word) {
            return key;
        }
        let key = place(self.values.len());
        self.known.insert(word.to_owned(), key);
        self.values.push(ByteArray::from(word));
        key
    }
}

impl Rows {
    fn add(&mut self, source: &Source<'_>, number: usize, launch: &LaunchRow) {
        let words: [&str; WORDS.len()] = [
            source.job,
            source.cell,
            source.group,
            &source.engine,
            launch.outcome.kind.word(),
        ];
        for (round, samples) in launch.rounds.iter().enumerate() {
            let steps = samples.len();
            for (column, word) in self.words.iter_mut().zip(words) {
                let key = column.key(word);
                column.keys.extend(std::iter::repeat_n(key, steps));
            }
            let [twin, block, launches, rounds, step] = &mut self.places;
            let repeat = |number: u32| std::iter::repeat_n(number.cast_signed(), steps);
            twin.extend(repeat(source.twin));
            block.extend(repeat(launch.block));
            launches.extend(repeat(place(number)));
            rounds.extend(repeat(place(round)));
            step.extend((0..steps).map(|step| place(step).cast_signed()));
            let samples = samples.iter().map(|time_ns| time_ns.cast_signed());
            self.samples_ns.extend(samples);
        }
    }

    fn write(self, file: &mut SerializedFileWriter<Vec<u8>>) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        for words in &self.words {
            // Keys are places among the values.
            let laid_out = words.keys.chunks(CHUNK_ROWS).map(|keys| {
                let words = keys.iter().map(|key| words.values[*key as usize].clone());
                words.collect::<Vec<_>>()
            });
            column::<ByteArrayType, _>(&mut group, laid_out)?;
        }
        for places in &self.places {
            column::<Int32Type, _>(&mut group, [places])?;
        }
        column::<Int64Type, _>(&mut group, [&self.samples_ns])?;
        group.close().map(drop)
    }
}

/// Writes the next column of a row group, piece by piece.
fn column<T: DataType, P: AsRef<[T::T]>>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    pieces: impl IntoIterator<Item = P>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("a column more than the file has".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    for piece in pieces {
        column
            .typed::<T>()
            .write_batch(piece.as_ref(), None, None)?;
    }
    column.close()
}

fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
