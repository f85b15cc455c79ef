"""``loopyperf devices``: which devices there are fits for."""

import json

import click
from rich.table import Table

from loopyperf.calibration.fit_files import load_fit
from loopyperf.calibration.library import known_fits
from loopyperf.cli.console import standard_output


@click.command(epilog="\b\nExample: loopyperf devices --json")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def devices(as_json: bool) -> None:
    """List the devices that there is a fit for, your own first where both exist."""
    known = [(entry, load_fit(entry.path)) for entry in known_fits()]
    if as_json:
        rows = [
            {"device": e.slug, "name": f.device, "model": e.model, "origin": e.origin, "path": str(e.path)}
            for e, f in known
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("device", "name", "model", "origin", "made", "counting")
    for entry, fit in known:
        made = fit.created.date().isoformat() if fit.created else ""
        table.add_row(entry.slug, fit.device, entry.model, entry.origin, made, fit.counting)
    standard_output().print(table)
