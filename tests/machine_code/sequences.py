"""Derive the instruction sequences of functions and divisions from executed machine code.

NVRTC compiles a kernel that computes nothing but the function. The simulated machine executes it on operands that take
the usual path; its result is that of the function, or the simulation is wrong. The sequence contains the instructions
that neither access memory nor compute addresses. It is described by its longest dependency chain and by the other
instructions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

import numpy as np

from loopyperf.compiler.resources import machine_code

from .branch_decisions import usual
from .constant_bank import POINTERS, SPACING, constant_bank, constants_in
from .cuda_source import Parameter
from .divergence import Fragment
from .instruction import Instruction, Operand
from .lanes import ALL, ZERO, Lanes, Truth
from .listing import Function, functions
from .memory import address_of, words
from .registers import Registers
from .toolchain import disassembled
from .warp import CONTROL, Warp

WHEELS: Mapping[str, tuple[str, ...]] = MappingProxyType({"sm_70": ("nvidia-cuda-nvrtc-cu12",)})
"""wheels whose compiler supports architectures that the latest compiler no longer supports"""
ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100")
TYPES: Mapping[str, str] = MappingProxyType(
    {"f32": "float", "f64": "double", "i32": "int", "u32": "unsigned", "i64": "long long", "u64": "unsigned long long"}
)
NUMPY: Mapping[str, type[np.generic]] = MappingProxyType(
    {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}
)
ITSELF = (*(f"{letter}{name}" for letter in "FD" for name in ("ADD", "MUL", "FMA", "SETP", "MNMX")), "MUFU", "FCHK")
CLASSES: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ITSELF},
        **dict.fromkeys(("F2F", "F2I", "I2F", "I2FP", "FRND"), "CONVERT"),
        **dict.fromkeys(("BRA", "BSSY", "BSYNC", "BREAK", "CALL", "RET", "WARPSYNC"), "BRA"),
        "FSEL": "FSEL",
    }
)
"""opcode -> its name in the table; others are integer instructions: ``IMAD`` if they multiply, else ``INT``"""
NO_PRODUCT = ("MOV", "IADD", "SHL")
"""modifiers of IMAD with which it does not multiply"""
CYCLES: Mapping[str, int] = MappingProxyType(
    {"MUFU": 20, "CONVERT": 14, "FCHK": 14, "DFMA": 8, "DADD": 8, "DMUL": 8, "DSETP": 8}
)
"""approximate latencies, used to find the longest chain; all others are 4"""


@dataclass(frozen=True, slots=True)
class Step:
    """An executed instruction."""

    instruction: Instruction
    sources: frozenset[int]
    """the steps whose results it used, by number"""
    address: frozenset[int]
    """those of them that compute the address of a store"""


Row = tuple[str, str, int]
"""the longest chain of a sequence, the other instructions, and the number of constants moved into registers"""


class _RecordingRegisters(Registers):
    """Registers that record which steps wrote the values that the current step reads."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.writers: dict[object, int] = {}
        self.read_now: set[int] = set()
        self.now = 0

    def register(self, file: str, number: int) -> Lanes:
        self._note((file, number))
        return super().register(file, number)

    def _truth(self, operand: Operand) -> Truth:
        self._note((operand.file, operand.number))
        return super()._truth(operand)

    def _note(self, key: object) -> None:
        if key in self.writers:
            self.read_now.add(self.writers[key])

    def write(self, operand: Operand, value: Lanes, beyond: int = 0) -> None:
        super().write(operand, value, beyond)
        self.writers[operand.file, operand.number + beyond] = self.now

    def decide(self, operand: Operand, truth: Truth) -> None:
        before = set(self.read_now)
        super().decide(operand, truth)
        self.read_now = before  # drop the read of the predicate's old value
        self.writers[operand.file, operand.number] = self.now


