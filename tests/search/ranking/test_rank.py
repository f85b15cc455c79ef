"""Rankings of variants: order of the estimates, executors, failing variants, invalid options and builds."""

import itertools
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.errors import LoopyperfError, ParameterError, UnknownDeviceError, UnknownModelError
from loopyperf.search.cascade import ROUNDING
from tests.kernels import doubled, outer_product, summed

GROUPS = (16, 32, 64, 128)
VARIANTS = {f"groups of {group}": partial(doubled, group=group) for group in GROUPS}
MINIMUM = "global min(load, store) 32-bit stride 1"
UNCERTAIN = Uncertainty((0.1, 0.2, 0.3, 0.4), (), ((0.0,),), deviations=(-0.02, -0.01, 0.0, 0.01, 0.02))


@pytest.fixture
def fit(make_fit) -> lpp.Fit:
    """A fit in which a group costs as much as a multiplication, so larger groups are faster; memory is free."""
    free = dict.fromkeys(("global load 32-bit stride 1", "global store 32-bit stride 1", MINIMUM), 0.0)
    weights = {"f32 mul": 1e-9, "work-groups": 1e-9, "launches": 1e-6, **free}
    return make_fit(weights=weights, uncertainty=UNCERTAIN)


def tile(nbytes: int) -> lp.TranslationUnit:
    """b[i] = 2 a[i], through *nbytes* bytes of local memory."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i < 1024 and 0 <= j < 16}",
        """
        for i
            <> t[j] = a[16*i + j] {id=fetch}
            b[16*i + j] = 2*t[j] {dep=fetch}
        end
        """,
        [lp.GlobalArg("a,b", np.float32, shape=16384), ...],
        name="tile",
        lang_version=(2018, 2),
    )
    knl = lp.tag_inames(knl, {"i": "g.0", "j": "l.0"})
    kernel = knl.default_entrypoint
    large = kernel.temporary_variables["t"].copy(
        shape=(nbytes // 4,), address_space=lp.AddressSpace.LOCAL, dtype=lp.to_loopy_type(np.float32)
    )
    return knl.with_kernel(kernel.copy(temporary_variables={**kernel.temporary_variables, "t": large}))


# {{{ the order


def test_variants_are_in_the_order_of_their_estimates(fit):
    ranking = lpp.rank(VARIANTS, n=4096, fit=fit)
    assert ranking.order == ("groups of 128", "groups of 64", "groups of 32", "groups of 16")
    assert ranking.best == "groups of 128"
    for name, build in VARIANTS.items():
        assert ranking.seconds[name] == lpp.estimate(build(), n=4096, fit=fit).seconds
        assert ranking.estimates[name].interval == lpp.estimate(build(), n=4096, fit=fit).interval


@pytest.mark.parametrize(
    "variants",
    [
        [build() for build in VARIANTS.values()],
        [(str(place), build) for place, build in enumerate(VARIANTS.values())],
        ((str(place), build()) for place, build in enumerate(VARIANTS.values())),
    ],
    ids=["programs", "pairs with builders", "an iterator of pairs with programs"],
)
def test_variants_may_be_programs_or_pairs(fit, variants):
    order = lpp.rank(variants, n=4096, fit=fit).order
    assert [name.removeprefix("variant ") for name in order] == ["3", "2", "1", "0"]


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_gives_the_same_ranking(fit, pool):
    alone = lpp.rank(VARIANTS, n=4096, fit=fit)
    with pool(2) as executor:
        together = lpp.rank(VARIANTS, n=4096, fit=fit, executor=executor)
    assert together.order == alone.order
    assert together.estimates == alone.estimates


def test_equal_variants_tie_in_the_given_order(make_fit):
    ranking = lpp.rank({"b": doubled(), "a": doubled(), "c": summed(1)}, n=64, fit=make_fit())
    assert ranking.order[-2:] == ("b", "a")
    assert ("b", "a") in ranking.ties


def test_top_cuts_the_ranking(fit):
    ranking = lpp.rank(VARIANTS, n=4096, fit=fit, top=2)
    assert ranking.order == ("groups of 128", "groups of 64")
    assert [each.name for each in ranking.beaten] == ["groups of 32", "groups of 16"]


def test_device_model_needs_no_fit():
    ranking = lpp.rank(VARIANTS, n=2**20, device="nvidia-titan-v", model="roofline")
    times = {
        name: lpp.estimate(build(), n=2**20, device="nvidia-titan-v", model="roofline").seconds
        for name, build in VARIANTS.items()
    }
    assert ranking.seconds == times
    assert (ranking.device, ranking.model) == ("nvidia-titan-v", "roofline")


@pytest.mark.parametrize("bounds", [["throughput"], ["roofline"], ["throughput", "roofline"]])
def test_cascade_finds_the_fastest_variants_of_the_model(bounds):
    arguments: dict[str, Any] = {"device": "nvidia-titan-v", "n": 2**20, "model": "pipeline"}
    variants = VARIANTS | {f"{terms} terms": partial(summed, terms) for terms in (1, 10, 40)}
    every = lpp.rank(variants, **arguments)
    found = lpp.rank(variants, **arguments, bounds=bounds, top=2)
    assert list(found.seconds.items()) == list(every.seconds.items())[:2]
    assert {each.name for each in found.beaten} == set(every.order[2:])
    assert not found.notes


def test_ties_follow_from_the_fit(fit):
    ranking = lpp.rank(VARIANTS, n=4096, fit=fit)
    # 4096 multiplications, 1000 ns for the launch, and 32 to 256 groups: 5128, 5160, 5224 and 5352 ns. Errors of
    # similar kernels are up to 2 %, so 4 of 5 differences are below 3 %, and none is above 4 %.
    assert ranking.ties == (ranking.order[:3], ranking.order[3:])


# }}}


# {{{ failing variants


def no_such_tile() -> lp.TranslationUnit:
    raise ValueError("no such tile")


def leaving() -> lp.TranslationUnit:
    raise SystemExit("no device")


def never() -> lp.TranslationUnit:
    while True:
        time.sleep(60)


def of_data() -> lp.TranslationUnit:
    """Return a kernel with a data-dependent trip count, which cannot be counted."""
    return lp.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < m}"],
        """
        for i
            <> m = length[i]
            out[i] = sum(j, a[j])
        end
        """,
        [lp.GlobalArg("length", np.int32, shape="n"), lp.GlobalArg("a,out", np.float32, shape="n"), ...],
        name="of_data",
        lang_version=(2018, 2),
    )


FAULTY = {
    "builds nothing": (lambda: 5, "expected a loopy TranslationUnit or LoopKernel, got int"),
    "raises": (no_such_tile, "building failed (ValueError): no such tile"),
    "leaves": (leaving, "building failed (SystemExit): no device"),
    "other sizes": (outer_product, "missing size m"),
    "counted by data": (of_data, "typical"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_faulty_variant_is_listed_with_its_reason(fit, fault):
    build, reason = FAULTY[fault]
    ranking = lpp.rank(VARIANTS | {fault: build}, n=4096, fit=fit)
    assert len(ranking.order) == len(VARIANTS)
    assert reason in ranking.failures[fault]
    assert fault in str(ranking)


def test_repr_gives_the_number_of_ties(make_fit):
    weights = dict.fromkeys(lpp.count(doubled()).properties(), 0.0) | {"f32 mul": 1e-9, "launches": 1e-6}
    equal = lpp.rank(VARIANTS, n=4096, fit=make_fit(weights=weights, uncertainty=UNCERTAIN))
    assert len(equal.ties[0]) == len(VARIANTS)
    assert ", and 3 others may be as fast" in repr(equal)
    alone = lpp.rank({"one": doubled()}, n=4096, fit=make_fit(weights=weights, uncertainty=UNCERTAIN))
    assert "as fast" not in repr(alone)


def test_oversized_groups_are_found_before_loopy_prepares_the_kernel(monkeypatch):
    def costly(_: object) -> None:
        raise AssertionError("this is costly")

    variants = {"wide": partial(doubled, group=2048), "tiles": partial(tile, 2**17)}
    monkeypatch.setattr("loopyperf.predict.predictor.prepared_group", costly)
    ranking = lpp.rank(variants, n=2**16, device="nvidia-titan-v", model="roofline")
    assert "2,048 work-items, at most 1,024" in ranking.failures["wide"]
    assert "131,072 B of local memory" in ranking.failures["tiles"]


def test_group_limit_of_a_processor_is_that_of_pocl(make_fit):
    # PoCL executes groups of at most 4,096 work-items.
    fit = make_fit(slug="pocl-some-processor", weights={"f32 mul": 1e-9})
    ranking = lpp.rank({"wide": partial(doubled, group=8192), "ok": doubled}, n=2**16, fit=fit)
    assert "8,192 work-items, at most 4,096" in ranking.failures["wide"]
    assert ranking.order == ("ok",)
    assert ranking.notes == ()


def test_ranking_of_only_failures_has_no_best(fit):
    ranking = lpp.rank({"raises": no_such_tile}, n=4096, fit=fit)
    assert ranking.order == ranking.ties == ()
    with pytest.raises(ParameterError, match="no such tile"):
        _ = ranking.best
    assert "raises" in str(ranking)


# }}}


# {{{ invalid options


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ([], "no variants to rank"),
        ({}, "no variants to rank"),
        ([("a", doubled), ("a", doubled)], "several variants have the name 'a'"),
        ([doubled(), ("variant 0", doubled)], "several variants have the name 'variant 0'"),
        ([5], "variant number 0 must be"),
        ([("a", 5)], "variant number 0 must be"),
        ("abc", "variants must be a list, or a mapping"),
        (doubled(), "got one program; for a single program, use estimate"),
        (doubled, "variants must be a list, or a mapping"),
    ],
)
def test_invalid_variants_are_refused(fit, variants, message):
    with pytest.raises(ParameterError, match=message):
        lpp.rank(variants, n=64, fit=fit)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "crystal ball"}, UnknownModelError, "choose one of"),
        ({"model": "sampled"}, ParameterError, "but ranking does not"),
        ({"model": "roofline", "device": "no such device"}, UnknownDeviceError, "no-such-device"),
        ({"model": "roofline", "device": "nvidia-titan-v", "top": 0}, ParameterError, ">= 1"),
        ({"model": "roofline", "device": "nvidia-titan-v", "bounds": ["throughput"]}, ParameterError, "top="),
        ({"model": "roofline", "device": "nvidia-titan-v", "bounds": "throughput", "top": 1}, ParameterError, "a list"),
        (
            {"model": "roofline", "device": "nvidia-titan-v", "bounds": ["no"], "top": 1},
            ParameterError,
            "bound 'no' is unknown",
        ),
        ({"model": "linear", "device": "no such device"}, LoopyperfError, "no such device|no-such-device"),
        ({"model": "roofline", "device": "nvidia-titan-v", "time_limit": -1}, ParameterError, "above 0"),
        ({"model": "roofline", "device": "nvidia-titan-v", "parameters": {"n": 5}}, ParameterError, "given twice"),
    ],
)
def test_invalid_options_are_refused_before_building(options, error, message):
    with pytest.raises(error, match=message):
        lpp.rank({"never": never}, n=64, **options)


def test_bounds_that_may_exceed_the_model_give_a_note():
    arguments: dict[str, Any] = {"device": "nvidia-titan-v", "n": 2**16, "top": 1}
    ranking = lpp.rank(VARIANTS, **arguments, model="mwp-cwp", bounds=["throughput", "roofline"])
    assert ranking.notes[0].startswith("times of 'throughput' and 'roofline' may exceed those of 'mwp-cwp'")
    for model in ("roofline", "volkov", "pipeline"):
        assert lpp.rank(VARIANTS, **arguments, model=model, bounds=["throughput"]).notes == ()


@pytest.mark.parametrize("model", ["volkov", "pipeline"])
def test_bounds_do_not_exceed_the_model(model):
    programs = [doubled(group=32), *map(summed, (1, 10, 40)), doubled(group=256)]
    for program, n in itertools.product(programs, (64, 2**12, 2**20)):
        arguments: dict[str, Any] = {"device": "nvidia-titan-v", "n": n}
        throughput = lpp.throughput_bounds(program, device="nvidia-titan-v").at_least(n=n)
        roofline = lpp.estimate(program, model="roofline", **arguments).seconds
        assert throughput <= roofline * (1 + ROUNDING)
        assert roofline <= lpp.estimate(program, model=model, **arguments).seconds * (1 + ROUNDING)


def test_bounds_require_device_parameters(fit):
    with pytest.raises(ParameterError, match="'made-up-1' has none"):
        lpp.rank(VARIANTS, n=64, fit=fit, bounds=["throughput"], top=1)


# }}}


# {{{ number of builds


FATES = {
    "raises": no_such_tile,
    "never": never,
    "wide": partial(doubled, group=4096),
    "good": doubled,
    "other": partial(summed, 2),
}


@pytest.mark.parametrize("is_limited", [False, True], ids=["in this process", "with a limit"])
def test_cascade_builds_each_variant_once(is_limited, tmp_path):
    calls = tmp_path / "calls"
    fates = {name: build for name, build in FATES.items() if is_limited or name != "never"}
    variants = {name: partial(log_and_build, calls, name, build) for name, build in fates.items()}
    ranking = lpp.rank(
        variants,
        n=4096,
        device="nvidia-titan-v",
        model="pipeline",
        bounds=["throughput", "roofline"],
        top=1,
        time_limit=5 if is_limited else None,
    )
    assert set(ranking.failures) == fates.keys() - {"good", "other"}
    assert sorted(calls.read_text().split()) == sorted(fates)


def log_and_build(calls: Path, name: str, build: Any) -> Any:
    """Log the build in a file that all processes share, and build the variant."""
    with calls.open("a") as file:
        file.write(f"{name}\n")
    return build()


def test_programs_of_different_rankings_are_not_confused():
    arguments: dict[str, Any] = {"n": 4096, "device": "nvidia-titan-v", "model": "pipeline", "bounds": ["roofline"]}
    one = lpp.rank({"a": partial(doubled, group=16)}, **arguments, top=1)
    other = lpp.rank({"a": partial(doubled, group=128)}, **arguments, top=1)
    assert one.seconds["a"] != other.seconds["a"]


# }}}


# {{{ pickling


def test_ranking_converts_to_plain_values_and_text(fit):
    ranking = lpp.rank(VARIANTS | {"raises": no_such_tile}, n=4096, fit=fit, top=3)
    document = ranking.to_dict()
    assert list(document["estimates"]) == list(ranking.order)
    assert document["failures"] == {"raises": "building failed (ValueError): no such tile"}
    assert list(document["beaten"]) == ["groups of 16"]
    fastest = f"{ranking.best} takes "
    assert str(ranking).splitlines()[0].startswith(f"5 variants (n=4096) on made-up-1, model linear: {fastest}")


# }}}
