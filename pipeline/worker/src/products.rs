//! What a network on grids of integers is computed in: products that an engine runs, counted as it tells of
//! them. Rounding to the grids and computing in floats between gives the same numbers, so outputs do not
//! show it.

use std::collections::BTreeMap;

/// How the products are called that are computed in integers of 8 bits.
const INTEGERS: &str = "int8";

/// Convolutions, products of matrices and recurrent layers that an engine runs, by what it computes them in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Products {
    integers: usize,
    /// By the precision's word, in floats.
    floats: BTreeMap<String, usize>,
}

impl Products {
    /// Counts one that is computed in integers of 8 bits.
    pub fn add_integers(&mut self) {
        self.integers += 1;
    }

    /// Counts one that is computed in floats of this precision, `fp32` for one.
    pub fn add_floats(&mut self, precision: &str) {
        *self.floats.entry(precision.to_owned()).or_default() += 1;
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> usize {
        self.integers + self.floats.values().sum::<usize>()
    }

    /// The setting [`schema::protocol::ARITHMETIC`] of a cell on such grids: `int8 in 20 of 21 products, fp32
    /// in 1`. Where nothing is computed in integers it begins as what is stored in one precision and computed
    /// in another. `None` where there is no product.
    #[must_use]
    pub fn arithmetic(&self) -> Option<String> {
        let all = self.count();
        let words = self.floats.keys().map(String::as_str).collect::<Vec<_>>();
        match self.integers {
            _ if all == 0 => None,
            0 => Some(format!(
                "stored as {INTEGERS}, computed in {}",
                words.join(" and ")
            )),
            integers => {
                let floats = self.floats.iter();
                let floats = floats.map(|(word, count)| format!(", {word} in {count}"));
                Some(format!(
                    "{INTEGERS} in {integers} of {all} products{}",
                    floats.collect::<String>()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use schema::{
        Precision,
        protocol::{ARITHMETIC, Loaded},
    };

    use super::*;

    fn products(integers: usize, floats: &[&str]) -> Products {
        let mut products = Products::default();
        for _ in 0..integers {
            products.add_integers();
        }
        for precision in floats {
            products.add_floats(precision);
        }
        products
    }

    #[test]
    fn integers_are_counted_among_all() {
        let told = |integers, floats: &[&str]| products(integers, floats).arithmetic();
        assert_eq!(told(0, &[]), None);
        assert_eq!(products(3, &["fp32", "bf16"]).count(), 5);
        assert_eq!(told(3, &[]).as_deref(), Some("int8 in 3 of 3 products"));
        let mixed = told(3, &["fp32", "bf16", "fp32"]);
        assert_eq!(
            mixed.as_deref(),
            Some("int8 in 3 of 6 products, bf16 in 1, fp32 in 2")
        );
    }

    /// A speed in fp32 is not taken for one in integers.
    #[test]
    fn what_computes_in_floats_alone_is_told_beside_its_speed() {
        let computed = |products: &Products| {
            let told = products.arithmetic().expect("there are products");
            let loaded = Loaded {
                fill_ns: 0,
                build_ns: 0,
                compile_ns: 0,
                first_step_ns: 1,
                threads: None,
                spin: String::new(),
                settings: BTreeMap::from([(ARITHMETIC.to_owned(), told)]),
            };
            assert!(loaded.computed_in(Precision::Int8Static).is_some());
            loaded.computed_otherwise().map(str::to_owned)
        };
        let none = computed(&products(0, &["fp32", "fp32"]));
        assert_eq!(none.as_deref(), Some("stored as int8, computed in fp32"));
        assert_eq!(computed(&products(1, &["fp32"])), None);
    }
}
