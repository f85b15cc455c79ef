"""Measure kernels: protocol, archives, campaigns, backends and microbenchmarks.

In: kernel files and a backend (OpenCL, CUDA, or an archive that is replayed). Out: an archive of raw samples.
Start with ``protocol.py``, which times one kernel, and ``campaign.py``, which times many.
"""
