//! Deterministic numbers: every worker, in any language, makes the same weights and inputs from
//! names alone, with no file to ship.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014) read as a function of a counter, so that element `i` needs no other
//! element. All integer arithmetic is modulo 2⁶⁴.
//!
//! * `mix(z)`: `z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27; z *= 0x94d049bb133111eb;
//!   z ^= z >> 31`.
//! * `key = mix(fnv1a(name))`, with FNV-1a of 64 bits over the UTF-8 bytes of the tensor's name.
//! * `r(i) = mix(key + (i + 1)·0x9e3779b97f4a7c15)` for the row-major index `i = 0, 1, …`
//! * [`Fill::Uniform`]: `u = (r >> 40)·2⁻²⁴`, exact in binary32; then `low + (high − low)·u`, each
//!   of the three operations rounded to binary32 on its own (no fused multiply-add). The last
//!   rounding may reach `high` itself where `|low|` is much larger than `high − low`.
//! * [`Fill::Integers`]: the upper 64 bits of the 128-bit product `r·bound`.
//! * [`Fill::Constant`]: the number. [`Fill::Positions`]: `i mod n`, `n` the size of the last axis.
//! * [`Fill::Sinusoids`]: `p, k = divmod(i, width)`; sine (`k < width/2`) or cosine of
//!   `p·10000^(−2·(k mod width/2)/width)`, computed in binary64 and rounded to binary32. Libraries
//!   differ in the last bit of such functions, so only here may workers, too.
//!
//! * [`Fill::Stored`]: no function of anything; the numbers are in a file that [`crate::Numbers`]
//!   reads. Here they come as NaN, or as the smallest integer, which no comparison of outputs
//!   passes.
//!
//! Narrower precisions round the binary32 number to nearest, ties to even; fp64 widens it.
//!
//! The same in numpy:
//! ```python
//! import numpy as np
//! def mix(z):
//!     z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
//!     z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
//!     return z ^ (z >> np.uint64(31))
//! def raw(name, count):
//!     h = 0xCBF29CE484222325
//!     for byte in name.encode(): h = (h ^ byte) * 0x100000001B3 % 2**64
//!     i = np.arange(1, count + 1, dtype=np.uint64)
//!     return mix(mix(np.array([h], np.uint64)) + i * np.uint64(0x9E3779B97F4A7C15))
//! def uniform(name, low, high, count):
//!     low, high = np.float32(low), np.float32(high)
//!     u = (raw(name, count) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
//!     return low + (high - low) * u
//! def integers(name, bound, count):
//!     return np.array([int(r) * bound >> 64 for r in raw(name, count)], np.int64)
//! def sinusoids(width, count):
//!     p, k = np.divmod(np.arange(count), width)
//!     angle = p * 10000.0 ** (-2.0 * (k % (width // 2)) / width)
//!     return np.where(k < width // 2, np.sin(angle), np.cos(angle)).astype(np.float32)
//! ```
//!
//! Golden values:
//! ```
//! use photofinish_models::fill;
//! use schema::graph::Fill;
//!
//! let unit = Fill::Uniform { low: 0.0, high: 1.0 };
//! assert_eq!(fill::floats("fc.weight", &unit, 3), [0.035107434, 0.591937244, 0.663821995]);
//! let tokens = Fill::Integers { bound: 30522 };
//! assert_eq!(fill::integers("input_ids", &tokens, &[1, 4]), [12730, 21752, 865, 5836]);
//! let second_row = [0.84147098, 0.0099998333, 0.54030228, 0.99995];
//! assert_eq!(fill::floats("positions", &Fill::Sinusoids { width: 4 }, 8)[4..], second_row);
//! ```

use schema::graph::{ElementType, Fill, Parameter};

/// 2⁶⁴ divided by the golden ratio, odd: SplitMix64's step.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The numbers that `parameter` starts from, row-major.
///
/// A parameter whose fill makes integers (see [`makes_integers`]) is meant for [`integers`]; here
/// its numbers come as floats.
#[must_use]
pub fn parameter(parameter: &Parameter) -> Vec<f32> {
    let count = elements(&parameter.shape);
    match parameter.fill {
        Fill::Positions => {
            let row = last_axis(&parameter.shape);
            (0..count).map(|i| (i % row) as f32).collect()
        }
        _ => floats(&parameter.name, &parameter.fill, index(count)),
    }
}

