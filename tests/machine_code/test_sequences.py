"""Test instruction sequences of functions, divisions and arithmetic identities against executed machine code."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import loopy as lp
import numpy as np
import pytest
from parts.cubin import ACCESSES, WIDTHS, instruction_mixes

import loopyperf.compiler as lowering
from loopyperf.compiler import lowered
from loopyperf.compiler.functions import MachineSequence, sequence_of
from loopyperf.compiler.resources import library
from loopyperf.idg import Idg
from loopyperf.idg.program import Instruction, Operand
from tests.idg.machine_graphs import source
from tests.idg.patterns import flat

from . import toolchain
from .sequences import (
    ARCHITECTURES,
    FAR,
    FLOATS,
    ONE,
    SOURCES,
    WHEELS,
    WHOLE,
    Expressions,
    derived,
    expressions,
    sequence,
    table,
    work,
)

TABLE = Path(lowering.__file__).with_name("sequences.toml")
QUICK = "sm_80"
OTHERS = [pytest.param(each, marks=pytest.mark.slow) for each in ARCHITECTURES if each != QUICK]
RESULTS: Mapping[str, Callable[..., float]] = {
    **{name: getattr(math, name) for name in SOURCES if name in vars(math)},
    "div": lambda a, b: a / b,
    "hypot": lambda a, b: math.hypot(a, b),
    "1/": lambda a: 1 / a,
    "/constant": lambda a: a / 3,
    "rsqrt": lambda a: a**-0.5,
    "exp10": lambda a: 10**a,
    "tgamma": lambda a: math.gamma(a),
    "rint": lambda a: round(a),
    "round": lambda a: math.floor(a + 0.5),
    "min/max": max,
    "pow of constant": lambda a: 3**a,
    "pow by constant": lambda a: a**1.5,
    "powi": lambda a: a**5,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "// any sign": lambda a, b: a // b,
    "% any sign": lambda a, b: a % b,
    "// long": lambda a, b: a // b,
    "% long": lambda a, b: a % b,
    "// any sign long": lambda a, b: a // b,
    "% any sign long": lambda a, b: a % b,
    "// constant": lambda a: a // 7,
    "% constant": lambda a: a % 7,
    "// power of 2": lambda a: a // 8,
    "% power of 2": lambda a: a % 8,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "shift": lambda a, b: a << b,
    "bitwise": lambda a, b: a & b,
    "min/max integer": max,
}
OF_ONE = 1e-5, 1e-12
"""maximum relative errors in single and double precision: multiply-adds are not fused in the simulation"""
UNKNOWN = (("sin", "f64"), ("cos", "f64"), ("isnan", "f32"))
"""functions whose results are unknown: coefficients in a table that the driver places, and FSET"""


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    if library() is None or toolchain.nvdisasm() is None:
        pytest.skip("NVRTC or nvdisasm is not installed")


@pytest.fixture(params=[QUICK, *OTHERS])
def architecture(request: pytest.FixtureRequest) -> str:
    if library(WHEELS.get(request.param, ("nvidia-cuda-nvrtc",))) is None:
        pytest.skip(f"no NVRTC for {request.param} is installed")
    return request.param


def test_executed_machine_code_computes_the_function(architecture: str) -> None:
    for name, (code, dtypes, operands) in SOURCES.items():
        for dtype in dtypes:
            result = expressions(architecture).traced(code, dtype, operands)[1]
            if (name, dtype) in UNKNOWN:
                assert math.isnan(result)
                continue
            values = operands[:2] if dtype in FLOATS else [int(each) for each in operands[:2]]
            try:
                expected = RESULTS[name](values[0])
            except TypeError:
                expected = RESULTS[name](*values)
            if name == "isnan":
                expected = 0
            assert result == pytest.approx(expected, rel=OF_ONE[dtype == "f64"]), (name, dtype)


def test_instruction_mix_of_a_cubin_matches_the_disassembler(architecture: str) -> None:
    compiled = expressions(architecture)
    mixes = instruction_mixes(compiled.cubin)
    assert mixes.keys() == compiled.functions.keys()
    for name, mix in mixes.items():
        instructions = compiled.functions[name].instructions.values()
        printed = Counter(_with_width(each.base, each.modifiers) for each in instructions)
        assert mix == {opcode: number for opcode, number in printed.items() if opcode != "NOP"}


def _with_width(opcode: str, modifiers: Iterable[str]) -> str:
    widths = [f".{each}" for each in modifiers if each and f".{each}" in WIDTHS]
    return opcode + "".join(widths if opcode in ACCESSES else [])


def test_table_matches_sequences_derived_from_machine_code() -> None:
    """Check one architecture; the slow test below compares the whole file."""
    for name, (_, dtypes, _) in SOURCES.items():
        for dtype in dtypes:
            chain, beside, constants = derived(QUICK, name, dtype)
            assert f'"{name} {dtype}" = ["{chain}", "{beside}", {constants},' in TABLE.read_text()


@pytest.mark.slow
def test_whole_table_matches_machine_code_of_all_architectures() -> None:
    if any(library(WHEELS.get(each, ("nvidia-cuda-nvrtc",))) is None for each in ARCHITECTURES):
        pytest.skip("no NVRTC for Volta is installed")
    assert table() == TABLE.read_text()


def test_sequences_match_each_architecture(architecture: str) -> None:
    # Integer instructions differ by a few: ptxas moves some constants into registers, and merges some sums.
    capability = int(architecture[3:-1]), int(architecture[-1])
    for name, (_, dtypes, _) in SOURCES.items():
        for dtype in dtypes:
            row, ours = derived(architecture, name, dtype), _ours(name, dtype, capability)
            assert ours is not None, (name, dtype)
            assert words(ours, dtype) == work(row), (name, dtype)
            machine = sum(Counter(dict(counted(row))).values()) + row[2]
            if capability < (9, 0):
                assert abs(ours.length - machine) <= max(4, machine // 6), (name, dtype, ours.length, machine)


def _ours(name: str, dtype: str, capability: tuple[int, int]) -> MachineSequence | None:
    return sequence_of(calling(name.removesuffix(" long"), dtype), capability, is_long=name.endswith(" long"))


def calling(name: str, dtype: str) -> Instruction:
    """Return the instruction of a source graph that corresponds to *name* in the table."""
    operands = [Operand(), Operand()]
    operator, _, rest = name.partition(" ")
    kind = {"//": "div", "%": "mod", "/constant": "div", "1/": "div"}.get(operator, operator)
    if rest == "of constant" or name == "1/":
        operands[0] = Operand(3 if rest else 1)
    if rest == "by constant":
        operands[1] = Operand(1.5)
    elif "constant" in name and rest != "of constant":
        operands[1] = Operand(7)
    if rest == "power of 2":
        operands[1] = Operand(8)
    is_index = kind in ("div", "mod") and rest == "" and dtype.startswith("i")
    if is_index:
        operands[1] = Operand(5, is_integer=True)
    plain = kind in ("div", "mod", "pow", "powi", "min/max", "add", "mul", "shift", "bitwise")
    function = "" if plain else name
    return Instruction(
        kind if plain else "special", dtype, function=function, operands=tuple(operands), is_index=is_index
    )


def counted(row: tuple[str, str, int]) -> list[tuple[str, int]]:
    found: Counter[str] = Counter()
    for word in " ".join(row[:2]).split():
        name, _, number = word.partition("*")
        found[name] += int(number or 1)
    return list(found.items())


WORDS = {"add": "ADD", "mul": "MUL", "fma": "FMA", "compare": "SETP", "min/max": "MNMX"}


def word(kind: str, dtype: str) -> str | None:
    """Return the table's name for an instruction of *kind*; None for integers and branches."""
    if kind in WORDS and dtype in FLOATS:
        return ("D" if dtype == "f64" else "F") + WORDS[kind]
    return {"mufu": "MUFU", "fchk": "FCHK", "select": "FSEL", "convert": "CONVERT"}.get(kind)


