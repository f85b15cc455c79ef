"""Print how many kernels of each corpus are counted, and why others are not: ``make corpora``."""

from collections.abc import Iterable

from parts.titan_v import ARCHIVE

from . import loopy_tests, titan_v
from .census import census
from .specimen import Specimen


def table(corpus: str, specimens: Iterable[Specimen]) -> None:
    """Print one row for each outcome and reason: number of kernels, corpus, outcome, reason, the first such kernel."""
    rows: dict[tuple[str, str], list[str]] = {}
    for specimen, outcome in census(specimens):
        rows.setdefault((outcome.kind, outcome.class_of_reason), []).append(specimen.name)
    for (kind, reason), names in sorted(rows.items(), key=lambda row: -len(row[1])):
        example = f"  [{names[0]}]" if reason else ""
        print(f"{len(names):5}  {corpus}  {kind:8}  {reason}{example}", flush=True)


def main() -> None:
    """Print the tables of the corpora that are here."""
    if ARCHIVE.exists():
        table("titan-v", titan_v.specimens())
    else:
        print(f"titan-v: no {ARCHIVE.name} in ../shared/data; LOOPYPERF_SHARED_DATA can say where it is")
    harvest = loopy_tests.harvest()
    table("loopy tests", harvest.specimens)
    print(f"{len(harvest.obstacles):5}  loopy tests  no kernel: refused by Loopy itself")


if __name__ == "__main__":
    main()
