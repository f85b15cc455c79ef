"""A parser for expressions in C."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"\s*((?:\d+\.\d*|\d+)(?:[eE][+-]?\d+)?[a-zA-Z]*|[A-Za-z_]\w*|&&|\|\||==|!=|<=|>=|<<|>>|[-+*/%<>!~&|^?:(),.])"
)
LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
PRECEDENCE = {operator: level for level, operators in enumerate(LEVELS, 1) for operator in operators.split()}
"""of the binary operators, all of which are left-associative"""
TYPE = re.compile(r"u?(char|short|int|long)\d*|(float|double|half)\d*|u?int\d+_t|bool")


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Literal:
    text: str


@dataclass(frozen=True)
class Signed:
    """A unary operator and its operand."""

    operator: str
    operand: "Node"


@dataclass(frozen=True)
class Binary:
    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True)
class Choice:
    condition: "Node"
    then: "Node"
    otherwise: "Node"


@dataclass(frozen=True)
class Cast:
    type: str
    operand: "Node"


@dataclass(frozen=True)
class Call:
    function: str
    parameters: tuple["Node", ...]


Node = Name | Literal | Signed | Binary | Choice | Cast | Call


def parsed(text: str) -> Node:
    """Return the syntax tree of *text*."""
    tokens = _Tokens(text)
    tree = tokens.choice()
    assert tokens.next == "", f"{tokens.next} in {text}"
    return tree


def _split(text: str) -> Iterator[str]:
    place = 0
    while text[place:].strip():
        found = TOKEN.match(text, place)
        assert found, f"what is {text[place:]}?"
        yield found[1]
        place = found.end()


class _Tokens:
    def __init__(self, text: str) -> None:
        self.left = list(_split(text))[::-1]

    @property
    def next(self) -> str:
        return self.left[-1] if self.left else ""

    def take(self, expected: str = "") -> str:
        assert expected in ("", self.next), f"{self.next} where {expected} is due"
        return self.left.pop()

    def choice(self) -> Node:
        condition = self.binary(1)
        if self.next != "?":
            return condition
        self.take("?")
        then = self.choice()
        self.take(":")
        return Choice(condition, then, self.choice())

    def binary(self, least: int) -> Node:
        left = self.signed()
        while PRECEDENCE.get(self.next, 0) >= least:
            operator = self.take()
            left = Binary(operator, left, self.binary(PRECEDENCE[operator] + 1))
        return left

    def signed(self) -> Node:
        return Signed(self.take(), self.signed()) if self.next in ("-", "+", "!", "~") else self.primary()

    def primary(self) -> Node:
        token = self.take()
        if token == "(":
            return self.parenthesized()
        if token[0].isdigit():
            return Literal(token)
        assert token[0].isalpha() or token[0] == "_", f"{token} where an operand is due"
        return Call(token, tuple(self.parameters())) if self.next == "(" else Name(token)

    def parenthesized(self) -> Node:
        if TYPE.fullmatch(self.next):
            name = self.take()
            self.take(")")
            return Cast(name, self.signed())
        inside = self.choice()
        self.take(")")
        return inside

    def parameters(self) -> Iterator[Node]:
        self.take("(")
        while self.next != ")":
            yield self.choice()
            if self.next == ",":
                self.take(",")
        self.take(")")
