"""Performance models for Loopy kernels: a kernel goes in, its run time on a given GPU comes out, with the reason why.

    >>> import loopyperf as lpp
    >>> est = lpp.estimate(knl, n=4096, device="amd-r9-fury")     # doctest: +SKIP
    >>> est.seconds, est.bound                                    # doctest: +SKIP

Names are loaded when first used (SPEC 1 of Scientific Python), so that importing costs next to nothing; what they are
stands in ``__init__.pyi`` beside this file.
"""

from collections.abc import Callable
from typing import Any, cast

import lazy_loader

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]

__getattr__, __dir__, __all__ = cast("Attached", lazy_loader.attach_stub(__name__, __file__))
