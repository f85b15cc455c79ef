"""The device's clock and temperature, where a program can read them; no measurement depends on that.

NVIDIA's driver brings ``nvidia-smi``, which is asked at most once a second, as it takes some hundredths of one. OpenCL
and PoCL tell neither.
"""

import shutil
import subprocess
from dataclasses import dataclass
from time import monotonic

from loopyperf.measurement.environment import Environment

PROGRAM = "nvidia-smi"
QUERY = ("--query-gpu=name,clocks.sm,temperature.gpu", "--format=csv,noheader,nounits")
LONGEST_ANSWER = 5.0
"""seconds that the program may take"""
STILL_VALID = 1.0
"""seconds for which a reading stands"""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the device's sensors say; None is what they do not."""

    clock: float | None = None
    """of the cores, in Hz"""
    temperature: float | None = None
    """in °C"""


NOTHING = Reading()


class Sensors:
    """Reads the sensors of the device of an environment, if it has any that can be read."""

    def __init__(self, environment: Environment) -> None:
        """Look for what reads the sensors of *environment*'s device."""
        self._device = environment.device
        self._program = shutil.which(PROGRAM) if "nvidia" in environment.vendor.casefold() else None
        self._read: tuple[float, Reading] | None = None

    def read(self) -> Reading:
        """Return what the sensors say now, or said within the last second; nothing where they cannot be read."""
        if self._program is None:
            return NOTHING
        if self._read is None or monotonic() - self._read[0] > STILL_VALID:
            answer = self._answer(self._program)
            self._read = monotonic(), NOTHING if answer is None else reading_of(self._device, answer)
        return self._read[1]

    def _answer(self, program: str) -> str | None:
        try:
            return subprocess.run(
                [program, *QUERY], capture_output=True, text=True, timeout=LONGEST_ANSWER, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError):
            self._program = None  # what fails once is not asked again: it would cost time at every measurement
            return None


def reading_of(device: str, answer: str) -> Reading:
    """Return the reading of the GPU called *device* from what nvidia-smi answers, a line of three cells for each GPU.

    It is empty where there is no such GPU, or more than one: which of them was measured is not known then.
    """
    rows = [[cell.strip() for cell in line.rsplit(",", 2)] for line in answer.splitlines()]
    found = [row[1:] for row in rows if len(row) == 3 and row[0] == device]
    if len(found) != 1:
        return NOTHING
    clock, temperature = map(_number, found[0])
    return Reading(None if clock is None else clock * 1e6, temperature)


def _number(cell: str) -> float | None:
    """Return the number in *cell*, None for ``[N/A]`` and the like."""
    try:
        return float(cell)
    except ValueError:
        return None
