"""The CUDA backend, as far as it goes without a GPU, and beyond where there is one."""
