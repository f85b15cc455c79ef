"""Diagnose a kernel on a device: the cause of its run time in one sentence, and what would make it faster."""

from collections.abc import Sequence
from dataclasses import dataclass

from loopyperf.device.lambdas import DRAM
from loopyperf.device.vocabulary import Vocabulary, vocabulary
from loopyperf.errors import LoopyperfError
from loopyperf.explain.candidates import ChangeClass
from loopyperf.explain.findings import FULL, Finding, findings_of
from loopyperf.explain.review import LaunchReview, review_of
from loopyperf.models.result import Estimate
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.on_device import SIMULATED, DevicePredictor, simulator_of
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, found_once
from loopyperf.units import in_percent

IDLE = 0.8
"""share of the time; if the mean core has work for less, cores count as idle"""
NAMES_CAUSE = 0.05
"""share of the time; a finding with a larger gain names the cause"""
OPPORTUNITIES = (ChangeClass.SEVERAL_RESULTS, ChangeClass.UNROLL)
"""changes that may help without a waste"""
OUTWEIGHED = 1 / 3
"""ratio of a gain to the share of another waste; if it is smaller, the other waste names the cause"""
UNTRIED = ("another algorithm", "smaller data types", "other layouts of the arrays")
"""changes that no finding suggests"""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What limits a kernel on a device, and what would make it faster."""

    _OMITTED = ("words",)

    model: str
    """model that predicted the times"""
    seconds: float
    """predicted run time of the kernel"""
    cause: str
    """cause of the run time, as a sentence without its period"""
    launches: tuple[LaunchReview, ...]
    """what limits each launch, in program order"""
    findings: tuple[Finding, ...]
    """suggested changes, largest gain first"""
    words: Vocabulary
    """the device's terms, e.g. "warp" or "wavefront\""""
    is_scaled: bool = False
    """whether the model predicts only the run time, and all else is simulated and scaled to it"""
    tried: tuple[str, ...] = ()
    """changes whose predicted kernels are not 2 % faster"""
    left_out: tuple[str, ...] = ()
    """work that the times do not include, so that they are lower bounds"""

    @property
    def no_change(self) -> str:
        """Return a sentence on what was tried, for a diagnosis without findings."""
        tried = f"no change that was tried makes it 2 % faster ({'; '.join(self.tried)})"
        others = ", ".join((*(f"changes that reduce {work}" for work in self.left_out), *UNTRIED))
        return f"{tried if self.tried else 'found no waste that a change could remove'}; not tried: {others}"

    @property
    def remarks(self) -> list[str]:
        """Return a remark on what is simulated if another model gives the time."""
        if self.is_scaled:
            return [f"{self.model!r} predicts only the run time; all else is simulated and scaled to it"]
        return [] if self.model == SIMULATED else [f"{self.model!r} predicts the times; stall reasons are simulated"]

    @property
    def longest(self) -> LaunchReview:
        """Return the longest launch."""
        return max(self.launches, key=lambda launch: launch.seconds)


DIAGNOSIS: ResultKind[Diagnosis] = json_result_kind("diagnosis", 64, Diagnosis)


def diagnosed(case: Case, predictor: Predictor, estimate: Estimate, *, findings: bool = True) -> Diagnosis:
    """Return what limits *case* on the device of *predictor*; its times add up to the *estimate* of *predictor*.

    A predictor that does not model pipelines gives only the estimate: the simulator's times are scaled to it. Without
    *findings*, no change is simulated. Raises :class:`LoopyperfError` if the kernel cannot be predicted.
    """
    seconds = float(estimate)
    by = simulator_of(predictor)
    scaled = None if by is predictor else predictor.model
    if scaled and seconds <= 0:
        raise LoopyperfError(f"nothing can be scaled to the time of {scaled!r}, which is not above 0")
    key = *by.depends_on, by.parameters, case.typical, case.sizes, findings, scaled, seconds if scaled else None
    return found_once(DIAGNOSIS, case.kernel, key, lambda: _diagnosed(case, predictor, by, findings, scaled, seconds))


def _diagnosed(
    case: Case, predictor: Predictor, by: DevicePredictor, findings: bool, scaled: str | None, seconds: float
) -> Diagnosis:
    program, timed, words = by.machine(case), by.timing(case), vocabulary(by.parameters)
    simulated = by.time(timed)
    factor = seconds / float(simulated.seconds) if scaled and simulated.seconds else 1.0

    def time(changed: Case, program: TimedProgram) -> float:
        return float(predictor.predict(changed)) if scaled else float(by.time(program).seconds)

    pairs = zip(program.launches, timed.launches, strict=True)
    reviews = tuple(
        review_of(machine, launch, factor * by.time(timed.alone(launch)).executing) for machine, launch in pairs
    )
    whole = factor * float(simulated.seconds)
    found: tuple[Finding, ...] = ()
    tried: tuple[str, ...] = ()
    if findings and reviews:
        overhead = max(0.0, 1 - sum(review.seconds for review in reviews) / whole) if whole else 0.0
        found, tried = findings_of(case, program, timed, reviews, whole, overhead, time)
    cause = _cause(reviews, found, whole, words)
    return Diagnosis(
        scaled or by.model, whole, cause, reviews, found, words, scaled is not None, tried, simulated.left_out
    )


