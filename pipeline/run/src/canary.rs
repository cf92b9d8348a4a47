//! A fixed piece of work of our own: when it slows down, the machine did, not an engine.

use std::{
    hint::black_box,
    sync::{LazyLock, Mutex, PoisonError},
    time::Instant,
};

use schema::record::Canary;

use worker::nanoseconds;

const COPY_BYTES: usize = 64 << 20;
const SIDE: usize = 256;

/// Sings twice: memory (a copy larger than caches) and arithmetic (a matrix product within them).
pub(crate) fn sing() -> Canary {
    Canary {
        copy_ns: copy_ns(),
        matmul_ns: matmul_ns(),
    }
}

fn copy_ns() -> u64 {
    /// Kept from one canary to the next: to be given the memory takes the system five times as long as the copies.
    static COPIER: LazyLock<Mutex<Box<dyn FnMut() + Send>>> =
        LazyLock::new(|| Mutex::new(Box::new(copier(COPY_BYTES))));
    let mut copier = COPIER.lock().unwrap_or_else(PoisonError::into_inner);
    // A worker that was started since has left each page to be faulted in once more.
    copier();
    median_of_three(&mut *copier)
}

fn matmul_ns() -> u64 {
    median_of_three(multiplier())
}

/// Copies so many bytes each time.
pub(crate) fn copier(bytes: usize) -> impl FnMut() {
    let from = vec![1_u8; bytes];
    // Written once before, so that page faults are not what is timed.
    let mut to = vec![2_u8; bytes];
    move || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    }
}

/// Multiplies two matrices each time.
pub(crate) fn multiplier() -> impl FnMut() {
    let numbers = |modulus| (0..SIDE * SIDE).map(|i| (i % modulus) as f32).collect();
    let [a, b]: [Vec<f32>; 2] = [7, 5].map(numbers);
    let mut c = vec![0_f32; SIDE * SIDE];
    move || {
        multiply(black_box(&a), black_box(&b), &mut c);
        black_box(&mut c);
    }
}

/// `c = a · b`, row by row, so that the inner loop runs along memory.
fn multiply(a: &[f32], b: &[f32], c: &mut [f32]) {
    for (row_a, row_c) in a.chunks_exact(SIDE).zip(c.chunks_exact_mut(SIDE)) {
        row_c.fill(0.0);
        for (factor, row_b) in row_a.iter().zip(b.chunks_exact(SIDE)) {
            for (sum, value) in row_c.iter_mut().zip(row_b) {
                *sum += factor * value;
            }
        }
    }
}

fn median_of_three(mut work: impl FnMut()) -> u64 {
    let mut times = [0_u64; 3];
    for time in &mut times {
        let start = Instant::now();
        work();
        *time = nanoseconds(start.elapsed());
    }
    times.sort_unstable();
    let [_, median, _] = times;
    median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_a_product() {
        let identity: Vec<f32> = (0..SIDE * SIDE)
            .map(|i| if i / SIDE == i % SIDE { 1.0 } else { 0.0 })
            .collect();
        let other: Vec<f32> = (0..SIDE * SIDE).map(|i| (i % 11) as f32).collect();
        let mut product = vec![9.0; SIDE * SIDE];
        multiply(&identity, &other, &mut product);
        assert_eq!(product, other);
        let ones = vec![1.0; SIDE * SIDE];
        multiply(&ones, &ones, &mut product);
        assert!(product.iter().all(|sum| *sum == SIDE as f32));
    }

    #[test]
    fn it_takes_time() {
        let canary = sing();
        assert!(canary.copy_ns > 0 && canary.matmul_ns > 0);
    }
}
