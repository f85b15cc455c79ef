"""How many registers the values take that are alive at the same time.

A value is alive from the instruction that defines it to the last one that uses it, in the order of the program: around
the end of a loop where it is used in a later pass, and through the whole loop where it was defined before it. Values
that meet in one operand, such as a sum before the loop and in it, have one register. Of a loop, one pass is looked at,
but the elements of a private array that it defines pass by pass are all alive together. A constant is moved into its
register right before the first use, or before the loop that it is used in.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate
from math import prod
from operator import itemgetter

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode, common_depth, placed

# {{{ the text of a program, in which each instruction stands once
#
# Where instructions and loops are in it.


class ProgramText:
    """The positions of instructions and loops in the text of a graph's program."""

    def __init__(self, graph: Idg) -> None:
        """Take the program of *graph*."""
        self.graph = graph
        self.order = [place for place, _ in placed(graph.body)]
        """the instructions, as they stand one after the other"""
        self.position = {place: position for position, place in enumerate(self.order)}
        """of each instruction"""
        self._spans = {loop.number: span for loop, span in _spans(graph.body, 0)}

    def span(self, loop: Loop) -> range:
        """Return the positions of what is in *loop*."""
        return self._spans[loop.number]


def _spans(body: Sequence[Item], position: int) -> Iterator[tuple[Loop, range]]:
    """Yield each loop in *body*, which begins at *position*, with where in the text it is."""
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
"""bits"""
POINTERS = 32
"""registers that pointers and counters of loops take at most: what is beyond is computed again in each pass"""
WITHOUT = (Opcode.STORE, Opcode.BARRIER, Opcode.COMPARE, Opcode.BRANCH, Opcode.FCHK)
"""kinds of instructions that define no register: predicates have files of their own"""


def live_registers(graph: Idg) -> int:
    """Return the most registers of 32 bits that values take at the same time in one work-item of the warp of *graph*.

    What sizes and the addresses before the first pass take is not among them.
    """
    return Lives(graph).registers


class Lives:
    """Where in the program of a graph each value is alive. A value is what several instructions may define."""

    def __init__(self, graph: Idg, like: "Lives | None" = None) -> None:
        """Take the values of *graph*; they are the same as those of *like*, which differs in the order alone."""
        self.graph, self.text = graph, ProgramText(graph)
        self.web = _webs(graph) if like is None else like.web
        """of each instruction: the value that it defines, by one of the instructions that do"""
        self.widths = result_registers(graph) if like is None else like.widths
        """of each instruction: the registers of its result"""
        intervals: dict[int, list[Span]] = {}
        for edge in graph.edges:
            if edge.through == Dependence.DATA:
                intervals.setdefault(self.web[edge.source], []).extend(_alive(self.text, edge))
        self._intervals = {web: _united(alive) for web, alive in intervals.items()}
        self.defined: dict[int, list[int]] = {}
        """of each value: the positions where it is defined"""
        for place, web in enumerate(self.web):
            self.defined.setdefault(web, []).append(self.text.position[place])
        self.taken = self._registers_taken() if like is None else like.taken
        """of each value: the registers that it takes, without and with those of pointers and counters"""

    def _registers_taken(self) -> tuple[dict[int, int], dict[int, int]]:
        taken = dict.fromkeys(self.web, 0), dict.fromkeys(self.web, 0)
        for place, (web, each) in enumerate(zip(self.web, self.graph.instructions, strict=True)):
            registers = self.widths[place] * _copies(self.graph, place)
            for found in taken[each.kind == Opcode.INTEGER :]:
                found[web] = max(found[web], registers)
        return taken

    @cached_property
    def registers(self) -> int:
        """Return the most registers that values take at the same time; see :func:`live_registers`."""
        without, with_pointers = (max(self.pressure(each), default=0) for each in self.taken)
        return min(with_pointers, without + POINTERS)

    def pressure(self, taken: Mapping[int, int]) -> list[int]:
        """Return the registers that values take after the instruction at each position, where each has *taken* some."""
        change = [0] * (len(self.text.order) + 1)
        for web, alive in self._intervals.items():
            for start, stop in alive:
                change[start] += taken[web]
                change[stop] -= taken[web]
        return list(accumulate(change))

    def is_alive(self, web: int, position: int) -> bool:
        """Return whether a value is used yet after the instruction at *position*."""
        intervals = self._intervals.get(web, [])
        after = bisect_right(intervals, position, key=itemgetter(0))
        return after > 0 and position < intervals[after - 1][1]


Span = tuple[int, int]
"""the first position of a part of the program, and that behind it"""


def _alive(text: ProgramText, edge: Edge) -> Sequence[Span]:
    """Return after which instructions, by their positions in the program, the source of *edge* is alive for it."""
    source, target = text.position[edge.source], text.position[edge.target]
    within = text.graph.loops_around[edge.target]
    inner = within[len(edge.distance) :] if edge.condition is None else ()
    last = text.span(inner[0]).stop if inner else target
    if not any(edge.distance):
        return ((max(source, _before(text, edge)) if _is_constant(text.graph, edge.source) else source, last),)
    level = next(level for level, passes in enumerate(edge.distance) if passes)
    span = text.span(text.graph.loops_around[edge.source][level])
    return (source, span.stop), (span.start, last)


