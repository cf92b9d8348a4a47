"""TensorFlow driven from Python: `tensorflow/function`, `tensorflow/eager`, `tensorflow/keras`."""
