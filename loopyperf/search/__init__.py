"""Choose among variants of a kernel: rank a list, search a space, split work between devices.

In: variants or a function that builds them, and a predictor. Out: a ranking or the best variant found.
Start with ``rank.py``; ``task.py`` predicts one variant, ``task_runner.py`` runs tasks on an executor.
"""
