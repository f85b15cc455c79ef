"""Records of earlier schemas as the current one has them, so that archives from before are read and resumed.

Schema 2 added rules to the protocol, and to a measurement what may be absent: the device's own samples, its clock and
temperature, the yardstick and which attempt it was. Schema 3 added samples, lines that no earlier archive has. Only the
line of a run changes.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from loopyperf.errors import ArchiveError

Document = dict[str, object]
"""A line of an archive, as JSON has it."""


def upgrade_1_to_2(run: Document) -> Document:
    """Return a run of schema 1 with what its protocol did without saying so.

    All runs were made whatever they took, with warm caches, in the order of the kernel files; there was no yardstick.
    """
    protocol = run.get("protocol", {})
    if not isinstance(protocol, dict):
        raise ArchiveError(f"protocol is an object; received {protocol!r:.80}")
    protocol = cast("Document", protocol)
    fixed = {
        "fewest": _number(protocol, "runs", 30) - _number(protocol, "dropped", 4),
        "caches": "warm",
        "seed": None,
        "yardstick_runs": 0,
        "repeats": 0,
    }
    return {**run, "schema": 2, "protocol": {**protocol, **fixed}}


def upgrade_2_to_3(run: Document) -> Document:
    """Return a run of schema 2, after which there were no samples."""
    return {**run, "schema": 3}


UPGRADES: Mapping[int, Callable[[Document], Document]] = MappingProxyType({1: upgrade_1_to_2, 2: upgrade_2_to_3})
"""For each earlier schema, the function that makes its run one of the next."""


def upgraded(run: Document, schema: int) -> Document:
    """Return the line of a *run* of an earlier *schema* as one of the current schema.

    Raises :class:`ArchiveError` for a schema that never was.
    """
    if schema not in UPGRADES:
        raise ArchiveError(f"no loopyperf has written schema {schema}; the first one was {min(UPGRADES)}")
    while schema in UPGRADES:
        run = UPGRADES[schema](run)
        schema += 1
    return run


def _number(protocol: Document, name: str, default: int) -> int:
    value = protocol.get(name, default)
    if not isinstance(value, int):
        raise ArchiveError(f"protocol.{name} is a whole number; received {value!r}")
    return value