def words(found: MachineSequence, dtype: str) -> Counter[str]:
    return Counter(each for kind, of in (*found.chain, *found.beside) if (each := word(kind, of or dtype)))


def test_divisions_are_long_unless_types_or_bounds_exclude_it() -> None:
    # (expression, type of a, type of m) -> whether an operand may exceed 32 bits
    cases = {
        ("a[i] % m[i]", np.uint64, np.uint64): True,
        ("(a[i]*a[i]) % m[i]", np.uint64, np.uint32): True,
        ("a[i] // m[i]", np.int64, np.int64): True,
        ("a[i] // m[i]", np.uint32, np.uint64): True,
        ("a[i] % (n + 2)", np.int64, np.int64): True,
        ("i // (n + 2) + a[i]", np.int64, np.int64): False,
        ("a[i] % m[i]", np.uint32, np.uint32): False,
    }
    for (code, a, m), is_long in cases.items():
        arrays = [flat("a", a), flat("m", m), flat("out", np.int64), lp.ValueArg("n", np.int64)]
        graph = source("[n] -> {[i]: 0<=i<32 and i<n}", f"out[i] = {code}", *arrays, sizes={"n": 30})
        found = sum(each.kind == "fma" for each in lowered(graph, capability=(8, 0)).instructions)
        assert (found > 20) is is_long, (code, a, m, found)


