"""What was assumed in place of numbers that a device's description lacks, and the notes that say so."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from loopyperf.device.description import Device
from loopyperf.device.parts import Of, Substitute, Substitution
from loopyperf.kernel.launches import sentences
from loopyperf.models.aspects import ASPECTS, Aspect
from loopyperf.pipeline.timed_program import TimedProgram

LATENCIES: tuple[Of, ...] = ("latency of computation", "latency of memory")
IN_WORDS: Mapping[Of, str] = {"limit": "limits of a core", "throughput": "throughputs"}
"""of what there is one note; latencies have one for both kinds"""


def notes_of(program: TimedProgram, sees: Collection[Aspect] = ASPECTS) -> tuple[str, ...]:
    """Return what was assumed of all launches, and of the device, in sentences.

    For a model that *sees* so much, what is assumed of other latencies is not in them.
    """
    assumed = sentences([each for launch in program.launches for each in launch.assumed])
    substitutions = [each for launch in program.launches for each in launch.substitutions]
    return (*assumed, *substitution_notes(substitutions, program.device.slug, sees))


def limit_substitutions(device: Device) -> Iterator[Substitution]:
    """Yield what was assumed of the limits of a completed *device*."""
    limits = (("warp_size", device.source("warp_size")), *device.limits.known())
    yield from (Substitution.made("limit", name, each) for name, each in limits if isinstance(each, Substitute))


def needed(substitutions: Iterable[Substitution], sees: Collection[Aspect]) -> Iterator[Substitution]:
    """Yield those of *substitutions* that a model needs which *sees* so much."""
    yield from (each for each in substitutions if each.of not in LATENCIES or each.of in sees)


def substitution_notes(substitutions: Collection[Substitution], slug: str, sees: Collection[Aspect]) -> Iterator[str]:
    """Yield a note on each kind of *substitutions* for the device *slug* that a model needs which *sees* so much."""
    every = tuple(needed(dict.fromkeys(substitutions), sees))
    for kind, words in IN_WORDS.items():
        yield from _one_note(words, slug, [each for each in every if each.of == kind])
    yield from _one_note("latencies", slug, [each for each in every if each.of in LATENCIES])


def told(substitutions: Iterable[Substitution]) -> str:
    """Return *substitutions* as a list, those with one reason together."""
    sources: dict[str, list[str]] = {}
    for each in substitutions:
        sources.setdefault(each.as_what, []).append(each.number)
    return "; ".join(f"{', '.join(numbers)} ({as_what})" for as_what, numbers in sources.items())


def _one_note(what: str, slug: str, substitutions: Collection[Substitution]) -> Iterator[str]:
    if substitutions:
        yield f"{what} that the description of {slug} lacks are assumed: {told(substitutions)}"
