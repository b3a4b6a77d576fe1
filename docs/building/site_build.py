"""Builds the documentation site with Zensical: `python docs/building/site_build.py` writes site/.

`--check` only builds it below .cache/site, which shows broken links. `--into DIRECTORY` writes the
site of this version to DIRECTORY/<version>/, beside those of other versions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import site_pages
import site_reference
import yaml
from site_pages import ROOT

STAGE = ROOT / ".cache" / "site"
# The tool with what it needs, apart from the development environment (`make site-packages`).
PACKAGES = ROOT / ".cache" / "zensical"
CONFIGURATION = ROOT / "mkdocs.yml"
# What Zensical has browsers fetch so that search works on files, and this site's own script for it.
_FETCHED, _OWN = "https://unpkg.com/iframe-worker/shim", "file-worker.js"


def version() -> str:
    """The version of the package."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    return str(workspace["package"]["version"])


def pages() -> dict[str, str]:
    """The text of each page of the site, by its place."""
    sources = site_pages.sources()
    names = site_reference.places()
    made = {
        page: site_pages.with_links(source, (ROOT / source).read_text(encoding="utf-8"), sources, names)
        for source, page in sources.items()
    }
    made |= site_reference.pages()
    made["use-cases/index.md"] = _use_cases(made)
    return made


def _use_cases(made: dict[str, str]) -> str:
    """The list of the use cases, each with the first paragraph of its page."""
    cases = sorted(page for page in made if page.startswith("use-cases/"))
    parts = ["# Use cases\n", "Complete programs of the folder `examples`, each with its own tests.\n"]
    for page in cases:
        first = next((p for p in made[page].split("\n\n") if not p.startswith("#")), "")
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"\s+", " ", first))
        parts.append(f"- [{site_pages.title(made[page])}]({Path(page).name}): {text}")
    return "\n".join(parts) + "\n"


def configuration(made: dict[str, str]) -> dict[str, object]:
    """mkdocs.yml with the whole navigation and the version."""
    settings: dict[str, object] = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    titles = {page: site_pages.title(text).replace("`", "") for page, text in made.items()}
    entries = settings["nav"]
    assert isinstance(entries, list)
    settings["nav"] = site_pages.navigation(entries, titles)
    settings |= {"docs_dir": "pages", "site_dir": "built"}
    settings["copyright"] = f"deltaplane {version()}, Apache-2.0"
    return settings


def listed(made: dict[str, str]) -> list[str]:
    """The pages that the navigation has, in its order."""
    entries = configuration(made)["nav"]
    assert isinstance(entries, list)
    return list(site_pages.listed(entries))


def without_entry(made: dict[str, str]) -> list[str]:
    """The pages that the navigation doesn't have."""
    return sorted(set(made) - set(listed(made)))


def stage(made: dict[str, str]) -> None:
    """Writes the pages and their configuration for Zensical."""
    shutil.rmtree(STAGE / "pages", ignore_errors=True)
    for page, text in made.items():
        path = STAGE / "pages" / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for asset in (ROOT / "docs" / "building" / "assets").glob("*"):
        shutil.copy(asset, STAGE / "pages" / asset.name)
    settings = yaml.safe_dump(configuration(made), sort_keys=False, allow_unicode=True)
    (STAGE / "mkdocs.yml").write_text(settings, encoding="utf-8")


def build() -> Path:
    """Builds the site and returns its folder below .cache/site.

    Raises:
        RuntimeError: Zensical is missing or reports an error.
    """
    if not PACKAGES.exists():
        raise RuntimeError(f"no {PACKAGES}: run `make site-packages`")
    stage(pages())
    environment = os.environ | {"PYTHONPATH": str(PACKAGES)}
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=STAGE, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode or not (STAGE / "built" / "index.html").is_file():
        raise RuntimeError(f"zensical ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    # Its links begin at a server's root.
    (STAGE / "built" / "404.html").unlink(missing_ok=True)
    for path in (STAGE / "built").rglob("*.html"):
        _fetch_nothing(path)
    return STAGE / "built"


def _fetch_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    own = os.path.relpath(STAGE / "built" / _OWN, path.parent)
    path.write_text(text.replace(_FETCHED, own), encoding="utf-8")


def publish(built: Path, into: Path) -> None:
    """Copies a built site to the folder of its version, and lists the versions that are there, the
    newest first. Every page has a menu of them."""
    own = into / version()
    shutil.copytree(built, own, dirs_exist_ok=True)
    for path in own.rglob("*.html"):
        _add_selector(path, own)
    names = [path.name for path in into.iterdir() if (path / "index.html").is_file()]
    names.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    listed = [{"version": name, "title": name, "aliases": []} for name in names]
    (into / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    (into / "versions.js").write_text(f"window.deltaplaneVersions = {json.dumps(names)}\n")
    refresh = f'<meta http-equiv="refresh" content="0; url={names[0]}/index.html">'
    (into / "index.html").write_text(f"<!doctype html><title>deltaplane</title>{refresh}\n")


def _add_selector(path: Path, own: Path) -> None:
    """Adds the scripts of the menu of versions to a page; `own` is the folder of its version."""
    up = os.path.relpath(own, path.parent)
    scripts = f'<script src="{up}/../versions.js"></script><script src="{up}/version-selector.js"></script>'
    before, end, after = path.read_text(encoding="utf-8").rpartition("</body>")
    path.write_text(f"{before}{scripts}{end}{after}", encoding="utf-8")


def main() -> int:
    """Builds the site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="build, and write nothing outside of .cache/site")
    parser.add_argument("--into", type=Path, metavar="DIRECTORY", help="where the sites of all versions are")
    options = parser.parse_args()
    built = build()
    if options.into:
        publish(built, options.into)
    elif not options.check:
        shutil.rmtree(ROOT / "site", ignore_errors=True)
        shutil.copytree(built, ROOT / "site")
    return 0


if __name__ == "__main__":
    sys.exit(main())
