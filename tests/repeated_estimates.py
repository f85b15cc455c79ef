"""Estimates of graph-based models that tests repeat to check the cache."""

from dataclasses import replace
from typing import Any

import loopy as lp
import numpy as np

import loopyperf as lpp
from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.calibration.fits import Fit
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.result import Estimate
from tests.private_array_kernels import UNSURE

V100 = lpp.load_device("nvidia-v100")
N = 4096
FIT = Fit(
    model="overlap",
    device="V100",
    slug="nvidia-v100",
    counting="executed",
    weights={"DRAM": 1.0, "local: private": 1.1, "local: global": 0.9, "latency": 0.1},
    sharpness=2.5,
    basis="pipelines",
    uncertainty=Uncertainty(tuple(np.arange(1, 100) / 100), (), ((0.0,),)),
)
QUESTIONS: dict[str, dict[str, Any]] = {
    **{name: {"model": name, "device": V100} for name in sorted(DEVICE_MODELS)},
    "a fit of pipelines": {"fit": FIT},
}


def unsure() -> lp.TranslationUnit:
    """Return a new copy of a kernel whose private array may be in registers or in memory."""
    return UNSURE["8 or 16 passes"]()


def ask(program: lp.TranslationUnit | None = None, n: Any = N, **changes: Any) -> Estimate:
    """Return an estimate: of :func:`unsure` with the roofline model, unless overridden."""
    options = {"model": "roofline", "device": V100} | changes
    return lpp.estimate(program or unsure(), parameters={"n": n}, **options)


def whole(answer: Any) -> str:
    """Return all values of *answer* at full precision, for comparison."""
    return repr(answer.to_dict() if isinstance(answer, Estimate) else answer)


def other_device() -> lpp.Device:
    """Return a V100 with half the clock frequency."""
    return replace(V100, clock=V100.clock / 2)


def doubled_where_positive() -> lp.TranslationUnit:
    """Return a kernel with the data-dependent condition ``positive``."""
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "out[i] = a[i] * 2 {if=a[i] > 0, id=positive}",
        [lp.GlobalArg("a,out", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 1",
        lang_version=(2018, 2),
        name="conditional",
    )
    return lp.split_iname(unit, "i", 32, outer_tag="g.0", inner_tag="l.0")


def conditional(n: int = N, share: float = 0.5) -> Estimate:
    return ask(doubled_where_positive(), n=n, typical={"positive": share})