/// The first `count` floats of the tensor called `name`.
///
/// [`Fill::Positions`] knows no axes here and counts on.
#[must_use]
pub fn floats(name: &str, fill: &Fill, count: usize) -> Vec<f32> {
    let count = count as u64;
    match *fill {
        Fill::Uniform { low, high } => {
            let key = key(name);
            let span = high - low;
            (0..count).map(|i| low + span * unit(raw(key, i))).collect()
        }
        Fill::Integers { bound } => {
            let key = key(name);
            (0..count)
                .map(|i| below(raw(key, i), bound) as f32)
                .collect()
        }
        Fill::Constant { value } => (0..count).map(|_| value).collect(),
        Fill::Positions => (0..count).map(|i| i as f32).collect(),
        Fill::Sinusoids { width } => (0..count).map(|i| sinusoid(i, width)).collect(),
        Fill::Stored { .. } => (0..count).map(|_| f32::NAN).collect(),
    }
}

/// The integers of the tensor called `name` of shape `shape`, row-major.
///
/// Fills that make floats are truncated towards zero.
#[must_use]
pub fn integers(name: &str, fill: &Fill, shape: &[u64]) -> Vec<i64> {
    let count = elements(shape);
    match *fill {
        Fill::Integers { bound } => {
            let key = key(name);
            (0..count)
                .map(|i| below(raw(key, i), bound) as i64)
                .collect()
        }
        Fill::Positions => {
            let row = last_axis(shape);
            (0..count).map(|i| (i % row) as i64).collect()
        }
        Fill::Constant { value } => (0..count).map(|_| value as i64).collect(),
        Fill::Stored { .. } => (0..count).map(|_| i64::MIN).collect(),
        Fill::Uniform { .. } | Fill::Sinusoids { .. } => {
            let values = floats(name, fill, index(count));
            values.into_iter().map(|value| value as i64).collect()
        }
    }
}

/// Whether the fill describes integers: a parameter with such a fill holds 64-bit integers.
#[must_use]
pub const fn makes_integers(fill: &Fill) -> bool {
    matches!(
        fill,
        Fill::Integers { .. }
            | Fill::Positions
            | Fill::Stored {
                element: ElementType::Int64,
                ..
            }
    )
}

/// Number of elements of a shape, at most the largest `u64`.
pub(crate) fn elements(shape: &[u64]) -> u64 {
    shape
        .iter()
        .fold(1, |product: u64, &size| product.saturating_mul(size))
}

/// A count as a length. Graphs that passed [`crate::infer::shapes`] fit by far.
fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Size of the last axis, 1 where there is none (and 1 for an empty axis, which has no element).
fn last_axis(shape: &[u64]) -> u64 {
    shape.last().copied().unwrap_or(1).max(1)
}

/// Element `index` of [`Fill::Sinusoids`]. Through `libm`, whose results no C library decides.
fn sinusoid(index: u64, width: u64) -> f32 {
    let (width, half) = (width.max(2), (width / 2).max(1));
    let (position, column) = (index / width, index % width);
    let exponent = -2.0 * (column % half) as f64 / width as f64;
    let angle = position as f64 * libm::pow(10_000.0, exponent);
    let value = if column < half {
        libm::sin(angle)
    } else {
        libm::cos(angle)
    };
    value as f32
}

/// The finaliser of SplitMix64.
#[inline(always)]
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The stream of a name: FNV-1a (Fowler, Noll and Vo), finalised.
fn key(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(hash)
}

/// 64 random bits for element `index`.
#[inline(always)]
const fn raw(key: u64, index: u64) -> u64 {
    mix(key.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA)))
}

/// The upper 24 bits as a number in `[0, 1)`; exact, since binary32 has 24 bits of mantissa.
#[inline(always)]
const fn unit(bits: u64) -> f32 {
    // Through i32, for which SSE2 has a conversion and u64 has none.
    (bits >> 40) as i32 as f32 * (1.0 / 16_777_216.0)
}

