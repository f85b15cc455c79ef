"""Named properties of a kernel: what a fitted model has weights for."""
