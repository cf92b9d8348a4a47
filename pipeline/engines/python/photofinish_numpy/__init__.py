"""Numbers of weights and inputs as NumPy's arrays, for the workers of engines that take those."""
