"""A kernel at given sizes, the task of a predictor, and the cached analyses of a kernel that do not depend on sizes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast, get_args

import islpy as isl
import loopy as lp
import numpy as np
from loopy.kernel.function_interface import CallableKernel
from numpy.typing import NDArray

from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import KernelCounts, check_options, count_kernel
from loopyperf.counts.sizes import Typical, check_numbered, check_typical_values
from loopyperf.counts.transcription import counts_as_json, read_counts
from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel, Program, load_kernel
from loopyperf.kernel.kernel import Group, group_of
from loopyperf.kernel.loopy_passes import checked_program
from loopyperf.memory.source_launch import KernelStructure
from loopyperf.polyhedral.evaluation import integer_size, missing_sizes, not_admitted, superfluous_sizes
from loopyperf.polyhedral.quasipolynomial import SizeAssumptions, engine_is_exact
from loopyperf.stages.cache import CACHE, ResultKind, json_result_kind
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
    return [int(cast("int", each)) for each in values if isinstance(each, (int, np.integer))]


def merged_sizes(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sizes given as keywords and in *parameters*.

    Raises :class:`ParameterError` for a size given twice, and if *parameters* is not a mapping.
    """
    if parameters is None:
        return sizes
    _check_is_mapping(parameters)
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


def _check_is_mapping(parameters: object) -> None:
    if not isinstance(parameters, Mapping):
        raise ParameterError(f"parameters must be a mapping from size names to values, got {parameters!r:.80}")


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
STRUCTURES: ResultKind[KernelStructure] = ResultKind("structure", 64)
"""size-independent analyses, of some hundred kilobytes each"""
COUNTS = ResultKind[KernelCounts]("counts", 256, counts_as_json, read_counts, is_analysis=True)
"""counts, ten to a hundred kilobytes each in memory"""
GROUP: ResultKind[Group] = json_result_kind("group", 4096, Group)


@dataclass(frozen=True)
class CountingOptions:
    """Options of counting; see :func:`count`."""

    counting: Counting = "executed"
    typical: Mapping[str, Any] | None = None
    sub_group_size: int | None = None
    layout: tuple[tuple[str, int | None], ...] = ()
    """(name, value) of the strides and offsets that were given; the value is None for an array"""

    def __post_init__(self) -> None:
        check_options(self.counting, self.sub_group_size)
        if self.typical is not None:
            check_typical_values(self.typical)

    @cached_property
    def text(self) -> str | None:
        """Return the options as part of a key, made once, since it takes as long as an estimate; None if impossible."""
        return content_text((self.counting, self.typical, self.sub_group_size, self.layout))

    def count(self, kernel: Kernel) -> KernelCounts:
        """Return the counts of *kernel* with these options; see :func:`count`."""
        laid_out = kernel.laid_out(dict(self.layout))
        return count_kernel(laid_out, self.counting, typical=self.typical, sub_group_size=self.sub_group_size)


USUAL: Mapping[Counting, CountingOptions] = {
    counting: CountingOptions(counting) for counting in cast("tuple[Counting, ...]", get_args(Counting))
}
"""the default options, made once, since a search uses only these"""


def count(
    program: Program,
    counting: Counting = "executed",
    *,
    typical: Mapping[str, Any] | None = None,
    sub_group_size: int | None = None,
) -> KernelCounts:
    """Return the counts of a kernel as exact functions of its sizes.

    Loopy's preprocessing and the counting run once for equal programs while the result is in the cache.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit.
    counting
        ``"executed"`` counts what the hardware executes. ``"paper"`` counts each instruction over its own inames only,
        as Stevens and Klöckner do: work of a group that does not use a hardware axis counts once along it.
    typical
        Typical values for what the source does not determine, by the keywords that the errors name: trip counts of
        loops with loaded bounds, probabilities (0 to 1) of conditions on data, patterns of arrays with loaded
        addresses, and the operations of foreign code (a mapping from properties to numbers). The keyword of a condition
        is its text in terms of the loops before splitting, such as ``"x[i] > 0"``, the only array that it reads, or the
        instruction whose only condition on data it is.
    sub_group_size
        Count sub-groups (warps) of this many lanes, if at least one of their lanes is active, instead of work-items.

    Returns
    -------
    KernelCounts
        The counts of each property.

    Raises
    ------
    KernelError
        If Loopy cannot preprocess the kernel.
    UncountableError
        If a construct has no exact count.
    ParameterError
        If an option or a typical value is invalid.

    Examples
    --------
    >>> import loopy as lp, loopyperf as lpp, numpy as np
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0<=i<n}",
    ...     "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a,out", np.float32, shape="n"), "..."],
    ...     lang_version=(2018, 2),
    ... )
    >>> counts = lpp.count(knl)
    >>> print(counts)
    loopy_kernel, executed counting: ...
      property  ...
      f32 mul   ...n
      ...
    """
    return _counted(program, CountingOptions(counting, typical, sub_group_size))