class _Trace(Warp):
    """A warp that records the steps that it executes."""

    def __init__(self, function: Function, constants: Mapping[int, int], data: Mapping[int, int]) -> None:
        super().__init__(function, constants, {}, ALL, usual)
        self.recorder = _RecordingRegisters(constants, {"SR_TID.X": ZERO})  # all lanes have the same data
        self.recorder.data = dict(data)
        self.registers = self.recorder
        self.steps: list[Step] = []

    def _step(self, fragment: Fragment) -> Fragment | None:
        self.recorder.now, self.recorder.read_now = len(self.steps), set()
        instruction = self.function.instructions[fragment.address]
        before = dict(self.recorder.writers) if instruction.guard is not None else {}
        following = super()._step(fragment)
        address = frozenset[int]()
        if instruction.base == "STG":
            place, stored = instruction.operands
            address_of(place, self.recorder, is_wide=True)
            address = frozenset(self.recorder.read_now)
            for beyond in range(words(instruction)):
                self.recorder.register(stored.file, stored.number + beyond)
        elif instruction.guard is not None and instruction.base not in CONTROL:
            self._depend_on_replaced_values(instruction, before)
        self.steps.append(Step(instruction, frozenset(self.recorder.read_now), address))
        return following

    def _depend_on_replaced_values(self, instruction: Instruction, before: Mapping[object, int]) -> None:
        """Make a guarded instruction depend on the old values of its destination, even if no lane executes it."""
        registers = [operand for operand in instruction.operands if operand.kind == "register"]
        if not registers:
            return
        for operand in registers[1:]:
            self.recorder.read_pair(operand)
        for beyond in range(2 if instruction.base.startswith("D") else 1):
            key = registers[0].file, registers[0].number + beyond
            self.recorder.writers[key] = len(self.steps)
            self.recorder.read_now |= {before[key]} if key in before else set()


class Expressions:
    """Kernels ``out[i] = code`` of operands a, b and c, compiled together."""

    def __init__(self, architecture: str, cases: Iterable[tuple[str, str]]) -> None:
        """Compile *cases* for *architecture*: expressions in CUDA, in which T is their type, with their types."""
        self.architecture = architecture
        self.symbols = {case: f"f{number}" for number, case in enumerate(dict.fromkeys(cases))}
        source = "\n".join([PREAMBLE, *(_kernel(symbol, *case) for case, symbol in self.symbols.items())])
        self.cubin = machine_code(source, architecture)
        self.functions = functions(disassembled(self.cubin, architecture))

    def traced(self, code: str, dtype: str, values: Sequence[float]) -> tuple[tuple[Step, ...], float]:
        """Return the steps of the kernel of *code* with operands of these *values*, and the value that it stores.

        An integer that stands for a floating-point operand specifies its bits.
        """
        parameters = [Parameter(each, 8, is_pointer=True) for each in "oabc"]
        data: dict[int, int] = {}
        for number, value in enumerate(values, 1):
            is_bits = isinstance(value, int) and dtype in FLOATS
            raw = np.array([value], dtype=NUMPY[f"i{dtype[1:]}" if is_bits else dtype]).view(np.uint32)
            data |= {POINTERS + number * SPACING + 4 * word: int(each) for word, each in enumerate(raw)}
        function = self.functions[self.symbols[code, dtype]]
        constants = {
            **constants_in(self.cubin, function.name),
            **constant_bank(self.architecture, parameters, {}, (1, 1, 1), (32, 1, 1)),
        }
        warp = _Trace(function, constants, data)
        warp.walk()
        return tuple(warp.steps), _stored(warp, dtype)


def _stored(warp: _Trace, dtype: str) -> float:
    """Return the value that a warp stored; NaN if it is unknown."""
    store = next(step for step in warp.steps if step.instruction.base == "STG").instruction.operands[-1]
    halves = [warp.recorder.register(store.file, store.number + beyond) for beyond in range(2 if "64" in dtype else 1)]
    raw = np.array([each.values[0] for each in halves], dtype=np.uint32)
    return raw.view(NUMPY[dtype])[0] if all(each.known & 1 for each in halves) else float("nan")


def _kernel(symbol: str, code: str, dtype: str) -> str:
    of = TYPES[dtype]
    operands = "".join(f"{of} {each} = p{each}[threadIdx.x];" for each in "abc")
    return (
        f'extern "C" __global__ void {symbol}({of} *out, const {of} *pa, const {of} *pb, const {of} *pc)'
        f"{{ typedef {of} T; {operands} T result = {code}; __syncthreads(); out[threadIdx.x] = result; }}"
    )


PREAMBLE = """
template<class T> __device__ inline T floor_div(T a, T b) {
  if ((a<0) != (b<0)) a = a - (b + (b<0) - (b>=0));
  return a/b; }
template<class T> __device__ inline T floor_div_pos(T a, T b) { if (a<0) a = a - (b-1); return a/b; }
template<class T> __device__ inline T mod(T a, T b) {
  T result = a%b;
  if (result < 0 && b > 0) result = result + b;
  if (result > 0 && b < 0) result = result + b;
  return result; }
__device__ inline int as_int(float x) { return __float_as_int(x); }
__device__ inline int as_int(double x) { return __double2loint(x); }
template<class T> __device__ inline int as_int(T x) { return int(x); }
template<class T> __device__ inline T int_pow(T x, int n) {
  if (n == 0) return 1;
  if (n < 0) { x = 1.0/x; n = -n; }
  T y = 1;
  while (n > 1) { if (n % 2) y = x*y; x = x*x; n = n/2; }
  return x*y; }
template<class T> __device__ inline T mod_pos(T a, T b) { T result = a%b; return (result < 0) ? result + b : result; }
"""
"""Loopy's code of divisions that round down, and of integer powers (loopy/target/c/__init__.py)"""


