"""
Predicted and measured times
============================

:func:`~loopyperf.explain.plots.plot_predictions` compares predicted with measured times.
"""

# %%
# The bundled archive has measurements of the test kernels on an H200, which were not used for the fit. The bars are
# prediction intervals.
import loopyperf as lpp
from loopyperf.device.device_library import bundled_fits
from loopyperf.explain import plots
from loopyperf.predict.validate import validated_by

folder = bundled_fits() / "nvidia-h200"
fit = lpp.load_fit(folder / "linear.json")
found = validated_by(folder / "raw" / "test-kernels.jsonl.xz", fit=fit)
plots.plot_predictions(found)
