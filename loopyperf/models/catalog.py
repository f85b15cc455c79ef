"""Catalog of the performance models; :data:`MODELS` maps names to models."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from loopyperf.errors import UnknownModelError
from loopyperf.models import pipeline
from loopyperf.models.analytic import on_last_core, rows_by
from loopyperf.models.model_interface import DeviceModel, FittedModel, Model, RegressionModel, SampledModel
from loopyperf.models.workload import ASPECTS, Aspect, busy_sides

ROOFLINE_SEES: frozenset[Aspect] = frozenset({"more than two subsystems", "issue limit", "divergent warps"})
LATENCIES_AND_ILP: frozenset[Aspect] = frozenset({"ILP", "latency of computation", "latency of memory"})
VOLKOV_SEES: frozenset[Aspect] = frozenset({*ROOFLINE_SEES, *LATENCIES_AND_ILP, "barriers"})
MWP_CWP_SEES: frozenset[Aspect] = frozenset({"latency of memory", "barriers", "work-groups", "divergent warps"})
WFG_SEES: frozenset[Aspect] = frozenset(
    {"ILP", "latency of computation", "latency of memory", "barriers", "divergent warps"}
)
GPUMECH_SEES: frozenset[Aspect] = frozenset({"latency of memory", "divergent warps", "scheduler"})

LEARNED = "learned"
"""Name of the model that corrects another model's prediction."""


def _of_paper(module: str, name: str) -> Callable[..., Any]:
    """Return the function *name* of a *module* of ``models/literature/``, which is imported at the first call."""
    return _function_of(f"literature.{module}", name)


def _function_of(module: str, name: str) -> Callable[..., Any]:
    return lambda *given, **by: getattr(import_module(f"loopyperf.models.{module}"), name)(*given, **by)


MODELS: Mapping[str, Model] = {
    each.name: each
    for each in (
        FittedModel(
            name="linear",
            summary="weighted sum of counts; nothing overlaps (Stevens and Klöckner)",
            time=_function_of("linear", "linear_time"),
            is_weighted_sum=True,
        ),
        FittedModel(
            name="overlap",
            summary="weighted counts or pipeline times; a smooth maximum of those that overlap",
            time=_function_of("linear", "overlap_time"),
        ),
        DeviceModel(
            name="roofline",
            summary="the busiest pipeline sets the time; everything else overlaps (Williams)",
            rows=rows_by(_function_of("roofline", "cycles"), busy_sides),
            sees=ROOFLINE_SEES,
        ),
        DeviceModel(
            name="volkov",
            summary="roofline limited by occupancy and the latency of one warp (Volkov)",
            rows=rows_by(_of_paper("volkov", "cycles"), _of_paper("volkov", "sides")),
            sees=VOLKOV_SEES,
        ),
        DeviceModel(
            name="transit",
            summary="balance between warps that compute and warps that wait for memory (Li)",
            rows=rows_by(_of_paper("transit", "cycles"), _of_paper("transit", "sides")),
            sees=frozenset({*ROOFLINE_SEES, "latency of computation", "latency of memory"}),
        ),
        DeviceModel(
            name="mwp-cwp",
            summary="memory and computation warp parallelism, in three cases (Hong and Kim)",
            rows=rows_by(_of_paper("mwp_cwp", "cycles")),
            sees=MWP_CWP_SEES,
        ),
        DeviceModel(
            name="mwp-cwp-corrected",
            summary="MWP-CWP with computation latency; maximum of its cases (Lemeire)",
            rows=rows_by(partial(_of_paper("mwp_cwp", "cycles"), corrected=True)),
            sees=MWP_CWP_SEES | LATENCIES_AND_ILP,
        ),
        DeviceModel(
            name="wfg",
            summary="work flow graph of a warp: computation blocks and memory operations (Baghsorkhi)",
            rows=rows_by(_of_paper("wfg", "cycles")),
            sees=WFG_SEES,
        ),
        DeviceModel(
            name="wfg-corrected",
            summary="work flow graph that counts hidden computation once (Lemeire)",
            rows=rows_by(partial(_of_paper("wfg", "cycles"), corrected=True)),
            sees=WFG_SEES,
        ),
        DeviceModel(
            name="gpumech-rr",
            summary="intervals between stalls, round-robin scheduling (Huang)",
            rows=rows_by(partial(_of_paper("gpumech", "cycles"), policy="rr")),
            sees=GPUMECH_SEES,
        ),
        DeviceModel(
            name="gpumech-rr-corrected",
            summary="intervals between stalls, round-robin scheduling, one issue per cycle (Lemeire)",
            rows=rows_by(partial(_of_paper("gpumech", "cycles"), policy="rr", corrected=True)),
            sees=GPUMECH_SEES,
        ),
        DeviceModel(
            name="gpumech-gto",
            summary="intervals between stalls, greedy-then-oldest scheduling (Huang)",
            rows=rows_by(partial(_of_paper("gpumech", "cycles"), policy="gto")),
            sees=GPUMECH_SEES,
        ),
        DeviceModel(
            name="gpuperf",
            summary="computation, serialization and memory time, less their overlap (Sim)",
            rows=on_last_core(_of_paper("gpuperf_rows", "gpuperf_rows")),
            notes=_of_paper("gpuperf_rows", "gpuperf_notes"),
            sees=frozenset({*LATENCIES_AND_ILP, "divergent warps"}),
        ),
        DeviceModel(
            name="pipeline",
            summary="simulation of one core that executes the machine graph (Cornelis; Lemeire)",
            rows=pipeline.pipeline_rows,
            notes=pipeline.simulation_notes,
            sees=frozenset(ASPECTS),
        ),
        SampledModel(
            name="sampled",
            summary="times the first groups on the device and scales to all groups by work (Dao)",
        ),
        RegressionModel(
            name=LEARNED,
            summary="regression of another model's error on features of measured kernels (Dao)",
        ),
    )
}
"""All performance models: name -> model.

Each name is a value of ``model=``. Each model has a ``name``, a one-line ``summary`` and ``needs``, the set of inputs
it requires besides the kernel: ``"fit"``, ``"device"`` or ``"samples"``.

Examples
--------
>>> import loopyperf as lpp
>>> lpp.MODELS["roofline"].needs
frozenset({'device'})
>>> sorted(lpp.MODELS)[:4]
['gpumech-gto', 'gpumech-rr', 'gpumech-rr-corrected', 'gpuperf']
"""

DEVICE_MODELS: Mapping[str, DeviceModel] = {
    name: model for name, model in MODELS.items() if isinstance(model, DeviceModel)
}
"""The models that predict from device parameters: name -> model."""


def find_model(name: str) -> Model:
    """Return the model *name*.

    :raises UnknownModelError: if there is no such model.
    """
    if name not in MODELS:
        raise UnknownModelError(f"unknown model {name!r}; choose one of: {', '.join(MODELS)}")
    return MODELS[name]


def find_fitted_model(name: str) -> FittedModel:
    """Return the fitted model *name*.

    :raises UnknownModelError: if there is no such model, or if it has no weights to fit.
    """
    model = find_model(name)
    if not isinstance(model, FittedModel):
        fitted = ", ".join(each.name for each in MODELS.values() if isinstance(each, FittedModel))
        raise UnknownModelError(f"model {name!r} has no weights to fit; choose one of: {fitted}")
    return model
