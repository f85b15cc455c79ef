"""Everything that touches isl: sets, ranges, affine forms, polynomials, piecewise quasi-polynomials.

In: isl sets. Out: exact counts of integer points, closed forms, and Python functions that evaluate them.
Start with ``affine.py`` and ``quasipolynomial.py``.
"""