# {{{ identities

A, B, C = "a[i]", "b[i]", "c[i]"
FLOATING: Mapping[str, str] = {
    # Loopy's expression -> CUDA's expression
    "1*a": "T(1)*a",
    "1*a*b + c": "T(1)*a*b + c",
    "a*1 + b": "a*T(1) + b",
    "a/1": "a/T(1)",
    "a + 0": "a + T(0)",
    "0 - a": "T(0) - a",
    "0*a": "T(0)*a",
    "0*a + b": "T(0)*a + b",
    "a - a": "a - a",
    "2*a + b": "T(2)*a + b",
    "4*a": "T(4)*a",
    "2*3*a": "T(2)*T(3)*a",
    "a*5*3": "a*T(5)*T(3)",
    "a + 3 + 4": "a + T(3) + T(4)",
    "a/2": "a/T(2)",
    "a/3": "a/T(3)",
    "a*(1/3)": "a*(T(1)/T(3))",
    "(2/3)*a": "T(2)/T(3)*a",
    "(1*(1/4))/3.141592653589793*a": "(T(1)*(T(1)/T(4)))/T(3.141592653589793)*a",
    "sqrt(2.0)*a": "sqrt(T(2))*a",
    "(2.0**0.5)*a": "pow(T(2), T(0.5))*a",
    "a**1": "a",
    "a**2": "a*a",
    "a**3": "int_pow(a, 3)",
    "a**5 + b": "int_pow(a, 5) + b",
    "a**6": "int_pow(a, 6)",
    "a**1.5": "pow(a, T(1.5))",
    "3.0**a": "pow(T(3), a)",
    "-(-a)": "-(-a)",
    "a - (-b)": "a - (-b)",
    "(-a)*(-b)": "(-a)*(-b)",
    "c - a*b": "c - a*b",
    "-a*b + c": "-a*b + c",
    "fabs(a)*b": "fabs(a)*b",
    "if(1 < 2, a, b)": "1 < 2 ? a : b",
    "1/a": "T(1)/a",
    "a/b*c": "a/b*c",
    "sqrt(a)*sqrt(a)": "sqrt(a)*sqrt(a)",
}
WHOLE_NUMBERS: Mapping[str, str] = {
    "1*a": "1*a",
    "a + 0": "a + 0",
    "a - 0": "a - 0",
    "0*a": "0*a",
    "a*b + 0": "a*b + 0",
    "a//1": "floor_div_pos(a, T(1))",
    "a % 1": "mod_pos(a, T(1))",
    "3*4*a": "3*4*a",
    "a*b": "a*b",
    "a//8": "floor_div_pos(a, T(8))",
    "a % 8": "mod_pos(a, T(8))",
    "a//7": "floor_div_pos(a, T(7))",
    "a % 7": "mod_pos(a, T(7))",
    "a//b": "floor_div(a, b)",
    "a % b": "mod(a, b)",
    "a**3": "int_pow(a, 3)",
}
DIFFERENT = {
    ("sm_100", "a % 8", "i32"): 5,
    ("sm_100", "a % 8", "i64"): 7,
    ("sm_100", "a//b", "i32"): 4,
    ("sm_100", "a % b", "i64"): -8,
}
"""excess instructions of our sequence: on Blackwell, nvcc rounds differently, and uses a & 7 for a floored modulus"""
MOVES = 3
"""maximum number of moves of constants and results that ptxas may merge with arithmetic"""


