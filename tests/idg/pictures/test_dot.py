"""Test graphs in the DOT language against the expected output, and by parsing them."""

import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.idg import Idg, Instruction
from loopyperf.idg.pictures import dot
from tests.idg.dot_parser import Reading
from tests.idg.pictures.test_listing import row_sums
from tests.idg.published_graphs import CORNELIS, LEMEIRE
from tests.idg.rolled_graphs import rolled_graphs


def test_dot_of_a_loop() -> None:
    assert dot(row_sums()) == (
        "digraph {\n"
        '    node [shape=box, style=filled, fontname="monospace"];\n'
        '    edge [fontname="monospace"];\n'
        '    0 [label="0: move ×1\\nacc", fillcolor="#cfe2f3"];\n'
        "    subgraph cluster_1 {\n"
        '        label="for k in 64 iterations";\n'
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
def test_any_source_line_is_a_valid_label(text: str) -> None:
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
def test_graphviz_accepts_the_output() -> None:
    quoted = replace(row_sums().instructions[0], text='say "\\"')
    graph = replace(row_sums(), instructions=(quoted, *row_sums().instructions[1:]))
    subprocess.run(["dot", "-Tsvg"], input=dot(graph), text=True, check=True, capture_output=True)