def count_at(program: Program, options: CountingOptions, sizes: Mapping[str, Any]) -> KernelCounts:
    """Return the counts of a kernel in a form that can be evaluated at *sizes*.

    With barvinok in islpy, this is :func:`count`. Without it, a single size can still be counted exactly: the kernel
    assumes these sizes, and the counts are plain numbers. Raises :class:`EngineError` for arrays of sizes without
    barvinok, and :class:`ParameterError` for sizes that are missing, not integers or outside the kernel's assumptions.
    """
    if engine_is_exact() or has_arrays(sizes):
        counted = _counted(program, options)
        named = counted.kernel.contiguous & sizes.keys()
        return _counted(program, replace(options, layout=_layout(named, sizes))) if named else counted
    kernel = prepared(program, sizes)
    return options.count(_assuming(kernel, _integers(kernel, sizes)))


def _layout(names: Iterable[str], sizes: Mapping[str, Any]) -> tuple[tuple[str, int | None], ...]:
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


def structure_of(case: Case) -> KernelStructure:
    """Return the size-independent analysis of the kernel of *case*, cached."""
    kernel = prepared(case.kernel)
    layout = _layout(kernel.contiguous.keys() & case.sizes.keys(), case.sizes)

    def structure() -> KernelStructure:
        return KernelStructure(kernel.laid_out(dict(layout)), Typical(case.typical or {}))

    return found_once(STRUCTURES, case.kernel, (case.typical, layout), structure)


def prepared_group(program: Program) -> Group:
    """Return the resources of a group of *program* after Loopy's preprocessing; raises :class:`KernelError`."""
    return found_once(GROUP, program, (), lambda: group_of(prepared(program)))


def found_once(kind: ResultKind[Found], program: Program, inputs: tuple[Any, ...], find: Callable[[], Found]) -> Found:
    """Return the result of *find*, cached; it must depend only on *program* and *inputs*.

    The result is not cached if *inputs* have no content text. See :meth:`Cache.content_of` for programs without one.
    """
    return _found(kind, program, content_text(inputs), find)


def _found(kind: ResultKind[Found], program: Program, inputs: str | None, find: Callable[[], Found]) -> Found:
    if inputs is None:
        return find()
    engine = "" if engine_is_exact() else " without barvinok"
    return CACHE.find(kind, f"{CACHE.content_of(checked_program(program))}{engine} {inputs}", find)


def admitted_sizes(kernel: Kernel, sizes: Mapping[str, Any]) -> dict[str, int]:
    """Return *sizes* as integers.

    Raises :class:`ParameterError` for sizes that *kernel* lacks or does not admit, and for sizes too large for graphs.
    """
    superfluous = sorted(set(sizes) - kernel.parameters)
    if superfluous:
        raise superfluous_sizes(superfluous, kernel.parameters, f"kernel {kernel.name!r}")
    admitted = _integers(kernel, sizes)
    check_numbered(admitted)
    _equal_to(kernel, admitted)
    return admitted


def _counted(program: Program, options: CountingOptions) -> KernelCounts:
    return _found(COUNTS, program, options.text, lambda: options.count(prepared(program)))


# {{{ counting without barvinok


def _integers(kernel: Kernel, sizes: Mapping[str, Any]) -> dict[str, int]:
    missing = sorted(kernel.sizes - set(sizes))
    if missing:
        raise missing_sizes(missing, f" of kernel {kernel.name!r}")
    values = {name: integer_size(name, size) for name, size in sizes.items()}
    return {name: values[name] for name in sorted(kernel.parameters & set(values))}


def _assuming(kernel: Kernel, sizes: Mapping[str, int]) -> Kernel:
    """Return *kernel* with the assumption that its sizes equal *sizes*, and the same schedule."""
    return replace(kernel, loopy_kernel=kernel.loopy_kernel.copy(assumptions=_equal_to(kernel, sizes)))


def _equal_to(kernel: Kernel, sizes: Mapping[str, int]) -> isl.BasicSet:
    """Return the assumptions of *kernel* restricted to *sizes*; raises :class:`ParameterError` if none are left."""
    equalities = " and ".join(f"{name} = {size}" for name, size in sizes.items())
    equal = isl.BasicSet(f"[{', '.join(sizes)}] -> {{ : {equalities} }}")
    assumptions = kernel.assumptions.intersect(equal.align_params(kernel.assumptions.get_space()))
    if assumptions.is_empty():
        assumed = SizeAssumptions(kernel.assumptions)
        raise not_admitted(sizes, assumed.on(assumed.parameters))
    return assumptions


# }}}


# }}}
