"""Random kernels: descriptions whose repr is the program that builds them, and a strategy that draws them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import loopy as lp
import numpy as np
from hypothesis import strategies as st

from tests.random_expressions import Array
from tests.random_instructions import InstructionWriter
from tests.random_loops import CROOKED, Loop, draw_domains, draw_loops
from tests.random_schedules import Mapping as LoopMapping
from tests.random_schedules import Part, Step, draw_mappings

LARGEST = {0: 64, 1: 256, 2: 64}
"""number of nested loops that are as long as a size -> the largest size at which cells are enumerated"""
UNBOUNDED = 4096
"""this largest size if the sizes are unbounded: one more or fewer cell does not change a class there"""
SHARES = ("1/2", "1/3", "3/4")


@dataclass(frozen=True, repr=False)
class RandomKernel:
    """A kernel, the sizes to count it at, and the size at which its stride classes are determined."""

    domains: tuple[str, ...]
    code: tuple[str, ...]
    arguments: tuple[tuple[str, str, tuple[str, ...], str], ...]
    """name, type, shape (empty if unknown) and order of each array"""
    parameters: tuple[str, ...]
    assumptions: str
    steps: tuple[Step, ...]
    sizes: tuple[Mapping[str, int], ...]
    class_sizes: Mapping[str, int]
    features: frozenset[str]
    share: Fraction | None
    """share of executions in which each data-dependent condition holds, if there are any"""

    def build(self) -> lp.TranslationUnit:
        """Return the Loopy kernel."""
        arrays = [
            lp.GlobalArg(name, np.dtype(dtype), **_layout(shape, order)) for name, dtype, shape, order in self.arguments
        ]
        unit = lp.make_kernel(
            list(self.domains),
            "\n".join(self.code),
            [*arrays, *(lp.ValueArg(size, np.int32) for size in self.parameters)],
            assumptions=self.assumptions or None,
            lang_version=(2018, 2),
            target=lp.PyOpenCLTarget(),
            seq_dependencies=True,
            name="random",
        )
        for step in self.steps:
            unit = getattr(lp, step.name)(unit, *step.arguments, **dict(step.options))
        return unit

    def __repr__(self) -> str:
        """Return Python source that builds the kernel."""
        return "\n".join(self._program())

    def _program(self) -> Iterator[str]:
        yield from ("import loopy as lp", "import numpy as np", "", "unit = lp.make_kernel(")
        yield f"    {list(self.domains)!r},"
        yield from ('    """', *(f"    {line}" for line in self.code), '    """,', "    [")
        for name, dtype, shape, order in self.arguments:
            layout = ", ".join(f"{option}={value!r}" for option, value in _layout(shape, order).items())
            yield f'        lp.GlobalArg("{name}", np.{dtype}, {layout}),'
        yield from (f'        lp.ValueArg("{size}", np.int32),' for size in self.parameters)
        yield f"    ],\n    assumptions={self.assumptions or None!r},"
        yield "    lang_version=(2018, 2),\n    target=lp.PyOpenCLTarget(),\n    seq_dependencies=True,\n)"
        yield from map(str, self.steps)
        yield f"class_sizes = {dict(self.class_sizes)}"
        yield f"share = {self.share}"


def _layout(shape: Sequence[str], order: str) -> dict[str, Any]:
    return {"shape": ", ".join(shape), "order": order} if shape else {"shape": None, "strides": (1,)}


@st.composite
def random_kernels(draw: Any) -> RandomKernel:
    """Draw a kernel of one to three loops."""
    parameters = draw(st.sampled_from([("n",), ("n",), ("n", "m")]))
    fetches = draw(st.integers(0, 2)) == 2
    loops = draw_loops(draw, parameters, smooth=fetches)
    mappings = draw_mappings(draw, loops)
    domains = draw_domains(draw, loops, parameters, together=fetches)
    writer = InstructionWriter(draw, loops, mappings, parameters)
    code = writer.code()
    prefetches = tuple(_prefetches(mappings, writer)) if fetches else ()
    steps = (*(step for loop in loops for step in mappings[loop.name].steps), *writer.steps, *prefetches)
    assumptions, step, largest = _draw_assumptions(draw, loops, parameters, code)
    return RandomKernel(
        domains,
        code,
        tuple((array.name, array.dtype, array.shape, array.order) for array in _used(writer)),
        parameters,
        assumptions,
        steps,
        tuple(_sizes(parameters, "n >= 1" not in assumptions, step, largest)),
        dict.fromkeys(parameters, largest),
        frozenset(_features(loops, mappings, domains, assumptions, prefetches) | writer.features),
        Fraction(draw(st.sampled_from(SHARES))) if writer.masks else None,
    )


def _used(writer: InstructionWriter) -> list[Array]:
    loaded = [array for array in writer.loaded if array.statements]
    return [*loaded, *writer.uneven, *writer.masks, *writer.stored]


# {{{ sizes


def _draw_assumptions(
    draw: Any, loops: Sequence[Loop], parameters: Sequence[str], code: Sequence[str]
) -> tuple[str, int, int]:
    """Draw the assumptions; return them, a divisor of n, and the size at which classes are determined."""
    # If, for example, only every third point is executed, a class may depend on the remainder of the size.
    periodic = any(loop.kind in CROOKED for loop in loops) or any("%" in line for line in code)
    wide = max(sum(outer.width == "wide" for outer in loop.path) for loop in loops)
    step = draw(st.sampled_from([1, 1, 1, 4, 16]))
    assumed = [f"n >= {draw(st.integers(0, 1))}", *(f"{size} >= 0" for size in parameters if size != "n")]
    assumed += [f"n mod {step} = 0"] if step > 1 else []
    if wide <= 1 and not periodic and draw(st.booleans()):
        return " and ".join(assumed), step, UNBOUNDED
    assumed += [f"{size} <= {LARGEST[wide]}" for size in parameters]
    return " and ".join(assumed), step, LARGEST[wide]


def _sizes(parameters: Sequence[str], from_zero: bool, step: int, largest: int) -> Iterator[Mapping[str, int]]:
    """Yield every n up to 20 steps and a larger one, each with several values of m."""
    first = 0 if from_zero else 1
    ns = (step * factor for factor in (*range(first, 21), 41) if step * factor <= min(largest, 64))
    others = (1, 2, 3, 7, 16) if "m" in parameters else (0,)
    for n, m in product(ns, others):
        yield {name: value for name, value in {"n": n, "m": m}.items() if name in parameters}


# }}}


# {{{ prefetches


def _prefetches(mappings: Mapping[str, LoopMapping], writer: InstructionWriter) -> Iterator[Step]:
    """Yield a prefetch of each array that only one statement uses, at constant distances."""
    for array in writer.loaded:
        sweep = _swept(array, mappings)
        if len(array.statements) == 1 and sweep:
            tag = "l.auto" if any(part.tag for part in sweep) else None
            yield Step("add_prefetch", (array.name, [part.name for part in sweep]), (("default_tag", tag),))


def _swept(array: Array, mappings: Mapping[str, LoopMapping]) -> list[Part]:
    parts = [part for loop in sorted(array.loops) for part in mappings[loop].parts]
    return [part for part in parts if part.length is not None and (part.tag or "l").startswith("l")]


# }}}


# {{{ features


def _features(
    loops: Sequence[Loop],
    mappings: Mapping[str, LoopMapping],
    domains: Sequence[str],
    assumptions: str,
    prefetches: Sequence[Step],
) -> set[str]:
    features = {f"{loop.kind} loop" for loop in loops}
    features |= {mapping.kind for mapping in mappings.values()}
    features |= {part.tag for mapping in mappings.values() for part in mapping.parts if part.tag}
    features |= {f"{len(loops)} loops"}
    features |= {"tree of domains"} if any("," in d.split("->")[0] and d.count("[") > 1 for d in domains[1:]) else set()
    features |= {"assumed remainder"} if "mod" in assumptions else set()
    features |= {"prefetch"} if prefetches else set()
    return features


def census(kernels: Sequence[RandomKernel]) -> Counter[str]:
    """Return how many of *kernels* have each feature."""
    return Counter(feature for kernel in kernels for feature in kernel.features)


# }}}
