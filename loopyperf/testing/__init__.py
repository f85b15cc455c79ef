"""Laws of every predictor and of every device, to test one that you add: a model, a fit, device parameters.

    >>> from loopyperf.testing import check_predictor
    >>> check_predictor(lpp.predictor(device="nvidia-v100", model="roofline"))     # doctest: +SKIP

:func:`check_predictor` and :func:`check_device` check all laws at once. :func:`predictor_checks` and
:func:`device_checks` return the laws one by one, so that a test runner lists them:

    >>> @pytest.mark.parametrize("check", predictor_checks(mine), ids=str)         # doctest: +SKIP
    ... def test_my_model_obeys_the_law(check):
    ...     check()

Predictors are checked on small bundled kernels: a scaled vector, a matrix multiplication with tiles in local memory,
sums over a triangle (whose lanes diverge), column sums with two sizes, and a program with two launches.
"""

from loopyperf.testing.device_laws import check_device, device_checks
from loopyperf.testing.predictor_laws import Check, check_predictor, predictor_checks

__all__ = ["Check", "check_device", "check_predictor", "device_checks", "predictor_checks"]
