"""Build hook that compiles the simulator core, loopyperf/pipeline/core.c; if that fails, the package lacks it.

The hook runs for wheels and editable installations. ``python hatch_build.py`` compiles the core in a checkout.
"""

import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from shutil import copy
from typing import Any

from cffi import FFI
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

ROOT = Path(__file__).parent
PIPELINE = Path("loopyperf", "pipeline")


def compiled() -> Path:
    """Compile the core beside its source, and return its path relative to the checkout."""
    header, source = (ROOT / PIPELINE / name for name in ("core.h", "core.c"))
    digest = sha256(header.read_bytes() + source.read_bytes()).hexdigest()
    builder = FFI()
    builder.cdef(header.read_text() + "static char *const DIGEST;")
    builder.set_source(
        "loopyperf.pipeline._core",
        f'#include "core.h"\nstatic char *const DIGEST = "{digest}";',
        sources=[str(source)],
        include_dirs=[str(source.parent)],
        extra_compile_args=["-O2"],
        py_limited_api=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        library = Path(builder.compile(tmpdir=folder))
        # Replace the file atomically instead of overwriting it, because running processes may have loaded it.
        new = copy(library, (ROOT / PIPELINE / library.name).with_suffix(".new"))
        Path(new).replace(ROOT / PIPELINE / library.name)
    return PIPELINE / library.name


class CompiledCore(BuildHookInterface[Any]):
    """A build hook that adds the compiled core."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled core to the build artifacts."""
        try:
            library = compiled()
        except Exception as error:  # any error of a missing or broken compiler
            print(f"loopyperf: cannot compile the simulator core; simulations will be slow: {error}", file=sys.stderr)
        else:
            build_data["artifacts"].append(library.as_posix())
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{next(sys_tags()).platform}"


if __name__ == "__main__":
    print(compiled())
