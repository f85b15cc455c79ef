"""Expressions of trip counts and conditions, encoded as plain numbers, evaluate like those of pymbolic."""

import pickle
from itertools import product

import pytest
from pymbolic import evaluate, parse
from pymbolic.primitives import If, Max, Min, Variable

from loopyperf.errors import GraphError
from loopyperf.idg import Idg, Instruction
from loopyperf.idg.program import Edge, Loop
from loopyperf.pipeline.expression_code import Code, ExpressionTable, coded, coded_graph, decoded, decoded_graph
from loopyperf.polyhedral.affine import Affine

FIRST, SECOND = Variable("i"), Variable("j")
EXPRESSIONS = [
    *map(parse, ("i", "j - 3", "2*i + 3*j - 1", "(i + j)//4", "(3*i + j) % 5", "i*j", "i < j", "i >= 2*j", "i == j")),
    *map(parse, ("i != j and j > 1", "i < 2 or not j < 3", "(i + 1)//2 <= j % 3 and i != 2")),
    *(Min((FIRST, SECOND, 3)), Max((FIRST - SECOND, 2)), If(parse("i < j"), FIRST + 7, 2 * SECOND)),
]


def test_code_evaluates_like_its_expression(subtests: pytest.Subtests) -> None:
    for expression in EXPRESSIONS:
        with subtests.test(expression=str(expression)):
            code = coded(expression, ("i", "j"))
            assert isinstance(code, Code)
            assert pickle.loads(pickle.dumps(code)) == code
            known = decoded(code, ("i", "j"))
            for i, j in product(range(6), range(6)):
                assert int(evaluate(known, {"i": i, "j": j})) == int(evaluate(expression, {"i": i, "j": j}))


def test_code_refers_to_loops_by_level() -> None:
    assert coded(FIRST - 2, ("i", "j")) == coded(SECOND - 2, ("j",)) == Code(((1, 0, -2),))
    assert coded(FIRST - 2, ("j", "i")) == Code(((1, 1, -2),))
    assert [code.lag(0) for code in (coded(FIRST - 2, ("i",)), coded(2 * FIRST, ("i",))) if isinstance(code, Code)] == [
        2,
        None,
    ]


def test_expression_without_an_operation_is_refused_on_use() -> None:
    code = coded(parse("i // j"), ("i", "j"))
    assert isinstance(code, Code)
    with pytest.raises(GraphError, match="the divisor must be a positive integer"):
        ExpressionTable().add(code)


def test_coded_graph_decodes_to_the_original() -> None:
    edge = Edge(1, 1, (1, 0), (Affine((("i", 1),), -1), Affine((("j", 1),))), parse("i < j"))
    body = (Loop("i", 4, (0, Loop("j", FIRST + 1, (1,)))),)
    graph = Idg((Instruction("alu"), Instruction("alu", condition=parse("j < 3"))), (edge,), body)
    plain = coded_graph(graph)
    assert coded_graph(plain) == plain != graph
    assert decoded_graph(plain) == graph