def test_arithmetic_identities_match_machine_code(architecture: str) -> None:
    cases = [(code, cuda, dtype) for dtype in FLOATS for code, cuda in FLOATING.items()]
    cases += [(code, cuda, dtype) for dtype in ("i32", "i64") for code, cuda in WHOLE_NUMBERS.items()]
    compiled = Expressions(architecture, ((cuda, dtype) for _, cuda, dtype in cases))
    capability = int(architecture[3:-1]), int(architecture[-1])
    for code, cuda, dtype in cases:
        # Data of 64 bits is assumed not to fit in 32.
        is_long = dtype == "i64" and code in ("a//b", "a % b")
        row = sequence(compiled.traced(cuda, dtype, ONE if dtype in FLOATS else FAR if is_long else WHOLE)[0])
        ours = beyond_copy(code, dtype, capability)
        floats = Counter({each: n for (kind, of), n in ours.items() if (each := word(kind, of))})
        assert floats == work(row), (code, dtype)
        if dtype not in FLOATS:
            machine = sum(number for _, number in counted(row)) + row[2]
            more = DIFFERENT.get((architecture, code, dtype), 0)
            assert abs(sum(ours.values()) - more - machine) <= MOVES, (code, dtype, ours, row)


def beyond_copy(code: str, dtype: str, capability: tuple[int, int]) -> Counter[tuple[str, str]]:
    """Return the arithmetic of the machine graph of *code*, without that of loads, stores and addresses."""
    found, plain = (mix(each, dtype, capability) for each in (code, " + ".join(n for n in "abc" if n in used(code))))
    sums = ("add", "f" + dtype[1:] if dtype in FLOATS else dtype)
    wide = 2 if dtype == "i64" else 1
    plain[sums if dtype in FLOATS else ("integer", "i64") if wide == 2 else sums] -= (len(used(code)) - 1) * wide
    found.subtract(plain)
    return Counter({name: number for name, number in found.items() if number})


def used(code: str) -> str:
    """Return which of a, b and c *code* loads."""
    return "".join(name for name in "abc" if name in code.replace("fabs", "").replace("sqrt", ""))


def mix(code: str, dtype: str, capability: tuple[int, int]) -> Counter[tuple[str, str]]:
    of = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}[dtype]
    text = code.replace("fabs", "F")
    for name in "abc":
        text = text.replace(name, f"{name}[i]")
    graph: Idg = source(
        "{[i]: 0<=i<32}", f"out[i] = {text.replace('F', 'fabs')}", *(flat(each, of) for each in (*"abc", "out"))
    )
    executed = lowered(graph, capability=capability).mix().items()
    return Counter({name: int(number) for name, number in executed if name[0] not in ("load", "store")})


# }}}
