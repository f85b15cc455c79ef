"""What a description says of a device in words, some of it with a source.

The words are enumerations whose members are equal to the strings that files have.
"""

from enum import StrEnum

import msgspec

from loopyperf.device.quantity import Words


class Policy(StrEnum):
    """Which warp issues where several could: :mod:`loopyperf.pipeline.schedulers` has the rules."""

    ROUND_ROBIN = "round-robin"
    GREEDY_THEN_OLDEST = "greedy-then-oldest"
    GREEDY_THEN_YOUNGEST = "greedy-then-youngest"
    OLDEST_FIRST = "oldest-first"
    QUANTUM = "quantum"


class RegisterAllocation(StrEnum):
    """What registers are allocated to."""

    WARP = "warp"
    """each warp by itself"""
    GROUP = "group"
    """the group as a whole"""


class Lanes(StrEnum):
    """How the work-items of a warp execute."""

    TOGETHER = "together"
    """always at once, as on GPUs"""
    IN_TURN = "in turn"
    """the compiler makes loops over the work-items of a group, in which a warp is what vector instructions do at once,
    where it can use them"""


class Per(StrEnum):
    """What there is one of a memory for."""

    CORE = "core"
    DEVICE = "device"


class SharedPipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which pipeline executes a subsystem's instructions."""

    pipeline: Words
    """name of the pipeline"""
    source: Words
    """the document, and after a comma where in it"""


class Scheduling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which warp issues where several could."""

    policy: Policy
    """its rule"""
    source: Words
    """the document, and after a comma where in it"""
