"""Describe how to make a change in Loopy: a phrase, the calls, and the transformed program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import loopy as lp
import numpy as np
from loopy.kernel.data import IlpBaseTag, InameImplementationTag, TemporaryVariable

from loopyperf.compiler.machine_program import MachineLaunch
from loopyperf.device.vocabulary import Vocabulary
from loopyperf.explain.candidates import ChangeCandidate, ChangeClass
from loopyperf.kernel import Kernel, as_translation_unit
from loopyperf.units import listed, number_of

NAMED = 3
"""maximum number of arrays named in a phrase"""
UNTAG = "untag_inames"
ROW = 256
"""maximum number of work-items along the new first axis"""


@dataclass(frozen=True, slots=True)
class Call:
    """A Loopy transformation call that returns the changed kernel."""

    function: str
    """name of the Loopy function, e.g. ``"split_iname"``"""
    arguments: tuple[Any, ...]
    """positional arguments after the kernel"""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """keyword arguments"""

    def __str__(self) -> str:
        given = [_written(each) for each in self.arguments]
        given += [f"{name}={_written(value)}" for name, value in self.options.items()]
        return f"knl = lp.{self.function}(knl, {', '.join(given)})"

    def on(self, program: Any) -> Any:
        """Return *program* after the call."""
        if self.function == UNTAG:  # takes a kernel, not a translation unit
            untag = cast("Callable[[Any, str, type], Any]", getattr(lp, UNTAG))
            return program.with_kernel(untag(program.default_entrypoint, self.arguments[0], InameImplementationTag))
        return getattr(lp, self.function)(program, *self.arguments, **self.options)


def _written(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value).replace("'", '"')


@dataclass(frozen=True, slots=True)
class ChangeRecipe:
    """How to make a change in Loopy."""

    change: str
    """the change, in the imperative"""
    calls: tuple[Call, ...] = ()
    """calls that make the whole change; empty if it needs manual work"""
    advice: tuple[str, ...] = ()
    """instructions for manual work, in sentences or code with placeholders"""

    @property
    def how(self) -> tuple[str, ...]:
        """Return the instructions, one per line."""
        untagged = [str(call.arguments[0]) for call in self.calls if call.function == UNTAG]
        first = [f"remove the tags of {' and '.join(untagged)} (lp.untag_inames), then:"] if untagged else []
        return (*first, *(str(call) for call in self.calls if call.function != UNTAG)) or self.advice

    def applied_to(self, program: Any) -> Any:
        """Return *program* after the calls; raises Loopy's errors if a call fails."""
        changed = as_translation_unit(program)
        for call in self.calls:
            changed = call.on(changed)
        return changed


@dataclass(frozen=True)
class InLoopy:
    """Builds the recipes for changes of a kernel."""

    kernel: Kernel
    words: Vocabulary

    @property
    def rows(self) -> Mapping[str, int]:
        """Return the row length in elements of each local array with several rows of known length."""
        names = self.kernel.loopy_kernel.temporary_variables
        found = {name: strides_of(self.kernel, name) for name in names}
        return {name: strides[-2] for name, strides in found.items() if len(strides) > 1 and strides[-1] == 1}

    def recipe(self, machine: MachineLaunch, candidate: ChangeCandidate) -> ChangeRecipe:
        """Return the recipe for the change of *candidate* in the launch *machine*."""
        return _Launch(self.kernel, self.words, machine, candidate).recipe()


