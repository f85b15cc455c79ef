"""Random kernels whose branches depend on loaded values, with accesses of the same elements inside and outside of them.

Conditions are named values and a version: the number of times that the value was changed before. An access is
*replaceable* if an earlier access of its element executes whenever it does, or if it is a store that overwrites one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import loopy as lp
import numpy as np

Under = frozenset[tuple[str, int, bool]]
"""(condition, version of its value, whether it holds)"""
TESTS = ("{} > 0", "{} < 2.5")
TRIPS = 3


@dataclass
class Branches:
    """The code of a random kernel; :attr:`conditions` are those on data, by text."""

    seed: int
    replaceable: bool = False
    """whether a compiler may remove some of the accesses"""
    arrays: dict[str, str] = field(default_factory=dict[str, str])
    """array -> shape"""
    conditions: set[str] = field(default_factory=set[str])
    features: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)
        self.accesses: dict[str, list[tuple[str, Under]]] = {}
        self.versions: dict[str, int] = {}
        self.group = self.draw.choice((64, 128, 256))
        self.code = "\n".join(("for i", *(f"    {line}" for line in self._kernel()), "end"))

    def build(self) -> lp.TranslationUnit:
        """Return the kernel over n work-items; n must be a multiple of the group."""
        unit = lp.make_kernel(
            ["{[i]: 0 <= i < n}", *([f"{{[k]: 0 <= k < {TRIPS}}}"] if "loop" in self.features else [])],
            self.code,
            [
                *(lp.GlobalArg(name, np.float64, shape=shape) for name, shape in sorted(self.arrays.items())),
                lp.ValueArg("n", np.int32),
            ],
            assumptions=f"n >= {self.group} and n mod {self.group} = 0",
            lang_version=(2018, 2),
            seq_dependencies=True,
            name="branches",
        )
        return lp.split_iname(unit, "i", self.group, outer_tag="g.0", inner_tag="l.0")

    def probabilities(self, share: float) -> dict[str, float]:
        """Return a probability of each condition; all are 0, or 1, if *share* is."""
        shares = (share,) if share in (0, 1) else (0.125, 0.25, 0.5, 0.75)
        return {text: self.draw.choice(shares) for text in sorted(self.conditions)}

    # {{{ code

    def _kernel(self) -> Iterator[str]:
        yield "<> q = 0.5"
        for number in range(self.draw.randint(1, 2)):
            self.versions[f"s{number}"] = 0
            yield f"<> s{number} = {self._array(f'm{number}')}[i]"
        yield from self._block(frozenset(), 0)
        if self.draw.random() < 0.3:
            yield from self._loop()
            yield from self._block(frozenset(), 1)
        yield f"{self._array('result')}[i] = {' + '.join(('q', *sorted(self.versions)))}"

    def _array(self, name: str, shape: str = "n") -> str:
        self.arrays[name] = shape
        return name

    def _block(self, under: Under, depth: int) -> Iterator[str]:
        for _ in range(self.draw.randint(1, 3) if depth else self.draw.randint(3, 5)):
            outer = ("if", "if", "choice", "change") if depth < 2 else ()
            kind = self.draw.choice(("load", "store", *outer))
            if kind == "if":
                yield from self._branch(under, depth)
            elif kind == "choice":
                yield from self._choice(under)
            elif kind == "change" and not under:
                name = self.draw.choice(sorted(self.versions))
                self.versions[name] += 1
                self.features.add("changed condition")
                yield f"{name} = {name} + {self._array(f'd{len(self.arrays)}')}[i]"
            else:
                yield from self._access("store" if kind == "store" else "load", under)

    def _branch(self, under: Under, depth: int) -> Iterator[str]:
        name, test = self.draw.choice(sorted(self.versions)), self.draw.choice(TESTS)
        key = (test.format(name), self.versions[name])
        if any(key == each[:2] for each in under):
            return  # Loopy mistakes the else of the inner one for that of the outer one
        self.conditions.add(key[0])
        self.features.add("nested if" if under else "if")
        yield f"if {key[0]}"
        yield from self._side(under | {(*key, True)}, depth)
        if self.draw.random() < 0.6:
            self.features.add("else")
            yield "else"
            yield from self._side(under | {(*key, False)}, depth)
        yield "end"

    def _side(self, under: Under, depth: int) -> Iterator[str]:
        lines = list(self._block(under, depth + 1)) or list(self._fresh_load())
        if self.draw.random() < 0.3:
            self.features.add("long branch")
            lines.append("q = sqrt(q*q + 1.0)/(q*q + 2.0)")  # not predicated
        yield from (f"    {line}" for line in lines)

    def _choice(self, under: Under) -> Iterator[str]:
        name = self.draw.choice(sorted(self.versions))
        text = TESTS[0].format(name)
        self.conditions.add(text)
        self.features.add("choice")
        one, other = (self._array(f"c{len(self.arrays)}") for _ in range(2))
        yield f"q = q + if({text}, {one}[i], 3.0*{other}[i])"

    def _loop(self) -> Iterator[str]:
        """Yield a loop with a condition that differs between its iterations, inside of which an element is loaded."""
        self.features.add("loop")
        self.conditions.add("r > 0")
        once = self._array(f"o{len(self.arrays)}")
        yield "for k"
        yield f"    <> r = {self._array('w', f'{TRIPS}, n')}[k, i]"
        yield "    if r > 0"
        yield f"        q = q + {once}[i]"
        yield f"        {self._array('z', f'{TRIPS}, n')}[k, i] = q"
        yield "    else"
        yield f"        {self._array('z', f'{TRIPS}, n')}[k, i] = 2.0*q + {self._array('u', f'{TRIPS}, n')}[k, i]"
        yield "    end"
        yield "end"
        yield f"q = q + {once}[i]"

    def _access(self, kind: str, under: Under) -> Iterator[str]:
        known = [name for name in self.accesses if self.replaceable or not self._is_replaceable(name, kind, under)]
        if not known or self.draw.random() < 0.4:
            yield from self._fresh_load() if kind == "load" and self.draw.random() < 0.3 else self._new(kind, under)
            return
        name = self.draw.choice(known)
        self.features.add(f"{kind} of a known element")
        yield from self._written(name, kind, under)

    def _new(self, kind: str, under: Under) -> Iterator[str]:
        name = self._array(f"e{len(self.arrays)}")
        self.accesses[name] = []
        yield from self._written(name, kind, under)

    def _fresh_load(self) -> Iterator[str]:
        yield f"q = q + {self._array(f'f{len(self.arrays)}')}[i]"

    def _written(self, name: str, kind: str, under: Under) -> Iterator[str]:
        self.accesses[name].append((kind, under))
        yield f"q = q + {name}[i]" if kind == "load" else f"{name}[i] = {len(self.accesses[name])}.5*q"

    def _is_replaceable(self, name: str, kind: str, under: Under) -> bool:
        earlier: Sequence[tuple[str, Under]] = self.accesses[name]
        if kind == "store":
            return any(what == "store" and under <= above for what, above in earlier)
        return any(above <= under for _, above in earlier)

    # }}}
