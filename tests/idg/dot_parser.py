"""Parse DOT text by its grammar."""

import re

TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z_0-9]*|\d+|->|[{}\[\]=,;])', re.DOTALL)


class Reading:
    """Parsed DOT text: its boxes (nodes), arrows (edges) and frames (clusters)."""

    def __init__(self, text: str) -> None:
        self.tokens, position = [], 0
        while text[position:].strip():
            token = TOKEN.match(text, position)
            assert token is not None, text[position : position + 40]
            self.tokens.append(token[1])
            position = token.end()
        self.boxes: dict[str, str] = {}
        self.arrows: list[tuple[str, str, dict[str, str]]] = []
        self.frames: list[str] = []
        self._take("digraph", "{")
        self._statements()
        assert not self.tokens

    def _take(self, *expected: str) -> None:
        for token in expected:
            assert self.tokens.pop(0) == token

    def _statements(self) -> None:
        while self.tokens[0] != "}":
            self._statement(self.tokens.pop(0))
        self._take("}")

    def _statement(self, first: str) -> None:
        if first == "subgraph":
            assert self.tokens.pop(0).startswith("cluster")
            self._take("{")
            return self._statements()
        if first == "label":
            self._take("=")
            self.frames.append(unquoted(self.tokens.pop(0)))
            return self._take(";")
        target = self.tokens.pop(1) if self.tokens[0] == "->" else None
        if target is not None:
            self._take("->")
            self.arrows.append((first, target, self._attributes()))
        elif first.isdigit():
            self.boxes[first] = unquoted(self._attributes()["label"])
        else:
            self._attributes()
        return self._take(";")

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self._take("[")
        while self.tokens[0] != "]":
            name = self.tokens.pop(0)
            self._take("=")
            found[name] = self.tokens.pop(0)
            if self.tokens[0] == ",":
                self._take(",")
        self._take("]")
        return found


def unquoted(token: str) -> str:
    """Return the text of a quoted string in a label."""
    assert token[0] == token[-1] == '"'
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], token[1:-1])
