"""PyTorch driven from Python: `python-eager` and `compiled`; and the compiler of `pytorch/aot`."""
