"""Performance models: arithmetic on counts, graphs, devices and samples. :data:`MODELS` has all of them by name."""

from collections.abc import Mapping

from loopyperf.errors import UnknownModelError
from loopyperf.models.interface import FittedModel
from loopyperf.models.linear import linear_time

MODELS: Mapping[str, FittedModel] = {
    "linear": FittedModel(
        name="linear",
        summary="weighted sum of counts, nothing overlaps (Stevens and Klöckner)",
        time=linear_time,
    ),
}


def find_model(name: str) -> FittedModel:
    """Return the model called *name*; raises :class:`UnknownModelError` listing those there are."""
    if name not in MODELS:
        raise UnknownModelError(f"unknown model {name!r}; there are: {', '.join(MODELS)}")
    return MODELS[name]
