"""Builds the source distribution, and beside it an archive of the crates that it needs, so that it
compiles without a network. `make sdist` runs it. Compiles nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from archives import DIST, ROOT, TOOLS, epoch, pack, run, sha256, unpack, version

# What cargo needs in `.cargo/config.toml`, beside what is there, to take crates from the folder.
VENDORED = """
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"""


def build(out: Path = DIST) -> Path:
    """Writes the source distribution of every file of the checkout that git knows; returns its
    path."""
    out.mkdir(parents=True, exist_ok=True)
    run([TOOLS / "maturin", "sdist", "--out", out], SOURCE_DATE_EPOCH=str(epoch()))
    return out / f"deltaplane-{version()}.tar.gz"


def vendor(sdist: Path) -> Path:
    """Writes the archive of crates beside the source distribution; returns its path.

    Unpacked over the unpacked source distribution, it makes every cargo command offline. Its own
    `.cargo/config.toml` replaces the other one.
    """
    archive = sdist.with_name(sdist.name.replace(".tar.gz", "-vendor.tar.gz"))
    with tempfile.TemporaryDirectory() as scratch:
        source = unpack(sdist, Path(scratch, "source"))
        config = source / ".cargo/config.toml"
        before = config.read_text()
        run(["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", "vendor"], source)
        config.write_text(before + VENDORED)
        check_offline(source)
        vendored = {str(path.relative_to(source)): path for path in source.glob("vendor/**/*") if path.is_file()}
        pack(source.name, archive, {**vendored, ".cargo/config.toml": config})
    return archive


def check_offline(source: Path) -> None:
    """Fails unless cargo resolves and has every crate from the vendored folder alone: with no
    network and a home of its own, which has neither an index nor a download."""
    with tempfile.TemporaryDirectory() as home:
        command = ["cargo", "fetch", "--quiet", "--offline", "--locked"]
        run(command, source, CARGO_HOME=home, CARGO_NET_OFFLINE="true")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-vendor", action="store_true", help="only the source distribution")
    arguments = parser.parse_args()
    archives = [build()]
    if not arguments.no_vendor:
        archives.append(vendor(archives[0]))
    for archive in archives:
        print(f"{archive.relative_to(ROOT)}  {archive.stat().st_size:,} bytes  sha256 {sha256(archive)}")


if __name__ == "__main__":
    main()
