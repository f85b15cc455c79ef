"""Recipes for changes of a kernel in Loopy: a phrase, and the Python function that makes the change.

What is printed is what is executed: a recipe's source is a module with a function ``change(knl)``, and
:meth:`ChangeRecipe.apply` runs this text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import lcm
from typing import Any, cast

import islpy as isl
import loopy as lp
import numpy as np
from loopy.kernel.data import IlpBaseTag
from loopy.kernel.instruction import Assignment, InstructionBase
from loopy.symbolic import get_dependencies
from pymbolic import var
from pymbolic.primitives import Subscript

from loopyperf import transform
from loopyperf.explain.candidates import ChangeCandidate, ChangeClass, LaunchSeen, parts_of, steps_of
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.transform import accumulations
from loopyperf.units import listed, number_of

MOST_NAMES = 3
"""maximum number of arrays named in a phrase"""
TILE = 16
"""iterations of a loop whose elements a tile holds"""
LONGEST_UNROLLED = 64
"""maximum length of a loop to unroll, or to load at once"""
ROWS_AT_ONCE = 8
"""rows of groups that run at the same time"""
LOOPY = frozenset(("assume", "split_iname", "tag_inames"))
"""Loopy's transformations that recipes use"""
OWN = frozenset(transform.__all__)
"""those of :mod:`loopyperf.transform`"""
INDENT = "    "
AXES = 3
"""axes of a grid, and of a group"""
PADDINGS = (1, 2)
"""numbers of padding elements per row of a tile"""
VALUE_DIVISORS = (2, 4)
"""numbers of work-items among which to divide the values of one"""
RESULTS_PER_ITEM = (2, 4)
"""numbers of results per work-item along an axis, or of accumulators"""
GROUP_SIZES = (128, 256)
"""numbers of work-items of larger groups"""
UPDATES_PER_ITEM = (16, 128)
"""numbers of atomic updates per work-item of larger grids"""
UNROLLED = 4
"""iterations of a long loop to unroll"""


@dataclass(frozen=True, slots=True)
class Call:
    """A transformation call that returns the changed kernel."""

    function: str
    """name of the function, e.g. ``"split_iname"``; one of :data:`LOOPY` or :data:`OWN`"""
    arguments: list[Any]
    """positional arguments after the kernel: numbers, strings, None, and lists and mappings of them"""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """keyword arguments"""

    def __str__(self) -> str:
        if self.function not in LOOPY | OWN or not all(name.isidentifier() for name in self.options):
            raise ValueError(f"not a transformation: {self.function!r}")  # calls are read from the cache
        given = ["knl", *map(_written, self.arguments)]
        given += [f"{name}={_written(value)}" for name, value in self.options.items()]
        module = "lp." if self.function in LOOPY else ""
        return f"knl = {module}{self.function}({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class ChangeRecipe:
    """How to make a change in Loopy."""

    change: str
    """the change, in the imperative"""
    calls: tuple[Call, ...] = ()
    """calls that make the whole change; empty if it needs manual work"""
    advice: tuple[str, ...] = ()
    """instructions for manual work, in sentences"""

    @property
    def source(self) -> str:
        """Return the text of a module with the function ``change(knl)``; empty if the change needs manual work."""
        if not self.calls:
            return ""
        body = [str(call) for call in self.calls]
        own = sorted({call.function for call in self.calls if call.function in OWN})
        imports = ["import loopy as lp"] if any(call.function in LOOPY for call in self.calls) else []
        imports += [f"from loopyperf.transform import {', '.join(own)}"] if own else []
        lines = [*imports, "", "def change(knl):", *(INDENT + call for call in body), f"{INDENT}return knl"]
        return "\n".join(lines) + "\n"

    @property
    def how(self) -> tuple[str, ...]:
        """Return the source, or else the instructions, one per line."""
        return tuple(self.source.splitlines()) or self.advice

    def apply(self, knl: Program) -> lp.TranslationUnit:
        """Return *knl* after the change: runs :attr:`source`. Raises Loopy's errors if a call fails."""
        names: dict[str, Any] = {}
        exec(self.source, names)  # the text of calls of known functions with literal arguments
        return names["change"](as_translation_unit(knl))


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return f"{{{', '.join(f'{_written(key)}: {_written(item)}' for key, item in pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, cast('list[Any]', value)))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def recipes_of(seen: LaunchSeen, candidate: ChangeCandidate) -> Iterator[ChangeRecipe]:
    """Yield the recipes for the change of *candidate*: those that Loopy can make first, then one for manual work."""
    maker = getattr(_Recipes(seen, candidate), ChangeClass(candidate.kind).name.lower())
    for recipe in cast("Iterator[ChangeRecipe]", maker()):
        assumed = " and ".join(str(call.arguments[0]) for call in recipe.calls if call.function == "assume")
        yield replace(recipe, change=f"{recipe.change} (assumes {assumed})") if assumed else recipe


