"""Explain a prediction: what a kernel is bound by, what would make it faster, and where two differ.

In: kernels and predictors. Out: an :class:`~loopyperf.explain.explanation.Explanation`, findings (changes that are
simulated), differences, rooflines, traces, HTML pages and plots.
Start with ``diagnosis.py`` for the cause, ``findings.py`` for the advice, and ``explanation.py`` for the text.
"""
