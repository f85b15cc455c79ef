"""A number that was estimated, with its standard error."""

from dataclasses import dataclass

from loopyperf.units import in_percent


@dataclass(frozen=True, slots=True)
class Estimated:
    """A number and its standard error, in the same unit."""

    value: float
    error: float

    @property
    def relative_error(self) -> float:
        """Return the error as a share of the value."""
        return self.error / abs(self.value) if self.value else float("inf")

    @property
    def credible(self) -> "Estimated | None":
        """Return the number if it is above 0 by twice its error, None otherwise."""
        return self if self.value > 2 * self.error else None

    def times(self, factor: float) -> "Estimated":
        """Return the number in another unit."""
        return Estimated(self.value * factor, self.error * abs(factor))

    def __str__(self) -> str:
        """Return the error for a source, e.g. ``"± 0.4 %"``."""
        return f"± {in_percent(self.relative_error, 1)}"