@dataclass(frozen=True)
class _Recipes:
    """Makes the recipes for one change, with Loopy's names of axes, loops and arrays."""

    seen: LaunchSeen
    candidate: ChangeCandidate

    # {{{ names

    @cached_property
    def arrays(self) -> str:
        return listed(self.candidate.subject, MOST_NAMES)

    @cached_property
    def tags(self) -> Mapping[str, Sequence[str]]:
        """Return axis -> inames of the kernel as given."""
        found: dict[str, list[str]] = {}
        for iname, each in sorted(self.seen.given.inames.items()):
            for tag in each.tags:
                found.setdefault(str(tag), []).append(iname)
        return found

    def iname(self, axis: str) -> str:
        """Return the only iname along *axis* in the affected lines, or the loop *axis*; empty if it is ambiguous."""
        known = [axis] if axis[1:2] != "." else [iname for iname in self.tags.get(axis, []) if iname in self._launch]
        if len(known) > 1:
            around = self._around or self.seen.given.all_inames()
            known = [iname for iname in known if iname in around]
        return known[0] if len(known) == 1 and known[0] in self.seen.given.inames else ""

    @cached_property
    def _launch(self) -> frozenset[str]:
        """Return the inames that the launch maps to axes."""
        return frozenset(iname for inames in self.seen.inames.values() for iname in inames)

    @cached_property
    def _around(self) -> frozenset[str]:
        """Return the inames around the first affected line."""
        instructions = self.seen.kernel.loopy_kernel.id_to_insn
        known = [instructions[line].within_inames for line in self.candidate.lines if line in instructions]
        return frozenset(known[0]) if known else frozenset()

    def free_axis(self, kind: str) -> str:
        """Return the first axis of *kind*, ``"g"`` or ``"l"``, without an iname; empty if there are three already."""
        return next((f"{kind}.{axis}" for axis in range(AXES) if f"{kind}.{axis}" not in self.tags), "")

    def divided(self, numbers: Mapping[str, int]) -> tuple[Call, ...]:
        """Return the assumption that the numbers of values of inames are multiples of *numbers*, if the sizes allow it.

        Loopy then omits the conditions on the last values.
        """
        assumed = dict[str, int]()
        for iname, factor in numbers.items():
            names, length = self._sizes(iname), self.seen.length(iname)
            if len(names) == 1 and length and length % factor == 0 and self.seen.sizes[names[0]] % length == 0:
                per = self.seen.sizes[names[0]] // length * factor
                assumed[names[0]] = lcm(per, assumed.get(names[0], 1))
        every = {name: f"{name} mod {multiple} = 0" for name, multiple in assumed.items()}
        known = isl.Set.from_basic_set(self.seen.kernel.assumptions)
        return tuple(
            Call("assume", [text])
            for name, text in every.items()
            if not known.is_subset(isl.Set(f"[{name}] -> {{ : {text} }}").align_params(known.get_space()))
        )

    def _sizes(self, iname: str) -> list[str]:
        """Return the sizes on which the number of values of *iname* depends."""
        sizes, length = self.seen.sizes, self.seen.length(iname)
        twice = {name: replace(self.seen, sizes={**sizes, name: 2 * size}) for name, size in sizes.items()}
        return [name for name, seen in twice.items() if seen.length(iname) != length]

    @cached_property
    def _grid(self) -> Mapping[str, int]:
        """Return the inames of group axes, for :meth:`divided`: no group is incomplete."""
        return {name: 1 for axis, names in self.tags.items() if axis.startswith("g.") for name in names}

    @property
    def shares_local_memory(self) -> bool:
        return bool(self.seen.machine.local_memory)

    # }}}

    # {{{ memory accesses

    def coalesce(self) -> Iterator[ChangeRecipe]:
        """Yield recipes that map axis l.0 to the iname with unit stride, or load or store through a tile."""
        along, change = self.candidate.along, f"coalesce the accesses of {self.arrays}"
        if along == "l.0":
            yield self._aligned()
            return
        first, other = self.iname("l.0"), self.iname(along)
        if self.candidate.kind == ChangeClass.COALESCE and first and other:
            yield from self._remapped(f"{change}: map l.0 to {other} instead of {first}", first, other)
        if along:
            yield from self._through_tiles(change, first, other)
        yield _by_hand(
            f"{change} with another array layout",
            f"store {self.candidate.subject[0]} so that adjacent work-items access adjacent elements, "
            f"e.g. with the axis of {self.iname('l.0') or 'l.0'} last",
        )

    transpose = coalesce

    def _remapped(self, change: str, first: str, other: str) -> Iterator[ChangeRecipe]:
        along, free = self.candidate.along, self.free_axis("g")
        if along.startswith("l."):
            swapped = dict.fromkeys(self.tags["l.0"], along) | dict.fromkeys(self.tags[along], "l.0")
            yield ChangeRecipe(change, (Call("retag_inames", [swapped]),))
        elif not self.shares_local_memory and (along.startswith("g.") or self._is_parallel(along)):
            row = self._group[0]
            tagged = {"outer_tag": along} if along.startswith("g.") else {}
            split = Call("split_iname", [other, row], {**tagged, "inner_tag": "l.0"})
            for tag in (free, None) if free else (None,):  # or else a sequential loop
                retag = Call("retag_inames", [{first: tag, other: None}])
                yield ChangeRecipe(change, (*self.divided({other: row}), retag, split))

    def _is_parallel(self, loop: str) -> bool:
        """Return whether iterations of *loop*, which is around all instructions, do not depend on one another."""
        kernel = self.seen.given
        for insn in kernel.instructions:
            (name,) = insn.assignee_var_names() if isinstance(insn, Assignment) else ("",)
            if loop not in insn.within_inames or not name:
                return False
            if name not in kernel.temporary_variables and (
                not self._fills_boxes(name, [loop]) or self._passes_on(name)
            ):
                return False
        return not accumulations(kernel, loop)

    def _passes_on(self, array: str) -> bool:
        """Return whether loads of *array* may load what another work-item or iteration stores."""
        stores = [insn for insn in self.seen.given.instructions if array in insn.assignee_var_names()]
        stored = {cast("Any", insn).assignee for insn in stores if isinstance(insn, Assignment)}
        return bool(stores) and (len(stored) != 1 or not stored >= set(self._accesses(array)))

    def _accesses(self, array: str) -> list[Subscript]:
        """Return the elements of *array* that are loaded, as subscripts."""
        parts = [part for insn in self.seen.given.instructions for part in parts_of(insn)]
        return [part for part in parts if isinstance(part, Subscript) and str(part.aggregate) == array]

    def _aligned(self) -> ChangeRecipe:
        """Return the recipe for accesses that have unit stride along l.0 already, but start within a sector."""
        sectors, first = f"{self.seen.words.sector}s", self.iname("l.0") or "l.0"
        return _by_hand(
            f"align the accesses of {self.arrays} with {sectors}",
            f"pad {self.arrays} so that rows start at {sectors}, or use longer groups along {first}",
        )

    def _through_tiles(self, change: str, first: str, other: str) -> Iterator[ChangeRecipe]:
        """Yield recipes that load or store an array through a tile in local memory."""
        array = self.candidate.subject[0]
        inames = [name for name in (first, other) if name]
        calls = self.divided(self._grid)
        if other and not self.seen.given.inames[other].tags and self.seen.length(other) > LONGEST_UNROLLED:
            calls = (*self.divided({**self._grid, other: TILE}), Call("split_iname", [other, TILE]))
            inames[-1] = f"{other}_inner"
        if not inames or self._passes_on(array):
            return
        if not self._accesses(array) and not self._fills_boxes(array, [name for name in (first, other) if name]):
            return
        tile = Call("through_tile", [array, inames, self._group])
        yield ChangeRecipe(f"{change} through a tile in {self.seen.words.local}", (*calls, tile))

    @property
    def _group(self) -> list[int]:
        """Return the number of work-items of a group along each axis."""
        shape = self.seen.machine.representative.example.shape
        return [shape.get(axis, 1) for axis in range(len(shape) or 1)]

    def _fills_boxes(self, array: str, inames: Sequence[str]) -> bool:
        """Return whether each store of *array* writes all elements of a box, if *inames* take all their values."""
        stores = [insn for insn in self.seen.given.instructions if array in insn.assignee_var_names()]
        for insn in stores:
            along: list[str] = []
            for index in cast("Any", insn).assignee.index_tuple if isinstance(insn, Assignment) else ():
                found = steps_of(index, inames)
                swept = [name for name in inames if name in get_dependencies(index)]
                if len(swept) > 1 or any(found.get(var(name)) != 1 for name in swept):
                    return False
                along += swept
            if insn.predicates or sorted(along) != sorted(inames):
                return False
        return True

    def pad(self) -> Iterator[ChangeRecipe]:
        (name,) = self.candidate.subject
        for padding in PADDINGS:
            call = Call("padded_rows", [name, padding])
            yield ChangeRecipe(f"pad the rows of {name} by {number_of(padding, 'element')}", (call,))
        yield _by_hand(
            f"access {name} without bank conflicts",
            f"store {name} so that the lanes of a {self.seen.words.warp} access different banks",
        )

    def wider_rows(self) -> Iterator[ChangeRecipe]:
        lanes, items = self.candidate.amount, self.seen.machine.work_items
        first, second = self.iname("l.0"), self.iname("l.1")
        if first and second:
            yield from self._remapped(f"map l.0 to {second} instead of {first}", first, second)
        yield _by_hand(
            f"use groups of {lanes} × {items // lanes} work-items, so that a {self.seen.words.warp} is one row",
            f"in your function: the call of lp.split_iname that makes {first or 'the iname of l.0'} needs length "
            f"{lanes}, and that of {second or 'the iname of l.1'} {items // lanes}",
        )

    def local_tile(self) -> Iterator[ChangeRecipe]:
        """Yield recipes in which the work-items of a group share loads, or the results of a work-item."""
        change, splits, tiles = f"share the loads of {self.arrays} in a group", dict[str, int](), list[Call]()
        for array in (array for array in self.candidate.subject if not self._passes_on(array)):
            known = {name for subscript in self._accesses(array) for name in get_dependencies(subscript.index)}
            inames = sorted(iname for iname in known & self.seen.given.all_inames() if self.seen.length(iname) > 1)
            loops = [iname for iname in inames if not self.seen.given.inames[iname].tags]
            own = [iname for iname in inames if iname in self._work_items]
            splits |= {iname: TILE for iname in loops if own and self.seen.length(iname) > LONGEST_UNROLLED}
            swept = [f"{iname}_inner" if iname in splits else iname for iname in (*own, *loops)]
            tiles += [Call("through_tile", [array, swept, self._group])] if own else []
        if tiles:
            calls = (Call("split_iname", [iname, length]) for iname, length in splits.items())
            tiled = f"{change} through tiles in {self.seen.words.local}"
            yield ChangeRecipe(tiled, (*self.divided({**self._grid, **splits}), *calls, *tiles))
        yield from (recipe for recipe in self.several_results() if recipe.calls)
        yield _by_hand(change, "in your function: lp.add_prefetch for the loops in which loads repeat")

    @cached_property
    def _work_items(self) -> frozenset[str]:
        """Return the inames along the axes of a group."""
        return frozenset(name for axis, names in self.tags.items() if axis.startswith("l.") for name in names)

    def cache_blocks(self) -> Iterator[ChangeRecipe]:
        """Yield recipes that change the order of groups, so that those that run at once share more data."""
        change, free = f"increase the reuse of {self.arrays} among concurrent groups", self.free_axis("g")
        (column, *rows), axes = [self._only(f"g.{axis}") for axis in range(AXES)], [f"g.{axis}" for axis in range(AXES)]
        for row, axis in zip(rows, axes[1:], strict=True):
            if column and row and free:
                split = Call("split_iname", [row, ROWS_AT_ONCE], {"outer_tag": free, "inner_tag": axes[0]})
                calls = (*self.divided({row: ROWS_AT_ONCE}), Call("retag_inames", [{column: axis, row: None}]), split)
                yield ChangeRecipe(f"{change}: run {ROWS_AT_ONCE} values of {row} at the same time", calls)
            if column and row:
                swap = Call("retag_inames", [{column: axis, row: axes[0]}])
                yield ChangeRecipe(f"{change}: number the groups along {row} first", (swap,))
        yield _by_hand(
            change, "in your function: use larger tiles, or order the loops so that data is used again sooner"
        )

    # }}}

    # {{{ registers and groups

    def fewer_values(self) -> Iterator[ChangeRecipe]:
        free = self.free_axis("g")
        for loop in self.candidate.subject if free else ():
            length = self.seen.length(loop)
            tag = "ilp" if any(isinstance(tag, IlpBaseTag) for tag in self.seen.given.inames[loop].tags) else "unr"
            for values in (length // parts for parts in VALUE_DIVISORS if length % parts == 0 and length > parts):
                change = f"compute {values} values of {loop} per work-item instead of {length}"
                yield ChangeRecipe(change, _resplit(loop, values, outer_tag=free, inner_tag=tag))
        yield self._fewer_registers()

    def _fewer_registers(self) -> ChangeRecipe:
        return _by_hand(
            "keep fewer values at once per work-item",
            "in your function: unroll and prefetch less; each live value takes a register",
        )

    def registers(self) -> Iterator[ChangeRecipe]:
        indices = {
            iname
            for insn in self.seen.given.instructions
            if set(self.candidate.subject) & (set(insn.assignee_var_names()) | insn.read_dependency_names())
            for iname in insn.within_inames | insn.reduction_inames()
            if not self.seen.given.inames[iname].tags and 1 < self.seen.length(iname) <= LONGEST_UNROLLED
        }
        if indices:
            unrolled = Call("tag_inames", [dict.fromkeys(sorted(indices), "unr")])
            loops = listed(sorted(indices), MOST_NAMES)
            yield ChangeRecipe(f"keep {self.arrays} in registers: unroll {loops}", (unrolled,))
        if self.seen.machine.spilled:
            yield self._fewer_registers()
            return
        reasons = [f"{array.name}: {array.reason}" for array in self.seen.machine.unsure.values()]
        yield _by_hand(f"keep {self.arrays} in registers", *reasons, "use constant indices only")

    def smaller_groups(self) -> Iterator[ChangeRecipe]:
        size, items, free = self.candidate.amount, self.seen.machine.work_items, self.free_axis("g")
        change = f"use groups of {size} work-items instead of {items}"
        axis = max((axis for axis in self.tags if axis.startswith("l.")), default="")
        iname = self.iname(axis) if axis else ""
        length = self.seen.length(iname) if iname else 0
        if size < items and free and length * size % items == 0 and not self.shares_local_memory:
            yield ChangeRecipe(change, _resplit(iname, length * size // items, outer_tag=free, inner_tag=axis))
        yield _by_hand(
            f"give the grid many more groups than there are {self.seen.words.core}s",
            "in your function: split loops by less, or map another loop to a group axis",
        )

    def larger_groups(self) -> Iterator[ChangeRecipe]:
        items, iname, free = self.seen.machine.work_items, self._only("g.0"), self.free_axis("l")
        numbers = [size // items for size in GROUP_SIZES if size > items]
        for number in numbers:
            if iname and free and self.seen.length(iname) >= number and not self.shares_local_memory:
                calls = (*self.divided({iname: number}), *_resplit(iname, number, outer_tag="g.0", inner_tag=free))
                yield ChangeRecipe(f"use groups of {items * number} work-items instead of {items}", calls)
        if not numbers:
            yield from (recipe for recipe in self.several_results() if recipe.calls)
        yield _by_hand(
            "use larger groups, or compute several results per work-item",
            "in your function: split the loops of the group axes by more",
        )

    def fewer_launches(self) -> Iterator[ChangeRecipe]:
        yield _by_hand(
            "do more work per launch",
            "fuse the kernel with others (lp.fuse_kernels), or process several inputs in one launch",
        )

    # }}}

    # {{{ waiting

    def reduce_once(self) -> Iterator[ChangeRecipe]:
        (loop,), first = self.candidate.subject, self.iname("l.0") or "l"
        change = f"reduce across work-items once, after the loop over {loop}, instead of in each iteration"
        if loop in self.seen.given.inames:
            yield ChangeRecipe(change, (Call("sum_first", [loop]),))
        yield _by_hand(
            change,
            f"in your function: sum over {loop} in each work-item first: sum({first}, sum({loop}, x)), not the "
            "other way round",
        )

    def several_results(self) -> Iterator[ChangeRecipe]:
        """Yield recipes in which a group does the work of several."""
        axes = [iname for axis in ("g.0", "g.1") if (iname := self._only(axis)) and self.seen.length(iname) > 1]
        shared = f", which share loads from {self.seen.words.local}" if self.shares_local_memory else ""
        for results in RESULTS_PER_ITEM:
            numbers = dict.fromkeys(axes, results)
            if axes and all(self.seen.length(iname) >= results for iname in axes):
                words = " × ".join(map(str, numbers.values()))
                calls = (*self.divided(numbers), Call("several_per_work_item", [numbers]))
                yield ChangeRecipe(f"compute {words} results per work-item{shared}", calls)
        yield _by_hand(
            f"compute several results per work-item{shared}",
            "in your function: split a loop of results once more, with the tag ilp for the inner one",
        )

    def _only(self, axis: str) -> str:
        known = self.tags.get(axis, [])
        return known[0] if len(known) == 1 else ""

    def partial_sums(self) -> Iterator[ChangeRecipe]:
        for results in RESULTS_PER_ITEM:
            for loop in (loop for loop in self.candidate.subject if self.seen.length(loop) >= results):
                calls = (*self.divided({loop: results}), Call("partial_sums", [loop, results]))
                yield ChangeRecipe(f"reduce over {loop} in {results} accumulators", calls)
        yield from self.several_results()

    # }}}

    # {{{ instructions

    def divergence(self) -> Iterator[ChangeRecipe]:
        modulus, first = self.candidate.amount, self.iname("l.0")
        change = f"let all lanes of a {self.seen.words.warp} take the same branch"
        for free, unit in ((self.free_axis("g"), "groups"), (self.free_axis("l"), "work-items")):
            if modulus and first and free and self.seen.length(first) % modulus == 0:
                calls = _resplit(first, modulus, outer_tag="l.0", inner_tag=free)
                yield ChangeRecipe(f"{change}: own {unit} for each branch of {self.candidate.subject[0]}", calls)
        yield _by_hand(change, f"sort the work, so that neighboring values of {first or 'l.0'} meet the same condition")

    def precision(self) -> Iterator[ChangeRecipe]:
        names = self.candidate.subject
        of = f"{listed(names, MOST_NAMES)} in" if names else "literals, casts and quotients of integers in"
        call = Call("in_single_precision", [list(names)] if names else [])
        yield ChangeRecipe(f"use {of} single precision", (call,))

    def fewer_atomics(self) -> Iterator[ChangeRecipe]:
        for insn in self.seen.given.instructions:
            is_update = isinstance(insn, Assignment) and bool(insn.atomicity)
            own = sorted(self._work_items & insn.within_inames)
            depends = {
                name for expression in (*insn.assignees, *insn.predicates) for name in get_dependencies(expression)
            }
            if not is_update or not own or insn.id not in self.candidate.lines:
                continue
            if self._has_constant_length(insn):
                change = f"update a copy of {self.arrays} in {self.seen.words.local} for each group, and add the copies"
                copies = Call("private_histogram", [insn.id, self._group])
                yield ChangeRecipe(change, (copies,))
                iname = self._only("g.0")
                for updates in (
                    updates for updates in UPDATES_PER_ITEM if iname and self.seen.length(iname) >= updates
                ):
                    calls = (*self.divided({iname: updates}), *_resplit(iname, updates, outer_tag="g.0"), copies)
                    yield ChangeRecipe(f"{change}; update {updates} times per work-item", calls)
            if not depends & set(own):
                yield ChangeRecipe(
                    f"sum in a tree in {self.seen.words.local}, and update {self.arrays} once per group",
                    (Call("reduce_in_group", [insn.id, own]),),
                )
        yield _by_hand(
            f"update a copy of {self.arrays} for each group",
            f"in your function: update an array in {self.seen.words.local}, and add it to {self.arrays} at the end",
        )

    def _has_constant_length(self, update: InstructionBase) -> bool:
        """Return whether only *update* accesses its array, which has one axis of constant length, more than 1."""
        (name,) = update.assignee_var_names()
        if any(name in insn.dependency_names() for insn in self.seen.given.instructions if insn.id != update.id):
            return False
        shape = getattr(self.seen.given.arg_dict.get(name), "shape", None) or ()
        return len(shape) == 1 and isinstance(shape[0], int | np.integer) and int(shape[0]) > 1

    def redundant(self) -> Iterator[ChangeRecipe]:
        removed = list(self.candidate.subject)
        left = {axis: [iname for iname in inames if iname not in removed] for axis, inames in sorted(self.tags.items())}
        tags: dict[str, str] = {}
        for kind in "gl":
            axes = [axis for axis, inames in left.items() if axis.startswith(f"{kind}.") and inames]
            for index, axis in enumerate(axes):
                tags |= {iname: f"{kind}.{index}" for iname in left[axis] if axis != f"{kind}.{index}"}
        yield ChangeRecipe(
            f"remove {listed(removed, MOST_NAMES)}, so that each result is computed once",
            (Call("without_inames", [removed, tags]),),
        )

    def unroll(self) -> Iterator[ChangeRecipe]:
        loops = [loop for loop in self.candidate.subject if loop in self.seen.given.inames]
        lengths = {loop: self.seen.length(loop) for loop in loops if not self.seen.given.inames[loop].tags}
        change = f"unroll the loop over {listed(loops or self.candidate.subject, MOST_NAMES)}"
        whole = {loop: "unr" for loop, length in lengths.items() if 1 < length <= TILE and not self._sizes(loop)}
        longer = [loop for loop, length in lengths.items() if loop not in whole and length >= UNROLLED]
        calls = tuple(Call("split_iname", [loop, UNROLLED], {"inner_tag": "unr"}) for loop in longer)
        calls = (*self.divided(dict.fromkeys(longer, UNROLLED)), *calls)
        calls = (*([Call("tag_inames", [whole])] if whole else []), *calls)
        yield ChangeRecipe(change, calls, ("in your function: unroll inner loops of constant length",))

    # }}}


def _by_hand(change: str, *advice: str) -> ChangeRecipe:
    return ChangeRecipe(change, advice=advice)


def _resplit(iname: str, number: int, **tags: str) -> tuple[Call, ...]:
    """Return the calls that split a tagged iname."""
    return Call("retag_inames", [{iname: None}]), Call("split_iname", [iname, number], tags)
