"""Build hook that compiles the simulator core, loopyperf/pipeline/core.c; without a C compiler, the build fails.

The hook runs for wheels and editable installations. ``python hatch_build.py`` compiles the core in a checkout, and
``python hatch_build.py FOLDER`` compiles it into a folder with sanitizers and assertions, for ``make sanitize``.
"""

import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from shutil import copy
from typing import Any

from cffi import FFI, VerificationError
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

ROOT = Path(__file__).parent
PIPELINE = Path("loopyperf", "pipeline")
FAST = ("-O2", "-DNDEBUG")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
CHECKED = ("-O1", "-g", "-UNDEBUG", "-fno-omit-frame-pointer", *SANITIZERS)


def compiled(folder: Path = ROOT / PIPELINE, options: Sequence[str] = FAST) -> Path:
    """Compile the core into *folder*, by default beside its source, and return the path of the library."""
    header, source = (ROOT / PIPELINE / name for name in ("core.h", "core.c"))
    digest = sha256(header.read_bytes() + source.read_bytes()).hexdigest()
    builder = FFI()
    builder.cdef(header.read_text() + "static char *const DIGEST;")
    builder.set_source(
        "loopyperf.pipeline._core",
        f'#include "core.h"\nstatic char *const DIGEST = "{digest}";',
        sources=[str(source)],
        include_dirs=[str(source.parent)],
        extra_compile_args=list(options),
        extra_link_args=[each for each in options if each in SANITIZERS],
        py_limited_api=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        library = Path(builder.compile(tmpdir=temporary))
        # Replace the file atomically instead of overwriting it, because running processes may have loaded it.
        new = Path(copy(library, (folder / library.name).with_suffix(".new")))
    return new.replace(folder / library.name)


class CompiledCore(BuildHookInterface[Any]):
    """A build hook that adds the compiled core."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled core to the build artifacts."""
        try:
            library = compiled()
        except VerificationError as error:
            sys.exit(f"loopyperf needs a C compiler for its simulator core, which does not compile here: {error}")
        build_data["artifacts"].append(library.relative_to(ROOT).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{next(sys_tags()).platform}"


if __name__ == "__main__":
    print(compiled(Path(sys.argv[1]), CHECKED) if len(sys.argv) > 1 else compiled())
