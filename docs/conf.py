"""Sphinx configuration: `make docs` builds the site in build/docs, without network access and without warnings.

A reference to a documented object becomes a link; a reference to an object that exists but is not documented is shown
as code. An unknown name is a warning, with which `make docs` fails.
"""

import os
import pkgutil
import re
import sys
from importlib import metadata
from pathlib import Path

import click
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config, NumpyDocstring
from sphinx.util.nodes import make_refnode

DOCS = Path(__file__).parent
# Sphinx-Gallery imports its figure scraper from here.
sys.path.append(str(DOCS / "pictures"))

project = "loopyperf"
author = "The loopyperf developers"
project_copyright = author
release = version = metadata.version("loopyperf")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["tutorial/kernels", "gallery"]
default_role = "literal"
highlight_language = "text"
html_theme = "furo"
html_title = "loopyperf"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Notebooks (docs/notebooks is a link) are stored with their outputs, which tests compare with a new run.
nb_execution_mode = "off"

# Each build draws the whole gallery, because its figures depend on all of loopyperf. -D plot_gallery=0 disables this.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "ignore_pattern": "kernels.py",
    "within_subsection_order": "FileNameSortKey",
    "run_stale_examples": True,
    "abort_on_example_error": True,
    "image_scrapers": ("scraper.last_figure",),
    "capture_repr": (),
    # An SVG, like the figures, which replace it.
    "default_thumb_file": str(DOCS / "_static" / "not_drawn.svg"),
    "reset_modules": (),
    "doc_module": ("loopyperf",),
    "backreferences_dir": "auto_gallery/backreferences",
    # No notebooks of the examples: MyST would execute them as well.
    "notebook_extensions": set(),
    "download_all_examples": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "show_signature": False,
}

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88

# Builds have no network access, and show names of Python, NumPy or Loopy as code. With LOOPYPERF_DOCS_INVENTORIES=1,
# they fetch the inventories of these projects, and link the names.
INVENTORIES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "loopy": "https://documen.tician.de/loopy",
    "islpy": "https://documen.tician.de/islpy",
    "pymbolic": "https://documen.tician.de/pymbolic",
}
# Names that Sphinx cannot resolve: Optuna's class is imported only for type checkers, and Sphinx prefixes `Annotated`
# of `Annotated[...] | None` in a struct with the wrong module.
nitpick_ignore = [
    ("py:class", "BaseSampler"),
    ("py:class", "datetime.Annotated"),
    ("py:class", "collections.abc.Annotated"),
    # In signatures with a default factory, Sphinx splits types at commas.
    ("py:class", "collections.abc.Mapping[int"),
    ("py:class", "collections.abc.Mapping[str"),
]
# Sphinx treats the bounds of annotated numbers as names, because they are floats and not integers.
nitpick_ignore_regex = [("py:class", r"[\d.e+-]+")]
is_online = os.environ.get("LOOPYPERF_DOCS_INVENTORIES") == "1"
intersphinx_mapping = {name: (place, None) for name, place in INVENTORIES.items()} if is_online else {}


def resolved(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> nodes.Node | None:
    """Return a link to the target of a reference, its text if the target is not documented, or None if there is none.

    Docstrings use the names of their module without a path: ``:class:`Estimate```.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    documented = env.domains.python_domain.objects
    ends = [name for name in documented if name == target or name.endswith(f".{target}")]
    if len(ends) == 1:
        found = documented[ends[0]]
        return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, [shown], ends[0])
    places = ["", "builtins.", *(f"{module}." for module in sys.modules if module.partition(".")[0] == "loopyperf")]
    return shown if any(exists(f"{place}{target}") for place in places) else None


def exists(name: str) -> bool:
    """Return whether the qualified *name* can be resolved."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


# Types of parameters are text ("path", "optional"), not references.
NUMPY_STYLE = Config(napoleon_use_param=False, napoleon_use_rtype=False)


def as_written(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Convert a docstring to reST that looks like the source.

    Indented lines of a module docstring (equations) become literal blocks; the space before equation numbers is
    reduced, because pages are narrow. ``|x|`` is escaped, so that it is not a substitution.
    """
    text = "\n".join(lines)
    if what == "module":
        text = re.sub(r"(?m)^(?! )(.+)\n\n(?=    \S)", r"\1\n\n::\n\n", text)
        text = re.sub(r"(?<=\S) {4,}", "   ", text)
    else:
        text = text.replace("|", r"\|")
    # As an extension, Napoleon would treat the text before a colon in an attribute docstring as its type.
    if what in ("function", "method", "class", "exception"):
        text = str(NumpyDocstring(text, NUMPY_STYLE, what=what))
    # "S. Williams" at the start of a line is not the 19th item of a list.
    text = re.sub(r"(?m)^( *[A-Z])\. ", r"\1\\. ", text)
    lines[:] = text.splitlines()


def with_numbers(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Add each number of a device class, with its description and unit."""
    for field, number in getattr(thing, "declared", dict)().items():
        kind = "int" if number.is_whole else "float"
        lines += ["", f".. py:attribute:: {field}", f"   :type: {kind} | None", "", f"   {number}", ""]


def with_examples(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Add the gallery examples that call a plot function to its documentation."""
    if name.startswith("loopyperf.explain.plots.plot_"):
        lines += ["", f".. minigallery:: {name}", ""]


def with_defaults(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Show the description of a command and its options with their defaults, as in its help."""
    with_literal_options(app, context, lines)
    for option in context.command.params:
        if isinstance(option, click.Option) and not option.is_flag and isinstance(option.default, str | int | Path):
            option.show_default = str(option.default)


def with_literal_options(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Mark options in sentences, such as ``--json``, as literals, so that both dashes are shown."""
    lines[:] = [line if line.startswith("..") else re.sub(r"(?<![`\w-])(--[a-z-]+)", r"``\1``", line) for line in lines]


def as_typed(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Show the example at the end of a help text as a code block."""
    lines[:] = [".. code-block:: text", "", *(f"   {line.removeprefix('| ')}" for line in lines), ""]


def setup(app: Sphinx) -> None:
    """Connect the event handlers."""
    app.connect("missing-reference", resolved)
    app.connect("autodoc-process-docstring", as_written)
    app.connect("autodoc-process-docstring", with_numbers)
    app.connect("autodoc-process-docstring", with_examples)
    app.connect("sphinx-click-process-description", with_defaults)
    app.connect("sphinx-click-process-options", with_literal_options)
    app.connect("sphinx-click-process-epilog", as_typed)