# {{{ the cause of the run time


def _cause(reviews: Sequence[LaunchReview], findings: Sequence[Finding], seconds: float, words: Vocabulary) -> str:
    """Return the cause of the run time as a clause."""
    if not reviews:
        return "the kernel executes nothing"
    longest = max(reviews, key=lambda review: review.seconds)
    if longest.seconds < seconds / 2:
        launches = seconds - sum(review.seconds for review in reviews)
        if launches > seconds / 2:
            return "dominated by launch overhead"
    why = _of_launch(
        longest, _naming_cause([finding for finding in findings if finding.launch == longest.name], seconds), words
    )
    if len(reviews) == 1:
        return why
    return f"{longest.name} takes {in_percent(longest.seconds / seconds)} of the time, {why}"


def _naming_cause(findings: Sequence[Finding], seconds: float) -> Finding | None:
    """Return the finding that names the cause: the one with the largest gain, or else with the largest waste.

    A waste names the cause rather than an opportunity to share loads or to overlap instructions.
    """
    telling = [finding for finding in findings if finding.gain is not None and finding.gain > NAMES_CAUSE * seconds]
    wastes = [finding for finding in telling if finding.kind not in OPPORTUNITIES]
    first = next(iter(wastes or telling), None)
    if first is not None and first.kind == ChangeClass.LOCAL_TILE:  # rather the accesses than that they repeat
        others = [
            finding for finding in wastes if finding.kind != first.kind and 2 * (finding.gain or 0) > (first.gain or 0)
        ]
        first = next(iter(others), first)
    other = next((finding for finding in findings if finding.gain is None), None)
    if first is None or first.gain is None or (other and first.gain / seconds < OUTWEIGHED * other.share):
        return other or first
    return first


def _of_launch(review: LaunchReview, finding: Finding | None, words: Vocabulary) -> str:
    busiest = review.busiest
    share = review.utilization.get(busiest, 0.0)
    limit = words.limit(busiest, review.of_local if busiest == review.pipeline_of_local else 0.0)
    if share >= FULL:
        because = f"busy for {in_percent(share)} of the time"
        if finding is not None and not (busiest == DRAM and finding.kind in OPPORTUNITIES):
            because = finding.evidence
        return f"bound by {limit}: {because}"
    if finding is not None:
        return f"{_limited_by(finding.kind, limit, words)}: {finding.evidence}"
    if review.balance < IDLE:
        return (
            f"{words.core}s are idle for {in_percent(1 - review.balance)} of the time: "
            "there are too few groups, or the groups are too large"
        )
    return _waiting(review, limit, share, words)


def _limited_by(kind: str, limit: str, words: Vocabulary) -> str:
    """Return the limit that a change of that *kind* would lift."""
    return {
        ChangeClass.SMALLER_GROUPS: "limited by the tail effect",
        ChangeClass.LARGER_GROUPS: "limited by small groups",
        ChangeClass.REDUCE_ONCE: "limited by barriers",
        ChangeClass.FEWER_VALUES: "limited by registers",
        ChangeClass.REGISTERS: "limited by registers",
        ChangeClass.PAD: f"limited by bank conflicts in {words.local}",
        ChangeClass.COALESCE: "limited by uncoalesced accesses",
        ChangeClass.TRANSPOSE: "limited by uncoalesced accesses",
        ChangeClass.DIVERGENCE: "limited by divergent branches",
        ChangeClass.PARTIAL_SUMS: "bound by the latency of dependent instructions",
        ChangeClass.FEWER_ATOMICS: "limited by contended atomic updates",
        ChangeClass.REDUNDANT: "limited by redundant work",
        ChangeClass.PRECISION: "limited by double precision",
        ChangeClass.CACHE_BLOCKS: "limited by a working set larger than the cache",
        ChangeClass.LOCAL_TILE: "limited by repeated loads",
        ChangeClass.FEWER_LAUNCHES: "dominated by launch overhead",
    }.get(ChangeClass(kind), f"bound by {limit}")


def _waiting(review: LaunchReview, limit: str, share: float, words: Vocabulary) -> str:
    """Return what warps wait for, where no resource is saturated and no change helps."""
    if review.waiting is None or not review.waiting.total:
        return f"bound by {limit}: busy for {in_percent(share)} of the time"
    cause, part = next(iter(review.waiting.total.items()))
    residents = f"{review.residents.warps_in_words} of {review.residents.slots} {words.warp}s are resident"
    stalls = f"{in_percent(part)} of stall cycles"
    clause = {
        "memory latency": f"bound by memory latency: {stalls} wait for loads, {residents}",
        "dependency": f"bound by instruction latency: {stalls} wait for results of earlier instructions, {residents}",
        "barrier": f"limited by barriers: {stalls}",
        "issue limit": f"bound by instruction issue: {stalls} wait for an issue slot",
        "pipeline busy": f"limited by bursts of work: {stalls} wait for a busy pipeline, which idles at other times",
        "memory bandwidth": f"limited by bursts of memory traffic: {stalls} wait for a busy memory, which idles at "
        "other times",
    }[cause]
    return f"{clause}; no part is busy for more than {in_percent(share)} of the time ({words.resource(review.busiest)})"


# }}}
