"""A pytest plugin that replaces the compiled core by the one in build/sanitized (``make sanitize``)."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_SPEC = spec_from_file_location("loopyperf.pipeline._core", Path("build/sanitized/_core.abi3.so").resolve())
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules[_SPEC.name] = module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules[_SPEC.name])
