"""Fitting weights to measurements: the problem, its solution, how well it generalises, and the files of fits."""

from loopyperf.calibration.dependence import Indistinguishable, doubts
from loopyperf.calibration.fit_files import load_fit, save_fit
from loopyperf.calibration.fits import Fit, Provenance, make_fit, require_compatible
from loopyperf.calibration.library import KnownFit, find_fit, known_fits, slug_of, user_fits
from loopyperf.calibration.problem import Observation, Problem, pose_problem
from loopyperf.calibration.solver import Solution, solve, spread
from loopyperf.calibration.validation import Accuracy, CrossValidation, Prediction, assess, cross_validate

__all__ = [
    "Accuracy",
    "CrossValidation",
    "Fit",
    "Indistinguishable",
    "KnownFit",
    "Observation",
    "Prediction",
    "Problem",
    "Provenance",
    "Solution",
    "assess",
    "cross_validate",
    "doubts",
    "find_fit",
    "known_fits",
    "load_fit",
    "make_fit",
    "pose_problem",
    "require_compatible",
    "save_fit",
    "slug_of",
    "solve",
    "spread",
    "user_fits",
]
