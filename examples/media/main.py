"""Images for training: pictures and thumbnails in a table, without duplicates, labels by version.

A picture's bytes are a binary column beside its hash, size and thumbnail. Batches are merged by the
hash, so that a picture that comes twice is stored once. A list or a web page of thumbnails reads
their column only, not the pictures' bytes.

Labels are a table of their own. Each round of labelling is a version; a training records the
version, and can be repeated on the same labels after others were corrected. `diff` shows what a
round changed.

With your own data: replace `picture` by the bytes of your files and `thumbnail` by a call of an
image library. Keep pictures below some megabytes each; larger objects, such as videos, stay in
files whose paths a column names.
"""

import hashlib
import random
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from deltaplane import CommitProperties, DeltaTable, write_deltalake

SCHEMA = pa.schema(
    {"sha256": pa.string(), "name": pa.string(), "width": pa.int32(), "image": pa.binary(), "thumbnail": pa.binary()}
)
SIZE, SMALL = 96, 12


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of RGB pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def decoded(image: bytes) -> np.ndarray:
    """The pixels of such a file."""
    width, height = struct.unpack(">II", image[16:24])
    length = struct.unpack(">I", image[33:37])[0]
    lines = np.frombuffer(zlib.decompress(image[41 : 41 + length]), np.uint8).reshape(height, 1 + 3 * width)
    return lines[:, 1:].reshape(height, width, 3)


def picture(number: int) -> np.ndarray:
    """Noise, darker on one side: bright pictures have even numbers."""
    noise = np.random.default_rng(number).integers(0, 100, (SIZE, SIZE, 3), np.uint8)
    return noise + np.uint8(120 if number % 2 == 0 else 0)


def thumbnail(pixels: np.ndarray) -> np.ndarray:
    """The mean of each block of pixels."""
    step = SIZE // SMALL
    return pixels.reshape(SMALL, step, SMALL, step, 3).mean(axis=(1, 3)).astype(np.uint8)


def batch(numbers: list[int]) -> pa.Table:
    """Rows of pictures; those that are the same within the batch are one row."""
    rows = {}
    for number in numbers:
        pixels = picture(number)
        image = png(pixels)
        digest = hashlib.sha256(image).hexdigest()
        row = {"sha256": digest, "name": f"picture {number}", "width": SIZE, "image": image}
        rows[digest] = row | {"thumbnail": png(thumbnail(pixels))}
    return pa.Table.from_pylist(list(rows.values()), SCHEMA)


def main(folder: Path) -> None:
    images = DeltaTable.create(folder / "images", SCHEMA)
    rng = random.Random(5)
    delivered = [[rng.randrange(60) for _ in range(25)] for _ in range(4)]
    for numbers in delivered:
        merger = images.merge(batch(numbers), "t.sha256 = s.sha256", source_alias="s", target_alias="t")
        merger.when_not_matched_insert_all().execute()
    different = {n for numbers in delivered for n in numbers}
    stored = images.to_pyarrow_table(columns=["sha256", "name", "image"])
    assert sorted(stored["name"].to_pylist()) == sorted(f"picture {n}" for n in different)
    for row in stored.to_pylist():
        assert np.array_equal(decoded(row["image"]), picture(int(row["name"].split()[1])))
        assert hashlib.sha256(row["image"]).hexdigest() == row["sha256"]
    print(f"{sum(map(len, delivered))} pictures delivered, {stored.num_rows} different ones stored, byte for byte")

    # The label is computed from thumbnails alone; two mistakes are planted.
    small = images.scan(["sha256", "thumbnail"]).to_arrow().sort_by("sha256")
    names = ["bright" if decoded(image).mean() > 110 else "dark" for image in small["thumbnail"].to_pylist()]
    right = dict(zip(small["sha256"].to_pylist(), names, strict=True))
    wrong = {digest: "bright" if right[digest] == "dark" else "dark" for digest in list(right)[:2]}
    first, labels = right | wrong, folder / "labels"
    write_deltalake(labels, pa.table({"sha256": list(first), "label": list(first.values())}))

    trained_on = DeltaTable(labels).version()
    corrected = pa.table({"sha256": list(wrong), "label": [right[digest] for digest in wrong]})
    merger = DeltaTable(labels).merge(
        corrected,
        "t.sha256 = s.sha256",
        source_alias="s",
        target_alias="t",
        commit_properties=CommitProperties(custom_metadata={"round": "reviewed by two people"}),
    )
    merger.when_matched_update_all().execute()

    def at_version(version: int | None) -> dict[str, str]:
        rows = DeltaTable(labels, version=version).to_pyarrow_table()
        return dict(zip(rows["sha256"].to_pylist(), rows["label"].to_pylist(), strict=True))

    assert at_version(None) == right
    assert at_version(trained_on) == first
    changed = DeltaTable(labels).diff(trained_on, keys=["sha256"]).read_all()
    assert set(changed["sha256"].to_pylist()) == set(wrong)
    print(f"labels: version {trained_on} as it was trained on, and {changed.num_rows} corrections since")
    print(f"bright: {sorted(right.values()).count('bright')}, dark: {sorted(right.values()).count('dark')}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
