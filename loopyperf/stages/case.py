"""A kernel at given sizes, the task of a predictor, and the cached analyses of a kernel that do not depend on sizes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import islpy as isl
import loopy as lp
import numpy as np
from loopy.kernel.function_interface import CallableKernel
from numpy.typing import NDArray

from loopyperf.counts.sizes import check_numbered
from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel, Program, load_kernel
from loopyperf.kernel.kernel import Group, group_of
from loopyperf.kernel.loopy_passes import checked_program
from loopyperf.polyhedral.evaluation import integer_size, missing_sizes, not_admitted, superfluous_sizes
from loopyperf.polyhedral.quasipolynomial import SizeAssumptions, engine_is_exact
from loopyperf.stages.cache import CACHE, Lookup, ResultKind, json_result_kind
from loopyperf.stages.cache_keys import content_text
from loopyperf.units import number_in_words


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A kernel at given sizes, with typical values: the task of a predictor."""

    kernel: Program
    """Loopy kernel or translation unit"""
    sizes: Mapping[str, Any]
    """values of the kernel's integer parameters, by name; arrays for a batch"""
    typical: Mapping[str, Any] | None = None
    """typical values for what the source does not determine (see :func:`loopyperf.count`)"""

    def __post_init__(self) -> None:
        """Raise :class:`ParameterError` for a size that the type of its argument cannot hold."""
        kernels = self.kernel.callables_table.values() if isinstance(self.kernel, lp.TranslationUnit) else ()
        for kernel in [each.subkernel for each in kernels if isinstance(each, CallableKernel)] or [self.kernel]:
            if isinstance(kernel, lp.LoopKernel):  # other objects are rejected when they are preprocessed
                _check_fits(kernel, self.sizes)


def _check_fits(kernel: lp.LoopKernel, sizes: Mapping[str, Any]) -> None:
    for name in sizes.keys() & kernel.arg_dict.keys():
        # Loopy infers the index type for a size without a type.
        dtype = (kernel.arg_dict[name].dtype or kernel.index_dtype).numpy_dtype
        # Models have limits of their own beyond 62 bits, and counts have none.
        if dtype.kind not in "iu" or dtype.itemsize == 8:
            continue
        bits = 8 * dtype.itemsize - (dtype.kind == "i")
        least, most = -(2**bits) if dtype.kind == "i" else 0, 2**bits - 1
        for value in _integers_in(sizes[name]):
            if not least <= value <= most:
                raise ParameterError(
                    f"size {name} is {number_in_words(value)}, but argument {name} of {kernel.name!r:.80} is {dtype}, "
                    f"at most {most:,}; use a smaller size, or declare it as lp.ValueArg({name!r}, np.int64)"
                )


def _integers_in(size: Any) -> Iterable[int]:
    """Return the integers among the values of *size*; of an array of an integer type, the smallest and the largest."""
    if type(size) is int:
        return (size,)
    values: Any = (size,)
    if isinstance(size, np.ndarray):
        array = cast("NDArray[Any]", size)
        values = (array.min(), array.max()) if array.dtype.kind in "iu" and array.size else array.flat
    return [int(cast("int", value)) for value in values if isinstance(value, (int, np.integer))]


