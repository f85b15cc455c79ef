"""Live ranges of values and the register pressure of a graph.

A value is live from its definition to its last use in program order. The live range of a loop-carried value wraps
around the end of the loop, and that of a value defined before a loop that uses it covers the whole loop. Values that
reach the same operand, such as a sum before and inside a loop, share one register. Each loop counts as one iteration,
but the elements of a private array that different iterations define are all live together. A constant is moved into
its register right before its first use, or before the loop that uses it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate
from math import prod
from operator import itemgetter

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode, common_depth, placed

# {{{ positions in the program text, in which each instruction appears once


class ProgramText:
    """The positions of instructions and loops in the program text of a graph."""

    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.order = [place for place, _ in placed(graph.body)]
        """instruction indices in program order"""
        self.position = {place: position for position, place in enumerate(self.order)}
        """instruction index -> position"""
        self._spans = {loop.number: span for loop, span in _spans(graph.body, 0)}

    def span(self, loop: Loop) -> range:
        """Return the positions inside *loop*."""
        return self._spans[loop.number]


def _spans(body: Sequence[Item], position: int) -> Iterator[tuple[Loop, range]]:
    """Yield each loop in *body*, which starts at *position*, with the range of its positions."""
    for item in body:
        if isinstance(item, Loop):
            length = sum(1 for _ in placed(item.body))
            yield item, range(position, position + length)
            yield from _spans(item.body, position)
            position += length
        else:
            position += 1


# }}}


# {{{ live values


REGISTER = 32
"""bits of a register"""
POINTERS = 32
"""maximum registers for pointers and loop counters; further ones are recomputed in each iteration"""
WITHOUT = (Opcode.STORE, Opcode.BARRIER, Opcode.COMPARE, Opcode.BRANCH, Opcode.FCHK)
"""kinds of instructions that define no register; predicates have a separate register file"""


class Lives:
    """Live ranges of the values of a graph. Several instructions may define one value."""

    def __init__(self, graph: Idg, like: "Lives | None" = None) -> None:
        """Compute the live ranges of *graph*, reusing the values of *like*, which may differ only in program order."""
        self.graph, self.text = graph, ProgramText(graph)
        self.web = _webs(graph) if like is None else like.web
        """for each instruction, the value that it defines, identified by one of its defining instructions"""
        self.widths = result_registers(graph) if like is None else like.widths
        """registers of the result of each instruction"""
        intervals: dict[int, list[Span]] = {}
        for edge in graph.edges:
            if edge.through == Dependence.DATA:
                intervals.setdefault(self.web[edge.source], []).extend(_live_spans(self.text, edge))
        self._intervals = {web: _united(spans) for web, spans in intervals.items()}
        self.defined: dict[int, list[int]] = {}
        """value -> positions of its definitions"""
        for place, web in enumerate(self.web):
            self.defined.setdefault(web, []).append(self.text.position[place])
        self.taken = self._registers_taken() if like is None else like.taken
        """value -> its registers, once without and once with those of pointers and loop counters"""

    def _registers_taken(self) -> tuple[dict[int, int], dict[int, int]]:
        taken = dict.fromkeys(self.web, 0), dict.fromkeys(self.web, 0)
        for place, (web, each) in enumerate(zip(self.web, self.graph.instructions, strict=True)):
            registers = self.widths[place] * _copies(self.graph, place)
            for found in taken[each.kind == Opcode.INTEGER :]:
                found[web] = max(found[web], registers)
        return taken

    @cached_property
    def registers(self) -> int:
        """Return the peak number of live 32-bit registers of a work-item.

        Registers for sizes and for addresses before the first iteration are not included.
        """
        without, with_pointers = (max(self.pressure(each), default=0) for each in self.taken)
        return min(with_pointers, without + POINTERS)

    def pressure(self, taken: Mapping[int, int]) -> list[int]:
        """Return the live registers after each position, given the registers *taken* by each value."""
        change = [0] * (len(self.text.order) + 1)
        for web, spans in self._intervals.items():
            for start, stop in spans:
                change[start] += taken[web]
                change[stop] -= taken[web]
        return list(accumulate(change))

    def is_alive(self, web: int, position: int) -> bool:
        """Return whether value *web* is live after the instruction at *position*."""
        intervals = self._intervals.get(web, [])
        after = bisect_right(intervals, position, key=itemgetter(0))
        return after > 0 and position < intervals[after - 1][1]


Span = tuple[int, int]
"""half-open interval of positions"""


def _live_spans(text: ProgramText, edge: Edge) -> Sequence[Span]:
    """Return the intervals of positions over which *edge* keeps its source live."""
    source, target = text.position[edge.source], text.position[edge.target]
    within = text.graph.loops_around[edge.target]
    inner = within[len(edge.distance) :] if edge.condition is None else ()
    last = text.span(inner[0]).stop if inner else target
    if not any(edge.distance):
        is_constant = (
            text.graph.instructions[edge.source].kind == Opcode.MOVE and not text.graph.definitions[edge.source]
        )
        return ((max(source, _before(text, edge)) if is_constant else source, last),)
    level = next(level for level, iterations in enumerate(edge.distance) if iterations)
    span = text.span(text.graph.loops_around[edge.source][level])
    return (source, span.stop), (span.start, last)


def _before(text: ProgramText, edge: Edge) -> int:
    """Return the position right before the target of *edge*, or before the outermost loop around it alone."""
    around, within = (text.graph.loops_around[place] for place in (edge.source, edge.target))
    inner = within[common_depth(around, within) :]
    return (text.span(inner[0]).start if inner else text.position[edge.target]) - 1


def _united(intervals: list[Span]) -> list[Span]:
    """Return the union of *intervals* as disjoint intervals."""
    found: list[Span] = []
    start = stop = -1
    for first, last in sorted(intervals):
        if first > stop:
            if stop > start:
                found.append((start, stop))
            start, stop = first, last
        stop = max(stop, last)
    return [*found, (start, stop)] if stop > start else found


def _webs(graph: Idg) -> list[int]:
    """Return the value of each instruction's result; results that share a register are one value."""
    parents = list(range(len(graph.instructions)))

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    for sources in _meeting(graph):
        for source in sources:
            parents[root(source)] = root(sources[0])
    return [root(place) for place in range(len(graph.instructions))]


