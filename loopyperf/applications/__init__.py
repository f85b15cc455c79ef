"""Profiles of applications: what a program built on Loopy executes, and how long it would take on other devices.

In: a running Python program. Out: a record of its kernels and transfers, and a table of their predicted times.
Start with ``profile.py``; ``record.py`` has the file, ``recorder.py`` the places where programs pass.
"""
