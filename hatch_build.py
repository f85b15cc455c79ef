"""Compile the simulated core, loopyperf/pipeline/core.c, into the package; where that fails, the package has none.

The build of a wheel and an editable installation do so; ``python hatch_build.py`` does it in a checkout.
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
    """Compile the core beside its source and return where it is, relative to the checkout."""
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
        # In one step, and not into the file: processes that run may have loaded what is there.
        new = copy(library, (ROOT / PIPELINE / library.name).with_suffix(".new"))
        Path(new).replace(ROOT / PIPELINE / library.name)
    return PIPELINE / library.name


class CompiledCore(BuildHookInterface[Any]):
    """The step of a build that adds the core."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled core to what is built."""
        try:
            library = compiled()
        except Exception as error:  # whatever a compiler that is missing or broken makes of it
            print(f"loopyperf: the simulator is not compiled and will be slow: {error}", file=sys.stderr)
        else:
            build_data["artifacts"].append(library.as_posix())
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{next(sys_tags()).platform}"


if __name__ == "__main__":
    print(compiled())
