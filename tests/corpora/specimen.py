"""One kernel of a corpus."""

import pickle
from dataclasses import dataclass, field

from loopy import TranslationUnit


@dataclass(frozen=True, slots=True)
class Specimen:
    """A kernel, pickled, with a name to find it by."""

    name: str
    pickled: bytes = field(repr=False)
    entry_point: str | None = None
    """of several"""

    def unit(self) -> TranslationUnit:
        """Return the translation unit."""
        unit: TranslationUnit = pickle.loads(self.pickled)
        return unit if self.entry_point is None else unit.with_entrypoints(self.entry_point)
