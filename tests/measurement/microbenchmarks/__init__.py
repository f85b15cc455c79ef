"""Tests of what is made of the times of microbenchmarks."""