def _meeting(graph: Idg) -> Iterator[Sequence[int]]:
    """Yield groups of instructions whose results reach the same operand; parts of a value form separate groups."""
    operands: dict[tuple[int, int], list[int]] = {}
    for edge in graph.edges:
        if edge.through == Dependence.DATA and edge.operand is not None:
            operands.setdefault((edge.target, edge.operand), []).append(edge.source)
    for sources in (operand for operand in operands.values() if len(operand) > 1):
        parts = {graph.instructions[source].part for source in sources}
        of_parts = [[source for source in sources if graph.instructions[source].part == part] for part in parts]
        beside = len({(graph.instructions[each].kind, graph.instructions[each].text) for each in sources}) < len(parts)
        yield from of_parts if beside else [sources]


# {{{ registers of results


def result_registers(graph: Idg) -> list[int]:
    """Return the registers of each instruction's result; a select or move has the width of its operands."""
    found = [0 if each.kind in WITHOUT else _registers_of(each.dtype) for each in graph.instructions]
    for place in graph.order:
        if not graph.instructions[place].dtype and graph.instructions[place].kind not in WITHOUT:
            sources = [edge.source for edge in graph.definitions[place] if edge.through == Dependence.DATA]
            found[place] = max((found[source] for source in sources), default=1)
    return found


def _copies(graph: Idg, place: int) -> int:
    """Return the number of private-array elements that an instruction defines over the loops that index the array."""
    found = 1
    for element in graph.instructions[place].defines:
        address = element.affine
        moving = [loop for loop in graph.loops_around[place] if address is not None and address.factor(loop.name)]
        iterations = prod(loop.trips for loop in moving if isinstance(loop.trips, int))
        found = max(found, min(iterations, element.length))
    return found


@cache
def _registers_of(dtype: str) -> int:
    bits = "".join(letter for letter in dtype if letter.isdigit())
    return -(-int(bits or REGISTER) // REGISTER)


# }}}


# }}}


# {{{ first uses of results, and the instructions between definition and first use
#
# Both are read from the program text, in which each instruction appears once, as Sim (section 5.3) reads them from the
# machine code. The walk goes from the definition to the use; it jumps from the end of a loop body back to its start as
# many times as the distance of the edge requires. It walks through a loop in between once.


class FirstUses:
    """The first uses of results in a graph; uses are data and control dependences."""

    def __init__(self, graph: Idg) -> None:
        self._text = ProgramText(graph)
        self._uses: dict[int, list[Edge]] = {}
        for edge in graph.edges:
            if edge.through in (Dependence.DATA, Dependence.CONTROL):
                self._uses.setdefault(edge.source, []).append(edge)

    def of(self, place: int) -> Edge | None:
        """Return the edge to the first use of the result of instruction *place*; None if it is unused."""
        everything = range(len(self._text.order) + 1)
        return min(self._uses.get(place, ()), key=lambda edge: self._length(edge, everything), default=None)

    def between(self, places: Iterable[int], is_counted: Callable[[Instruction], bool]) -> dict[int, int]:
        """Return for each place the number of instructions, filtered by *is_counted*, from it to its first use.

        The instruction itself counts. If the result is unused, count to the end of the innermost loop, or of the
        program.
        """
        counted = (int(is_counted(self._text.graph.instructions[each])) for each in self._text.order)
        before = list(accumulate(counted, initial=0))
        return {place: self._before_use(place, before) for place in places}

    def _before_use(self, place: int, before: Sequence[int]) -> int:
        use = self.of(place)
        if use is not None:
            return self._length(use, before)
        around = self._text.graph.loops_around[place]
        end = self._text.span(around[-1]).stop if around else len(self._text.order)
        return before[end] - before[self._text.position[place]]

    def _length(self, edge: Edge, before: Sequence[int]) -> int:
        """Return the length of the path from the source of *edge* to its target; *before* has the prefix lengths."""
        source, target = before[self._text.position[edge.source]], before[self._text.position[edge.target]]
        level, iterations = next(
            ((level, iterations) for level, iterations in enumerate(edge.distance) if iterations), (0, 0)
        )
        if not iterations:
            return target - source
        span = self._text.span(self._text.graph.loops_around[edge.source][level])
        return iterations * (before[span.stop] - before[span.start]) + target - source


# }}}
