"""The front door for Loopy: a translation unit goes in, a kernel with its launches comes out."""

from loopyperf.kernel.kernel import VOLATILE, Kernel, load_kernel
from loopyperf.kernel.loopy_passes import Program, as_translation_unit

__all__ = ["VOLATILE", "Kernel", "Program", "as_translation_unit", "load_kernel"]
