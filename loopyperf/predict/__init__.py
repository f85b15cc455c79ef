"""Predict run times.

In: a :class:`~loopyperf.stages.case.Case`, a model, a device or a fit. Out: an
:class:`~loopyperf.models.result.Estimate`.
Each kind of predictor is one class: by counts, on a device, sampled, corrected.
Start with ``on_device.py``, then ``estimate.py``, which resolves names.
"""
