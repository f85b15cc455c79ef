"""What a description says of a device in words: each fact with its source."""

from typing import Literal

import msgspec

from loopyperf.device.quantity import Words

Policy = Literal["round-robin", "greedy-then-oldest", "greedy-then-youngest", "oldest-first", "quantum"]
"""which warp issues where several could: :data:`loopyperf.pipeline.schedulers.SCHEDULERS` has their rules"""


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
