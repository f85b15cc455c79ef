"""Count what a kernel does, as exact functions of its sizes.

In: a :class:`~loopyperf.kernel.kernel.Kernel`. Out: :class:`~loopyperf.counts.kernel_counts.KernelTallies`, piecewise
quasi-polynomials by kind of operation, and the named properties that models are fitted to (``property_vector.py``).
Start with ``walk.py``, which visits the instructions, and ``kernel_counts.py``.
"""
