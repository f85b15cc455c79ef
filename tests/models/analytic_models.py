"""The analytic models by their names, as functions of plain numbers."""

from functools import partial

from loopyperf.models import gpumech, mwp_cwp, roofline, transit, volkov, wfg

MODELS = {
    "roofline": roofline.cycles_per_run,
    "volkov": volkov.cycles_per_run,
    "transit": transit.cycles_per_run,
    "mwp-cwp": mwp_cwp.cycles_per_run,
    "mwp-cwp-corrected": partial(mwp_cwp.cycles_per_run, corrected=True),
    "wfg": wfg.cycles_per_run,
    "wfg-corrected": partial(wfg.cycles_per_run, corrected=True),
    "gpumech-rr": gpumech.cycles_per_run,
    "gpumech-rr-corrected": partial(gpumech.cycles_per_run, corrected=True),
    "gpumech-gto": partial(gpumech.cycles_per_run, policy="gto"),
}
