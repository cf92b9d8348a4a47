"""PyTorch driven from Python: `pytorch/python-eager` and `pytorch/compiled`."""
