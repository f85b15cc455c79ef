"""Counts of real kernels, from the tests and examples of other projects."""