def merged_sizes(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sizes given as keywords and in *parameters*.

    Raises :class:`ParameterError` for a size given twice, and if *parameters* is not a mapping.
    """
    if parameters is None:
        return sizes
    if not isinstance(cast("object", parameters), Mapping):
        raise ParameterError(f"parameters must be a mapping from size names to values, got {parameters!r:.80}")
    twice = sorted(set(parameters) & set(sizes))
    if twice:
        raise ParameterError(f"size {', '.join(map(repr, twice))} is given twice, as a keyword and in parameters")
    return {**parameters, **sizes}


def case_of(
    program: Program | Case,
    typical: Mapping[str, Any] | None,
    parameters: Mapping[str, Any] | None,
    sizes: Mapping[str, Any],
) -> Case:
    """Return *program* at the sizes given as keywords and in *parameters*, or *program* itself if it is a case.

    Raises :class:`ParameterError` for sizes and typical values in addition to those of a case.
    """
    if not isinstance(program, Case):
        return Case(program, merged_sizes(parameters, sizes), typical)
    if sizes or parameters or typical:
        raise ParameterError("a Case already has sizes and typical values; drop typical=, parameters= and the sizes")
    return program


def one_size(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes given as keywords and in *parameters*; raises :class:`ParameterError` for an array."""
    merged = dict(merged_sizes(parameters, sizes))
    arrays = [name for name, size in merged.items() if isinstance(size, np.ndarray)]
    if arrays:
        raise ParameterError(f"got an array for size {arrays[0]!r}; pass one size at a time, or use estimate")
    return merged


def has_arrays(sizes: Mapping[str, Any]) -> bool:
    """Return whether any of *sizes* is an array."""
    return any(isinstance(size, np.ndarray) for size in sizes.values())


def common_shape(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which arrays of these *shapes* broadcast; raises :class:`ParameterError` if there is none."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        received = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ParameterError(f"arrays of sizes must broadcast together, got shapes {received}") from error


# {{{ cached analyses of a kernel


Found = TypeVar("Found")
PREPARED: ResultKind[Kernel] = ResultKind("prepared", 64)
"""kernels after Loopy's passes, of some hundred kilobytes each"""
GROUP: ResultKind[Group] = json_result_kind("group", 4096, Group)


def layout_of(names: Iterable[str], sizes: Mapping[str, Any]) -> tuple[tuple[str, int | None], ...]:
    """Return (name, value) of the strides and offsets *names* among *sizes*, for :class:`CountingOptions`."""
    given = {name: sizes[name] for name in sorted(names)}
    return tuple(
        (each, None if isinstance(size, np.ndarray) else integer_size(each, size)) for each, size in given.items()
    )


def prepared(program: Program, sizes: Mapping[str, Any] | None = None) -> Kernel:
    """Return *program* after Loopy's preprocessing, which runs once; raises :class:`KernelError`.

    Argument arrays are contiguous, except for the strides and offsets among *sizes*.
    """
    kernel = CACHE.find(PREPARED, CACHE.content_of(checked_program(program)), lambda: load_kernel(program))
    return kernel.laid_out(sizes or {})


def prepared_group(program: Program) -> Group:
    """Return the resources of a group of *program* after Loopy's preprocessing; raises :class:`KernelError`."""
    return found_once(GROUP, program, (), lambda: group_of(prepared(program)))


def found_once(kind: ResultKind[Found], program: Program, inputs: tuple[Any, ...], find: Callable[[], Found]) -> Found:
    """Return the result of *find*, cached; it must depend only on *program* and *inputs*.

    The result is not cached if *inputs* have no content text. See :meth:`Cache.content_of` for programs without one.
    """
    return found_by_text(kind, program, content_text(inputs), find)


def found_by_text(kind: ResultKind[Found], program: Program, inputs: str | None, find: Callable[[], Found]) -> Found:
    return CACHE.find(kind, _key(program, inputs), find)


def look_up(kind: ResultKind[Found], program: Program, inputs: tuple[Any, ...]) -> Lookup[Found]:
    """Return what the cache has for *program* and *inputs*, for a layer that computes a missing result itself."""
    return CACHE.look_up(kind, _key(program, content_text(inputs)))


def _key(program: Program, inputs: str | None) -> str | None:
    engine = "" if engine_is_exact() else " without barvinok"
    return None if inputs is None else f"{CACHE.content_of(checked_program(program))}{engine} {inputs}"


def admitted_sizes(kernel: Kernel, sizes: Mapping[str, Any]) -> dict[str, int]:
    """Return *sizes* as integers.

    Raises :class:`ParameterError` for sizes that *kernel* lacks or does not admit, and for sizes too large for graphs.
    """
    superfluous = sorted(set(sizes) - kernel.parameters)
    if superfluous:
        raise superfluous_sizes(superfluous, kernel.parameters, f"kernel {kernel.name!r}")
    admitted = integer_sizes(kernel, sizes)
    check_numbered(admitted)
    restricted_assumptions(kernel, admitted)
    return admitted


def integer_sizes(kernel: Kernel, sizes: Mapping[str, Any]) -> dict[str, int]:
    missing = sorted(kernel.sizes - set(sizes))
    if missing:
        raise missing_sizes(missing, f" of kernel {kernel.name!r}")
    values = {name: integer_size(name, size) for name, size in sizes.items()}
    return {name: values[name] for name in sorted(kernel.parameters & set(values))}


def restricted_assumptions(kernel: Kernel, sizes: Mapping[str, int]) -> isl.BasicSet:
    """Return the assumptions of *kernel* restricted to *sizes*; raises :class:`ParameterError` if none are left."""
    equalities = " and ".join(f"{name} = {size}" for name, size in sizes.items())
    equal = isl.BasicSet(f"[{', '.join(sizes)}] -> {{ : {equalities} }}")
    assumptions = kernel.assumptions.intersect(equal.align_params(kernel.assumptions.get_space()))
    if assumptions.is_empty():
        assumed = SizeAssumptions(kernel.assumptions)
        raise not_admitted(sizes, assumed.on(assumed.parameters))
    return assumptions


# }}}
