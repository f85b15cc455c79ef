"""Execute the notebooks named on the command line, by default all, and store their outputs: ``make notebooks``."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

from tests.test_notebooks import NOTEBOOKS, executed


def main() -> None:
    """Execute and write each notebook; figures have neither dates nor random names."""
    with TemporaryDirectory() as folder:
        Path(folder, "matplotlibrc").write_text("svg.hashsalt: loopyperf\n", encoding="utf-8")
        names = ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR")
        os.environ |= {**dict.fromkeys(names, folder), "SOURCE_DATE_EPOCH": "0"}
        for path in NOTEBOOKS:
            if not sys.argv[1:] or path.stem in sys.argv[1:]:
                notebook = executed(path)
                notebook.metadata["language_info"] = {"name": "python"}
                nbformat.write(notebook, path)
                print(f"stored {path.name}")


if __name__ == "__main__":
    main()
