"""Functions and constants of Loopy's OpenCL target for CUDA, with the same types.

CUDA overloads its functions by type, so most of them have the same names as in OpenCL. It lacks ``dot`` and ``clamp``;
NVRTC, which reads no headers, also lacks constants. Loopy's disk caches refer to the classes here by this module's
name.
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
"""type and value, by name, of the initial values of reductions: infinities, NaN and integer limits"""
BODIES = MappingProxyType(
    {
        "dot": "{scalar} dot({argument} a, {argument} b) {{ return {products}; }}",
        "clamp": "{scalar} clamp({argument} x, {argument} a, {argument} b) {{ return x < a ? a : b < x ? b : x; }}",
    }
)
"""definitions of functions that CUDA lacks"""
OTHERWISE = ("pow",)
"""functions for which Loopy generates different code for OpenCL and for C"""


class CudaFunction(OpenCLCallable):
    """A function with the argument and result types of OpenCL."""

    def generate_preambles(self, target: Any) -> Any:
        """Yield the definition of a function that CUDA lacks, with a tag that contains its argument type."""
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
"""Loopy's OpenCL functions, except constructors of vectors, whose types exist only in OpenCL"""


def constant_type(kernel: LoopKernel, name: str) -> tuple[NumpyType, str] | None:
    """Return the type and the source code of the constant *name*; None if it is not in :data:`CONSTANTS`.

    This is one of Loopy's symbol manglers, for names that are neither arguments nor temporaries.
    """
    found = CONSTANTS.get(name)
    return None if found is None else (NumpyType(np.dtype(found[0])), name)


def define_constants(_: object) -> Iterator[tuple[str, str]]:
    """Yield the definitions of :data:`CONSTANTS`, guarded against those of a header."""
    lines = (f"#ifndef {name}\n#define {name} {value}\n#endif" for name, (_, value) in CONSTANTS.items())
    yield "02_constants", "\n".join(lines)
