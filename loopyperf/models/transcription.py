"""What a model says of a kernel at one size, written down as JSON and read back to the last bit.

JSON numbers here are the shortest decimals that tell a float64 from all others. Integers stay integers.
"""

import msgspec

from loopyperf.models.result import Alternative, Breakdown, Columns, ModelTime, Row

Number = int | float
Answer = tuple[str, ModelTime]
"""the kernel's name, and what a model says of it"""

# {{{ what is written


class _Row(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    property: str
    source: str
    count: Number
    weight: Number | None
    seconds: Number


class _Alternative(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    seconds: Number
    arrays: tuple[str, ...]
    assumption: str
    reason: str


class _Breakdown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rows: tuple[_Row, ...]


class _ModelTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seconds: Number
    breakdown: _Breakdown
    unfitted: tuple[str, ...]
    notes: tuple[str, ...]
    interval: tuple[Number, Number] | None
    unsure: tuple[str, ...]
    alternatives: tuple[_Alternative, ...]
    left_out: tuple[str, ...]
    columns: Columns


_Answer = tuple[str, _ModelTime]
_decoder = msgspec.json.Decoder(_Answer)

# }}}


def transcribed(answer: Answer) -> bytes:
    """Return *answer* as JSON; raises :class:`msgspec.ValidationError` for one that holds other than plain numbers."""
    return msgspec.json.encode(msgspec.convert(answer, _Answer, from_attributes=True))


def read(transcript: bytes) -> Answer:
    """Return the answer that was :func:`transcribed`; raises :class:`msgspec.MsgspecError` for anything else."""
    kernel, time = _decoder.decode(transcript)
    rows = (Row(row.property, row.source, row.count, row.weight, row.seconds) for row in time.breakdown.rows)
    others = (Alternative(each.seconds, each.arrays, each.assumption, each.reason) for each in time.alternatives)
    return kernel, ModelTime(
        seconds=time.seconds,
        breakdown=Breakdown(tuple(rows)),
        unfitted=time.unfitted,
        notes=time.notes,
        interval=time.interval,
        unsure=time.unsure,
        alternatives=tuple(others),
        left_out=time.left_out,
        columns=time.columns,
    )
