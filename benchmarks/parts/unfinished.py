"""A file beside an archive with the configurations that were started but did not finish.

A kernel may make CUDA unusable for its process, crash the process, or hang. A restarted campaign would run the same
kernel again and never get past it. So each configuration is written to the file before it starts, and removed when it
finishes. Configurations that were started twice without finishing are skipped, until a user removes their lines.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from loopyperf.measurement.environment import Configuration, DeviceLimits
from loopyperf.measurement.kernel_files import KernelFile

MAX_STARTS = 2
"""starts without a finish after which a configuration is skipped; a single one may be a user's interrupt"""

Starts = Mapping[tuple[str, str], int]
"""class and label of a configuration -> number of starts without a finish"""


class UnfinishedConfigurations:
    """The unfinished configurations of one archive."""

    def __init__(self, archive: Path) -> None:
        """Load the file that an earlier process may have written."""
        self._path = archive.with_suffix(".begun.json")
        self._starts = self._read()
        self._current: tuple[str, str] | None = None

    @property
    def starts(self) -> Starts:
        """Return the number of unfinished starts of each configuration."""
        return dict(self._starts)

    @property
    def skipped(self) -> frozenset[tuple[str, str]]:
        """Return the configurations to skip."""
        return frozenset(key for key, starts in self._starts.items() if starts >= MAX_STARTS)

    def begin(self, kernel_class: str, label: str) -> None:
        """Record that a configuration starts, and that the previous one has finished."""
        self.finish()
        self._current = (kernel_class, label)
        self.replace_all({**self._starts, self._current: self._starts.get(self._current, 0) + 1})

    def finish(self) -> None:
        """Record that the current configuration has finished."""
        if self._current is not None:
            self.replace_all({key: starts for key, starts in self._starts.items() if key != self._current})
            self._current = None

    def replace_all(self, starts: Starts) -> None:
        """Replace all records, and delete the file if there are none."""
        self._starts = dict(starts)
        if not starts:
            self._path.unlink(missing_ok=True)
            return
        lines = [json.dumps([*key, starts]) for key, starts in self._starts.items()]
        temporary = self._path.with_suffix(".new")
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        temporary.replace(self._path)

    def _read(self) -> dict[tuple[str, str], int]:
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        return {(kernel_class, label): starts for kernel_class, label, starts in map(json.loads, lines)}


def without(files: Iterable[KernelFile], skipped: frozenset[tuple[str, str]]) -> tuple[KernelFile, ...]:
    """Return *files* without the configurations in *skipped*, which contains classes and labels."""

    def kept(file: KernelFile, limits: DeviceLimits) -> list[Configuration]:
        return [each for each in file.configurations(limits) if (file.name, each.label) not in skipped]

    return tuple(replace(file, configurations=lambda limits, file=file: kept(file, limits)) for file in files)
