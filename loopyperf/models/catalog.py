"""Performance models: arithmetic on counts, graphs, devices and samples. :data:`MODELS` has all of them by name."""

from collections.abc import Mapping
from functools import partial

from loopyperf.errors import UnknownModelError
from loopyperf.models import pipeline, roofline
from loopyperf.models.analytic import on_last_core, rows_by
from loopyperf.models.linear import linear_time, overlap_time
from loopyperf.models.literature import gpumech, gpuperf_rows, mwp_cwp, transit, volkov, wfg
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
"""the model that corrects another one"""

MODELS: Mapping[str, Model] = {
    each.name: each
    for each in (
        FittedModel(
            name="linear",
            summary="weighted sum of counts, nothing overlaps (Stevens and Klöckner)",
            time=linear_time,
            is_weighted_sum=True,
        ),
        FittedModel(
            name="overlap",
            summary="weighted counts or pipelines, a smooth maximum of those that overlap",
            time=overlap_time,
        ),
        DeviceModel(
            name="roofline",
            summary="the busiest pipeline decides, everything else overlaps (Williams)",
            rows=rows_by(roofline.cycles, busy_sides),
            sees=ROOFLINE_SEES,
        ),
        DeviceModel(
            name="volkov",
            summary="the roofline over the occupancy: one warp's latency hides all others (Volkov)",
            rows=rows_by(volkov.cycles, volkov.sides),
            sees=VOLKOV_SEES,
        ),
        DeviceModel(
            name="transit",
            summary="warps that compute ask, memory serves those that wait (Li)",
            rows=rows_by(transit.cycles, transit.sides),
            sees=frozenset({*ROOFLINE_SEES, "latency of computation", "latency of memory"}),
        ),
        DeviceModel(
            name="mwp-cwp",
            summary="periods of computation and requests, in three cases (Hong and Kim)",
            rows=rows_by(mwp_cwp.cycles),
            sees=MWP_CWP_SEES,
        ),
        DeviceModel(
            name="mwp-cwp-corrected",
            summary="MWP-CWP with the latency of computation, the greatest of its cases (Lemeire)",
            rows=rows_by(partial(mwp_cwp.cycles, corrected=True)),
            sees=MWP_CWP_SEES | LATENCIES_AND_ILP,
        ),
        DeviceModel(
            name="wfg",
            summary="a warp's way through its blocks and memory operations (Baghsorkhi)",
            rows=rows_by(wfg.cycles),
            sees=WFG_SEES,
        ),
        DeviceModel(
            name="wfg-corrected",
            summary="the work flow graph with what computation hides counted once (Lemeire)",
            rows=rows_by(partial(wfg.cycles, corrected=True)),
            sees=WFG_SEES,
        ),
        DeviceModel(
            name="gpumech-rr",
            summary="intervals between stalls, warps in turn (Huang)",
            rows=rows_by(partial(gpumech.cycles, policy="rr")),
            sees=GPUMECH_SEES,
        ),
        DeviceModel(
            name="gpumech-rr-corrected",
            summary="intervals between stalls, warps in turn, one instruction a cycle (Lemeire)",
            rows=rows_by(partial(gpumech.cycles, policy="rr", corrected=True)),
            sees=GPUMECH_SEES,
        ),
        DeviceModel(
            name="gpumech-gto",
            summary="intervals between stalls, the oldest warp first (Huang)",
            rows=rows_by(partial(gpumech.cycles, policy="gto")),
            sees=GPUMECH_SEES,
        ),
        DeviceModel(
            name="gpuperf",
            summary="computation, serialization and memory, and what overlaps of them (Sim)",
            rows=on_last_core(gpuperf_rows.gpuperf_rows),
            notes=gpuperf_rows.gpuperf_notes,
            sees=frozenset({*LATENCIES_AND_ILP, "divergent warps"}),
        ),
        DeviceModel(
            name="pipeline",
            summary="a simulated core executes the machine graph (Cornelis; Lemeire)",
            rows=pipeline.pipeline_rows,
            notes=pipeline.simulation_notes,
            sees=frozenset(ASPECTS),
        ),
        SampledModel(
            name="sampled",
            summary="the first groups are run, the others take as long for as much work (Dao)",
        ),
        RegressionModel(
            name=LEARNED,
            summary="what another model leaves over, learned from features of measured kernels (Dao)",
        ),
    )
}


DEVICE_MODELS: Mapping[str, DeviceModel] = {
    name: model for name, model in MODELS.items() if isinstance(model, DeviceModel)
}
"""those that know the device"""


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
