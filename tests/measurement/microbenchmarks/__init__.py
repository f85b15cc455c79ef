"""Tests of the evaluation of microbenchmarks."""
