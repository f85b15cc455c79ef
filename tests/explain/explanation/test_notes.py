"""Notes of several models: each once, with those that say it; the model that is shown first comes first."""

from dataclasses import replace

import loopyperf as lpp
from loopyperf.explain.explain import notes_on
from loopyperf.explain.explanation import OnDevice
from loopyperf.models.result import Alternative
from tests.kernels import doubled

OTHER = Alternative(2e-3, ("acc",), "the private array acc is in registers", "its loop is long")


def on_a_device(**changes: object) -> OnDevice:
    """Return what two models say, of which the second is shown first, with *changes* to what the other one says."""
    explained = lpp.explain(doubled(), n=4096, device="nvidia-v100", models=["roofline", "pipeline"], model="pipeline")
    (on,) = explained.devices
    said = {name: replace(each, notes=(f"{name} alone", "both")) for name, each in on.estimates.items()}
    return replace(on, estimates={**said, "roofline": replace(said["roofline"], **changes)})


def test_a_sentence_that_several_say_stands_once():
    assert list(notes_on(on_a_device()).items()) == [
        ("pipeline alone", ("pipeline",)),
        ("both", ("pipeline", "roofline")),
        ("roofline alone", ("roofline",)),
    ]


def test_what_else_another_model_says_is_among_its_notes():
    others = on_a_device(
        interval=(1e-3, 3e-3), left_out=("f32 pow",), alternatives=(OTHER,), unsure=("acc",), notes=("both",)
    )
    assert list(notes_on(others).items())[2:] == [
        ("without f32 pow", ("roofline",)),
        ("80 % interval: 1 ms to 3 ms", ("roofline",)),
        (f"or: {OTHER}", ("roofline",)),
        ("unknown whether the compiler keeps the private array acc in registers", ("roofline",)),
    ]


def test_what_the_first_answer_has_in_its_headline_is_not_said_again():
    on = on_a_device()
    first = replace(on.estimates["pipeline"], interval=(1e-3, 3e-3), left_out=("f32 pow",))
    assert list(notes_on(replace(on, estimates={**on.estimates, "pipeline": first}))) == list(notes_on(on))
