"""The documentation as a site: `make docs` builds it into build/docs, without a network and without warnings.

What a reference names is linked where it has a page, and shown as code where it is there but has none. A name that is
nowhere is a warning, which `make docs` does not let pass.
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
# Where Sphinx-Gallery finds its scraper of figures.
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

# Notebooks (docs/notebooks is a link) are kept without outputs: they are executed, and again where they have changed.
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS.parent / "build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_kernel_rgx_aliases = {".*": "python3"}

# The gallery is drawn anew by each build, as its pictures depend on all of loopyperf, or not at all: -D plot_gallery=0.
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
    # An SVG, as pictures are: the drawn one takes its place.
    "default_thumb_file": str(DOCS / "_static" / "not_drawn.svg"),
    "reset_modules": (),
    "doc_module": ("loopyperf",),
    "backreferences_dir": "auto_gallery/backreferences",
    # Notebooks of our own have answers beside their cells; MyST would execute these, too.
    "notebook_extensions": set(),
    "download_all_examples": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "show_signature": False,
}

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88

# Builds have no network: what is Python's, NumPy's or Loopy's is then shown as code. With LOOPYPERF_DOCS_INVENTORIES=1
# their inventories are fetched, and it is linked.
INVENTORIES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "loopy": "https://documen.tician.de/loopy",
    "islpy": "https://documen.tician.de/islpy",
    "pymbolic": "https://documen.tician.de/pymbolic",
}
# What Sphinx cannot see: Optuna's class is imported for type checkers only, and of `Annotated[...] | None` in a struct
# it makes a name of the module that the other part is from.
nitpick_ignore = [
    ("py:class", "BaseSampler"),
    ("py:class", "datetime.Annotated"),
    ("py:class", "collections.abc.Annotated"),
    # Of a signature with a default factory, Sphinx splits types at their commas.
    ("py:class", "collections.abc.Mapping[int"),
    ("py:class", "collections.abc.Mapping[str"),
]
# The bounds of an annotated number are floats, and Sphinx takes what it does not parse as an integer for a name.
nitpick_ignore_regex = [("py:class", r"[\d.e+-]+")]
is_online = os.environ.get("LOOPYPERF_DOCS_INVENTORIES") == "1"
intersphinx_mapping = {name: (place, None) for name, place in INVENTORIES.items()} if is_online else {}


def resolved(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> nodes.Node | None:
    """Return a link to what a reference of our docstrings names, its text where that has no page, None for nothing.

    Docstrings name things as their module does, without the way to them: ``:class:`Estimate```.
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
    """Return whether there is something called *name*, with its module and class."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


# Types of parameters are words ("path", "optional"), not references.
NUMPY_STYLE = Config(napoleon_use_param=False, napoleon_use_rtype=False)


def as_written(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Have a docstring shown as whoever reads the module sees it.

    A module's indented lines, its equations, stand as they are, but for the space before their numbers, for which a
    page has no room. A magnitude, ``|x|``, is no substitution.
    """
    text = "\n".join(lines)
    if what == "module":
        text = re.sub(r"(?m)^(?! )(.+)\n\n(?=    \S)", r"\1\n\n::\n\n", text)
        text = re.sub(r"(?<=\S) {4,}", "   ", text)
    else:
        text = text.replace("|", r"\|")
    # Napoleon, as an extension, takes a colon in the docstring of an attribute for the end of its type.
    if what in ("function", "method", "class", "exception"):
        text = str(NumpyDocstring(text, NUMPY_STYLE, what=what))
    # "S. Williams" at the beginning of a line is nobody's nineteenth item.
    text = re.sub(r"(?m)^( *[A-Z])\. ", r"\1\\. ", text)
    lines[:] = text.splitlines()


def with_numbers(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Have each number of a device shown with what it is of, and its unit."""
    for field, number in getattr(thing, "declared", dict)().items():
        kind = "int" if number.is_whole else "float"
        lines += ["", f".. py:attribute:: {field}", f"   :type: {kind} | None", "", f"   {number}", ""]


def with_examples(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Have a function that draws shown with the examples of the gallery that call it."""
    if name.startswith("loopyperf.explain.plots."):
        lines += ["", f".. minigallery:: {name}", ""]


def with_defaults(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Have a command's description, and its options with their defaults, shown as its help shows them."""
    with_literal_options(app, context, lines)
    for option in context.command.params:
        if isinstance(option, click.Option) and not option.is_flag and isinstance(option.default, str | int | Path):
            option.show_default = str(option.default)


def with_literal_options(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Have an option in a sentence, ``--json``, shown with both its dashes."""
    lines[:] = [line if line.startswith("..") else re.sub(r"(?<![`\w-])(--[a-z-]+)", r"``\1``", line) for line in lines]


def as_typed(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Have what a help ends with, an example, shown as what one types."""
    lines[:] = [".. code-block:: text", "", *(f"   {line.removeprefix('| ')}" for line in lines), ""]


def setup(app: Sphinx) -> None:
    """Connect the above."""
    app.connect("missing-reference", resolved)
    app.connect("autodoc-process-docstring", as_written)
    app.connect("autodoc-process-docstring", with_numbers)
    app.connect("autodoc-process-docstring", with_examples)
    app.connect("sphinx-click-process-description", with_defaults)
    app.connect("sphinx-click-process-options", with_literal_options)
    app.connect("sphinx-click-process-epilog", as_typed)
