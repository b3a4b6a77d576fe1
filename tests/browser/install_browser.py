"""Installs headless Chromium into .cache/browser, with the shared libraries and a font that a
minimal machine lacks.

All versions are pinned with hashes: requirements/browser.lock (Node, for npm),
pinned/package-lock.json. Deletes Node and its downloads at the end.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stores.install_servers import ROOT, npm_packages, run, wheels

HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".cache" / "browser"

# Python's standard library has no brotli, Node's has.
UNPACK = """
const fs = require('fs'), zlib = require('zlib'), { pipeline } = require('stream')
const [from, to] = process.argv.slice(1)
pipeline(fs.createReadStream(from), zlib.createBrotliDecompress(), fs.createWriteStream(to), (e) => { if (e) throw e })
"""


def install() -> None:
    """Unpacks the browser to a temporary directory and moves it to its place as a whole."""
    if CACHE.exists():
        return
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent, prefix="browser-") as scratch:
        work = Path(scratch)
        packages, made = work / "packages", work / "browser"
        packages.mkdir()
        made.mkdir()
        wheels(work / "tools", "browser.lock")
        node = npm_packages(work / "tools", work, HERE / "pinned", packages)
        packed = packages / "node_modules" / "@sparticuz" / "chromium" / "bin"
        run([node, "-e", UNPACK, packed / "chromium.br", made / "chromium"], work)
        (made / "chromium").chmod(0o755)
        for name in ("al2023.tar", "fonts.tar"):
            run([node, "-e", UNPACK, packed / f"{name}.br", work / name], work)
            with tarfile.open(work / name) as files:
                files.extractall(made, filter="data")
        shutil.move(made, CACHE)


if __name__ == "__main__":
    install()
