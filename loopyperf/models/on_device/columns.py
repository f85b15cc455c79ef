"""The columns of fitted models that one instruction has its share in; see :mod:`.pipeline_shares`."""

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Per
from loopyperf.errors import MissingNumberError
from loopyperf.idg.program import Instruction
from loopyperf.models.pipeline_names import in_files
from loopyperf.pipeline.timed_program import TimedLaunch

CORE_MEMORIES = tuple(MemorySpace)
"""subsystems of a machine graph whose accesses a pipeline of the core may have in common"""


def column_of(pipeline: str, instruction: Instruction, launch: TimedLaunch) -> str:
    """Return the column of what *instruction* takes of *pipeline*."""
    if instruction.subsystem not in CORE_MEMORIES or is_of_device(pipeline, launch):
        return in_files(pipeline)
    return f"{in_files(pipeline)}: {instruction.subsystem}"


def is_of_device(pipeline: str, launch: TimedLaunch) -> bool:
    """Return whether *pipeline* is a level of memory of which the device has one."""
    try:
        return launch.device.level(pipeline).per == Per.DEVICE
    except MissingNumberError:
        return False
