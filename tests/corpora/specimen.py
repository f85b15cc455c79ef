"""One kernel of a corpus."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loopy import TranslationUnit


@dataclass(frozen=True, slots=True)
class Specimen:
    """A pickled kernel and its name."""

    name: str
    pickled: bytes = field(repr=False)
    entry_point: str | None = None
    """name of the kernel, if the program has several entry points"""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """of the recorded call: the shapes of arrays, the values of integers"""

    def unit(self) -> TranslationUnit:
        """Return the translation unit."""
        unit: TranslationUnit = pickle.loads(self.pickled)
        return unit if self.entry_point is None else unit.with_entrypoints(self.entry_point)
