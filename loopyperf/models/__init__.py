"""Performance models: arithmetic on counts, graphs, devices and samples.

:data:`MODELS` says of each what it needs to be asked with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from loopyperf.errors import UnknownModelError

Need = Literal["fit", "device", "samples"]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a model is called, what it needs, and what it says, in one line."""

    name: str
    needs: frozenset[Need]
    summary: str


MODELS: Mapping[str, ModelCard] = {
    "linear": ModelCard(
        name="linear",
        needs=frozenset({"fit"}),
        summary="weighted sum of counts, nothing overlaps (Stevens and Klöckner)",
    ),
}


def model_card(name: str) -> ModelCard:
    """Return what is known of the model *name*; raises :class:`UnknownModelError` listing those there are."""
    if name not in MODELS:
        raise UnknownModelError(f"unknown model {name!r}; there are: {', '.join(MODELS)}")
    return MODELS[name]
