"""Laws of every predictor, and the kernels that they are checked on."""

import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any

import loopy as lp
import numpy as np

from loopyperf.display import called
from loopyperf.errors import LoopyperfError
from loopyperf.kernel import Program
from loopyperf.models.result import Estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case


@dataclass(frozen=True, slots=True)
class Check:
    """A law and its subject, a predictor or device. Call it to check the law."""

    law: str
    """The law, e.g. ``"more work takes no less time"``."""
    subject: str
    """Name of the predictor or device."""
    find_offences: Callable[[], Iterable[str]] = field(repr=False)
    """Returns the violations: sentences with the kernel and its sizes, what was received, and what was expected."""

    def __call__(self) -> None:
        """Check the law; raises :class:`AssertionError` with the violations."""
        try:
            offences = list(self.find_offences())
        except Exception as error:
            raise AssertionError(f"{self.subject} breaks the law {self.law!r}: it raised {error!r}") from error
        if offences:
            raise AssertionError("\n  ".join([f"{self.subject} breaks the law {self.law!r}:", *offences]))

    def __str__(self) -> str:
        return self.law


def check_all(checks: Iterable[Check]) -> None:
    broken: list[str] = []
    for check in checks:
        try:
            check()
        except AssertionError as error:
            broken.append(str(error))
    if broken:
        raise AssertionError("\n".join(broken))


def law_in_words(law: Callable[..., Iterator[str]]) -> str:
    return law.__name__.strip("_").replace("_", " ")


def broken_laws(question: str, received: object, expected: object) -> str:
    return f"{question}: got {received}, expected {expected}"


ROUNDING = 1e-14
"""Relative tolerance of two run times that are summed in different orders."""


def predictor_checks(predictor: Predictor) -> tuple[Check, ...]:
    """Return the laws of predictors, each as a check of *predictor*.

    Laws that need reproducible estimates are omitted for a predictor that executes kernels.
    """
    answers = _Answers(predictor)
    laws = PREDICTOR_LAWS if predictor.executes_kernels else PREDICTOR_LAWS + REPEATABLE_LAWS
    return tuple(
        Check(law_in_words(law), f"{predictor.model} on {predictor.device}", partial(law, answers)) for law in laws
    )


def check_predictor(predictor: Predictor) -> None:
    """Check that *predictor* obeys the laws of predictors.

    A kernel may raise a :class:`LoopyperfError`; at least one kernel must have an estimate.

    :raises AssertionError: with all violated laws.
    """
    check_all(predictor_checks(predictor))


# {{{ kernels


