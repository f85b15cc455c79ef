"""Devices: their parameters, where each comes from, and what follows from them without a kernel.

In: files such as ``catalog/nvidia-v100.toml``. Out: a :class:`~loopyperf.device.description.Device`, the occupancy of a
work-group (``occupancy.py``), and latencies λ and Λ (``lambdas.py``).
Start with ``description.py``.
"""
