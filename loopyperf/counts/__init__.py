"""Symbolic counts of what a kernel does, exact in its integer parameters."""