def _grouped(domain: str, code: str, arrays: lp.ArrayArg, assumptions: str, name: str, **groups: int) -> Any:
    """Return a kernel with work-groups of the sizes *groups* (iname -> size), the first iname fastest."""
    unit = lp.make_kernel(domain, code, [arrays, ...], assumptions=assumptions, name=name, lang_version=(2018, 2))
    for axis, (iname, size) in enumerate(groups.items()):
        unit = lp.split_iname(unit, iname, size, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    return unit


def _scaled() -> Any:
    arrays = lp.GlobalArg("a, b", np.float32, shape="length")
    return _grouped("{[i]: 0 <= i < length}", "b[i] = 2*a[i]", arrays, "length >= 1", "scaled", i=64)


def _matmul() -> Any:
    arrays = lp.GlobalArg("a, b, c", np.float32, shape="length, length")
    domain, code = "{[i, j, k]: 0 <= i, j, k < length}", "c[i, j] = sum(k, a[i, k]*b[k, j])"
    unit = _grouped(domain, code, arrays, "length >= 16 and length mod 16 = 0", "matmul", j=16, i=16)
    unit = lp.split_iname(unit, "k", 16)
    unit = lp.add_prefetch(unit, "a", ["k_inner", "i_inner"], default_tag="l.auto")
    return lp.add_prefetch(unit, "b", ["j_inner", "k_inner"], default_tag="l.auto")


def _triangle() -> Any:
    arrays = lp.GlobalArg("a, b", np.float32, shape="length")
    domain = "{[i, j]: 0 <= i < length and 0 <= j <= i}"
    return _grouped(domain, "b[i] = sum(j, a[j])", arrays, "length >= 1", "triangle", i=64)


def _column_sums() -> Any:
    arrays = lp.GlobalArg("a", np.float32, shape="height, length")
    domain = "{[i, j]: 0 <= i < length and 0 <= j < height}"
    code, assumptions = "b[i] = sum(j, a[j, i])", "length >= 1 and height >= 1"
    return _grouped(domain, code, arrays, assumptions, "column_sums", i=64)


def _two_launches() -> Any:
    code = """
        c[i] = 2*a[i]               {id=write}
        ... gbarrier                {id=between, dep=write}
        b[j] = c[length - 1 - j]    {dep=between}
        """
    arrays = lp.GlobalArg("a, b, c", np.float32, shape="length")
    return _grouped("{[i, j]: 0 <= i, j < length}", code, arrays, "length >= 1", "two_launches", i=64, j=64)


_Sizes = Mapping[str, int]
KERNELS: Mapping[str, tuple[Callable[[], Any], tuple[_Sizes, ...]]] = {
    "scaled": (_scaled, ({"length": 64}, {"length": 1024}, {"length": 2**18})),
    "matmul": (_matmul, ({"length": 16}, {"length": 64}, {"length": 256})),
    "triangle": (_triangle, ({"length": 64}, {"length": 128})),
    "column_sums": (
        _column_sums,
        ({"length": 64, "height": 4}, {"length": 64, "height": 64}, {"length": 4096, "height": 64}),
    ),
    "two_launches": (_two_launches, ({"length": 64}, {"length": 2**14})),
}
"""Name -> function that builds the kernel, and sizes in the order of increasing work."""


@cache
def example_program(name: str) -> Program:
    return KERNELS[name][0]()


# }}}


# {{{ laws of predictors


class _Answers:
    """Estimates of a predictor for the bundled kernels, computed once for all laws."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self._found: dict[str, list[tuple[_Sizes, Estimate]] | Exception] = {}
        self._batches: dict[str, Estimate] = {}

    def of(self, name: str) -> list[tuple[_Sizes, Estimate]] | Exception:
        """Return the sizes of a kernel with the estimates, or the exception that it raises."""
        if name not in self._found:
            try:
                self._found[name] = [(each, self.answer(name, each)) for each in KERNELS[name][1]]
            except Exception as error:
                self._found[name] = error
        return self._found[name]

    def answer(self, name: str, sizes: Mapping[str, Any]) -> Estimate:
        return self.predictor.predict(Case(example_program(name), sizes))

    def by_kernel(self) -> Iterator[tuple[str, list[tuple[_Sizes, Estimate]]]]:
        """Yield the kernels that have estimates."""
        for name in KERNELS:
            found = self.of(name)
            if not isinstance(found, Exception):
                yield name, found

    def __iter__(self) -> Iterator[tuple[str, str, _Sizes, Estimate]]:
        """Yield the call as text, its kernel and sizes, and the estimate."""
        for name, found in self.by_kernel():
            for sizes, estimate in found:
                yield called(name, sizes), name, sizes, estimate

    def batches(self) -> Iterator[tuple[str, Estimate, list[Estimate]]]:
        """Yield the call with all sizes of a kernel as text, its batch estimate, and the estimates of single sizes."""
        for name, found in self.by_kernel():
            arrays = {size: np.array([sizes[size] for sizes, _ in found]) for size in found[0][0]}
            arrays["length"] = arrays["length"].reshape(1, -1)  # so that the other sizes must be broadcast
            if name not in self._batches:
                self._batches[name] = self.answer(name, arrays)
            yield called(name, arrays), self._batches[name], [estimate for _, estimate in found]


def _a_kernel_has_an_estimate_or_a_clear_error(answers: _Answers) -> Iterator[str]:
    refused = {name: found for name in KERNELS if isinstance(found := answers.of(name), Exception)}
    for name, error in refused.items():
        if not isinstance(error, LoopyperfError) or not str(error):
            yield broken_laws(name, repr(error), "an estimate, or a LoopyperfError with a message")
    if len(refused) == len(KERNELS):
        yield broken_laws("all kernels", "; ".join(map(str, refused.values())), "at least one estimate")


def _seconds_are_finite_and_not_negative(answers: _Answers) -> Iterator[str]:
    for question, *_, estimate in answers:
        seconds = float(estimate)
        if not (math.isfinite(seconds) and seconds >= 0):
            yield broken_laws(question, f"{seconds} s", "finite seconds >= 0")


def _the_breakdown_adds_up_to_the_seconds(answers: _Answers) -> Iterator[str]:
    for question, *_, estimate in answers:
        rows = [row.seconds for row in estimate.breakdown.rows]
        for costs in (rows, estimate.breakdown.by_property().values(), estimate.breakdown.by_source().values()):
            added = math.fsum(map(float, costs))
            if abs(added - float(estimate)) > ROUNDING * math.fsum(abs(float(row)) for row in rows):
                yield broken_laws(question, f"costs that add up to {added!r} s", f"{estimate.seconds!r} s")
    for question, batch, _ in answers.batches():
        added = sum((row.seconds for row in batch.breakdown.rows), start=np.zeros(1))
        if not np.allclose(added, batch.seconds, rtol=ROUNDING, atol=0):
            yield broken_laws(question, f"costs that add up to {added} s", f"{batch.seconds} s")


def _more_work_takes_no_less_time(answers: _Answers) -> Iterator[str]:
    for name, found in answers.by_kernel():
        for (less, one), (more, other) in pairwise(found):
            if float(other) < float(one) * (1 - ROUNDING):
                expected = f"at least the {float(one)} s of {called(name, less)}"
                yield broken_laws(called(name, more), f"{float(other)} s", expected)


def _a_batch_has_the_shape_of_its_sizes(answers: _Answers) -> Iterator[str]:
    for question, batch, alone in answers.batches():
        received = (np.shape(batch.seconds), getattr(batch.seconds, "dtype", type(batch.seconds)))
        if received != ((1, len(alone)), np.dtype(np.float64)):
            yield broken_laws(question, received, f"a float64 array of shape (1, {len(alone)})")


def _the_interval_contains_the_seconds(answers: _Answers) -> Iterator[str]:
    for question, *_, estimate in answers:
        if estimate.interval is not None:
            low, high = map(float, estimate.interval)
            if not 0 <= low <= float(estimate) <= high:
                yield broken_laws(question, f"{low} s to {high} s", f"an interval that contains {float(estimate)} s")


def _an_estimate_has_its_inputs(answers: _Answers) -> Iterator[str]:
    predictor = answers.predictor
    for question, name, sizes, estimate in answers:
        expected = (name, sizes, predictor.device, predictor.model)
        received = (estimate.kernel, dict(estimate.sizes), estimate.device, estimate.model)
        if received != expected:
            yield broken_laws(question, received, expected)
        if not set(predictor.notes) <= set(estimate.notes):
            yield broken_laws(question, f"notes {estimate.notes}", f"also the predictor's notes {predictor.notes}")


def _an_estimate_survives_json_and_pickling(answers: _Answers) -> Iterator[str]:
    batches = ((question, batch) for question, batch, _ in answers.batches())
    for question, estimate in (*((question, each) for question, *_, each in answers), *batches):
        plain = estimate.to_dict()
        if json.loads(json.dumps(plain)) != plain:
            yield broken_laws(question, json.loads(json.dumps(plain)), f"{plain} after JSON")
        if pickle.loads(pickle.dumps(estimate)) != estimate:
            yield broken_laws(question, "a different estimate after pickling", "an equal one")


def _errors_name_the_invalid_size(answers: _Answers) -> Iterator[str]:
    for name, ((right, _), *_) in answers.by_kernel():
        left_out = {size: value for size, value in right.items() if size != "length"}
        for sizes in (left_out, *({**right, "length": wrong} for wrong in (64.5, "64", -64))):
            try:
                received = f"{float(answers.answer(name, sizes))} s"
            except LoopyperfError as error:
                if "length" in str(error):
                    continue
                received = repr(error)
            except Exception as error:
                received = repr(error)
            yield broken_laws(called(name, sizes), received, "a LoopyperfError that names the size 'length'")


def _equal_inputs_have_equal_estimates(answers: _Answers) -> Iterator[str]:
    for question, name, sizes, estimate in answers:
        again = (
            answers.answer(name, {size: np.int64(value) for size, value in sizes.items()}),
            answers.predictor(example_program(name), parameters=sizes),
            answers.predictor(example_program(name).copy(), parameters=sizes),
        )
        yield from (broken_laws(question, f"{each.seconds} s", estimate) for each in again if each != estimate)


def _a_batch_has_the_estimates_of_its_sizes(answers: _Answers) -> Iterator[str]:
    for question, batch, alone in answers.batches():
        expected = np.array([[float(each) for each in alone]])
        if not np.allclose(batch.seconds, expected, rtol=ROUNDING, atol=0):
            yield broken_laws(question, f"{batch.seconds} s", f"{expected} s")


def _a_predictor_survives_pickling(answers: _Answers) -> Iterator[str]:
    again = _Answers(pickle.loads(pickle.dumps(answers.predictor)))
    for question, name, sizes, estimate in answers:
        received = again.answer(name, sizes)
        if received != estimate:
            yield broken_laws(question, f"{received.seconds} s after pickling", f"{estimate.seconds} s")


PREDICTOR_LAWS: tuple[Callable[[_Answers], Iterator[str]], ...] = (
    _a_kernel_has_an_estimate_or_a_clear_error,
    _seconds_are_finite_and_not_negative,
    _the_breakdown_adds_up_to_the_seconds,
    _more_work_takes_no_less_time,
    _a_batch_has_the_shape_of_its_sizes,
    _the_interval_contains_the_seconds,
    _an_estimate_has_its_inputs,
    _an_estimate_survives_json_and_pickling,
    _errors_name_the_invalid_size,
)
REPEATABLE_LAWS: tuple[Callable[[_Answers], Iterator[str]], ...] = (
    _equal_inputs_have_equal_estimates,
    _a_batch_has_the_estimates_of_its_sizes,
    _a_predictor_survives_pickling,
)

# }}}