# {{{ the sequence


def sequence(steps: Sequence[Step]) -> Row:
    """Return the longest chain of the sequence in *steps*, the other instructions, and the number of constants."""
    own, constants = _own(steps)
    chain = _longest(steps, own)
    beside = Counter(_name(steps[place]) for place in own if place not in chain)
    return _run_lengths(_name(steps[place]) for place in chain), _counted(sorted(beside.items())), len(constants)


def _own(steps: Sequence[Step]) -> tuple[list[int], set[int]]:
    """Return the steps that compute the stored value, and the steps that move constants into registers for them."""
    stores = {place for place, step in enumerate(steps) if step.instruction.base == "STG"}
    loads = {place for place, step in enumerate(steps) if step.instruction.base == "LDG"}
    operands = {place for place in loads if not loads & _before(steps, [place])}
    computed = set(operands)
    for place, step in enumerate(steps):
        if step.sources & computed:
            computed.add(place)
    control = {place for place, step in enumerate(steps) if CLASSES.get(step.instruction.base) == "BRA"}
    wanted = {source for place in stores for source in steps[place].sources - steps[place].address} | control
    own = (_before(steps, wanted) | wanted) - operands - stores
    addresses = {source for place in operands for source in _before(steps, [place])}
    addresses |= _before(steps, {source for place in stores for source in steps[place].address})
    computing = {place for place in own if place in computed or place in control}
    return sorted(computing), own - computing - addresses


def _before(steps: Sequence[Step], places: Iterable[int]) -> set[int]:
    """Return all direct and indirect dependences of the steps at *places*."""
    found: set[int] = set()
    pending = [source for place in places for source in steps[place].sources]
    while pending:
        place = pending.pop()
        if place not in found:
            found.add(place)
            pending += steps[place].sources
    return found


def _longest(steps: Sequence[Step], own: Sequence[int]) -> list[int]:
    """Return the chain of steps with the largest latency; steps after a branch depend on the branch."""
    until: dict[int, tuple[int, int | None]] = {}
    branch: int | None = None
    for place in own:
        waiting = [source for source in (*steps[place].sources, branch) if source in until]
        before = max(waiting, key=lambda source: until[source][0], default=None)
        start = 0 if before is None else until[before][0]
        until[place] = start + CYCLES.get(_name(steps[place]), 4), before
        is_decided = steps[place].instruction.base == "BRA" and steps[place].sources
        branch = place if is_decided else branch
    place: int | None = max(until, key=lambda place: until[place][0], default=None)
    chain: list[int] = []
    while place is not None:
        chain.append(place)
        place = until[place][1]
    return chain[::-1]


def _name(step: Step) -> str:
    base = step.instruction.base
    if base == "IMAD" and not set(NO_PRODUCT) & set(step.instruction.modifiers):
        return "IMAD"
    return CLASSES.get(base, "INT")


def _run_lengths(names: Iterable[str]) -> str:
    return _counted((name, len(list(same))) for name, same in groupby(names))


def _counted(words: Iterable[tuple[str, int]]) -> str:
    return " ".join(name if number == 1 else f"{name}*{number}" for name, number in words if number)


# }}}


# {{{ all functions

