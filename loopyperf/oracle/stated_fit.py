"""A fit that is stated where several models are asked: the model that it is of answers by it, for its device."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

from loopyperf.calibration.documents import read_document
from loopyperf.calibration.fit_files import path_of
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.learning.learned import Learned
from loopyperf.calibration.learning.learned_files import load_learned
from loopyperf.calibration.library import find_fit
from loopyperf.device.library import is_one_device
from loopyperf.errors import FitFileError, ParameterError, UnknownDeviceError
from loopyperf.kernel import Program
from loopyperf.models import MODELS
from loopyperf.models.interface import LearnedModel
from loopyperf.models.result import Estimate
from loopyperf.oracle.choice import FitChoice
from loopyperf.oracle.estimate import estimate


@dataclass(frozen=True, slots=True)
class StatedFit:
    """A fit or a learned model, with the model that it is of and the short name of its device."""

    record: Fit | Learned
    model: str
    slug: str

    def answering(self, model: str, slug: str) -> Fit | Learned | None:
        """Return the record, if it is what *model* answers by for the device of that short name, else None."""
        return self.record if model == self.model and is_one_device(slug, self.slug) else None

    def check_device(self, slugs: Iterable[str]) -> None:
        """Raise :class:`FitFileError` where none of the devices that are asked about is that of the fit."""
        asked = list(slugs)
        if not any(is_one_device(slug, self.slug) for slug in asked):
            raise FitFileError(
                f"the fit is for the device {self.slug!r}, but {', '.join(map(repr, asked))} was asked for; name its "
                "device too, or leave the fit out"
            )


def stated_fit(fit: FitChoice | Learned, models: Collection[str]) -> StatedFit:
    """Return *fit*, which is read if it is a path.

    Raises :class:`FitFileError` for a file that is not a fit, and :class:`ParameterError` where the model that it is of
    is not among the *models* that are asked.
    """
    record = fit if isinstance(fit, Fit | Learned) else _read(fit)
    origin = record.record if isinstance(record, Learned) else record
    if origin.model not in models:
        raise ParameterError(
            f"the fit is of the model {origin.model!r}, but only {', '.join(models)} are asked; ask it too, or leave "
            "the fit out"
        )
    return StatedFit(record, origin.model, origin.slug)


def estimate_by(
    stated: StatedFit | None,
    program: Program,
    model: str,
    slug: str,
    typical: Mapping[str, Any] | None,
    sizes: Mapping[str, Any],
) -> Estimate:
    """Return what *model*, a fitted one, says of *program* on a device: by what is *stated*, else by what there is."""
    record = None if stated is None else stated.answering(model, slug)
    if stated is None or record is not None:
        device = slug if record is None else None
        return estimate(program, device=device, model=model, fit=record, typical=typical, parameters=sizes)
    try:
        return estimate(program, device=slug, model=model, typical=typical, parameters=sizes)
    except UnknownDeviceError as error:
        if not is_one_device(slug, stated.slug):
            raise
        raise UnknownDeviceError(f"the given fit is of {stated.model!r}, and there is no other fit") from error


def _read(path: str | PathLike[str]) -> Fit | Learned:
    file = Path(path_of(path))
    document = read_document(file, "fit", "give the path of a fit or of a learned model")
    model = cast("dict[str, object]", document).get("model") if isinstance(document, dict) else None
    return load_learned(file) if isinstance(MODELS.get(str(model)), LearnedModel) else find_fit("", path=file)
