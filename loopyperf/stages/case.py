"""What is asked of a predictor, a kernel at given sizes, and what is found out about a kernel once."""

import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

import islpy as isl
import loopy as lp
import numpy as np

from loopyperf.counts.counted_kernel import KernelCounts, count_properties
from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import OnUnknown, check_options
from loopyperf.counts.property_vector import item_named
from loopyperf.counts.sizes import Typical, check_numbered, check_typical_values
from loopyperf.counts.transcription import counts_as_json, read_counts
from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel, Program, load_kernel
from loopyperf.kernel.kernel import Group, group_of
from loopyperf.kernel.loopy_passes import checked_program
from loopyperf.memory.source_launch import KernelStructure
from loopyperf.polyhedral.evaluation import integer_size, missing_sizes, not_admitted
from loopyperf.polyhedral.quasipolynomial import SizeAssumptions, engine_is_exact
from loopyperf.stages import cache as recent
from loopyperf.stages.cache import ResultKind, json_result_kind, recalled
from loopyperf.stages.cache_keys import content_key


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A kernel at given sizes, with what its source does not tell."""

    kernel: Program
    """a Loopy program"""
    sizes: Mapping[str, Any]
    """values of the kernel's integer parameters, by name; arrays for a batch"""
    typical: Mapping[str, Any] | None = None
    """what the source does not tell (see :func:`loopyperf.count`)"""


