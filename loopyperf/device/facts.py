"""What a description says of a device in words, some of it with a source.

The words are enumerations whose members are equal to the strings that files have.
"""

import msgspec

from loopyperf.device.quantity import Words
from loopyperf.units import Word


class Policy(Word):
    """Which warp issues where several could: :mod:`loopyperf.pipeline.schedulers` has the rules."""

    ROUND_ROBIN = "round-robin"
    GREEDY_THEN_OLDEST = "greedy-then-oldest"
    GREEDY_THEN_YOUNGEST = "greedy-then-youngest"
    OLDEST_FIRST = "oldest-first"
    QUANTUM = "quantum"


class RegisterAllocation(Word):
    """What registers are allocated to."""

    WARP = "warp"
    """each warp by itself"""
    GROUP = "group"
    """the group as a whole"""


class Lanes(Word):
    """How the work-items of a warp execute."""

    TOGETHER = "together"
    """always at once, as on GPUs"""
    IN_TURN = "in turn"
    """the compiler makes loops over the work-items of a group, in which a warp is what vector instructions do at once,
    where it can use them"""


class Pipeline(Word):
    """What executes instructions, beside memories, whose pipelines are called as they are; others may be described."""

    ALU = "alu"
    """arithmetic of up to 32 bits"""
    INTEGER = "integer"
    """of integers that are not multiplied, comparisons and logic: :attr:`ALU` on most devices"""
    FP64 = "fp64"
    """arithmetic of double precision"""
    SFU = "sfu"
    """special functions, divisions and conversions"""
    CONTROL = "control"
    """branches"""
    BARRIER = "barrier"


class Per(Word):
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
