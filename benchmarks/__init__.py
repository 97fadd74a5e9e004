"""Gaze side by side with its peers, one command a table: ``PYTHONPATH=. python benchmarks/NAME.py``."""
