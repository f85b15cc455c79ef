"""Functions as the short sequences of machine instructions that nvcc writes for them.

The sequences are those of docs/compiler.md, section 4.5: the usual path, without fast math.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pymbolic.primitives as prim

from loopyperf.idg.affine import Affine
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item, Loop, Operand

Kinds = Sequence[str]
RECIPROCAL = "1/"
"""a division whose dividend is the number 1"""
BY_CONSTANT = "/constant"
"""a division by a number, or what is left of one"""
OF_ANY_SIGN = "/any sign"
"""a division, or what is left of one, by what Loopy does not know to be positive: it corrects the result"""
SLOW_PATH = ("branch", "branch", "branch")
"""around what is called for operands that are denormal, infinite or no number: agree to meet, branch, meet"""
CONSTANT = "constant"
"""moved into a register: before the loops, where there are any"""


def _kinds(**numbers: int) -> Kinds:
    """Return so many instructions of each kind; ``slow_path=1`` for what stands around one."""
    slow_path = SLOW_PATH if numbers.pop("slow_path", 0) else ()
    return (*(kind for kind, number in numbers.items() for _ in range(number)), *slow_path)


PRECISE: Mapping[tuple[str, str], Kinds] = {
    ("div", "f32"): ("mufu", "fchk", "fma", "fma", "fma", "fma", "fma", *SLOW_PATH),
    (RECIPROCAL, "f32"): ("mufu", "fma", "fma", "add", "integer", "integer", "integer", *SLOW_PATH),
    ("sqrt", "f32"): ("mufu", "mul", "mul", "fma", "fma", "integer", "integer", *SLOW_PATH),
    ("rsqrt", "f32"): ("compare", "mul", "mufu", "mul"),
    ("exp", "f32"): ("fma", "fma", "fma", "fma", "add", CONSTANT, CONSTANT, "integer", "mufu", "mul"),
    ("log", "f32"): (*["fma"] * 12, "mul", "mul", "add", *["compare"] * 2, *["select"] * 2, *["integer"] * 7),
    ("log10", "f32"): (*["fma"] * 12, "mul", "mul", "mul", "add", *["compare"] * 2, *["select"] * 2, *["integer"] * 9),
    ("sin", "f32"): _kinds(fma=9, mul=2, convert=2, compare=1, select=3, integer=8, slow_path=1),
    ("cos", "f32"): _kinds(fma=9, mul=2, convert=2, compare=1, select=3, integer=9, slow_path=1),
    ("tan", "f32"): _kinds(fma=9, mul=3, mufu=1, convert=2, compare=2, integer=5, slow_path=1),
    ("pow", "f32"): _kinds(mufu=1, fma=19, add=11, mul=9, convert=2, compare=6, select=4, integer=11, slow_path=1),
    ("tanh", "f32"): _kinds(mul=2, mufu=2, add=1, fma=6, compare=2, select=1, integer=3),
    ("sinh", "f32"): _kinds(add=1, fma=7, mul=6, mufu=2, compare=2, select=2, integer=5),
    ("cosh", "f32"): _kinds(add=1, fma=3, mul=4, mufu=2, compare=1, select=2, integer=3),
    ("atan2", "f32"): _kinds(mufu=1, fma=15, mul=2, add=1, compare=5, select=5, integer=8, branch=3, slow_path=1),
    ("div", "f64"): ("mufu", *["fma"] * 7, "mul", "compare", "compare", "fma f32", "integer", *SLOW_PATH),
    (RECIPROCAL, "f64"): ("mufu", *["fma"] * 5, "compare", "integer", *SLOW_PATH),
    ("sqrt", "f64"): ("mufu", "mul", "mul", "mul", *["fma"] * 5, *["integer"] * 6, *SLOW_PATH),
    ("rsqrt", "f64"): ("mufu", "mul", "mul", *["fma"] * 3, *["integer"] * 5, *SLOW_PATH),
    ("exp", "f64"): _kinds(fma=14, add=1, compare=1, integer=6, constant=2, slow_path=1),
    ("log", "f64"): _kinds(mufu=1, fma=17, add=8, mul=5, compare=1, select=2, integer=14, constant=10, slow_path=1),
    ("sin", "f64"): _kinds(fma=9, mul=2, compare=1, select=2, integer=12, slow_path=1),
    ("cos", "f64"): _kinds(fma=9, mul=2, compare=1, select=2, integer=13, slow_path=1),
    ("tanh", "f64"): _kinds(fma=12, mul=1, compare=1, integer=4, slow_path=1),
    (BY_CONSTANT, "i32"): _kinds(integer=6),
    (BY_CONSTANT, "f32"): _kinds(fchk=1, fma=5, integer=2, slow_path=1),
    ("div", "i32"): _kinds(convert=2, mufu=1, integer=19),
    (OF_ANY_SIGN, "i32"): _kinds(convert=2, mufu=1, integer=27),
    ("min/max", "f64"): _kinds(compare=1, select=1, integer=6),
}
"""(function or kind, type) -> the instructions, each waiting for the one before"""
OPEN = ("exp",)
"""functions that end with a product which a sum takes in: a multiply-add does both"""


INSTRUCTIONS_OF_PTX = ("sqrt", "rsqrt")
"""functions that PTX has an instruction for; what is called of the others is written out before"""


def length(instruction: Instruction) -> int:
    """Return about how many instructions of PTX *instruction* is: functions are written out before loops are."""
    function = _function(instruction)
    if instruction.kind not in ("special", "pow") or function in INSTRUCTIONS_OF_PTX:
        return 1
    return len(PRECISE.get((function, instruction.dtype), (function,)))


def with_squares(graph: Idg) -> Idg:
    """Return *graph* with squares as products: so Loopy writes them."""
    products = {"f64": "fp64"}
    instructions = (
        replace(each, kind="mul", subsystem=products.get(each.dtype, "alu")) if each.kind == "square" else each
        for each in graph.instructions
    )
    return Idg(tuple(instructions), graph.edges, graph.body)


def with_function_sequences(graph: Idg) -> Idg:
    """Return *graph* with functions and divisions as sequences of instructions; those not known stay one."""
    return _Expansion(graph).expanded()


class _Expansion:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.edges: list[Edge] = []
        self.after: dict[int, list[int]] = {}
        """of an instruction: those that follow it in its sequence"""

    def expanded(self) -> Idg:
        for place, each in enumerate(self.graph.instructions):
            sequence = PRECISE.get((_function(each), each.dtype))
            if sequence is not None:
                self._expand(place, each, sequence)
        last = {place: chain[-1] for place, chain in self.after.items() if chain}
        moved = [replace(edge, source=last.get(edge.source, edge.source)) for edge in self.graph.edges]
        return Idg(tuple(self.instructions), (*moved, *self.edges), tuple(self._items(self.graph.body)))

    def _expand(self, place: int, old: Instruction, sequence: Kinds) -> None:
        loops = self.graph.loops_around[place]
        same = tuple(prim.Variable(loop.name) for loop in loops)
        chain = [place]
        sequence = ["integer" if kind == CONSTANT else kind for kind in sequence if kind != CONSTANT or not loops]
        for number, kind in enumerate(sequence):
            name, _, dtype = kind.partition(" ")
            new = replace(old, kind=name, dtype=dtype or old.dtype, subsystem=_subsystem(name, dtype or old.dtype))
            if number:
                is_open = kind == "mul" and number + 1 == len(sequence) and _function(old) in OPEN
                chain.append(len(self.instructions))
                self.instructions.append(replace(new, operands=(Operand(), Operand()) if is_open else ()))
                self.edges.append(Edge(chain[-2], chain[-1], (0,) * len(loops), same, operand=0 if is_open else None))
            else:
                self.instructions[place] = new
        self.after[place] = chain[1:]

    def _items(self, body: Sequence[Item]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield replace(item, body=tuple(self._items(item.body)))
            else:
                yield from (item, *self.after.get(item, ()))


def _function(instruction: Instruction) -> str:
    known = [operand.known for operand in instruction.operands]
    if instruction.kind == "div" and instruction.dtype.startswith("f") and known and known[0] in (1, -1):
        return RECIPROCAL
    is_size = instruction.is_index and any(each.is_integer for each in instruction.operands[1:])
    is_constant = any(isinstance(each, (int, float)) for each in known[1:]) and not is_size
    if instruction.kind == "div" and instruction.dtype in ("i32", "f32") and is_constant:
        return BY_CONSTANT
    if instruction.kind == "div" and instruction.is_index and Affine.of(known[1]) is None:
        return OF_ANY_SIGN
    return instruction.text.partition("(")[0] if instruction.kind == "special" else instruction.kind


def _subsystem(kind: str, dtype: str) -> str:
    if kind in ("mufu", "branch"):
        return {"mufu": "sfu", "branch": "control"}[kind]
    return "fp64" if dtype == "f64" and kind in ("fma", "mul", "add") else "alu"
