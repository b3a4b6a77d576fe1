"""Finds calls, arguments and SQL texts of deltalake in a script, by its syntax tree; nothing of the
script runs.

Which objects are deltalake's is inferred from the script alone: from imports, assignments,
annotations and returned values. Methods whose names only deltalake has are found on any object.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from deltaplane.cli.migration.rules import FUNCTIONS, RULES
from deltaplane.cli.migration.sql_texts import TextFinding, findings_in

__all__ = ["Finding", "check_script"]

_PACKAGE = "deltalake"
# Kinds of deltalake's objects, and deltaplane's classes of the same kind.
_CLASSES = {
    "table": ("deltaplane", "DeltaTable"),
    "merger": ("deltaplane.table.merge", "TableMerger"),
    "alterer": ("deltaplane.table.alter", "TableAlterer"),
    "optimizer": ("deltaplane.table.optimize", "TableOptimizer"),
    "builder": ("deltaplane", "QueryBuilder"),
}
# What calls and attributes of these kinds give, where that is one of these kinds.
_GIVES = {
    ("table", "merge"): "merger",
    ("table", "alter"): "alterer",
    ("table", "optimize"): "optimizer",
    ("table", "create"): "table",
    ("table", "schema"): "schema",
    ("builder", "register"): "builder",
}
_ANNOTATIONS = {"DeltaTable": "table", "QueryBuilder": "builder", "TableMerger": "merger"}
# Methods whose names tell the kind of their object.
_OWN_NAMES = {
    **dict.fromkeys(("load_cdf", "get_add_actions", "load_as_version", "to_pyarrow_dataset"), "table"),
    **dict.fromkeys(("create_write_transaction", "deletion_vectors", "update_incremental"), "table"),
    **dict.fromkeys(("z_order", "compact"), "optimizer"),
    **dict.fromkeys(("add_constraint", "set_table_properties", "add_feature"), "alterer"),
}
# Arguments that are SQL: texts, or mappings of columns to texts.
_SQL = {"predicate", "updates", "constraints", "file_pruning_predicate", "partition_filters", "sql"}
_MISSING = {"create_write_transaction", "table_config"}
_ARROW = {
    ("table", "get_add_actions"): "a pyarrow.Table",
    ("table", "load_cdf"): "a Scan",
    ("table", "scan"): "a Scan",
    ("table", "deletion_vectors"): "a pyarrow.RecordBatchReader",
    ("schema", "to_arrow"): "a pyarrow.Schema",
    ("builder", "execute"): "a pyarrow.RecordBatchReader",
}
_SETTINGS = {"max_row_group_size", "compression", "compression_level", "column_properties", "default_column_properties"}


@dataclass(frozen=True)
class Finding:
    """A part of a script that means something else: its position (both from 1), the rule, the part,
    what it means in deltaplane, and what to write instead."""

    line: int
    column: int
    rule: str
    part: str
    meaning: str
    write: str


def check_script(source: str) -> list[Finding]:
    """The findings in a script's source, by position.

    Raises:
        SyntaxError: the source isn't Python.

    >>> problems = check_script('''
    ... from deltalake import DeltaTable
    ... DeltaTable("t").delete('"name" = 1')
    ... ''')
    >>> [(finding.line, finding.rule, finding.write) for finding in problems]
    [(3, 'double-quotes', '`` `name` ``')]
    """
    script = _Script(ast.parse(source))
    return sorted(set(script.findings()), key=lambda f: (f.line, f.column, f.rule, f.part))


class _Script:
    """One script: the kinds of its names, then the findings in its nodes."""

    def __init__(self, module: ast.Module) -> None:
        self._nodes = list(ast.walk(module))
        # Names of deltalake's modules, and its name of each class and function.
        self._modules: set[str] = set()
        self._known: dict[str, str] = {}
        self._texts: dict[str, ast.expr] = {}
        self._kinds: dict[str, str] = {}
        for node in self._nodes:
            self._learn_import(node)
        # An assignment may use a name that is assigned further below, in a function.
        for _ in range(3):
            for node in self._nodes:
                self._learn_kind(node)

    def findings(self) -> Iterator[Finding]:
        if not self._known and not self._modules:
            return
        for node in self._nodes:
            if isinstance(node, ast.ImportFrom | ast.Import):
                yield from self._of_import(node)
            elif isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.Attribute) and node.attr in _MISSING and self._kind(node.value) == "table":
                yield _finding(node, "method", f".{node.attr}")

    # --- which names are deltalake's ----------------------------------------------------------------------------------

    def _learn_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == _PACKAGE:
                    self._modules |= {alias.asname} if alias.asname else {alias.name, _PACKAGE}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == _PACKAGE and not node.level:
            for alias in node.names:
                name = alias.asname or alias.name
                if alias.name.islower() and "_" not in alias.name:
                    self._modules.add(name)
                else:
                    self._known[name] = alias.name

    def _learn_kind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._learn(target, node.value)
        elif isinstance(node, ast.With):
            for item in node.items:
                if item.optional_vars is not None:
                    self._learn(item.optional_vars, item.context_expr)
        elif isinstance(node, ast.arg) and node.annotation is not None:
            self._annotated(node.arg, node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.returns is not None:
                self._annotated(f"{node.name}()", node.returns)
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    self._remember(f"{node.name}()", self._kind(inner.value))
        if isinstance(node, ast.AnnAssign):
            self._annotated(ast.unparse(node.target), node.annotation)

    def _learn(self, target: ast.expr, value: ast.expr) -> None:
        name = ast.unparse(target)
        self._remember(name, self._kind(value))
        if isinstance(value, ast.Constant | ast.JoinedStr | ast.BinOp | ast.Dict):
            self._texts.setdefault(name, value)

    def _remember(self, name: str, kind: str | None) -> None:
        if kind is not None:
            self._kinds[name] = kind

    def _annotated(self, name: str, annotation: ast.expr) -> None:
        for part in ast.walk(annotation):
            text = part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ast.unparse(part)
            self._remember(name, _ANNOTATIONS.get(text.rpartition(".")[2]))

    def _name(self, node: ast.expr) -> str | None:
        """The name in deltalake of a class or a function; None for others."""
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in self._modules:
            return node.attr
        return None

    def _kind(self, node: ast.expr) -> str | None:
        """The kind of an expression's object."""
        if isinstance(node, ast.Await):
            return self._kind(node.value)
        known = self._kinds.get(ast.unparse(node)) if isinstance(node, ast.Name | ast.Attribute) else None
        if known is not None:
            return known
        if isinstance(node, ast.Name | ast.Attribute) and self._name(node) in _ANNOTATIONS:
            return _ANNOTATIONS[self._name(node) or ""]
        if isinstance(node, ast.Attribute):
            return _GIVES.get((self._kind(node.value) or "", node.attr))
        if isinstance(node, ast.Call):
            called = self._name(node.func)
            if called in _ANNOTATIONS:
                return _ANNOTATIONS[called]
            if isinstance(node.func, ast.Attribute):
                owner = self._owner(node.func)
                stays = owner == "merger" and node.func.attr.startswith("when_")
                return "merger" if stays else _GIVES.get((owner or "", node.func.attr))
            return self._kinds.get(f"{ast.unparse(node.func)}()")
        return None

    def _owner(self, function: ast.Attribute) -> str | None:
        """The kind of the object of which a method is called."""
        if function.attr.startswith(("when_matched_", "when_not_matched_")):
            return "merger"
        return self._kind(function.value) or _OWN_NAMES.get(function.attr)

    # --- findings -----------------------------------------------------------------------------------------------------

    def _of_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(f"{_PACKAGE}.") and not _exists(alias.name, None):
                    yield _finding(node, "import", alias.name)
            return
        if (node.module or "").split(".")[0] == _PACKAGE and not node.level:
            for alias in node.names:
                if alias.name != "*" and not _exists(node.module or "", alias.name):
                    yield _finding(node, "import", f"{node.module}.{alias.name}")

    def _of_call(self, node: ast.Call) -> Iterator[Finding]:
        name = self._name(node.func)
        if isinstance(node.func, ast.Attribute) and name is None:
            kind, method = self._owner(node.func), node.func.attr
            if kind is not None:
                yield from self._of_method(node, kind, method)
        elif name is not None:
            yield from self._of_name(node, name)

    def _of_name(self, node: ast.Call, name: str) -> Iterator[Finding]:
        arguments = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
        if name == "Transaction":
            yield _finding(node, "repeated-transaction", "Transaction(…)")
            if "last_updated" in arguments or len(node.args) > 2:
                yield _finding(node, "transaction-time", "last_updated")
            return
        if name == "WriterProperties":
            for keyword in node.keywords:
                is_brotli = keyword.arg == "compression" and _constant(keyword.value) == "BROTLI"
                if keyword.arg is not None and (keyword.arg not in _SETTINGS or is_brotli):
                    yield _finding(node, "writer-setting", keyword.arg)
            return
        if name == "ColumnProperties":
            for keyword in node.keywords:
                if keyword.arg in ("dictionary_enabled", "statistics_enabled"):
                    yield _finding(node, "writer-setting", keyword.arg)
            return
        if name == "QueryBuilder":
            if node.args or arguments:
                yield _finding(node, "session-config", "QueryBuilder(…)")
            return
        if name in ("DeltaTable", "write_deltalake", "convert_to_deltalake"):
            own = getattr(import_module("deltaplane"), name)
            yield from _of_arguments(node, name, own, skipped=0)
            yield from self._of_location(node)
            yield from self._of_sql(node, own, skipped=0)

    def _of_method(self, node: ast.Call, kind: str, method: str) -> Iterator[Finding]:
        part = f".{method}(…)"
        if (kind, method) in _ARROW:
            yield _finding(node, "arrow-objects", part, f"gives {_ARROW[kind, method]}")
        if kind == "schema" or method in _MISSING:
            return
        if (kind, method) == ("table", "history"):
            yield _finding(node, "history", part)
        if (kind, method) == ("table", "repair"):
            yield _finding(node, "repair", part)
        if method == "when_matched_delete" and (node.args or node.keywords):
            yield _finding(node, "merge-deletes", part)
        own = getattr(_own_class(kind), method, None)
        if own is None:
            yield _finding(node, "method", part)
            return
        skipped = 0 if (kind, method) in (("table", "create"), ("table", "is_deltatable")) else 1
        yield from _of_arguments(node, method, own, skipped=skipped)
        if method in ("create", "is_deltatable"):
            yield from self._of_location(node)
        yield from self._of_sql(node, own, skipped=skipped, is_query=kind == "builder")

    def _of_location(self, node: ast.Call) -> Iterator[Finding]:
        places = [*node.args[:1], *(k.value for k in node.keywords if k.arg in ("table_uri", "table_or_uri", "uri"))]
        for place in places:
            text = _constant(self._texts.get(ast.unparse(place), place))
            if isinstance(text, str) and "://" in text and not text.startswith("file:") and set(text) & set("%#?"):
                yield _finding(place, "location", text)

    def _of_sql(self, node: ast.Call, own: Any, *, skipped: int, is_query: bool = False) -> Iterator[Finding]:
        names = list(_parameters(own))[skipped:]
        arguments = [*zip(names, node.args, strict=False), *((k.arg, k.value) for k in node.keywords)]
        for name, value in arguments:
            if name in _SQL:
                for text in self._sql_texts(value):
                    yield from _of_text(text, is_query)

    def _sql_texts(self, value: ast.expr) -> Iterator[ast.expr]:
        """The nodes of SQL texts in an argument's value."""
        value = self._texts.get(ast.unparse(value), value) if isinstance(value, ast.Name | ast.Attribute) else value
        if isinstance(value, ast.Dict):
            for part in (*value.keys, *value.values):
                if part is not None:
                    yield from self._sql_texts(part)
        elif isinstance(value, ast.IfExp):
            yield from self._sql_texts(value.body)
            yield from self._sql_texts(value.orelse)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "format":
            yield from self._sql_texts(value.func.value)
        elif isinstance(value, ast.Constant | ast.JoinedStr | ast.BinOp):
            yield value


