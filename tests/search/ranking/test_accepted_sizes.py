"""Variants may use different sizes; a size that none uses or that all lack raises a single error."""

from functools import partial

import loopy as lp
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.search.task import CHECKED_VARIANTS, accepted_sizes
from tests.kernels import doubled, outer_product
from tests.measurement.synthetic import SyntheticBackend


@pytest.fixture
def fit(make_fit) -> lpp.Fit:
    return make_fit(weights={"f32 mul": 1e-9, "work-groups": 1e-9, "launches": 1e-6})


BY_OTHER_NAMES = {"a": partial(doubled, size="n"), "b": partial(doubled, size="m"), "both": outer_product}
ON_MODEL = {"device": "nvidia-titan-v", "model": "roofline"}
ON_TITAN = {**ON_MODEL, "bounds": ["throughput"], "top": 3}


@pytest.mark.parametrize("way", ["a fit", "a cascade"])
def test_each_variant_gets_only_the_sizes_that_it_uses(fit, way):
    options = {"fit": fit} if way == "a fit" else ON_TITAN
    ranking = lpp.rank(BY_OTHER_NAMES, n=4096, m=64, **options)
    assert not ranking.failures
    assert ranking.sizes == {"n": 4096, "m": 64}
    assert {name: dict(each.sizes) for name, each in ranking.estimates.items()} == {
        "a": {"n": 4096},
        "b": {"m": 64},
        "both": {"n": 4096, "m": 64},
    }
    alone = lpp.estimate(doubled(size="m"), m=64, **({"fit": fit} if way == "a fit" else ON_MODEL))
    assert ranking.seconds["b"] == alone.seconds


def test_variants_with_a_missing_size_are_listed_as_failures(fit):
    ranking = lpp.rank(BY_OTHER_NAMES, n=4096, fit=fit)
    assert ranking.order == ("a",)
    assert set(ranking.failures) == {"b", "both"}
    assert all("missing size m" in reason for reason in ranking.failures.values())


def test_variants_with_different_sizes_are_measured(fit):
    ranking = lpp.rank(BY_OTHER_NAMES, n=4096, m=64, fit=fit)
    assert len(ranking.measure(SyntheticBackend(lambda _: 1e-6)).seconds) == 3


# {{{ mistakes


def record_and_build(built: list[int], group: int) -> lp.TranslationUnit:
    built.append(group)
    return doubled(group=group)


GROUPS = tuple(range(16, 16 + 3 * CHECKED_VARIANTS))


def test_mistake_in_all_variants_is_reported_once_and_early(subtests: pytest.Subtests):
    for sizes, message in [
        ({}, "missing size n: .* sizes given: none"),
        ({"m": 5}, "missing size n: .* sizes given: m"),
        ({"n": 2**12, "m": 5}, "superfluous size m: of the given sizes, .* use only n"),
        ({"n": 2**12, "topp": 3}, "superfluous size topp: .* a misspelled option"),
    ]:
        for way in ["rank", "cascade", "tpe"]:
            with subtests.test(sizes=sizes, message=message, way=way):
                built: list[int] = []
                build = partial(record_and_build, built)
                variants = {f"{group}": partial(build, group) for group in GROUPS}
                call = {
                    "rank": partial(lpp.rank, variants, **ON_MODEL),
                    "cascade": partial(lpp.rank, variants, **ON_TITAN),
                    "tpe": partial(
                        lpp.search, build, {"group": GROUPS}, **ON_MODEL, optimizer="tpe", trials=len(GROUPS)
                    ),
                }[way]
                with pytest.raises(ParameterError, match=message):
                    call(parameters=sizes)
                assert len(built) == CHECKED_VARIANTS


def test_all_of_a_few_variants_are_checked(fit):
    for variants in ({"a": doubled}, {"a": doubled, "none": partial(int, "5"), "c": doubled}):
        with pytest.raises(ParameterError, match="missing size n"):
            lpp.rank(variants, m=5, fit=fit)


def test_families_of_variants_with_different_sizes_are_ranked(fit):
    first = {f"n{place}": doubled() for place in range(12)}
    second = {f"m{place}": doubled(size="m") for place in range(12)}
    ranking = lpp.rank(first | second, n=64, m=128, fit=fit)
    assert len(ranking.order) == 24


# }}}


def test_non_integer_arguments_are_not_sizes():
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = alpha*a[i]",
        [lp.GlobalArg("a,b", "float32", shape="n"), lp.ValueArg("n", None), lp.ValueArg("alpha", "float32")],
        name="scaled",
        lang_version=(2018, 2),
    )
    assert accepted_sizes(knl, {"n": 4, "alpha": 5, "m": 6}) == {"n": 4}
