"""The uses between Rust modules: the module tree of a crate, and the paths in it that refer to its
own modules.

A path counts for the module that defines its item: re-exports are followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from structure.repo import is_rust_test, rust_code, shipped_rust

Module = tuple[str, ...]

_USE = re.compile(r"\b(?P<public>pub(?:\([^)]*\))?\s+)?use\s+(?P<tree>[^;]+);")
_INLINE = re.compile(r"(?<![\w:])(?:crate|super|self)(?:::\w+)+")
_WORD = re.compile(r"\w+|::|[{},*]")


def module_name(path: str) -> Module:
    """`schema/types.rs` and `schema/types/mod.rs` → ("schema", "types"); `lib.rs` → ()."""
    parts = path.removesuffix(".rs").split("/")
    return tuple(parts[:-1]) if parts[-1] in ("mod", "lib", "main") else tuple(parts)


def use_tree(tree: str) -> Iterator[tuple[Module, str]]:
    """The (path, imported name) pairs between `use` and `;`."""
    words = [word for word in _WORD.findall(tree) if word != "::"]
    yield from _branches(words, 0, ())[0]


def _branches(words: list[str], index: int, head: Module) -> tuple[list[tuple[Module, str]], int]:
    """The pairs of a comma-separated list that starts at `at`, and the position of its end."""
    pairs: list[tuple[Module, str]] = []
    path, name = head, ""
    while index < len(words):
        word = words[index]
        if word in ",}":
            if name:
                pairs.append((path, name))
            if word == "}":
                return pairs, index
            path, name = head, ""
        elif word == "{":
            inner, index = _branches(words, index + 1, path)
            pairs += inner
            name = ""
        elif word == "as":
            index += 1
            name = words[index]
        elif word == "self" and path:
            name = path[-1]
        else:
            path, name = (*path, word), word
        index += 1
    if name:
        pairs.append((path, name))
    return pairs, index


class Crate:
    """The modules of one crate, from the texts of its files (keys relative to `src/`)."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        shipped = {path: shipped_rust(text) for path, text in texts.items() if not is_rust_test(path)}
        self.code = {module_name(path): rust_code(text) for path, text in shipped.items()}
        self.exports: dict[Module, dict[str, Module | None]] = {module: {} for module in self.code}
        for module, code in self.code.items():
            for use in _USE.finditer(code):
                if use["public"]:
                    for path, name in use_tree(use["tree"]):
                        self.exports[module][name] = self._absolute(module, path)

    def _absolute(self, module: Module, path: Module) -> Module | None:
        """The path from the crate's root, or None when it leads out of the crate."""
        if path[0] == "crate":
            return path[1:]
        here = module
        while path and path[0] in ("self", "super"):
            here = here[:-1] if path[0] == "super" else here
            path = path[1:]
            if not path:
                return here
        if here != module or (module + path[:1]) in self.code:
            return here + path
        return None

    def _owner(self, path: Module, steps: int = 8) -> Module | None:
        """The module that defines the item at an absolute path; None when that is another crate."""
        module: Module = ()
        while len(module) < len(path) and path[: len(module) + 1] in self.code:
            module = path[: len(module) + 1]
        rest = path[len(module) :]
        if rest and steps and rest[0] in self.exports[module]:
            target = self.exports[module][rest[0]]
            return None if target is None else self._owner(target + rest[1:], steps - 1)
        return module

    def uses(self) -> dict[Module, set[Module]]:
        """Uses between modules; a facade's own re-exports don't count."""
        edges: dict[Module, set[Module]] = {module: set() for module in self.code}
        for module, code in self.code.items():
            paths = [path for use in _USE.finditer(code) if not use["public"] for path, _ in use_tree(use["tree"])]
            paths += [tuple(path.split("::")) for path in _INLINE.findall(_USE.sub(" ", code))]
            for path in paths:
                absolute = self._absolute(module, path)
                owner = self._owner(absolute) if absolute is not None else None
                if owner is not None and owner != module:
                    edges[module].add(owner)
        return edges

    def rooms(self, parent: Module = ()) -> dict[str, set[str]]:
        """Uses between the modules directly under `parent`, everything below each taken
        together."""
        depth = len(parent)
        inside = {module: module[depth] for module in self.code if len(module) > depth and module[:depth] == parent}
        edges: dict[str, set[str]] = {room: set() for room in inside.values()}
        for module, targets in self.uses().items():
            if module in inside:
                edges[inside[module]] |= {inside[target] for target in targets if target in inside}
        return {room: targets - {room} for room, targets in edges.items()}

    def parents(self) -> list[Module]:
        """Every module that has modules under it, the root first."""
        return sorted({module[:-1] for module in self.code if module})
