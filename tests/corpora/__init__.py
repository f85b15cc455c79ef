"""How many real kernels loopyperf counts."""
