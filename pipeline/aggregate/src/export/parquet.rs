//! Samples as Parquet: one row a step, as pandas reads it.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
    types::Int32Type,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};
use schema::{Tables, tables::LaunchRow};

use crate::ExportError;

const FILE: &str = "samples.parquet";

/// Steps that are laid out at once: some 45 MiB.
const BATCH_ROWS: usize = 1 << 20;

/// Columns of words, each word written once.
const WORDS: [&str; 5] = ["job", "cell", "group", "engine", "outcome"];

/// Columns of numbers: the twin is 0 for the cell itself and counts its twins from 1; the launch
/// counts from 0 within its cell or twin, rounds and steps within their launch and round.
const PLACES: [&str; 5] = ["twin", "block", "launch", "round", "step"];

/// All samples of all launches of cells, then of twins, whatever their outcome: the column
/// `outcome` is the launch's.
pub(super) fn samples(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let schema = columns();
    let mut writer = writer(schema.clone()).map_err(parquet_error)?;
    let mut rows = Rows::default();
    for source in sources(tables) {
        for (number, launch) in source.launches.iter().enumerate() {
            rows.add(&source, number, launch);
            if rows.samples_ns.len() >= BATCH_ROWS {
                let batch = std::mem::take(&mut rows)
                    .batch(&schema)
                    .map_err(arrow_error)?;
                writer.write(&batch).map_err(parquet_error)?;
            }
        }
    }
    let batch = rows.batch(&schema).map_err(arrow_error)?;
    writer.write(&batch).map_err(parquet_error)?;
    writer.into_inner().map_err(parquet_error)
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

fn parquet_error(source: ParquetError) -> ExportError {
    ExportError::Parquet {
        file: FILE.to_owned(),
        source,
    }
}

fn arrow_error(source: ArrowError) -> ExportError {
    ExportError::Columns {
        file: FILE.to_owned(),
        source,
    }
}

fn columns() -> SchemaRef {
    let word = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let words = WORDS.map(|name| Field::new(name, word.clone(), false));
    let places = PLACES.map(|name| Field::new(name, DataType::UInt32, false));
    let sample = Field::new("sample_ns", DataType::UInt64, false);
    Arc::new(Schema::new(
        words
            .into_iter()
            .chain(places)
            .chain([sample])
            .collect::<Vec<_>>(),
    ))
}

fn writer(schema: SchemaRef) -> Result<ArrowWriter<Vec<u8>>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .build();
    ArrowWriter::try_new(Vec::new(), schema, Some(properties))
}

/// Rows on their way into a batch, by column.
#[derive(Default)]
struct Rows {
    words: [Words; WORDS.len()],
    places: [Vec<u32>; PLACES.len()],
    samples_ns: Vec<u64>,
}

/// A column of words: each word once, and a reference to it a row.
#[derive(Default)]
struct Words {
    known: BTreeMap<String, i32>,
    values: Vec<String>,
    keys: Vec<i32>,
}

impl Words {
    fn key(&mut self, word: &str) -> i32 {
        if let Some(&key) = self.known.get(word) {
            return key;
        }
        let key = i32::try_from(self.values.len()).unwrap_or(i32::MAX);
        self.known.insert(word.to_owned(), key);
        self.values.push(word.to_owned());
        key
    }

    fn array(self) -> Result<ArrayRef, ArrowError> {
        let values = Arc::new(StringArray::from(self.values));
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
            Int32Array::from(self.keys),
            values,
        )?))
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
            twin.extend(std::iter::repeat_n(source.twin, steps));
            block.extend(std::iter::repeat_n(launch.block, steps));
            launches.extend(std::iter::repeat_n(place(number), steps));
            rounds.extend(std::iter::repeat_n(place(round), steps));
            step.extend((0..steps).map(place));
            self.samples_ns.extend(samples);
        }
    }

    fn batch(self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for words in self.words {
            columns.push(words.array()?);
        }
        for places in self.places {
            columns.push(Arc::new(UInt32Array::from(places)) as ArrayRef);
        }
        columns.push(Arc::new(UInt64Array::from(self.samples_ns)));
        RecordBatch::try_new(schema.clone(), columns)
    }
}

fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
