"""Performance models: arithmetic on counts, graphs, devices and samples. :data:`MODELS` has all of them by name."""

from collections.abc import Mapping

from loopyperf.errors import UnknownModelError
from loopyperf.models.interface import DeviceModel, FittedModel, Model
from loopyperf.models.linear import linear_time
from loopyperf.models.pipeline import pipeline_time

MODELS: Mapping[str, Model] = {
    "linear": FittedModel(
        name="linear",
        summary="weighted sum of counts, nothing overlaps (Stevens and Klöckner)",
        time=linear_time,
    ),
    "pipeline": DeviceModel(
        name="pipeline",
        summary="a simulated core executes the machine graph (Cornelis; Lemeire)",
        time=pipeline_time,
    ),
}


def find_model(name: str) -> Model:
    """Return the model called *name*; raises :class:`UnknownModelError` listing those there are."""
    if name not in MODELS:
        raise UnknownModelError(f"unknown model {name!r}; there are: {', '.join(MODELS)}")
    return MODELS[name]


def find_fitted_model(name: str) -> FittedModel:
    """Return the fitted model called *name*; raises :class:`UnknownModelError` for one that no fit can be of."""
    model = find_model(name)
    if not isinstance(model, FittedModel):
        fitted = ", ".join(each.name for each in MODELS.values() if isinstance(each, FittedModel))
        raise UnknownModelError(f"the model {name!r} is not fitted to measurements; those that are: {fitted}")
    return model
