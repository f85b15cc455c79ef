"""Tests of notes of several models: each appears once, with its models, and the first model's come first."""

from dataclasses import replace

import loopyperf as lpp
from loopyperf.explain.explain import notes_on
from loopyperf.explain.explanation import OnDevice
from loopyperf.models.result import Alternative
from tests.kernels import doubled

OTHER = Alternative(2e-3, ("acc",), "the private array acc is in registers", "its loop is long")


def device_with_notes(**changes: object) -> OnDevice:
    """Return a device with two models, the second shown first, and *changes* to the estimate of the other one."""
    explained = lpp.explain(doubled(), n=4096, device="nvidia-v100", models=["roofline", "pipeline"], model="pipeline")
    (on,) = explained.devices
    with_notes = {name: replace(each, notes=(f"{name} alone", "both")) for name, each in on.estimates.items()}
    return replace(on, estimates={**with_notes, "roofline": replace(with_notes["roofline"], **changes)})


def test_note_of_several_models_appears_once():
    assert list(notes_on(device_with_notes()).items()) == [
        ("pipeline alone", ("pipeline",)),
        ("both", ("pipeline", "roofline")),
        ("roofline alone", ("roofline",)),
    ]


def test_interval_and_alternatives_of_other_models_are_notes():
    others = device_with_notes(
        interval=(1e-3, 3e-3), left_out=("f32 pow",), alternatives=(OTHER,), unsure=("acc",), notes=("both",)
    )
    assert list(notes_on(others).items())[2:] == [
        ("without f32 pow", ("roofline",)),
        ("80 % interval: 1 ms to 3 ms", ("roofline",)),
        (f"or: {OTHER}", ("roofline",)),
        ("unknown whether the compiler keeps the private array acc in registers", ("roofline",)),
    ]


def test_headline_of_the_first_model_is_not_repeated():
    on = device_with_notes()
    first = replace(on.estimates["pipeline"], interval=(1e-3, 3e-3), left_out=("f32 pow",))
    assert list(notes_on(replace(on, estimates={**on.estimates, "pipeline": first}))) == list(notes_on(on))
