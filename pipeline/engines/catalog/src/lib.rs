//! engines/catalog
