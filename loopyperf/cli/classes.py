"""Errors of a fit's cross-validation by kernel class, as the commands print them."""

from rich.console import Console

from loopyperf.calibration.accuracy import CrossValidation
from loopyperf.cli.console import table_of


def show_classes(found: CrossValidation, candidate: str, console: Console) -> None:
    """Print how far each way to fit is off on each class of kernels that it was not fitted to, worst class first.

    Worst by *candidate*, which is kept. Where other classes do not determine all weights that one needs, the errors are
    of those of its measurements for which they do, or of all where there is none; then the class is not compared.
    """
    names = tuple(found.errors)
    table = table_of("left out", "measurements", *names, title="errors on kernel classes left out")
    for row in sorted(found.classes, key=lambda row: -row.errors.get(candidate, 0.0)):
        number = f"{row.predictable} of {row.observations}" if row.predictable else f"{row.observations}, not compared"
        table.add_row(row.kernel_class, number, *(f"{row.errors[name]:.0%}" for name in names))
    table.add_section()
    compared = f"geometric mean of {len(found.compared)}"
    table.add_row(compared, "", *(f"{found.errors[name]:.0%}" for name in names), style="bold")
    console.print(table)
    console.print(f"kept: {candidate or found.better}")
