"""A Loopy kernel as CUDA source; this module needs neither a device nor CuPy nor a compiler.

The generated host program computes grids, executes the loops around launches and allocates global temporaries.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, cast

import genpy
import loopy as lp
import numpy as np
from cgen import Const, Declarator, Generable
from cgen.cuda import CudaConstant, CudaDevice, CudaRestrictPointer
from loopy.codegen import TranslationUnitCodeGenerationResult
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase
from loopy.kernel.data import AddressSpace, ConstantArg
from loopy.schedule.tools import get_kernel_arg_info, get_subkernel_arg_info
from loopy.target.c import CFamilyASTBuilder, FunctionDeclarationWrapper
from loopy.target.cuda import CUDACASTBuilder, CudaTarget, ExpressionToCudaCExpressionMapper
from loopy.target.opencl import OpenCLCallable, OpenCLTarget, get_opencl_callables
from loopy.target.python import PythonASTBuilderBase
from loopy.translation_unit import TranslationUnit
from loopy.types import NumpyType
from pymbolic import var
from pymbolic.mapper.stringifier import PREC_NONE
from pytools import memoize_method

from loopyperf.errors import MeasurementError
from loopyperf.kernel import VOLATILE
from loopyperf.kernel.loopy_passes import without_dumps

INLINE = re.compile(r"\bstatic inline (?!__device__)")
"""prefix of a function in Loopy's preambles for C"""


class CudaCode:
    """A Loopy kernel as CUDA source and a host program."""

    kernel: LoopKernel
    source: str
    """all device functions, ``extern "C"``, without headers"""

    def __init__(self, unit: TranslationUnit) -> None:
        """Generate the CUDA code of *unit*, which may have an OpenCL or CUDA target.

        Raises :class:`MeasurementError` if it has another target, or if Loopy cannot generate CUDA for it.
        """
        self.kernel = unit.default_entrypoint
        try:
            # Loopy's annotation is wrong.
            with without_dumps():
                generated: object = lp.generate_code_v2(for_cuda(unit))
        except NotImplementedError as error:
            raise MeasurementError(f"Loopy cannot generate CUDA code for this kernel: {error}") from error
        code = cast("TranslationUnitCodeGenerationResult", generated)
        self.source = INLINE.sub("static inline __device__ ", code.device_code())
        namespace: dict[str, Any] = {"_lpy_np": np}  # as Loopy calls it
        exec(code.host_code(), namespace)
        self.host: Callable[..., object] = namespace[code.host_programs[self.kernel.name].name]

    @property
    def options(self) -> tuple[str, ...]:
        """Return the kernel's compiler options."""
        return tuple(self.kernel.options.build_options)


def for_cuda(unit: TranslationUnit) -> TranslationUnit:
    """Return *unit* for CUDA; volatile accesses remain volatile.

    Raises :class:`MeasurementError` if its target is neither OpenCL nor CUDA.
    """
    target: Any = unit.target
    if isinstance(target, CompleteCudaTarget):
        return unit
    if not isinstance(target, OpenCLTarget | CudaTarget):
        raise MeasurementError(
            f"the kernel's target is {type(target).__name__}; create it with target=lp.PyOpenCLTarget()"
        )
    return unit.copy(target=CompleteCudaTarget(is_volatile=isinstance(target, VOLATILE)))


# {{{ functions and constants of Loopy's OpenCL target for CUDA, with the same types
#
# CUDA overloads its functions by type, so most of them have the same names as in OpenCL. It lacks ``dot`` and
# ``clamp``; NVRTC, which reads no headers, also lacks constants. Loopy's disk caches refer to the classes here by this
# module's name.


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


# }}}


