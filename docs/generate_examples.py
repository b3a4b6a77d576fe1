"""Writes examples/*/README.md from the scripts beside them and what they print, and their index.

`python docs/generate_examples.py [NAME…]` runs the examples (`make examples`: all of them);
`--check` runs none, and only reports whether the pages agree with the scripts.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
INDEX = EXAMPLES / "README.md"
# A Spark session on a busy machine takes minutes.
RUN_SECONDS = 540
# Examples that need packages which the development environment doesn't have run in an environment
# of requirements/ecosystem.
ENVIRONMENTS = {"mlflow": "mlflow"}
OWN_DATA = "With your own data: "

INDEX_HEAD = """# Use cases

Twelve programs of up to 150 lines. Each one makes its data itself, with a seed and without a
network, checks what it claims, and prints a summary:

    python examples/siem/main.py [FOLDER]

An empty FOLDER keeps the tables for a look at them; without one they are in a temporary directory.
`make test` runs all of them. The pages are generated from the scripts: `docs/generate_examples.py`
runs them and writes their output.
"""


def names() -> list[str]:
    """The examples."""
    return sorted(script.parent.name for script in EXAMPLES.glob("*/main.py"))


def parts(name: str) -> tuple[str, list[str], str]:
    """The title of an example, its paragraphs, and its code without them."""
    source = (EXAMPLES / name / "main.py").read_text(encoding="utf-8")
    module = ast.parse(source)
    title, *paragraphs = (ast.get_docstring(module) or "").split("\n\n")
    code = "\n".join(source.splitlines()[module.body[0].end_lineno :]).strip("\n") + "\n"
    return title.rstrip("."), paragraphs, code


def page(name: str, output: str) -> str:
    """The page of an example that prints this output."""
    title, paragraphs, code = parts(name)
    own = [text.removeprefix(OWN_DATA) for text in paragraphs if text.startswith(OWN_DATA)]
    if len(own) != 1:
        raise SystemExit(f"examples/{name}/main.py: one paragraph of its head must begin with `{OWN_DATA}`")
    sections = [
        f"# {title}",
        *(text for text in paragraphs if not text.startswith(OWN_DATA)),
        f"```bash\npython examples/{name}/main.py\n```",
        f"```text\n{output}```",
        f"## With your own data\n\n{own[0][0].upper()}{own[0][1:]}",
        "## The script",
        f"```python\n{code}```",
        f"This page is generated from [the script](main.py) by `docs/generate_examples.py {name}`.",
    ]
    return "\n\n".join(sections) + "\n"


def recorded(name: str) -> str:
    """The output that the present page shows."""
    file = EXAMPLES / name / "README.md"
    match = re.search(r"^```text\n(.*?)^```$", file.read_text(encoding="utf-8") if file.is_file() else "", re.M | re.S)
    return match[1] if match else ""


def index() -> str:
    """The page that lists the examples."""
    rows = "".join(f"| [{name}]({name}/README.md) | {parts(name)[0]} |\n" for name in names())
    return f"{INDEX_HEAD}\n| example | what it shows |\n| --- | --- |\n{rows}"


def interpreter(name: str) -> Path:
    """The Python that has what the example imports."""
    if name not in ENVIRONMENTS:
        return Path(sys.executable)
    sys.path.insert(0, str(ROOT / "tests"))
    from ecosystem import environments

    return environments.python(ENVIRONMENTS[name])


def run(name: str, folder: Path) -> str:
    """Runs an example in an empty folder; returns what it prints.

    Raises:
        AssertionError: it failed.
    """
    done = subprocess.run(
        [str(interpreter(name)), str(EXAMPLES / name / "main.py"), str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"examples/{name} ended with {done.returncode}:\n{done.stdout}{done.stderr[-4000:]}"
    return done.stdout


def main() -> int:
    """Writes or checks the pages."""
    arguments = sys.argv[1:]
    if arguments == ["--check"]:
        pages = {EXAMPLES / name / "README.md": page(name, recorded(name)) for name in names()} | {INDEX: index()}
        old = [file for file, text in pages.items() if not file.is_file() or file.read_text(encoding="utf-8") != text]
        for file in old:
            print(f"{file.relative_to(ROOT)} is out of date: run docs/generate_examples.py")
        return int(bool(old))
    for name in arguments or names():
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
            text = page(name, run(name, Path(folder)))
        (EXAMPLES / name / "README.md").write_text(text, encoding="utf-8")
        print(f"wrote examples/{name}/README.md")
    INDEX.write_text(index(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
