"""Hugging Face Transformers: its own classes, with our weights."""
