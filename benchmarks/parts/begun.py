"""What was begun and not finished: a note beside an archive, which outlives the process that it tells of.

A kernel may leave CUDA unusable for its process, end the process, or never end. The campaign into the archive, started
again, would meet it again, and never get past it. So each configuration is written down before it begins, and crossed
out when it is over. What was begun twice and never finished is left out from then on, until somebody removes its line.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from loopyperf.measurement.environment import Configuration, DeviceLimits
from loopyperf.measurement.kernel_files import KernelFile

TWICE = 2
"""times; once may be the person who ended the process"""

Times = Mapping[tuple[str, str], int]
"""class and label of a configuration -> how often it was begun and not finished"""


class Begun:
    """The note for one archive."""

    def __init__(self, archive: Path) -> None:
        """Go on with what an earlier process has noted."""
        self._path = archive.with_suffix(".begun.json")
        self._times = self._read()
        self._current: tuple[str, str] | None = None

    @property
    def times(self) -> Times:
        """Return what was noted, as it is now."""
        return dict(self._times)

    @property
    def skipped(self) -> frozenset[tuple[str, str]]:
        """Return what is left out."""
        return frozenset(key for key, times in self._times.items() if times >= TWICE)

    def begin(self, kernel_class: str, label: str) -> None:
        """Note that a configuration begins, and that the one before is over."""
        self.finish()
        self._current = (kernel_class, label)
        self.note({**self._times, self._current: self._times.get(self._current, 0) + 1})

    def finish(self) -> None:
        """Note that the configuration that was begun last is over."""
        if self._current is not None:
            self.note({key: times for key, times in self._times.items() if key != self._current})
            self._current = None

    def note(self, times: Times) -> None:
        """Replace all that was noted; where there is nothing, there is no file."""
        self._times = dict(times)
        if not times:
            self._path.unlink(missing_ok=True)
            return
        lines = [json.dumps([*key, times]) for key, times in self._times.items()]
        written = self._path.with_suffix(".new")
        written.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        written.replace(self._path)

    def _read(self) -> dict[tuple[str, str], int]:
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        return {(kernel_class, label): times for kernel_class, label, times in map(json.loads, lines)}


def without(files: Iterable[KernelFile], skipped: frozenset[tuple[str, str]]) -> tuple[KernelFile, ...]:
    """Return *files* without the configurations that are *skipped*, by class and label."""

    def kept(file: KernelFile, limits: DeviceLimits) -> list[Configuration]:
        return [each for each in file.configurations(limits) if (file.name, each.label) not in skipped]

    return tuple(replace(file, configurations=lambda limits, file=file: kept(file, limits)) for file in files)
