"""The reference of the Python API, one page for each public name, from the docstrings of the
imported package.

Inherited members are on the page of each class that has them.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pdoc
import pdoc.doc
import pdoc.docstrings

MODULES = ("deltaplane", "deltaplane.spark", "deltaplane.exceptions")
FOLDER = "reference/python"
# Members that every class has, and those of the classes of the standard library.
_FOREIGN = (object, BaseException, Exception, OSError, tuple, dict, str, int)


def public_names(module: str) -> list[str]:
    """The public names of a module that have a page."""
    return sorted(name for name in importlib.import_module(module).__all__ if not name.startswith("__"))


def members(kind: type) -> list[str]:
    """The public members of a class, inherited ones too, without those of Python's own classes."""
    foreign = {name for base in kind.__mro__ if base in _FOREIGN for name in vars(base)}
    # Fields without a default are no attributes of the class.
    names = {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}
    return sorted(name for name in names if not name.startswith("_") and name not in foreign)


def place(module: str, name: str) -> str:
    """The page of a public name."""
    folder = f"{FOLDER}/{module.removeprefix('deltaplane').removeprefix('.') or 'deltaplane'}"
    return f"{folder}/{name}.md"


def places() -> dict[str, str]:
    """Each public name and each member, without `deltaplane.`, and its page with the anchor."""
    by_name: dict[str, str] = {}
    for module in MODULES:
        prefix = module.removeprefix("deltaplane").removeprefix(".")
        for name in public_names(module):
            page, value = place(module, name), getattr(importlib.import_module(module), name)
            names = [f"{prefix}.{name}" if prefix else name, *([name] if prefix == "exceptions" else [])]
            for full in names:
                by_name[full] = page
                if inspect.isclass(value):
                    by_name |= {f"{full}.{member}": f"{page}#{member}" for member in members(value)}
    return by_name


def pages() -> dict[str, str]:
    """The text of each page of the reference."""
    made: dict[str, str] = {f"{FOLDER}/index.md": _index()}
    for module in MODULES:
        imported = importlib.import_module(module)
        for name in public_names(module):
            made[place(module, name)] = page(module, name, getattr(imported, name))
    return made


def page(module: str, name: str, value: Any) -> str:
    """The page of one public name."""
    head = f"# `{module}.{name}`\n"
    if inspect.isclass(value):
        return "\n".join([head, *_class(name, value)])
    return "\n".join([head, _code(_signature(name, value)), text_of(value)])


def _class(name: str, kind: type) -> Iterator[str]:
    bases = [base for base in kind.__mro__[1:] if base is not object and not base.__name__.startswith("_")]
    signature = _signature(name, kind)
    if signature:
        yield _code(signature)
    if bases:
        yield f"Bases: {', '.join(f'`{base.__name__}`' for base in bases)}\n"
    yield text_of(kind)
    documented = [(member, inspect.getattr_static(kind, member, None)) for member in members(kind)]
    attributes = [member for member, value in documented if not _is_callable(value)]
    methods = [member for member, value in documented if _is_callable(value)]
    if attributes:
        yield "## Attributes\n"
    for member in attributes:
        yield f"### `{member}` {{#{member}}}\n"
        yield _attribute(kind, member)
    if methods:
        yield "## Methods\n"
    for member in methods:
        value = getattr(kind, member)
        yield f"### `{member}` {{#{member}}}\n"
        yield _code(_signature(member, value))
        yield text_of(value)


def _is_callable(value: Any) -> bool:
    return isinstance(value, classmethod | staticmethod) or inspect.isroutine(value)


def _attribute(kind: type, member: str) -> str:
    value = inspect.getattr_static(kind, member, None)
    annotation = next((a for base in kind.__mro__ if (a := vars(base).get("__annotations__", {}).get(member))), "")
    if isinstance(value, property) and value.fget is not None:
        annotation = value.fget.__annotations__.get("return", annotation)
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    doc = inspect.getdoc(value) if isinstance(value, property) or inspect.isdatadescriptor(value) else ""
    doc = doc or _documented_fields(kind).get(member, "")
    typed = f"`{name}`\n\n" if name else ""
    return f"{typed}{markdown(doc)}\n"


@functools.cache
def _documented_fields(kind: type) -> dict[str, str]:
    """The texts of a class's section `Attributes`, by name, or those below its fields."""
    described = pdoc.doc.Class(kind.__module__, kind.__qualname__, kind, (kind.__module__, kind.__qualname__))
    texts = {name: variable.docstring for name, variable in described.members.items() if variable.docstring}
    for base in reversed(kind.__mro__):
        section = re.search(r"^Attributes:\n((?:[ \t]+.*\n?|\n)+)", inspect.getdoc(base) or "", re.MULTILINE)
        for entry in re.finditer(r"^ {4}(\w+)(?: \([^)]*\))?: (.*(?:\n {5,}.*)*)", section[1] if section else "", re.M):
            texts[entry[1]] = re.sub(r"\s+", " ", entry[2])
    return texts


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    if not inspect.isclass(value) and "self" in signature.parameters:
        signature = signature.replace(parameters=[p for n, p in signature.parameters.items() if n != "self"])
    shown = [str(parameter).replace("'", "") for parameter in signature.parameters.values()]
    returned = signature.return_annotation
    back = "" if returned is inspect.Signature.empty or inspect.isclass(value) else f" -> {_name(returned)}"
    kinds = [p.kind for p in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        shown.insert(len(kinds) - kinds[::-1].index(inspect.Parameter.POSITIONAL_ONLY), "/")
    line = f"{name}({', '.join(shown)}){back}"
    if len(line) <= 88:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in shown) + f"){back}"


def _name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n" if text else ""


def text_of(value: Any) -> str:
    """A docstring as Markdown."""
    return markdown(inspect.getdoc(value) or "") + "\n"


def markdown(doc: str) -> str:
    """A docstring in Google's form as Markdown: its sections as lists, its examples as code."""
    parts = re.split(r"((?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)+)", doc, flags=re.MULTILINE)
    blocks: list[str] = []
    for index in range(1, len(parts), 2):
        blocks.append(f"```pycon\n{inspect.cleandoc(parts[index])}\n```\n")
        parts[index] = f"\n{_HOLD}{index // 2}{_HOLD}\n"
    text = re.sub(r"^#{6} (.*):$", r"**\1**\n", pdoc.docstrings.google("".join(parts)), flags=re.MULTILINE)
    return re.sub(rf"[ ]*{_HOLD}(\d+){_HOLD}", lambda match: blocks[int(match[1])], text)


# Takes the place of an example while its docstring is converted.
_HOLD = "\x00"


def summary(value: Any) -> str:
    """A docstring's first paragraph in one line."""
    return re.sub(r"\s+", " ", (inspect.getdoc(value) or "").split("\n\n")[0]).replace("|", "\\|")


def _index() -> str:
    parts = ["# Python API\n", "Every public name of the three modules, from their docstrings.\n"]
    for module in MODULES:
        imported = importlib.import_module(module)
        parts += [f"## `{module}`\n", "| name | |\n| --- | --- |"]
        for name in public_names(module):
            link = place(module, name).removeprefix(f"{FOLDER}/")
            parts.append(f"| [`{name}`]({link}) | {summary(getattr(imported, name))} |")
        parts.append("")
    return "\n".join(parts)
