"""What models say beside their times, each sentence once, with the models that say it."""

from collections.abc import Iterator

from loopyperf.models.result import LEVEL, Estimate
from loopyperf.oracle.explanation.explanation import OnDevice
from loopyperf.units import duration, in_percent


def notes_on(on: OnDevice) -> dict[str, tuple[str, ...]]:
    """Return sentence -> the models that say it, those of the model that is shown first before all others.

    What the answer of that one has in its first line, its interval and what it leaves out, is not among them.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(on.estimates, key=lambda name: name != on.first):
        estimate = on.estimates[name]
        headline = () if name == on.first else tuple(_headline(estimate))
        for sentence in dict.fromkeys((*headline, *_sentences(estimate))):
            found[sentence] = (*found.get(sentence, ()), name)
    return found


def _headline(estimate: Estimate) -> Iterator[str]:
    """Yield what the first line of an answer has beside the time and what most of it is for."""
    if estimate.left_out:
        yield estimate.without.strip(" ()")
    if estimate.interval is not None:
        low, high = (duration(float(end)) for end in estimate.interval)
        yield f"{in_percent(LEVEL)} interval: {low} to {high}"


def _sentences(estimate: Estimate) -> Iterator[str]:
    yield from (f"or: {each}" for each in estimate.alternatives)
    for array in estimate.unsure:
        yield f"it is unsure whether the compiler keeps the private array {array} in registers"
    yield from estimate.notes
