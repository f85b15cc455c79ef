"""Graphs in the DOT language: letter by letter, and read back by its grammar."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_graphs import CORNELIS, LEMEIRE
from rolled_graphs import rolled_graphs
from test_listing import row_sums

from loopyperf.idg import Idg, Instruction
from loopyperf.idg.pictures import dot

TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z_0-9]*|\d+|->|[{}\[\]=,;])', re.DOTALL)


class Reading:
    """DOT text read by its grammar: what boxes, arrows and frames there are."""

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
    """Return the text that a quoted string stands for in a label."""
    assert token[0] == token[-1] == '"'
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], token[1:-1])


def test_dot_of_a_loop() -> None:
    assert dot(row_sums()) == (
        "digraph {\n"
        '    node [shape=box, style=filled, fontname="monospace"];\n'
        '    edge [fontname="monospace"];\n'
        '    0 [label="0: move ×1\\nacc", fillcolor="#cfe2f3"];\n'
        "    subgraph cluster_1 {\n"
        '        label="for k in 64 passes";\n'
        '        1 [label="1: load b32 ×32\\nif k % 2 == 0\\na[i, k + 1]", fillcolor="#f9cb9c"];\n'
        '        2 [label="2: barrier ×64\\nbarrier", fillcolor="#f4b6b6"];\n'
        '        3 [label="3: add f32 ×64\\nacc + a[i, k]", fillcolor="#cfe2f3"];\n'
        "    }\n"
        '    4 [label="4: store b32 ×1\\nout[i]", fillcolor="#f9cb9c"];\n'
        '    3 -> 3 [style=solid, label="k - 1", constraint=false];\n'
        '    0 -> 3 [style=solid, label="if k == 0"];\n'
        '    1 -> 3 [style=solid, label="k - 1\\nif k % 2 == 1", constraint=false];\n'
        "    2 -> 3 [style=dotted];\n"
        '    3 -> 4 [style=solid, label="k = 63"];\n'
        "}\n"
    )


def test_dot_of_saxpy() -> None:
    assert dot(CORNELIS) == (
        "digraph {\n"
        '    node [shape=box, style=filled, fontname="monospace"];\n'
        '    edge [fontname="monospace"];\n'
        '    0 [label="0: index i32 ×1\\ni = get_global_id(0)", fillcolor="#cfe2f3"];\n'
        '    1 [label="1: load b32 ×1\\nX[i]", fillcolor="#f9cb9c"];\n'
        '    2 [label="2: load b32 ×1\\nY[i]", fillcolor="#f9cb9c"];\n'
        '    3 [label="3: fma f32 ×1\\na*x + y", fillcolor="#cfe2f3"];\n'
        '    4 [label="4: store b32 ×1\\nY[i] = z", fillcolor="#f9cb9c"];\n'
        "    0 -> 1 [style=solid];\n"
        "    0 -> 2 [style=solid];\n"
        "    1 -> 3 [style=solid];\n"
        "    2 -> 3 [style=solid];\n"
        "    0 -> 4 [style=solid];\n"
        "    3 -> 4 [style=solid];\n"
        "}\n"
    )


def test_dot_of_the_example_kernel_has_its_edges() -> None:
    found = [(int(source), int(target)) for source, target, _ in Reading(dot(LEMEIRE)).arrows]
    assert found == [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)]


@given(st.text(max_size=40))
def test_any_source_line_is_a_label(text: str) -> None:
    graph = Idg((Instruction("add", text=text),), (), (0,))
    line = " ".join(text.split())
    assert Reading(dot(graph)).boxes == {"0": "0: add ×1" + (f"\n{line}" if line else "")}


@given(rolled_graphs())
def test_dot_has_every_instruction_and_every_edge(graph: Idg) -> None:
    found = Reading(dot(graph))
    assert list(map(int, found.boxes)) == list(range(len(graph.instructions)))
    assert {(int(source), int(target)) for source, target, _ in found.arrows} == {
        (edge.source, edge.target) for edge in graph.edges
    }
    assert len(found.frames) == 2


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_it() -> None:
    quoted = replace(row_sums().instructions[0], text='say "\\"')
    graph = replace(row_sums(), instructions=(quoted, *row_sums().instructions[1:]))
    subprocess.run(["dot", "-Tsvg"], input=dot(graph), text=True, check=True, capture_output=True)
