"""Which sizes of a configuration's ladder are worth measuring (Stevens and Klöckner, section 4.2)."""

from collections.abc import Callable, Iterator

from loopyperf.measurement.configuration import Configuration, Sizes

Probe = Callable[[Sizes], float | None]
"""Returns how many seconds a kernel runs at one size, or None where its arrays do not fit into the memory."""


def sizes_to_measure(configuration: Configuration, probe: Probe, shortest: float, longest: float) -> Iterator[Sizes]:
    """Yield ``steps`` sizes, ``stride`` apart, from the smallest that runs at least *shortest* seconds.

    They end early where a size runs more than *longest* seconds or does not fit. If no size that fits runs long
    enough, the largest that fits is the only one. Sizes are probed as late as possible: the caller may measure one
    before the next is probed.
    """
    fitting: int | None = None
    for index, sizes in enumerate(configuration.sizes):
        seconds = probe(sizes)
        if seconds is None or seconds > longest:
            break
        if seconds >= shortest:
            yield from _upwards(configuration, index, probe, longest)
            return
        fitting = index
    if fitting is not None:
        yield configuration.sizes[fitting]


def _upwards(configuration: Configuration, first: int, probe: Probe, longest: float) -> Iterator[Sizes]:
    yield configuration.sizes[first]
    for sizes in configuration.sizes[first :: configuration.stride][1 : configuration.steps]:
        seconds = probe(sizes)
        if seconds is None or seconds > longest:
            return
        yield sizes
