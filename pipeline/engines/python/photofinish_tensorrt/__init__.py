"""The worker of TensorRT and TensorRT-RTX, driven from Python."""