# {{{ A complete CUDA target for Loopy: all launches, the functions of the OpenCL target, complex numbers, a host
# program.
#
# Loopy 2025.2's ``CudaTarget`` generates the first launch and drops the others. It lists ``rsqrt``, ``atan2`` and
# ``dot`` without inferring their types (``CudaCallable.cuda_with_types`` is never called), lacks the neutral elements
# of ``min`` and ``max`` reductions and complex numbers, and generates invalid declarations of global temporaries,
# constant arguments and called kernels.
#
# The host program is a Python function whose arguments are ``launch(name, grid, group, *arguments)``,
# ``allocate(nbytes)`` and the kernel's arguments. It calls ``launch`` for each launch and ``allocate`` for each global
# temporary. Scalars are passed to ``launch`` as NumPy scalars of the parameters' types, whatever their original types.
#
# The complex types have the operators that generated code uses and NumPy's memory layout, and are loaded and stored as
# a whole. They are defined in the generated code, because NVRTC reads no headers.


NAMES: Mapping[type[np.generic], tuple[str, str]] = MappingProxyType(
    {np.complex64: ("complex64_t", "float"), np.complex128: ("complex128_t", "double")}
)
"""CUDA name of a complex type and of its components' type, by NumPy type"""

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


def register_complex(registry: Any) -> None:
    """Add the complex types to Loopy's type *registry*."""
    for dtype, (name, _) in NAMES.items():
        registry.get_or_register_dtype([name], np.dtype(dtype))


def define_complex(preamble_info: Any) -> Iterator[tuple[str, str]]:
    """Yield the definitions of the complex types that a kernel uses (a preamble generator)."""
    seen = {dtype.numpy_dtype for dtype in preamble_info.seen_dtypes if dtype.is_complex()}
    for dtype, (name, part) in NAMES.items():
        if np.dtype(dtype) in seen:
            yield f"01_{name}", DEFINITION.format(name=name, part=part, bytes=np.dtype(dtype).itemsize)


LAUNCH, ALLOCATE = "_lpy_launch", "_lpy_allocate"
"""the host program's first two parameters; the prefix is reserved by Loopy"""


class VolatileExpressions(ExpressionToCudaCExpressionMapper):
    """Expression mapper that makes every array access volatile."""

    def make_subscript(self, array: Any, base_expr: Any, subscript: Any) -> Any:
        """Return the access to *array* at *subscript*."""
        target: Any = self.kernel.target
        return var(f"(volatile {target.dtype_to_typename(array.dtype)} *) ")(base_expr)[subscript]


class DeviceCode(CUDACASTBuilder):
    """Loopy's CUDA code generator, completed with missing functions, constants and declarations."""

    @property
    def known_callables(self) -> dict[str, Any]:
        """Return Loopy's functions for C and those of OpenCL."""
        return {**super().known_callables, **FUNCTIONS}

    def symbol_manglers(self) -> list[Callable[..., Any]]:
        """Return the functions that look up the types of constants."""
        return [*super().symbol_manglers(), constant_type]

    def preamble_generators(self) -> list[Callable[..., Any]]:
        """Return the generators of preambles."""
        return [*super().preamble_generators(), define_constants, define_complex]

    def get_expression_to_c_expression_mapper(self, codegen_state: Any) -> ExpressionToCudaCExpressionMapper:
        """Return the expression mapper."""
        is_volatile = cast("CompleteCudaTarget", self.target).is_volatile
        return (VolatileExpressions if is_volatile else ExpressionToCudaCExpressionMapper)(codegen_state)

    def get_function_declaration(
        self, codegen_state: Any, codegen_result: Any, schedule_index: int
    ) -> tuple[Sequence[tuple[str, str]], Generable]:
        """Return the declaration of a kernel, or of a device function without ``__global__``."""
        if codegen_state.is_entrypoint:
            return super().get_function_declaration(codegen_state, codegen_result, schedule_index)
        preambles, declaration = CFamilyASTBuilder.get_function_declaration(
            self, codegen_state, codegen_result, schedule_index
        )
        assert isinstance(declaration, FunctionDeclarationWrapper)
        return preambles, FunctionDeclarationWrapper(CudaDevice(declaration.subdecl))

    def wrap_decl_for_address_space(self, decl: Declarator, address_space: AddressSpace) -> Declarator:
        """Return *decl* in *address_space*; a pointer to global memory needs no qualifier."""
        if address_space == AddressSpace.GLOBAL:
            return decl
        return super().wrap_decl_for_address_space(decl, address_space)

    def wrap_global_constant(self, decl: Declarator) -> Declarator:
        """Return *decl* as an initialized array of the module."""
        return CudaConstant(decl)

    def get_constant_arg_declarator(self, arg: ConstantArg) -> Declarator:
        """Return the declaration of a read-only argument; CUDA passes no pointers to constant memory.

        The launched kernel loads it from global memory, whereas predictions assume constant memory.
        """
        return Const(CudaRestrictPointer(self.get_array_base_declarator(arg)))


