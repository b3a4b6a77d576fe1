"""Builds the wheel from the source distribution with the profile `wheel`, and packs it again,
smaller and without paths of this machine. `make wheel` runs it; docs/adr/0069-wheels.md says why.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import build_sdist
import repack
from archives import DIST, ROOT, TOOLS, epoch, run, unpack

BUILD = ROOT / "target/wheel"


def flags(source: Path) -> str:
    """What rustc gets beside the profile.

    Identical functions become one (`--icf=all`): Arrow has the same code for dozens of types. Calls
    are replaced by the called function's code only where that is short: the vectorised loops are in
    the functions themselves. Paths of this machine don't get into messages.
    """
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    rust = Path(os.environ.get("RUSTUP_HOME", Path.home() / ".rustup"))
    registries = [*sorted(home.glob("registry/src/*")), source / "vendor"]
    renamed = {rust: "/rust", home: "/cargo", source: "/deltaplane"} | dict.fromkeys(registries, "/crates")
    return " ".join(
        [
            "-Clink-arg=-Wl,--icf=all",
            "-Cllvm-args=-inline-threshold=50",
            "-Cllvm-args=-inlinehint-threshold=100",
            # Of several prefixes that match, rustc takes the last.
            *(f"--remap-path-prefix={path}={name}" for path, name in renamed.items()),
        ]
    )


def unused_exports(source: Path) -> list[str]:
    """The functions that crc-fast, of which object_store computes a checksum, exports for programs
    in C. An exported function stays in the module with its tables, some 0.4 MB."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    listed = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True).stdout
    [crate] = [package for package in json.loads(listed)["packages"] if package["name"] == "crc-fast"]
    text = Path(crate["manifest_path"]).with_name("src").joinpath("ffi.rs").read_text()
    return re.findall(r"#\[no_mangle\]\s+pub (?:unsafe )?extern \"C\" fn (\w+)", text)


def compile_wheel(
    source: Path, target: Path, jobs: int | None, profile: str, tag: str | None, interpreter: str | None
) -> Path:
    """Compiles the unpacked source distribution into a wheel whose tag is the lowest manylinux that
    its symbols allow; returns its path. It is for all Pythons with a lock, or for `interpreter`, a
    program, alone if that is a free-threaded one."""
    out = target / "wheels"
    shutil.rmtree(out, ignore_errors=True)
    command = [TOOLS / "maturin", "build", "--profile", profile, "--strip", "--locked", "--out", out]
    command += ["--jobs", str(jobs)] if jobs else []
    command += ["--compatibility", tag] if tag else []
    command += ["--interpreter", interpreter] if interpreter else []
    hidden = target / "unused-exports.map"
    hidden.parent.mkdir(parents=True, exist_ok=True)
    hidden.write_text(f"{{ local: {' '.join(f'{name};' for name in unused_exports(source))} }};\n")
    command += ["--", f"-Clink-arg=-Wl,--version-script={hidden}"]
    run(
        command,
        source,
        RUSTFLAGS=flags(source),
        CARGO_TARGET_DIR=str(target),
        CARGO_INCREMENTAL="0",
        SOURCE_DATE_EPOCH=str(epoch()),
        PYO3_PYTHON=interpreter or sys.executable,
    )
    [wheel] = out.glob("*.whl")
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, help="compile this many crates side by side (default: cores)")
    parser.add_argument("--profile", default="wheel", help="the Cargo profile; `dev` is quick, and too large to ship")
    parser.add_argument("--compatibility", help="the platform tag instead of the lowest that the symbols allow")
    parser.add_argument("--interpreter", help="a free-threaded Python, such as python3.14t, which needs its own wheel")
    parser.add_argument("--target-dir", type=Path, default=BUILD / "target", help="where cargo builds")
    parser.add_argument("--iterations", type=int, default=5, help="how often zopfli improves each file")
    arguments = parser.parse_args()
    source = unpack(build_sdist.build(), BUILD / "source")
    built = compile_wheel(
        source,
        arguments.target_dir,
        arguments.jobs,
        arguments.profile,
        arguments.compatibility,
        arguments.interpreter,
    )
    wheel = DIST / built.name
    repack.repack(built, wheel, paths=[source], iterations=arguments.iterations)
    print(f"{wheel.relative_to(ROOT)}: {built.stat().st_size:,} bytes as built, {wheel.stat().st_size:,} packed again")


if __name__ == "__main__":
    main()
