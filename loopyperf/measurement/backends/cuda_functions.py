"""The functions and constants that kernels may use on CUDA: those of Loopy's OpenCL target, with the same types.

CUDA overloads its functions by type, so that most have the same name as in OpenCL. ``dot`` and ``clamp`` it does not
have, and NVRTC, which reads no headers, has no constants. Loopy's caches on disk name the classes here by this module.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from loopy.kernel import LoopKernel
from loopy.target.opencl import OpenCLCallable, get_opencl_callables
from loopy.types import NumpyType

CONSTANTS: Mapping[str, tuple[type[np.generic], str]] = MappingProxyType(
    {
        "INFINITY": (np.float32, "__int_as_float(0x7f800000)"),
        "NAN": (np.float32, "__int_as_float(0x7fffffff)"),
        "HUGE_VAL": (np.float64, "__longlong_as_double(0x7ff0000000000000LL)"),
        "INT_MIN": (np.int32, "(-2147483647 - 1)"),
        "INT_MAX": (np.int32, "2147483647"),
        "UINT_MAX": (np.uint32, "4294967295u"),
        "LONG_MIN": (np.int64, "(-9223372036854775807l - 1l)"),
        "LONG_MAX": (np.int64, "9223372036854775807l"),
        "ULONG_MAX": (np.uint64, "18446744073709551615ul"),
    }
)
"""name -> type and value of what reductions begin with: infinities, NaN and the limits of integers"""
BODIES = MappingProxyType(
    {
        "dot": "{scalar} dot({argument} a, {argument} b) {{ return {products}; }}",
        "clamp": "{scalar} clamp({argument} x, {argument} a, {argument} b) {{ return x < a ? a : b < x ? b : x; }}",
    }
)
"""functions that CUDA lacks"""
OTHERWISE = ("pow",)
"""functions that Loopy writes in another way for OpenCL than for C"""


class CudaFunction(OpenCLCallable):
    """A function with the argument and result types of OpenCL's."""

    def generate_preambles(self, target: Any) -> Any:
        """Yield the definition of a function that CUDA lacks, with a tag that says for which type it is."""
        if self.name in BODIES:
            types: Any = self.arg_id_to_dtype
            argument, scalar = target.dtype_to_typename(types[0]), target.dtype_to_typename(types[-1])
            members = "xyzw"[: len(types[0].numpy_dtype.names or ())]
            products = " + ".join(f"a.{member}*b.{member}" for member in members)
            body = BODIES[self.name].format(scalar=scalar, argument=argument, products=products)
            yield f"40_{self.name}_{argument}", f"static inline __device__ {body}"


FUNCTIONS: Mapping[str, CudaFunction] = MappingProxyType(
    {
        name: CudaFunction(name=name)
        for name in sorted(get_opencl_callables())
        if name not in OTHERWISE and not name.startswith("make_")
    }
)
"""Loopy's OpenCL functions, but for literals of vectors, whose types are OpenCL's"""


def constant_type(kernel: LoopKernel, name: str) -> tuple[NumpyType, str] | None:
    """Return the type of the constant *name* and how it is written; None if it is not in :data:`CONSTANTS`.

    One of the symbol manglers that Loopy asks about names that are neither arguments nor temporaries.
    """
    found = CONSTANTS.get(name)
    return None if found is None else (NumpyType(np.dtype(found[0])), name)


def define_constants(_: object) -> Iterator[tuple[str, str]]:
    """Yield the definitions of :data:`CONSTANTS`, where no header has made them."""
    lines = (f"#ifndef {name}\n#define {name} {value}\n#endif" for name, (_, value) in CONSTANTS.items())
    yield "02_constants", "\n".join(lines)
