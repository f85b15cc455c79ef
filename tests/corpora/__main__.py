"""Print how many kernels of each corpus are counted, and why others are not: ``make corpora FRAMEWORKS=folder``."""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from parts.titan_v import ARCHIVE

from . import frameworks, loopy_tests, titan_v
from .answers import answers
from .census import census
from .specimen import Specimen

KEPT = Path(__file__).parents[2] / ".pytest_cache" / "frameworks"
"""ignored by git; a harvest takes an hour"""


def table(corpus: str, specimens: Iterable[Specimen]) -> None:
    """Print one row for each outcome and reason: number of kernels, corpus, outcome, reason, the first such kernel."""
    rows: dict[tuple[str, str], list[str]] = {}
    for specimen, outcome in census(specimens):
        rows.setdefault((outcome.kind, outcome.class_of_reason), []).append(specimen.name)
    for (kind, reason), names in sorted(rows.items(), key=lambda row: -len(row[1])):
        example = f"  [{names[0]}]" if reason else ""
        print(f"{len(names):5}  {corpus}  {kind:8}  {reason}{example}", flush=True)


def table_of_frameworks(checkouts: Path) -> None:
    """Print one row for each project, then the failures: project, task, outcome and reason."""
    reasons: Counter[tuple[str, ...]] = Counter()
    kinds = ("counted", "settled", "refused", "wrong", "crashed", "too slow")
    print("project       kernels", *kinds, "median s", "worst s")
    for project, specimens in frameworks.harvest(checkouts, KEPT).items():
        found = [answers(specimen) for specimen in specimens]
        of_kind = Counter(each.kind for each in found)
        seconds = [each.slowest for each in found] or [0]
        times = f"{median(seconds):8.1f} {max(seconds):7.1f}"
        print(f"{project:13} {len(found):7}", *(f"{of_kind[kind]:{len(kind)}}" for kind in kinds), times, flush=True)
        for each in found:
            for task, outcome in each.outcomes.items():
                if outcome.kind not in ("counted", "settled"):
                    reasons[project, task, outcome.kind, outcome.class_of_reason] += 1
    for row, number in reasons.most_common():
        print(f"{number:5} ", *row, sep="  ")


def main() -> None:
    """Print the tables of the available corpora."""
    if len(sys.argv) > 1:
        table_of_frameworks(Path(sys.argv[1]))
    if ARCHIVE.exists():
        table("titan-v", titan_v.specimens())
    else:
        print(f"titan-v: no {ARCHIVE.name} in ../shared/data; LOOPYPERF_SHARED_DATA can say where it is")
    harvest = loopy_tests.harvest()
    table("loopy tests", harvest.specimens)
    print(f"{len(harvest.obstacles):5}  loopy tests  no kernel: refused by Loopy itself")


if __name__ == "__main__":
    main()
