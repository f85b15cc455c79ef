"""Tests of the CUDA backend, with a fake CuPy and on a GPU if there is one."""
