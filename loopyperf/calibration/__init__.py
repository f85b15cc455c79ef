"""Fitting weights to measurements: the problem, its solution, how well it generalises, and the files of fits."""