FLOATS, INTEGERS, WIDE = ("f32", "f64"), ("i32", "u32", "i64", "u64"), ("i64", "u64")
ONE, TWO, LARGE = (0.7, 1.3, 0.4), (0.4, 0.7, 0.3), (1.7, 0.6, 0.4)
"""operands on the usual path: of most functions, of tanh (below 0.55), of functions that start at 1"""
WHOLE, FAR = (12345, 7, 3), (2**62 + 12345, 2**40 + 7, 3)
"""operands in 32 bits, and beyond, for which divisions in 64 bits call a subroutine"""
SOURCES: Mapping[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = MappingProxyType(
    {
        "div": ("a / b", FLOATS, ONE),
        "1/": ("T(1) / a", FLOATS, ONE),
        "/constant": ("a / T(3)", FLOATS, ONE),
        **{
            name: (f"{name}(a)", FLOATS, {"tanh": TWO, "acosh": LARGE}.get(name, ONE))
            for name in (
                *("sqrt", "rsqrt", "cbrt", "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p"),
                *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
                *("erf", "erfc", "tgamma", "lgamma", "floor", "ceil", "trunc", "rint", "round", "isnan"),
            )
        },
        **{f"{name}": (f"{name}(a, b)", FLOATS, ONE) for name in ("pow", "atan2", "hypot", "fmod", "copysign")},
        "min/max": ("fmax(a, b)", FLOATS, ONE),
        "//": ("floor_div_pos(a, b)", INTEGERS, WHOLE),
        "%": ("mod_pos(a, b)", INTEGERS, WHOLE),
        "// any sign": ("floor_div(a, b)", ("i32", "i64"), WHOLE),
        "% any sign": ("mod(a, b)", ("i32", "i64"), WHOLE),
        "// long": ("floor_div_pos(a, b)", WIDE, FAR),
        "% long": ("mod_pos(a, b)", WIDE, FAR),
        "// any sign long": ("floor_div(a, b)", ("i64",), FAR),
        "% any sign long": ("mod(a, b)", ("i64",), FAR),
        "// constant": ("floor_div_pos(a, T(7))", INTEGERS, WHOLE),
        "% constant": ("mod_pos(a, T(7))", INTEGERS, WHOLE),
        "// power of 2": ("floor_div_pos(a, T(8))", INTEGERS, WHOLE),
        "% power of 2": ("mod_pos(a, T(8))", INTEGERS, WHOLE),
        "pow by constant": ("pow(a, T(1.5))", FLOATS, ONE),
        "pow of constant": ("pow(T(3), a)", FLOATS, ONE),
        "powi": ("int_pow(a, as_int(b))", (*FLOATS, *INTEGERS), (1.25, 5, 3)),
        "add": ("a + b", WIDE, WHOLE),
        "mul": ("a * b", WIDE, WHOLE),
        "shift": ("a << b", WIDE, WHOLE),
        "bitwise": ("a & b", WIDE, WHOLE),
        "min/max integer": ("a < b ? b : a", WIDE, WHOLE),
    }
)
"""name -> the expression in CUDA, its types, and the operands"""


@cache
def expressions(architecture: str) -> Expressions:
    """Compile all of :data:`SOURCES`."""
    return Expressions(architecture, ((code, dtype) for code, dtypes, _ in SOURCES.values() for dtype in dtypes))


def derived(architecture: str, name: str, dtype: str) -> Row:
    """Return the instruction sequence of *name*."""
    code, _, values = SOURCES[name]
    return sequence(expressions(architecture).traced(code, dtype, values)[0])


def work(row: Row) -> Counter[str]:
    """Return how many instructions of each class *row* has, without integers, branches and constants."""
    found: Counter[str] = Counter()
    for word in " ".join(row[:2]).split():
        name, _, number = word.partition("*")
        found[name] += int(number or 1)
    return Counter({name: number for name, number in found.items() if name not in ("INT", "IMAD", "BRA")})


def table() -> str:
    """Return the contents of ``loopyperf/compiler/sequences.toml``: the table of all sequences."""
    names = [(name, dtype) for name, (_, dtypes, _) in SOURCES.items() for dtype in dtypes]
    found = {each: {key: derived(each, *key) for key in names} for each in ARCHITECTURES}
    lines = [HEAD, f"\n[{BASE}]"]
    for name, dtype in names:
        chain, beside, constants = found[BASE][name, dtype]
        lines.append(f'"{name} {dtype}" = ["{chain}", "{beside}", {constants}, {found[HOPPER][name, dtype][2]}]')
    for architecture in (each for each in ARCHITECTURES if each != BASE):
        rows = {key: row for key, row in found[architecture].items() if work(row) != work(found[BASE][key])}
        lines += [f"\n[{architecture}]"] if rows else []
        for (name, dtype), (chain, beside, constants) in rows.items():
            before = found[BASE][name, dtype][2] if architecture == HOPPER else constants
            lines.append(f'"{name} {dtype}" = ["{chain}", "{beside}", {before}, {constants}]')
    return "\n".join(lines) + "\n"


BASE, HOPPER = "sm_80", "sm_90"
"""BASE has a row for each sequence; others have rows for sequences that differ in more than integers"""
HEAD = """# Instruction sequences of functions and divisions, derived from executed machine code. Do not edit; run
#     python -m tests.machine_code.sequences
# Each row: the longest dependency chain; the other instructions; constants moved into registers before Hopper, and from
# Hopper on. MUFU, FCHK and floating-point arithmetic are SASS opcodes; CONVERT is F2F, F2I, I2F and FRND; IMAD is an
# integer product; INT any other integer instruction, move or table load; BRA branches and reconvergence."""


# }}}

if __name__ == "__main__":
    Path(__file__).parents[2].joinpath("loopyperf/compiler/sequences.toml").write_text(table())
