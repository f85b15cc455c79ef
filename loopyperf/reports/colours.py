"""The colours of source text, by Pygments: classes of words in the page, and a style sheet for light and for dark."""

from functools import cache
from typing import cast

from loopyperf.errors import LoopyperfError

try:
    from pygments import highlight
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexers.python import PythonLexer
except ImportError as error:
    raise LoopyperfError(
        f"reports need Pygments, which cannot be imported ({error}): pip install 'loopyperf[report]'"
    ) from error

LIGHT, DARK = "default", "github-dark"
"""styles of Pygments"""


def coloured(text: str) -> str:
    """Return *text*, a statement as Loopy writes it, which is nearly Python, as HTML; what HTML means is escaped."""
    return highlight(text, PythonLexer(stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True))


@cache
def style_sheet(style: str) -> str:
    """Return the rules of a *style* for elements of the class ``code``, without its ground."""
    rules = cast("str", HtmlFormatter(style=style).get_style_defs(".code")).splitlines()
    return "\n".join(rule for rule in rules if rule.startswith(".code .") and ".hll" not in rule)
