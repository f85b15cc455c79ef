"""A complete CUDA target for Loopy: all launches, the functions of the OpenCL target, complex numbers, a host program.

Loopy 2025.2's ``CudaTarget`` generates the first launch and drops the others. It lists ``rsqrt``, ``atan2`` and ``dot``
without inferring their types (``CudaCallable.cuda_with_types`` is never called), lacks the neutral elements of ``min``
and ``max`` reductions and complex numbers, and generates invalid declarations of global temporaries, constant arguments
and called kernels.

The host program is a Python function whose arguments are ``launch(name, grid, group, *arguments)``,
``allocate(nbytes)`` and the kernel's arguments. It calls ``launch`` for each launch and ``allocate`` for each global
temporary. Scalars are passed to ``launch`` as NumPy scalars of the parameters' types, whatever their original types.

The complex types have the operators that generated code uses and NumPy's memory layout, and are loaded and stored as a
whole. They are defined in the generated code, because NVRTC reads no headers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, cast

import genpy
import numpy as np
from cgen import Const, Declarator, Generable
from cgen.cuda import CudaConstant, CudaDevice, CudaRestrictPointer
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase
from loopy.kernel.data import AddressSpace, ConstantArg
from loopy.schedule.tools import get_kernel_arg_info, get_subkernel_arg_info
from loopy.target.c import CFamilyASTBuilder, FunctionDeclarationWrapper
from loopy.target.cuda import CUDACASTBuilder, CudaTarget, ExpressionToCudaCExpressionMapper
from loopy.target.python import PythonASTBuilderBase
from pymbolic import var
from pymbolic.mapper.stringifier import PREC_NONE
from pytools import memoize_method

from loopyperf.compiler.cuda_functions import FUNCTIONS, constant_type, define_constants

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

    revision = 3
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