@dataclass(frozen=True)
class _Launch:
    """Builds the recipe for one change, with Loopy's names of axes, loops and arrays."""

    kernel: Kernel
    words: Vocabulary
    machine: MachineLaunch
    candidate: ChangeCandidate

    def recipe(self) -> ChangeRecipe:
        makers = {
            ChangeClass.COALESCE: self._coalesce,
            ChangeClass.TRANSPOSE: self._transpose,
            ChangeClass.PAD: self._pad,
            ChangeClass.WIDER_ROWS: self._wider_rows,
            ChangeClass.FEWER_VALUES: self._fewer_values,
            ChangeClass.REGISTERS: self._registers,
            ChangeClass.OCCUPANCY: self._occupancy,
            ChangeClass.SMALLER_GROUPS: self._smaller_groups,
            ChangeClass.REDUCE_ONCE: self._reduce_once,
            ChangeClass.DOUBLE_BUFFER: self._double_buffer,
            ChangeClass.REGISTER_TILE: self._register_tile,
            ChangeClass.LARGER_TILE: self._larger_tile,
            ChangeClass.VECTORS: self._vectors,
            ChangeClass.UNROLL: self._unroll,
            ChangeClass.CACHE_BLOCKS: self._cache_blocks,
        }
        return makers[self.candidate.kind]()

    # {{{ names

    @cached_property
    def arrays(self) -> str:
        return listed(self.candidate.subject, NAMED)

    @cached_property
    def inames(self) -> Mapping[str, Sequence[str]]:
        """Return the inames along each axis, by axis, e.g. ``"l.0"``."""
        launch = next(each for each in self.kernel.launches if each.name == self.machine.name)
        found: dict[str, list[str]] = {}
        for iname, (sort, axis) in launch.numbering.items():
            found.setdefault(f"{sort[0]}.{axis}", []).append(iname)
        return found

    def _iname(self, axis: str) -> str:
        """Return the only iname along *axis* in the affected lines, or the loop *axis*; empty if it is ambiguous."""
        known = self.inames.get(axis, [] if axis[1:2] == "." else [axis])
        instructions = self.kernel.loopy_kernel.id_to_insn
        around = [instructions[line].within_inames for line in self.candidate.lines if line in instructions]
        if len(known) > 1 and around:
            known = [each for each in known if each in around[0]]
        return known[0] if len(known) == 1 else ""

    @property
    def _free_group_axis(self) -> str:
        return f"g.{len(self.machine.grid)}"

    # }}}

    def _coalesce(self) -> ChangeRecipe:
        """Return the recipe that maps axis l.0 to the iname with unit stride."""
        along, change = self.candidate.along, f"coalesce the accesses of {self.arrays}"
        if along == "l.0":
            return self._aligned()
        first, other = self._iname("l.0"), self._iname(along)
        if along.startswith("l.") and first and other and not self.machine.local_memory:
            calls = (_untagged(first), _untagged(other), Call("tag_inames", ({first: along, other: "l.0"},)))
            return ChangeRecipe(f"{change}: map l.0 to {other} instead of {first}", calls)
        if along.startswith("g.") and first and other and len(self.inames) <= NAMED:
            calls = (
                _untagged(first),
                _untagged(other),
                Call("tag_inames", ({first: self._free_group_axis},)),
                Call(
                    "split_iname", (other, min(ROW, self.machine.work_items)), {"outer_tag": along, "inner_tag": "l.0"}
                ),
            )
            return ChangeRecipe(f"{change}: map l.0 to {other} instead of {first}", calls)
        return self._tile_of_global(change)

    def _transpose(self) -> ChangeRecipe:
        if self.candidate.along == "l.0":
            return self._aligned()
        return self._tile_of_global(f"coalesce the accesses of {self.arrays}")

    def _aligned(self) -> ChangeRecipe:
        """Return the recipe for accesses that have unit stride along l.0 already, but start within a sector."""
        sectors, first = f"{self.words.sector}s", self._iname("l.0") or "l.0"
        return ChangeRecipe(
            f"align the accesses of {self.arrays} with {sectors}",
            advice=(f"pad {self.arrays} so that rows start at {sectors}, or use longer groups along {first}",),
        )

    def _tile_of_global(self, change: str) -> ChangeRecipe:
        array, along = self.candidate.subject[0], self.candidate.along
        first, other = self._iname("l.0"), self._iname(along)
        if not along:
            return ChangeRecipe(
                f"{change} with another array layout",
                advice=(
                    f"store {array} so that adjacent work-items access adjacent elements, "
                    f"e.g. with the axis of {first or 'l.0'} last",
                ),
            )
        inames, lanes = [name for name in (first, other) if name], f"with lanes along {other or along}"
        options = {"default_tag": "l.auto"}
        call, verb = Call("add_prefetch", (array, inames), options), "load"
        if not self._is_loaded(array):
            call, verb = Call("buffer_array", (array, inames), {"init_expression": "0", **options}), "store"
        return ChangeRecipe(
            f"{change} through a tile in {self.words.local}",
            advice=(str(call), f"{verb} the tile {lanes}, and pad its rows by one element"),
        )

    def _is_loaded(self, array: str) -> bool:
        """Return whether an affected line loads *array*."""
        instructions = self.kernel.loopy_kernel.id_to_insn
        return any(
            array in instructions[line].read_dependency_names() for line in self.candidate.lines if line in instructions
        )

    def _pad(self) -> ChangeRecipe:
        (name,), padding = self.candidate.subject, self.candidate.amount
        strides = strides_of(self.kernel, name)
        row = strides[-2]
        longer = [stride // row * (row + padding) if stride >= row else stride for stride in strides]
        call = Call("tag_array_axes", (name, ", ".join(f"stride:{stride}" for stride in longer)))
        return ChangeRecipe(f"pad the rows of {name} by {number_of(padding, 'element')}", (call,))

    def _wider_rows(self) -> ChangeRecipe:
        lanes, items = self.candidate.amount, self.machine.work_items
        first = self._iname("l.0") or "l.0"
        return ChangeRecipe(
            f"use groups of {lanes} × {items // lanes} work-items, so that a {self.words.warp} is one row",
            advice=(
                f'split the iname of {first} by {lanes} with inner_tag="l.0", and that of l.1 by {items // lanes}',
            ),
        )

    def _fewer_values(self) -> ChangeRecipe:
        (loop,), number = self.candidate.subject, self.candidate.amount
        tag = "ilp" if _is_ilp(self.kernel, loop) else "unr"
        split = Call("split_iname", (loop, number), {"outer_tag": self._free_group_axis, "inner_tag": tag})
        return ChangeRecipe(
            f"compute {number} values of {loop} per work-item instead of {self.candidate.before}",
            (_untagged(loop), split),
        )

    def _registers(self) -> ChangeRecipe:
        if self.machine.spilled:
            return ChangeRecipe(
                "compute fewer values at once per work-item to avoid spills",
                advice=("prefetch or unroll less: each live value takes a register",),
            )
        reasons = [f"{each.name}: {each.reason}" for each in self.machine.unsure.values()]
        return ChangeRecipe(
            f"keep {self.arrays} in registers",
            advice=(
                *reasons,
                'use constant indices only: unroll the loops, knl = lp.tag_inames(knl, {"...": "unr"})',
            ),
        )

    def _occupancy(self) -> ChangeRecipe:
        groups = self.candidate.amount
        advice = {
            "registers": "keep fewer values per work-item, e.g. unroll or prefetch less",
            "local memory": f"use smaller tiles in {self.words.local}, or a smaller data type",
        }
        return ChangeRecipe(
            f"fit {groups} groups on each {self.words.core}",
            advice=tuple(advice[each] for each in self.candidate.subject if each in advice),
        )

    def _smaller_groups(self) -> ChangeRecipe:
        size, first = self.candidate.amount, self._iname("l.0")
        change = f"use groups of {size} work-items instead of {self.machine.work_items}"
        if not first or any(axis.startswith("l.") and axis != "l.0" for axis in self.inames):
            return ChangeRecipe(
                change, advice=(f"split the inames of l.0 and l.1 by less: {size} work-items in total",)
            )
        split = Call("split_iname", (first, size), {"outer_tag": self._free_group_axis, "inner_tag": "l.0"})
        return ChangeRecipe(change, (_untagged(first), split))

    def _reduce_once(self) -> ChangeRecipe:
        (loop,), first = self.candidate.subject, self._iname("l.0") or "l"
        return ChangeRecipe(
            f"reduce across work-items once, after the loop over {loop}, instead of in each iteration",
            advice=(f"sum over {loop} in each work-item first: sum({first}, sum({loop}, x)), not the other way round",),
        )

    def _double_buffer(self) -> ChangeRecipe:
        return ChangeRecipe(
            f"double-buffer the tiles {self.arrays}, with one barrier per iteration",
            advice=("give the tile a first axis of length 2, indexed by the iteration modulo 2",),
        )

    def _register_tile(self) -> ChangeRecipe:
        shape = self.machine.representative.example.shape
        names = {axis: name for axis in (0, 1) if (name := self._iname(f"l.{axis}"))}
        splits = tuple(
            str(Call("split_iname", (name, shape.get(axis, 1)), {"outer_tag": "ilp", "inner_tag": f"l.{axis}"}))
            for axis, name in names.items()
        )
        return ChangeRecipe(
            f"compute 2 × 2 elements per work-item, which share loads from {self.words.local}",
            advice=(f"split into tiles twice as long, leave {listed(names.values(), NAMED)} untagged, then:", *splits),
        )

    def _larger_tile(self) -> ChangeRecipe:
        return ChangeRecipe(
            f"double the edge length of the tiles {self.arrays}",
            advice=("split by twice the length before lp.add_prefetch; each work-item then computes several elements",),
        )

    def _vectors(self) -> ChangeRecipe:
        number, first = self.candidate.amount, self._iname("l.0") or "i_inner"
        return ChangeRecipe(
            f"access {number} neighboring elements of {self.arrays} at once",
            advice=(
                f'knl = lp.split_iname(knl, "{first}", {number}, outer_tag="l.0", inner_tag="vec")',
                f"give the arrays a last axis of length {number}, tagged vec: lp.split_array_dim, lp.tag_array_axes",
            ),
        )

    def _unroll(self) -> ChangeRecipe:
        loops = [each for each in self.candidate.subject if each in self.kernel.loopy_kernel.all_inames()]
        return ChangeRecipe(
            f"unroll the loop over {listed(loops or self.candidate.subject, NAMED)}",
            tuple(Call("split_iname", (each, 4), {"inner_tag": "unr"}) for each in loops),
            ("unroll inner loops of constant length",),
        )

    def _cache_blocks(self) -> ChangeRecipe:
        return ChangeRecipe(
            f"increase the reuse of {self.arrays} among concurrent groups",
            advice=("use larger tiles, or split a group axis so that neighbors along both axes run concurrently",),
        )


def strides_of(kernel: Kernel, name: str) -> tuple[int, ...]:
    """Return the strides of a temporary in elements, one per axis; empty if they are unknown."""
    array = kernel.loopy_kernel.temporary_variables.get(name)
    tags = cast("tuple[Any, ...]", (array.dim_tags or ()) if isinstance(array, TemporaryVariable) else ())
    strides = [getattr(each, "stride", None) for each in tags]
    return tuple(int(each) for each in strides if each is not None) if _are_numbers(strides) else ()


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(each, int | np.integer) for each in values)


def _untagged(iname: str) -> Call:
    return Call(UNTAG, (iname,))


def _is_ilp(kernel: Kernel, iname: str) -> bool:

    known = kernel.loopy_kernel.inames.get(iname)
    return known is not None and any(isinstance(tag, IlpBaseTag) for tag in known.tags)