def merged_sizes(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sizes given as keywords and in *parameters*.

    Raises :class:`ParameterError` for one given twice, and if *parameters* is not a mapping.
    """
    if parameters is None:
        return sizes
    _check_is_mapping(parameters)
    twice = sorted(set(parameters) & set(sizes))
    if twice:
        raise ParameterError(f"size {', '.join(twice)} is given twice, as a keyword and in parameters")
    return {**parameters, **sizes}


def one_size(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes given as keywords and in *parameters*; raises :class:`ParameterError` for an array."""
    merged = dict(merged_sizes(parameters, sizes))
    arrays = [name for name, size in merged.items() if isinstance(size, np.ndarray)]
    if arrays:
        raise ParameterError(
            f"models are compared at one size at a time, got an array for {arrays[0]}; estimate takes arrays"
        )
    return merged


def _check_is_mapping(parameters: object) -> None:
    if not isinstance(parameters, Mapping):
        raise ParameterError(f"parameters is a mapping from sizes to values, received {parameters!r:.80}")


def has_arrays(sizes: Mapping[str, Any]) -> bool:
    """Return whether any of *sizes* is an array."""
    return any(isinstance(size, np.ndarray) for size in sizes.values())


def common_shape(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that arrays of these *shapes* broadcast to; raises :class:`ParameterError` if there is none."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        received = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ParameterError(f"arrays of sizes must broadcast together, received the shapes {received}") from error


# {{{ what is found out about a kernel once, however often it is asked about


Found = TypeVar("Found")
PREPARED = 16
"""programs whose kernels are kept in memory for equal ones, whether they still live or not"""
STRUCTURES = 64
"""kept, of some hundred kilobytes each"""
COUNTS = ResultKind[KernelCounts](
    "counts", 256, counts_as_json, lambda transcript: KernelCounts.of(read_counts(transcript))
)
"""some ten to a hundred kilobytes each in memory"""
GROUP: ResultKind[Group] = json_result_kind("group", 4096, Group)


@dataclass(frozen=True)
class CountingOptions:
    """How a kernel is to be counted."""

    counting: Counting = "executed"
    typical: Mapping[str, Any] | None = None
    sub_group_size: int | None = None
    on_unknown: OnUnknown = "refuse"
    layout: tuple[tuple[str, int | None], ...] = ()
    """strides and offsets that were given, by name, with their values; None where they are arrays of sizes"""

    def __post_init__(self) -> None:
        check_options(self.counting, self.sub_group_size, self.on_unknown)
        if self.typical is not None:
            check_typical_values(self.typical)

    @property
    def key(self) -> Hashable:
        """Return what tells these options from others."""
        stated = repr(sorted(self.typical.items())) if self.typical else ""
        return self.counting, stated, self.sub_group_size, self.on_unknown, self.layout

    def count(self, kernel: Kernel) -> KernelCounts:
        """Return *kernel* counted so; see :func:`count`."""
        return count_properties(
            kernel.laid_out(dict(self.layout)),
            self.counting,
            typical=self.typical,
            sub_group_size=self.sub_group_size,
            on_unknown=self.on_unknown,
        )


@cache
def usual_options(counting: Counting) -> CountingOptions:
    """Return the options where only *counting* is stated: a search asks for nothing else."""
    return CountingOptions(counting)


def count(
    program: Program,
    counting: Counting = "executed",
    *,
    typical: Mapping[str, Any] | None = None,
    sub_group_size: int | None = None,
    on_unknown: OnUnknown = "refuse",
) -> KernelCounts:
    """Return what a Loopy kernel does, as exact functions of its sizes.

    *counting* is ``"executed"`` (what the hardware runs) or ``"paper"`` (each instruction over its own inames alone, as
    in the paper of Stevens and Klöckner: work of a group that does not use a hardware axis is counted once along it).

    *typical* states what the source does not tell, by the keywords that the refusals name: how many passes a loop makes
    whose bounds are loaded, how often a condition on data holds (from 0 to 1), the stride class of an array whose
    addresses are loaded, what a run of foreign code does (a mapping from properties to numbers).

    *sub_group_size* counts sub-groups (warps) of so many lanes, those with at least one active lane, in place of
    work-items. With *on_unknown* ``"report"``, instructions that cannot be counted are left out and listed in
    ``left_out`` of the answer, in place of a refusal.

    Loopy's passes and the counting run once for each program object; the answer is remembered as long as the object
    lives. Answers for the latest programs are kept longer, so that a program equal to one of them is not counted again.

    Raises :class:`KernelError` for a kernel that Loopy cannot prepare, :class:`UncountableError` for a construct that
    has no exact count, and :class:`ParameterError` for an option or a typical value that makes no sense.
    """
    return _counted(program, CountingOptions(counting, typical, sub_group_size, on_unknown))


def count_at(program: Program, options: CountingOptions, sizes: Mapping[str, Any]) -> KernelCounts:
    """Return what a Loopy kernel does, able to be evaluated at *sizes*.

    Like :func:`count` where islpy has barvinok. Without it, one size can still be counted exactly: once the kernel
    assumes its sizes to be just these, the counts are plain numbers. Raises :class:`EngineError` for arrays of sizes
    then, and :class:`ParameterError` for sizes that are missing, not integers or outside the kernel's assumptions.
    """
    if engine_is_exact() or has_arrays(sizes):
        counted = _counted(program, options)
        named = counted.kernel.contiguous & sizes.keys()
        return _counted(program, replace(options, layout=_layout(named, sizes))) if named else counted
    kernel = prepared(program, sizes)
    return options.count(_assuming(kernel, _integers(kernel, sizes)))


def _layout(names: Iterable[str], sizes: Mapping[str, Any]) -> tuple[tuple[str, int | None], ...]:
    """Return the strides and offsets called *names* with what they are among *sizes*, for options."""
    stated = {name: sizes[name] for name in sorted(names)}
    return tuple(
        (each, None if isinstance(size, np.ndarray) else integer_size(each, size)) for each, size in stated.items()
    )


def prepared(program: Program, sizes: Mapping[str, Any] | None = None) -> Kernel:
    """Return *program* prepared by Loopy's passes, which run once; raises :class:`KernelError`.

    Strides and offsets of arrays that are arguments are contiguous, but for those among *sizes*.
    """
    return _of_equal(program).kernel_of(program).laid_out(sizes or {})


def structure_of(case: Case) -> KernelStructure:
    """Return what the kernel of *case* does, as far as its sizes do not say.

    Of each of the latest :data:`STRUCTURES` programs, the latest is kept.
    """
    analysis = _of_equal(case.kernel)
    kernel = analysis.kernel_of(case.kernel)
    layout = _layout(kernel.contiguous.keys() & case.sizes.keys(), case.sizes)
    key = CountingOptions(typical=case.typical, layout=layout).key
    if analysis.structure is None or analysis.structure[0] != key:
        stated = Typical(case.typical or {}, item_named)
        if analysis.structure is None:
            _structured.append(weakref.ref(analysis))
        while len(_structured) > STRUCTURES:
            if (oldest := _structured.popleft()()) is not None:
                oldest.structure = None
        analysis.structure = key, KernelStructure(kernel.laid_out(dict(layout)), stated)
    return analysis.structure[1]


def prepared_group(program: Program) -> Group:
    """Return what a group of *program* takes after Loopy's passes; raises :class:`KernelError`."""
    return found_once(GROUP, program, (), lambda: group_of(prepared(program)))


def found_once(kind: ResultKind[Found], program: Program, asked: tuple[Any, ...], find: Callable[[], Found]) -> Found:
    """Return what *find* finds of *program*, which depends on nothing but that and *asked*: what was found before.

    Nothing is remembered, here or in files, of a program, or of what is *asked*, of which no text says what it is, nor
    where Loopy's switch for its caches, ``LOOPY_NO_CACHE`` or ``loopy.set_caching_enabled``, is off.
    """
    content = _remembered(program).content_of(program) if lp.CACHING_ENABLED else None
    key = None if content is None else content_key((kind.name, content, engine_is_exact(), *asked))
    return find() if key is None else recalled(kind, key, find)


def admitted_sizes(kernel: Kernel, sizes: Mapping[str, Any]) -> dict[str, int]:
    """Return *sizes* as integers; raises :class:`ParameterError` where *kernel* does not take or admit them.

    So it does for sizes that are too large for graphs.
    """
    superfluous = sorted(set(sizes) - kernel.parameters)
    if superfluous:
        takes = ", ".join(sorted(kernel.parameters)) or "none"
        raise ParameterError(f"kernel {kernel.name!r} has no size {', '.join(superfluous)}; its sizes are: {takes}")
    admitted = _integers(kernel, sizes)
    check_numbered(admitted)
    _equal_to(kernel, admitted)
    return admitted


def _counted(program: Program, options: CountingOptions) -> KernelCounts:
    analysis = _remembered(program)
    if options.key not in analysis.counted:
        analysis.counted[options.key] = found_once(
            COUNTS, program, (options,), lambda: options.count(prepared(program))
        )
    return analysis.counted[options.key]


# {{{ counting without barvinok


def _integers(kernel: Kernel, sizes: Mapping[str, Any]) -> dict[str, int]:
    missing = sorted(kernel.sizes - set(sizes))
    if missing:
        raise missing_sizes(missing, f"; kernel {kernel.name!r} takes it")
    values = {name: integer_size(name, size) for name, size in sizes.items()}
    return {name: values[name] for name in sorted(kernel.parameters & set(values))}


def _assuming(kernel: Kernel, sizes: Mapping[str, int]) -> Kernel:
    """Return *kernel* with the assumption that its sizes are *sizes*; its schedule stays what it is."""
    return replace(kernel, loopy_kernel=kernel.loopy_kernel.copy(assumptions=_equal_to(kernel, sizes)))


def _equal_to(kernel: Kernel, sizes: Mapping[str, int]) -> isl.BasicSet:
    """Return what *kernel* assumes where its sizes are *sizes*; raises :class:`ParameterError` if they cannot be."""
    equalities = " and ".join(f"{name} = {size}" for name, size in sizes.items())
    asked = isl.BasicSet(f"[{', '.join(sizes)}] -> {{ : {equalities} }}")
    assumptions = kernel.assumptions.intersect(asked.align_params(kernel.assumptions.get_space()))
    if assumptions.is_empty():
        assumed = SizeAssumptions(kernel.assumptions)
        raise not_admitted(sizes, assumed.on(assumed.parameters))
    return assumptions


# }}}


# {{{ remembering


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Analysis:
    """What is known of a program object. It must not refer to it, or it would live for ever."""

    kernel: Kernel | None = None
    content: str | None = ""
    """digest of the content, None where there is none; empty until it is asked for"""
    counted: dict[Hashable, KernelCounts] = field(default_factory=dict[Hashable, KernelCounts])
    structure: tuple[Hashable, KernelStructure] | None = None
    """the latest, with what it depends on beside the kernel"""

    def kernel_of(self, program: Program) -> Kernel:
        """Return *program* prepared by Loopy's passes, which run when first asked for."""
        if self.kernel is None:
            self.kernel = load_kernel(program)
        return self.kernel

    def content_of(self, program: Program) -> str | None:
        """Return the digest of the content of *program*, made when first asked for: it takes some milliseconds."""
        if self.content == "":
            self.content = content_key(program)
        return self.content


_structured: deque[weakref.ref[_Analysis]] = deque()
"""those with a structure, the latest last"""
_analyses: dict[int, _Analysis] = {}
"""by the hash that Python gives any object: hashing a program's content takes longer than an estimate"""


def _remembered(program: Any) -> _Analysis:
    key = object.__hash__(checked_program(program))
    if key not in _analyses:  # whenever the program is collected: whatever runs then, no code of ours is called
        weakref.finalize(program, _analyses.pop, key, None)
        _analyses[key] = _Analysis()
    return _analyses[key]


def _of_equal(program: Program) -> _Analysis:
    """Return what is known of *program*, or of an equal one among the latest :data:`PREPARED`: a search builds anew."""
    analysis = _remembered(program)
    if analysis.kernel is None and lp.CACHING_ENABLED and (content := analysis.content_of(program)) is not None:
        analysis = _analyses[object.__hash__(program)] = recent.shared("programs", PREPARED, content, analysis)
    return analysis


# }}}


# }}}
