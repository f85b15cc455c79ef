"""Models of the literature with the equations of their papers, on plain numbers and on timed programs."""

from collections.abc import Callable
from typing import Any, cast

import lazy_loader

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]

__getattr__, __dir__, __all__ = cast("Attached", lazy_loader.attach_stub(__name__, __file__))
