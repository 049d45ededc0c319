"""Every error message of the package is in some test: two or three words in a row that no other message has."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]

# What no call could bring about: it would take a mount point that dies before the function that it belongs to.
UNREACHED = ("the function that was decorated by around.wrap(...) is gone; keep it to call it",)

# What stands for a part of a message that is known only when it is made.
HOLE = "\0"


@dataclass(frozen=True)
class Message:
    """The text of an error or a warning, with holes, and where it is written."""

    file: str
    line: int
    text: str

    def rows(self) -> set[str]:
        """Return each two and three words in a row."""
        return rows(self.text)


def text_of(node: ast.expr) -> str:
    """Return what is known of a string from its source."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(text_of, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left) + text_of(right)
        case ast.IfExp(body=one, orelse=other):
            return f"{text_of(one)}{HOLE}{text_of(other)}"
    return HOLE


def rows(text: str) -> set[str]:
    """Return each two and three words in a row of a text, which may be a regular expression."""
    found: set[str] = set()
    for part in text.split(HOLE):
        words = re.findall(r"\w+", re.sub(r"\\(?=\W)", "", part))
        found.update(map(" ".join, pairwise(words)))
        found.update(map(" ".join, zip(words, words[1:], words[2:], strict=False)))
    return found


def messages() -> Iterator[Message]:
    """Yield each text that is given to an error of ours, to a warning, or to a function that makes what is raised."""
    for path in sorted((ROOT / "aspecthook").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text())
        raised = {id(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args:
                name = ast.unparse(node.func).rpartition(".")[2]
                if name == "warn" or name.endswith("Error"):
                    yield Message(file, node.lineno, text_of(node.args[0]))
                elif id(node) in raised and not file.startswith("aspecthook/training/"):  # there they take single words
                    yield from (Message(file, node.lineno, text_of(one)) for one in node.args)


def texts_of_tests() -> Iterator[str]:
    """Yield each string of the tests, except for docstrings."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text())
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in said:
                yield text_of(node)


def test_every_message_is_in_some_test() -> None:
    found = [message for message in messages() if message.rows() and message.text not in UNREACHED]
    count = Counter(row for message in found for row in message.rows())
    tested = {row for text in texts_of_tests() for row in rows(text)}
    untested = [
        f"{message.file}:{message.line}: {message.text.replace(HOLE, '{}')}"
        for message in found
        if tested.isdisjoint({row for row in message.rows() if count[row] == 1} or message.rows())
    ]
    assert len(found) > 400
    assert untested == []