def _is_constant(graph: Idg, place: int) -> bool:
    """Return whether *place* moves a constant into a register."""
    return graph.instructions[place].kind == Opcode.MOVE and not graph.definitions[place]


def _before(text: ProgramText, edge: Edge) -> int:
    """Return the position right before the target of *edge*, or before the loop around it that is not around both."""
    around, within = (text.graph.loops_around[place] for place in (edge.source, edge.target))
    inner = within[common_depth(around, within) :]
    return (text.span(inner[0]).start if inner else text.position[edge.target]) - 1


def _united(intervals: list[Span]) -> list[Span]:
    """Return what is in some of *intervals*, once."""
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
    """Return for each instruction a number that it shares with those whose results have the same register."""
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
    """Yield the instructions whose results are one operand, by the way that leads there; each part of a value alone."""
    operands: dict[tuple[int, int], list[int]] = {}
    for edge in graph.edges:
        if edge.through == Dependence.DATA and edge.operand is not None:
            operands.setdefault((edge.target, edge.operand), []).append(edge.source)
    for sources in (each for each in operands.values() if len(each) > 1):
        parts = {graph.instructions[source].part for source in sources}
        of_parts = [[source for source in sources if graph.instructions[source].part == each] for each in parts]
        beside = len({(graph.instructions[each].kind, graph.instructions[each].text) for each in sources}) < len(parts)
        yield from of_parts if beside else [sources]


# {{{ how many registers a result takes


def result_registers(graph: Idg) -> list[int]:
    """Return for each instruction the registers of its result; a selection or a move takes those of its operands."""
    found = [_width(instruction) for instruction in graph.instructions]
    for place in graph.order:
        if not graph.instructions[place].dtype and graph.instructions[place].kind not in WITHOUT:
            sources = [edge.source for edge in graph.definitions[place] if edge.through == Dependence.DATA]
            found[place] = max((found[source] for source in sources), default=1)
    return found


def _copies(graph: Idg, place: int) -> int:
    """Return how many elements of a private array an instruction defines in the passes of loops that index it."""
    found = 1
    for element in graph.instructions[place].defines:
        address = element.affine
        moving = [loop for loop in graph.loops_around[place] if address is not None and address.factor(loop.name)]
        passes = prod(loop.trips for loop in moving if isinstance(loop.trips, int))
        found = max(found, min(passes, element.length))
    return found


def _width(instruction: Instruction) -> int:
    return 0 if instruction.kind in WITHOUT else _registers_of(instruction.dtype)


@cache
def _registers_of(dtype: str) -> int:
    bits = "".join(letter for letter in dtype if letter.isdigit())
    return -(-int(bits or REGISTER) // REGISTER)


# }}}


# }}}


# {{{ where the result of an instruction is used first, and what the program has in between
#
# Both are read off the text of the program, in which each instruction stands once, as Sim (section 5.3) reads them off
# the machine code: from a definition the text is followed to the use, from the end of a loop's body back to its start
# as often as the edge says. A loop on the way is passed through once.


class FirstUses:
    """The first uses of results in a graph."""

    def __init__(self, graph: Idg) -> None:
        """Take the uses of *graph*: edges through registers, or to what a result decides on."""
        self._text = ProgramText(graph)
        self._uses: dict[int, list[Edge]] = {}
        for edge in graph.edges:
            if edge.through in (Dependence.DATA, Dependence.CONTROL):
                self._uses.setdefault(edge.source, []).append(edge)

    def of(self, place: int) -> Edge | None:
        """Return the edge to the first use of the result of *place*; None if there is none."""
        everything = range(len(self._text.order) + 1)
        return min(self._uses.get(place, ()), key=lambda edge: self._length(edge, everything), default=None)

    def between(self, place: int, is_counted: Callable[[Instruction], bool]) -> int:
        """Return how many instructions there are of a sort, from *place* on, itself included, to before its first use.

        Without a use, they are those to the end of the loop that it is in, or of the program.
        """
        counted = (int(is_counted(self._text.graph.instructions[each])) for each in self._text.order)
        before = list(accumulate(counted, initial=0))
        use = self.of(place)
        if use is not None:
            return self._length(use, before)
        around = self._text.graph.loops_around[place]
        end = self._text.span(around[-1]).stop if around else len(self._text.order)
        return before[end] - before[self._text.position[place]]

    def _length(self, edge: Edge, before: Sequence[int]) -> int:
        """Return the length of the text from the source of *edge* to its target, given that *before* each position."""
        source, target = before[self._text.position[edge.source]], before[self._text.position[edge.target]]
        level, passes = next(((level, passes) for level, passes in enumerate(edge.distance) if passes), (0, 0))
        if not passes:
            return target - source
        span = self._text.span(self._text.graph.loops_around[edge.source][level])
        return passes * (before[span.stop] - before[span.start]) + target - source


# }}}
