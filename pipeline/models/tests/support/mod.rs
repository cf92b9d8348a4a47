//! Python with ONNX's own tools, in an environment of its own below `target`.

pub(crate) mod python;
