"""Kernel counts as JSON for the cache, with an exact round trip.

Polynomials and assumptions are in isl's notation. Repeated values are stored once in a table and referenced by index,
so that shared counts are shared again after reading. The cache trusts its files, which are of the same version.
"""

from dataclasses import astuple
from fractions import Fraction
from typing import Any

import islpy as isl
import msgspec

from loopyperf.counts.execution import Counting
from loopyperf.counts.item import Access, Item, MemorySpace, Operation, Overhead
from loopyperf.counts.kernel_counts import KernelCounts, Signature, Tally
from loopyperf.errors import brief
from loopyperf.kernel.kernel import Group
from loopyperf.polyhedral.expressions import Same
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial

ITEMS: dict[str, type[Item]] = {each.__name__: each for each in (Operation, Access, Overhead)}


class _Transcript(msgspec.Struct, frozen=True):
    kernel: str
    assumptions: str
    group: Group
    contiguous: tuple[str, ...]
    counting: Counting
    sub_group_size: int | None
    assumed: tuple[str, ...]
    items: tuple[tuple[Any, ...], ...]
    """name of the class, and the fields"""
    polynomials: tuple[str, ...]
    tallies: tuple[tuple[str, str, int, str, int], ...]
    """launch, source, place of the item, number, place of the polynomial"""


_decoder = msgspec.json.Decoder(_Transcript)


def counts_as_json(counted: KernelCounts) -> bytes:
    """Return *counted* as JSON."""
    items = {item: place for place, item in enumerate(dict.fromkeys(tally.item for tally in counted.tallies))}
    counts = dict.fromkeys(Same(tally.executions) for tally in counted.tallies)
    places = {key: place for place, key in enumerate(counts)}
    transcript = _Transcript(
        kernel=counted.kernel.name,
        assumptions=str(counted.kernel.assumptions),
        group=counted.kernel.group,
        contiguous=tuple(sorted(counted.kernel.contiguous)),
        counting=counted.counting,
        sub_group_size=counted.sub_group_size,
        assumed=tuple(map(str, counted.assumed)),
        items=tuple((type(item).__name__, *astuple(item)) for item in items),
        polynomials=tuple(str(key.value.polynomial) for key in counts),
        tallies=tuple(
            (each.launch, each.source, items[each.item], str(each.number), places[Same(each.executions)])
            for each in counted.tallies
        ),
    )
    return msgspec.json.encode(transcript)


def read_counts(transcript: bytes) -> KernelCounts:
    """Return the counts that :func:`counts_as_json` wrote; raises :class:`ValueError` for anything else."""
    try:
        return _restored(_decoder.decode(transcript))
    except (msgspec.MsgspecError, isl.Error, ArithmeticError, LookupError, TypeError) as error:
        raise ValueError(f"not a transcript of kernel counts: {brief(error)}") from error


def _restored(transcript: _Transcript) -> KernelCounts:
    assumptions = isl.BasicSet(transcript.assumptions)
    counts = [QuasiPolynomial.read(text, assumptions) for text in transcript.polynomials]
    items = [_item(*fields) for fields in transcript.items]
    return KernelCounts(
        kernel=Signature(transcript.kernel, assumptions, transcript.group, frozenset(transcript.contiguous)),
        counting=transcript.counting,
        tallies=tuple(
            Tally(launch, source, items[item], Fraction(number) if "/" in number else int(number), counts[executions])
            for launch, source, item, number, executions in transcript.tallies
        ),
        sub_group_size=transcript.sub_group_size,
        assumed=transcript.assumed,
    )


def _item(name: str, *fields: Any) -> Item:
    if name == "Access":
        direction, space, bits, stride = fields
        return Access(direction, MemorySpace(space), bits, stride)
    return ITEMS[name](*fields)
