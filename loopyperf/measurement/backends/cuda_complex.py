"""Complex numbers for CUDA, which Loopy's target lacks: a type with the operators that generated code uses.

They lie in memory as NumPy's do, and are loaded and stored as a whole. NVRTC reads no headers, so that the type comes
with the code.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

NAMES: Mapping[type[np.generic], tuple[str, str]] = MappingProxyType(
    {np.complex64: ("complex64_t", "float"), np.complex128: ("complex128_t", "double")}
)
"""type -> its name in CUDA, and that of its parts"""

DEFINITION = """
struct __align__({bytes}) {name}
{{
  {part} real, imag;
  __device__ {name}() {{}}
  __device__ {name}({part} r, {part} i = 0) : real(r), imag(i) {{}}
}};
static inline __device__ {name} operator-({name} a) {{ return {name}(-a.real, -a.imag); }}
static inline __device__ {name} operator+({name} a, {name} b) {{ return {name}(a.real + b.real, a.imag + b.imag); }}
static inline __device__ {name} operator-({name} a, {name} b) {{ return {name}(a.real - b.real, a.imag - b.imag); }}
static inline __device__ {name} operator*({name} a, {name} b)
{{ return {name}(a.real*b.real - a.imag*b.imag, a.real*b.imag + a.imag*b.real); }}
static inline __device__ {name} operator*({part} a, {name} b) {{ return {name}(a*b.real, a*b.imag); }}
static inline __device__ {name} operator*({name} a, {part} b) {{ return {name}(a.real*b, a.imag*b); }}
static inline __device__ {name} operator/({name} a, {part} b) {{ return {name}(a.real/b, a.imag/b); }}
static inline __device__ {name} operator/({name} a, {name} b)
{{ return a*{name}(b.real, -b.imag) / (b.real*b.real + b.imag*b.imag); }}
"""


def register(registry: Any) -> None:
    """Let Loopy's *registry* of types know the complex ones."""
    for dtype, (name, _) in NAMES.items():
        registry.get_or_register_dtype([name], np.dtype(dtype))


def define(preamble_info: Any) -> Iterator[tuple[str, str]]:
    """Yield the definitions of the complex types that a kernel has (a preamble generator)."""
    seen = {dtype.numpy_dtype for dtype in preamble_info.seen_dtypes if dtype.is_complex()}
    for dtype, (name, part) in NAMES.items():
        if np.dtype(dtype) in seen:
            yield f"01_{name}", DEFINITION.format(name=name, part=part, bytes=np.dtype(dtype).itemsize)
