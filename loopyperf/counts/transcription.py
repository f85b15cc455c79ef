"""Kernel counts as JSON, with an exact round trip.

Polynomials and assumptions are in isl's notation. Repeated values are stored once in a table and referenced by index,
so that shared counts are shared again after reading.
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, TypeVar

import islpy as isl
import msgspec

from loopyperf.counts.execution import Counting, Executions
from loopyperf.counts.item import Access, Item, Operation, Overhead
from loopyperf.counts.kernel_counts import KernelTallies, LeftOut, Signature, Tally
from loopyperf.errors import LoopyperfError, brief
from loopyperf.kernel.kernel import Group
from loopyperf.polyhedral.expressions import Same
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial

SCHEMA = 3
"""schema version of the format; no other version is read"""
LONGEST = 2**20
"""most characters of a set or polynomial in isl's notation"""
DEEPEST = 100
"""most nested brackets; isl parses them by recursion"""
GREATEST = 64
"""highest power of a size; isl expands powers"""

Value = TypeVar("Value")


class TranscriptError(LoopyperfError, ValueError):
    """Data that is not a transcript of kernel counts, or was written by another version."""


# {{{ format


Place = Annotated[int, msgspec.Meta(ge=0)]
"""index into a table; negative indices are invalid"""
Ratio = Annotated[str, msgspec.Meta(pattern="^-?[0-9]{1,4000}(/[1-9][0-9]{0,4000})?$")]
"""exact number"""


class _Tally(msgspec.Struct, frozen=True, array_like=True):
    launch: Place
    source: Place
    item: Place
    number: Ratio
    executions: Place


class _Run(msgspec.Struct, frozen=True, array_like=True):
    source: Place
    executions: Place
    weight: Ratio


class _Transcript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int
    kernel: str
    assumptions: Annotated[str, msgspec.Meta(max_length=LONGEST)]
    group: Group
    contiguous: tuple[str, ...]
    counting: Counting
    sub_group_size: int | None
    assumed: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    names: tuple[str, ...]
    """names of launches and sources"""
    operations: tuple[Operation, ...]
    accesses: tuple[Access, ...]
    overheads: tuple[Overhead, ...]
    """items are numbered through operations, accesses and overheads"""
    polynomials: tuple[Annotated[str, msgspec.Meta(max_length=LONGEST)], ...]
    tallies: tuple[_Tally, ...]
    runs: tuple[_Run, ...]


_decoder = msgspec.json.Decoder(_Transcript)

# }}}


def counts_as_json(counted: KernelTallies) -> bytes:
    """Return *counted* as JSON."""
    return msgspec.json.encode(_written(counted))


def read_counts(transcript: bytes) -> KernelTallies:
    """Return the counts that :func:`counts_as_json` wrote; raises :class:`TranscriptError` for anything else."""
    try:
        return _restored(_decoder.decode(transcript))
    except (msgspec.MsgspecError, isl.Error, ValueError, ArithmeticError, IndexError, RecursionError) as error:
        raise TranscriptError(f"not a transcript of kernel counts: {brief(error)}") from error


# {{{ writing


def _written(counted: KernelTallies) -> _Transcript:
    tallies, runs = counted.tallies, counted.runs
    named = (name for tally in tallies for name in (tally.launch, tally.source))
    names = tuple(dict.fromkeys((*named, *runs)))
    items = dict.fromkeys(tally.item for tally in tallies)
    operations, accesses, overheads = _of_kind(Operation, items), _of_kind(Access, items), _of_kind(Overhead, items)
    shared = [*(tally.executions for tally in tallies), *(run.count for run in runs.values())]
    counts = dict.fromkeys(map(Same, shared))
    name, item, count = _places(names), _places((*operations, *accesses, *overheads)), _places(counts)
    return _Transcript(
        schema=SCHEMA,
        kernel=counted.kernel.name,
        assumptions=str(counted.kernel.assumptions),
        group=counted.kernel.group,
        contiguous=tuple(sorted(counted.kernel.contiguous)),
        counting=counted.counting,
        sub_group_size=counted.sub_group_size,
        assumed=tuple(map(str, counted.assumed)),
        left_out=counted.left_out,
        names=names,
        operations=operations,
        accesses=accesses,
        overheads=overheads,
        polynomials=tuple(key.value.transcript for key in counts),
        tallies=tuple(
            _Tally(name[t.launch], name[t.source], item[t.item], str(t.number), count[Same(t.executions)])
            for t in tallies
        ),
        runs=tuple(_Run(name[key], count[Same(run.count)], str(run.weight)) for key, run in runs.items()),
    )


def _of_kind(kind: type[Value], values: Iterable[object]) -> tuple[Value, ...]:
    return tuple(value for value in values if isinstance(value, kind))


def _places(values: Iterable[Value]) -> dict[Value, int]:
    return {value: place for place, value in enumerate(values)}


# }}}


# {{{ reading


def _restored(transcript: _Transcript) -> KernelTallies:
    if transcript.schema != SCHEMA:
        raise ValueError(f"schema {transcript.schema}, expected {SCHEMA}")
    names = transcript.names
    items: tuple[Item, ...] = (*transcript.operations, *transcript.accesses, *transcript.overheads)
    _check_notation((transcript.assumptions, *transcript.polynomials))
    assumptions = isl.BasicSet(transcript.assumptions)
    counts = [_count(text, assumptions) for text in transcript.polynomials]
    return KernelTallies(
        kernel=Signature(transcript.kernel, assumptions, transcript.group, frozenset(transcript.contiguous)),
        counting=transcript.counting,
        tallies=tuple(
            Tally(names[t.launch], names[t.source], items[t.item], _number(t.number), counts[t.executions])
            for t in transcript.tallies
        ),
        sub_group_size=transcript.sub_group_size,
        assumed=transcript.assumed,
        left_out=transcript.left_out,
        runs={names[run.source]: Executions(counts[run.executions], Fraction(run.weight)) for run in transcript.runs},
    )


TOKEN = re.compile(r"(?P<open>[(\[{])|(?P<close>[)\]}])|(?:\^|\*\*)\s*(?P<power>\d+)")


def _check_notation(texts: Iterable[str]) -> None:
    """Raise :class:`ValueError` for text that isl would parse too slowly or crash on."""
    for text in texts:
        within, closed = [1], 1  # highest power in each open bracket; in the last closed one, whose power may follow
        for token in TOKEN.finditer(text):
            if token["open"]:
                within.append(1)
            elif token["close"] and len(within) > 1:
                closed = within.pop()
                within[-1] = max(within[-1], closed)
            elif token["power"]:
                base = closed if text[max(0, token.start() - 9) : token.start()].rstrip().endswith(")") else 1
                within[-1] = max(within[-1], base * int(token["power"][:9]))
            if len(within) > DEEPEST or within[-1] > GREATEST:
                raise ValueError(f"brackets nested deeper than {DEEPEST}, or a power above {GREATEST}: {text:.80}")


def _count(text: str, assumptions: isl.BasicSet) -> QuasiPolynomial:
    """Return the count written as *text*; it must be over the sizes of *assumptions* and finite."""
    count = QuasiPolynomial.read(text, assumptions)
    if not count.polynomial.get_domain_space().is_equal(assumptions.get_space()) or "NaN" in text or "infty" in text:
        raise ValueError(f"not a count over {assumptions}: {text:.80}")
    return count


def _number(text: str) -> int | Fraction:
    return Fraction(text) if "/" in text else int(text)


# }}}
