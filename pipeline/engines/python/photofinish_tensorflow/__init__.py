"""TensorFlow driven from Python: `tensorflow/function` and `tensorflow/eager`."""