def _of_text(node: ast.expr, is_query: bool) -> Iterator[Finding]:
    text = _constant(node)
    if not isinstance(text, str):
        return
    # A text over several lines begins in its first one.
    spans = node.end_lineno is not None and node.end_lineno - node.lineno >= text.count("\n")
    for part in findings_in(text, is_query=is_query):
        line = node.lineno + (part.line if spans else 0)
        write = part.write or RULES[part.rule].write
        yield Finding(line, node.col_offset + 1, part.rule, part.part, _meaning(part), write)


def _meaning(part: TextFinding) -> str:
    name = part.part.partition("(")[0].lower()
    if part.rule != "function":
        return RULES[part.rule].ours
    return "refused" if FUNCTIONS[name].refused else "Spark's function of this name has another result"


def _of_arguments(node: ast.Call, name: str, own: Any, *, skipped: int) -> Iterator[Finding]:
    """Arguments that deltaplane's function doesn't take."""
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    parameters = _parameters(own)
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    allowed = len(positional) - skipped
    if len(node.args) > allowed and not any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        yield _finding(node.args[allowed], "positional-argument", f"argument {allowed + 1} of {name}")
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for keyword in node.keywords:
        if keyword.arg is not None and keyword.arg not in parameters:
            yield _finding(keyword.value, "argument", f"{keyword.arg} of {name}")


def _finding(node: ast.AST, rule: str, part: str, meaning: str | None = None) -> Finding:
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
    return Finding(line, column, rule, part, meaning or RULES[rule].ours, RULES[rule].write)


def _constant(node: ast.expr) -> Any:
    """The value of a constant; the constant parts of a formatted or an added text, in which other
    values are a name."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "value" for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_constant(node.left), _constant(node.right)]
        if any(isinstance(part, str) for part in parts):
            return "".join(part if isinstance(part, str) else "value" for part in parts)
    return None


@cache
def _own_class(kind: str) -> type:
    module, name = _CLASSES[kind]
    own: type = getattr(import_module(module), name)
    return own


def _parameters(own: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(own).parameters


@cache
def _exists(module: str, name: str | None) -> bool:
    """Whether deltaplane has a module or a name where deltalake has it."""
    own = "deltaplane" + module.removeprefix(_PACKAGE)
    try:
        counterpart = import_module(own)
    except ImportError:
        return False
    if name is None or hasattr(counterpart, name):
        return True
    try:
        import_module(f"{own}.{name}")
    except ImportError:
        return False
    return True
