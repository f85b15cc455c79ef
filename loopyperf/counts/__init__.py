"""Count what a kernel does, as exact functions of its sizes.

In: a :class:`~loopyperf.kernel.kernel.Kernel`. Out: :class:`~loopyperf.counts.kernel_counts.KernelCounts`, piecewise
quasi-polynomials by kind of operation, and the named properties that models are fitted to (``item.py``).
Start with ``walk.py``, which visits the instructions, and ``kernel_counts.py``.
"""
