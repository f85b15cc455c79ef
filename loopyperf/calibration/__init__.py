"""Fit models to measurements.

In: archives of measured kernels, or a device to measure (:mod:`~loopyperf.calibration.calibrate`).
Out: a :class:`~loopyperf.calibration.fits.Fit`, its files, and its accuracy on kernel classes held out.
Start with ``fit.py``, which counts the kernels, and ``fitting.py``, which solves the least-squares problem.
"""
