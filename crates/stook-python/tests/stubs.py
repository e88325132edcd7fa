"""Documentation in the stubs is that of the running classes: checks it, or copies it with
``--write``.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from pathlib import Path
from typing import Union

from stook import _stook

PACKAGE = Path(__file__).parents[1] / "python" / "stook"
#: Those of one module, in files that can be read.
STUBS = [
    PACKAGE / f"_stook{name}.pyi" for name in ("", "_archive", "_items", "_mapping", "_ops", "_sparse", "_stitch")
]
#: Classes of the stubs that are parts of others.
PARTS = {"_PackMapping": "Pack"}

Documented = Union[ast.ClassDef, ast.FunctionDef]


def documented(tree: ast.Module) -> list[tuple[str, Documented]]:
    """Classes, functions and public methods of the stubs by name; of overloads the first."""
    found: dict[str, Documented] = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name not in PARTS:
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            name = PARTS.get(node.name, node.name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    found.setdefault(f"{name}.{member.name}", member)
    return list(found.items())


def running_doc(name: str) -> str:
    """What the running class or method says of itself."""
    thing: object = _stook
    for part in name.split("."):
        thing = getattr(thing, part)
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def differences() -> list[str]:
    """Names whose documentation is missing, or not the same in both places."""
    wrong = []
    for name, node in (pair for stubs in STUBS for pair in documented(ast.parse(stubs.read_text()))):
        doc = running_doc(name)
        if not doc or doc != (ast.get_docstring(node) or ""):
            wrong.append(name)
    return wrong


def write(stubs: Path) -> None:
    """Copies the documentation into the stubs."""
    lines = stubs.read_text().splitlines()
    nodes = documented(ast.parse("\n".join(lines)))
    # From the end, so that numbers of lines before stay what they are.
    for name, node in sorted(nodes, key=lambda pair: -pair[1].lineno):
        indent = " " * (node.col_offset + 4)
        doc = textwrap.indent('"""' + running_doc(name).replace("\\", "\\\\") + '\n"""', indent).splitlines()
        doc = [line.rstrip() for line in doc]
        if len(doc) == 2:
            doc = [f'{doc[0]}"""']
        first = node.body[0]
        assert first.end_lineno is not None
        old = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        is_stub = old and first.value.value is ...  # type: ignore[attr-defined]
        if is_stub:
            head = lines[first.lineno - 1].rstrip()
            lines[first.lineno - 1 : first.end_lineno] = [head[: -len(" ...")], *doc] if head.strip() != "..." else doc
        elif old:
            lines[first.lineno - 1 : first.end_lineno] = doc
        else:
            decorators = getattr(first, "decorator_list", [])
            start = decorators[0].lineno if decorators else first.lineno
            lines[start - 1 : start - 1] = doc
    stubs.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if "--write" in sys.argv:
        for stubs in STUBS:
            write(stubs)
    wrong = differences()
    for name in wrong:
        print(f"the documentation of {name} is missing or not the same in the stubs: scripts/python stubs")
    sys.exit(bool(wrong))
