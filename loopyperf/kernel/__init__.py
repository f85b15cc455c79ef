"""The front door for Loopy.

In: a translation unit. Out: a :class:`Kernel` with its launches, called kernels, temporaries and types, after Loopy's
own preprocessing and scheduling (``loopy_passes.py``).
Start with ``kernel.py``.
"""

from loopyperf.kernel.kernel import VOLATILE, Kernel, load_kernel
from loopyperf.kernel.loopy_passes import Program, as_translation_unit

__all__ = ["VOLATILE", "Kernel", "Program", "as_translation_unit", "load_kernel"]
