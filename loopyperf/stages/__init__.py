"""The stages of a prediction, from a program at given sizes to the timed program, each cached.

In: a program, sizes, typical values. Out: counts, ``KernelProfile``, ``MachineProgram``, ``TimedProgram``.
Start with ``case.py``, then ``profile.py``.
"""