/// A number in `0..bound` by multiply-high (Lemire, "Fast random integer generation in an
/// interval", 2019, without the rejection step: the bias is below `bound / 2⁶⁴`).
#[inline(always)]
const fn below(bits: u64, bound: u64) -> u64 {
    ((bits as u128 * bound as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use schema::graph::Role;

    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // First outputs for seed 1234567, published with the generator's reference code.
        let seeded = |i| raw(1_234_567, i);
        assert_eq!(seeded(0), 6_457_827_717_110_365_317);
        assert_eq!(seeded(1), 3_203_168_211_198_807_973);
        assert_eq!(seeded(2), 9_817_491_932_198_370_423);
    }

    #[test]
    fn the_hash_is_fnv1a() {
        // Published test vector: FNV-1a 64 of "foobar".
        assert_eq!(key("foobar"), mix(0x8594_4171_f739_67e8));
    }

    #[test]
    fn uniform_numbers_fill_their_range() {
        let values = floats(
            "x",
            &Fill::Uniform {
                low: -2.0,
                high: 3.0,
            },
            100_000,
        );
        assert!(values.iter().all(|v| (-2.0..3.0).contains(v)));
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / 1e5;
        let variance = values
            .iter()
            .map(|&v| (f64::from(v) - mean).powi(2))
            .sum::<f64>()
            / 1e5;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert!((variance - 25.0 / 12.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn names_make_different_streams_and_elements_stand_alone() {
        let unit = Fill::Uniform {
            low: 0.0,
            high: 1.0,
        };
        let long = floats("a", &unit, 1000);
        assert_eq!(floats("a", &unit, 10), long[..10]);
        assert_ne!(floats("b", &unit, 10), long[..10]);
    }

    #[test]
    fn positions_run_along_the_last_axis() {
        assert_eq!(integers("p", &Fill::Positions, &[2, 3]), [0, 1, 2, 0, 1, 2]);
        let ids = Parameter {
            name: "p".into(),
            shape: vec![2, 3],
            role: Role::Constant,
            fill: Fill::Positions,
        };
        assert_eq!(parameter(&ids), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
        assert_eq!(integers("p", &Fill::Positions, &[2, 0]), [0; 0]);
    }

    #[test]
    fn sinusoids_tell_positions_apart() {
        let (width, rows) = (512_usize, 1024_usize);
        let fill = Fill::Sinusoids {
            width: width as u64,
        };
        let values = floats("p", &fill, width * rows);
        assert!(values.iter().all(|value| value.abs() <= 1.0));
        let row = |position: usize| &values[position * width..(position + 1) * width];
        assert!(row(0)[..256].iter().all(|&sine| sine == 0.0));
        assert!(row(0)[256..].iter().all(|&cosine| cosine == 1.0));
        assert_eq!(row(1000)[0], 1000_f64.sin() as f32);
        // The slowest wave has a length of nearly 2π·10000.
        let slowest = 10_000_f64.powf(510.0 / 512.0);
        assert!((row(1000)[511] - (1000.0 / slowest).cos() as f32).abs() < 1e-7);
        // Neighbours differ by the same length everywhere.
        let step = |position: usize| {
            let pairs = row(position).iter().zip(row(position + 1));
            pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()
        };
        assert!((step(0) - step(1022)).abs() < 1e-3 * step(0));
    }

    #[test]
    fn integers_stay_below_their_bound() {
        let values = integers("t", &Fill::Integers { bound: 7 }, &[10_000]);
        assert!((0..7).all(|digit| values.iter().filter(|&&v| v == digit).count() > 1200));
        assert!(values.iter().all(|v| (0..7).contains(v)));
    }

    /// The recipe of this module's documentation, in Python's standard library alone.
    const PYTHON: &str = r#"
import struct, sys
M = 2**64 - 1
def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M
    return z ^ z >> 31
def f32(x): return struct.unpack("<f", struct.pack("<f", x))[0]
name, low, high, count, bound = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
h = 0xCBF29CE484222325
for byte in name.encode(): h = (h ^ byte) * 0x100000001B3 & M
low, high = f32(low), f32(high)
for i in range(1, count + 1):
    r = mix(mix(h) + i * 0x9E3779B97F4A7C15 & M)
    value = f32(low + f32(f32(high - low) * ((r >> 40) * 2.0**-24)))
    print(struct.pack("<f", value).hex(), r * bound >> 64)
"#;

    #[test]
    fn another_language_makes_the_same_bits() {
        // Rounding a double to binary32 after each operation equals binary32 arithmetic, since
        // a double has more than twice its bits (Figueroa 1995).
        let (name, low, high, count, bound) = ("layer1.0.conv1.weight", -0.321, 0.777, 400, 30522);
        let output = Command::new("python3")
            .args(["-c", PYTHON, name, &low.to_string(), &high.to_string()])
            .args([count.to_string(), bound.to_string()])
            .output()
            .expect("python3 is needed by this test");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let floats = floats(name, &Fill::Uniform { low, high }, count);
        let integers = integers(name, &Fill::Integers { bound }, &[count as u64]);
        let ours: String = floats
            .iter()
            .zip(&integers)
            .map(|(float, integer)| {
                let hex: String = float
                    .to_le_bytes()
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect();
                format!("{hex} {integer}\n")
            })
            .collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), ours);
    }
}