class HostCode(PythonASTBuilderBase):
    """Generator of a Python host program that calls a launch function."""

    def get_function_definition(
        self, codegen_state: Any, codegen_result: Any, schedule_index: int, function_decl: object, function_body: Any
    ) -> genpy.Function:
        """Return the host program."""
        name = codegen_result.current_program(codegen_state).name
        arguments = get_kernel_arg_info(codegen_state.kernel).passed_arg_names
        return genpy.Function(name, [LAUNCH, ALLOCATE, *arguments], genpy.Suite([function_body]))

    def get_temporary_decls(self, codegen_state: Any, schedule_index: int) -> list[genpy.Generable]:
        """Return the allocations of global temporaries; the module contains the initialized ones."""
        kernel: LoopKernel = codegen_state.kernel
        write = self.get_expression_to_code_mapper(codegen_state)
        return [
            genpy.Assign(name, f"{ALLOCATE}({write(temporary.nbytes, PREC_NONE)})")
            for name, temporary in sorted(kernel.temporary_variables.items())
            if temporary.address_space == AddressSpace.GLOBAL and temporary.initializer is None
        ]

    def get_kernel_call(
        self, codegen_state: Any, subkernel_name: str, gsize: tuple[Any, ...], lsize: tuple[Any, ...]
    ) -> genpy.Statement:
        """Return the statement for one launch."""
        write = self.get_expression_to_code_mapper(codegen_state)
        extents = (write(lengths or (1,), PREC_NONE) for lengths in (gsize, lsize))
        kernel: LoopKernel = codegen_state.kernel
        passed = (_passed(kernel, name) for name in get_subkernel_arg_info(kernel, subkernel_name).passed_names)
        return genpy.Statement(f"{LAUNCH}({', '.join((repr(subkernel_name), *extents, *passed))})")


class CompleteCudaTarget(CudaTarget):
    """Loopy's CUDA target with all launches and the functions of its OpenCL target."""

    revision = 4
    """Loopy caches generated code and this class on disk: increase this number when the code generated here changes, or
    the class gets another name or module"""
    hash_fields: ClassVar[tuple[str, ...]] = (*CudaTarget.hash_fields, "revision", "is_volatile")
    comparison_fields: ClassVar[tuple[str, ...]] = (*CudaTarget.comparison_fields, "is_volatile")

    def __init__(self, is_volatile: bool = False) -> None:
        """Make all array accesses volatile if *is_volatile*."""
        super().__init__()
        self.is_volatile = is_volatile

    @memoize_method
    def get_dtype_registry(self) -> Any:
        """Return the available types, including complex numbers."""
        registry = super().get_dtype_registry()
        register_complex(registry)
        return registry

    def get_device_ast_builder(self) -> DeviceCode:
        """Return the generator of device code."""
        return DeviceCode(self)

    def get_host_ast_builder(self) -> Any:
        """Return the generator of the host program."""
        return HostCode(self)


def _passed(kernel: LoopKernel, name: str) -> str:
    """Return the code that passes parameter *name* of a launch: an array unchanged, a scalar in its type."""
    if name in kernel.all_inames():  # a loop on the host around the launch
        return _typed(name, kernel.index_dtype)
    variable: Any = kernel.get_var_descriptor(name)
    return name if isinstance(variable, ArrayBase) else _typed(name, variable.dtype)


def _typed(name: str, dtype: Any) -> str:
    return f"_lpy_np.dtype({dtype.numpy_dtype.str!r}).type({name})"


# }}}
