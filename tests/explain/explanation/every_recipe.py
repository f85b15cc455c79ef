"""All recipes of a kernel, whether they help or not, with each kernel that Loopy makes and can generate code for."""

from collections.abc import Iterator, Mapping
from typing import Any

import loopy as lp

import loopyperf as lpp
from loopyperf.explain.diagnosis import diagnosed
from loopyperf.explain.findings import candidates_of
from loopyperf.explain.in_loopy import ChangeRecipe, recipes_of
from loopyperf.kernel.loopy_passes import without_dumps
from loopyperf.stages.case import Case

V100 = "nvidia-v100"


def every_recipe(
    unit: lp.TranslationUnit, sizes: Mapping[str, int]
) -> Iterator[tuple[str, ChangeRecipe, lp.TranslationUnit | None]]:
    """Yield the kind of each recipe that Loopy might make for *unit*, the recipe, and the changed kernel.

    The kernel is None if Loopy refuses the change or its code; such a change is never a finding.
    """
    device = lpp.load_device(V100)
    case: Any = Case(unit, sizes)
    predictor = lpp.predictor(device=device, model="pipeline")
    reviews = diagnosed(case, predictor, predictor.predict(case), findings=False).launches
    machine, timed = lpp.machine_program(case, device=device), lpp.timed_program(case, device=device)
    for seen, candidate in candidates_of(case, machine, timed, reviews, 0.0):
        for recipe in (each for each in recipes_of(seen, candidate) if each.calls):
            try:
                with without_dumps():
                    changed = recipe.apply(unit)
                    lp.generate_code_v2(changed)
            except Exception:  # Loopy propagates exceptions of isl, pymbolic and Python
                changed = None
            yield str(candidate.kind), recipe, changed
