//! Measures photofinish itself.
