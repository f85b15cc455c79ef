"""Kernels and devices for tests of reports; some kernels have names that look like HTML."""

import loopy as lp
import numpy as np

import loopyperf as lpp
from tests.kernels import doubled

HOSTILE = "</script><b onclick=alert(1)>&amp;"
"""a name that closes an element of the page if it is not escaped"""
DEVICES = ("nvidia-v100", "nvidia-a100", "amd-r9-fury", "nobodys-device")
MODELS = ("linear", "roofline", "volkov", "pipeline", "sampled")


def hostile() -> lp.TranslationUnit:
    """Return the kernel ``doubled``, with :data:`HOSTILE` as its name and the id of its instruction."""
    unit = lp.rename_callable(doubled(), "doubled", HOSTILE)
    kernel = unit.default_entrypoint
    return unit.with_kernel(kernel.copy(instructions=[each.copy(id=HOSTILE) for each in kernel.instructions]))


def two_launches() -> lp.TranslationUnit:
    """Return b = 2a, and in a second launch c[i] = b[i] + b[n-1-i], for n elements."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        b[i] = 2*a[i] {id=first}
        ... gbarrier {id=all, dep=first}
        c[j] = b[j] + b[n-1-j] {id=second, dep=all}
        """,
        [lp.GlobalArg("a, b, c", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="chain",
        assumptions="n >= 128",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 128, outer_tag="g.0", inner_tag="l.0")


def page_on_several_devices() -> str:
    """Return the page of two launches on three devices, one of which has a fit, and on an unknown device."""
    return lpp.report(two_launches(), n=2**20, device=DEVICES, models=MODELS, about="b, then c").html()
