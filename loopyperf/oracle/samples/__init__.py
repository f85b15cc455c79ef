"""Parts of kernels, run: what the sampled model is told."""
