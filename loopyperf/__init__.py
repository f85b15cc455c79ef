"""Performance models for Loopy kernels: predict the run time of a kernel on a GPU, and what bounds it.

    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> arguments = [lp.GlobalArg("a, out", np.float32, shape="n"), lp.ValueArg("n", np.int32)]
    >>> knl = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]", arguments, lang_version=(2018, 2))
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> est = lpp.estimate(knl, n=2**20, device="nvidia-titan-v", model="roofline")
    >>> est.bound, f"{est.seconds:.1e} s"
    ('DRAM', '1.5e-05 s')

Names are imported on first use (SPEC 1 of Scientific Python), so that importing loopyperf is fast; ``__init__.pyi``
lists them.
"""

import os
from collections.abc import Callable
from typing import Any, cast

import lazy_loader


def _is_cache_writable() -> bool:
    """Return whether the folder of Loopy's caches can be written, without which importing Loopy fails."""
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pytools")  # noqa: PTH111, PTH118
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


if not _is_cache_writable():
    from loopyperf.files import caches_apart

    caches_apart()

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]

__getattr__, __dir__, __all__ = cast("Attached", lazy_loader.attach_stub(__name__, __file__))
