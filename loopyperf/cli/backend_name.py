"""The name of a backend on the command line."""

from typing import Any

import click
from click.shell_completion import CompletionItem

from loopyperf.measurement import backends


class BackendName(click.ParamType[str]):
    """What kernels run through: a name in the table of backends, but for ``replay``, which runs nothing."""

    name = "backend"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return *value*; fails, as Click has it, where no backend that runs kernels is called so."""
        if value == "replay" or value not in backends.BACKENDS:
            listed = " and ".join(backends.RUNNING)
            self.fail(f"no backend that runs kernels is called {value!r}; there are {listed}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so."""
        return [CompletionItem(name) for name in backends.RUNNING if name.startswith(incomplete)]


BACKEND = BackendName()
