"""Checks protocol and metadata: features and versions, schemas, column mapping, properties,
partition values."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from collections.abc import Iterator
from typing import Any

from verifier.findings import Findings, Json

_LEGACY = {
    "appendOnly": 2,
    "invariants": 2,
    "checkConstraints": 3,
    "changeDataFeed": 4,
    "generatedColumns": 4,
    "columnMapping": 5,
    "identityColumns": 6,
}
_READER_WRITER = set(
    """
    columnMapping deletionVectors timestampNtz v2Checkpoint vacuumProtocolCheck typeWidening typeWidening-preview
    variantType variantType-preview variantShredding variantShredding-preview catalogManaged catalogOwned-preview
    geospatial geospatial-dev
    """.split()
)
_WRITER = set(_LEGACY) - _READER_WRITER | set(
    """
    inCommitTimestamp domainMetadata rowTracking clustering icebergCompatV1 icebergCompatV2 icebergCompatV3
    icebergWriterCompatV1 icebergWriterCompatV3 allowColumnDefaults checkpointProtection materializePartitionColumns
    collations collations-preview
    """.split()
)
_REQUIRED = {
    "clustering": "domainMetadata",
    "rowTracking": "domainMetadata",
    "icebergCompatV1": "columnMapping",
    "icebergCompatV2": "columnMapping",
}
_ENABLING = {
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.appendOnly": "appendOnly",
    "delta.enableTypeWidening": "typeWidening",
}
_PRIMITIVE = re.compile(
    r"string|long|integer|short|byte|float|double|boolean|binary|date|timestamp|timestamp_ntz|variant|void"
    r"|decimal\(\d+, ?-?\d+\)|(?:var)?char\(\d+\)|geometry.*|geography.*|string collate .*"
)
ID, PHYSICAL, MODE = "delta.columnMapping.id", "delta.columnMapping.physicalName", "delta.columnMapping.mode"

# Logical path, physical path, and the field; fields of arrays and maps have no statistics.
Column = tuple[tuple[str, ...], tuple[str, ...], Json]


def columns(fields: list[Json], logical: tuple[str, ...] = (), physical: tuple[str, ...] = ()) -> Iterator[Column]:
    """Every field of a schema and of its structs."""
    for field in fields:
        own = (*logical, field["name"])
        files = (*physical, field.get("metadata", {}).get(PHYSICAL, field["name"]))
        yield own, files, field
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from columns(field["type"]["fields"], own, files)


def supported(protocol: Json | None) -> set[str]:
    """The features that a protocol lists or implies."""
    if not protocol:
        return set()
    listed = {*(protocol.get("writerFeatures") or []), *(protocol.get("readerFeatures") or [])}
    writer = protocol["minWriterVersion"]
    return listed | {name for name, since in _LEGACY.items() if since <= writer < 7}


def check_protocol(findings: Findings, where: str, protocol: Json) -> None:
    reader, writer = protocol.get("minReaderVersion"), protocol.get("minWriterVersion")
    if not isinstance(reader, int) or not isinstance(writer, int):
        return
    readers, writers = protocol.get("readerFeatures"), protocol.get("writerFeatures")
    findings.unless(reader in range(1, 4) and writer in range(1, 8), where, f"no protocol has {reader}, {writer}")
    findings.unless((writer == 7) == (writers is not None), where, f"writer version {writer}, features {writers}")
    findings.unless((reader == 3) == (readers is not None), where, f"reader version {reader}, features {readers}")
    findings.unless(reader != 3 or writer == 7, where, "reader version 3 needs writer version 7")
    for name in readers or []:
        findings.unless(name in (writers or []), where, f"{name} is listed for readers and not for writers")
        findings.unless(name not in _WRITER, where, f"{name} is no feature of readers")
    for name in writers or []:
        if name in _READER_WRITER:
            implied = reader == 2 and name == "columnMapping"
            findings.unless(implied or name in (readers or []), where, f"{name} must be listed for readers too")
        needed = _REQUIRED.get(name)
        findings.unless(needed is None or needed in (writers or []), where, f"{name} needs {needed}")


def check_metadata(findings: Findings, where: str, metadata: Json, protocol: Json | None) -> None:
    try:
        schema = json.loads(metadata["schemaString"])
    except ValueError as e:
        findings.add(where, f"the schema is no JSON: {e}")
        return
    configuration, features = metadata.get("configuration") or {}, supported(protocol)
    form = metadata.get("format", {})
    findings.unless(form.get("provider") == "parquet", where, "format.provider isn't parquet")
    findings.unless(isinstance(form.get("options"), dict), where, "format.options are missing")
    for key, value in configuration.items():
        findings.unless(isinstance(value, str), where, f"configuration[{key}] is no string")
    _check_struct(findings, where, schema, "")
    names = [field["name"] for field in schema["fields"]]
    partitions = metadata.get("partitionColumns") or []
    findings.unless(set(partitions) <= set(names), where, f"the partition columns {partitions} aren't all columns")
    findings.unless(not names or set(names) != set(partitions), where, "every column is a partition column")
    _check_mapping(findings, where, schema, configuration, features)
    _check_needed_features(findings, where, schema, configuration, features)


def _check_struct(findings: Findings, where: str, struct: Json, path: str) -> None:
    seen: set[str] = set()
    for field in struct["fields"]:
        missing = {"name", "type", "nullable", "metadata"} - set(field)
        findings.unless(not missing, where, f"the field {path}{field.get('name')} has no {missing}")
        findings.unless(field["name"].lower() not in seen, where, f"there are two fields {path}{field['name']}")
        seen.add(field["name"].lower())
        _check_type(findings, where, field["type"], f"{path}{field['name']}.")


def _check_type(findings: Findings, where: str, data_type: Any, path: str) -> None:
    if isinstance(data_type, str):
        findings.unless(_PRIMITIVE.fullmatch(data_type), where, f"{path} has the unknown type {data_type}")
    elif data_type.get("type") == "struct":
        _check_struct(findings, where, data_type, path)
    elif data_type.get("type") == "array":
        findings.unless("containsNull" in data_type, where, f"the array {path} has no containsNull")
        _check_type(findings, where, data_type["elementType"], f"{path}element.")
    elif data_type.get("type") == "map":
        findings.unless("valueContainsNull" in data_type, where, f"the map {path} has no valueContainsNull")
        _check_type(findings, where, data_type["keyType"], f"{path}key.")
        _check_type(findings, where, data_type["valueType"], f"{path}value.")
    else:
        findings.add(where, f"{path} has the unknown type {data_type}")


def _check_mapping(
    findings: Findings, where: str, schema: Json, configuration: dict[str, str], features: set[str]
) -> None:
    if configuration.get(MODE, "none") == "none":
        for logical, _, field in columns(schema["fields"]):
            needs_mapping = re.search(r"[ ,;{}()\n\t=]", field["name"])
            findings.unless(not needs_mapping, where, f"the name of {logical} needs column mapping")
        return
    findings.unless("columnMapping" in features, where, "column mapping without the feature")
    ids: list[int] = []
    files: set[tuple[str, ...]] = set()
    for logical, physical, field in columns(schema["fields"]):
        mapped = {ID, PHYSICAL} <= set(field["metadata"])
        findings.unless(mapped, where, f"the column {logical} has no id or no physical name")
        findings.unless(physical not in files, where, f"two columns have the physical name {physical}")
        files.add(physical)
        ids.append(field["metadata"].get(ID, 0))
    findings.unless(len(ids) == len(set(ids)), where, "two columns have one mapping id")
    most = int(configuration.get("delta.columnMapping.maxColumnId", -1))
    findings.unless(most >= max(ids, default=0), where, f"maxColumnId {most} is below {max(ids, default=0)}")


def _check_needed_features(
    findings: Findings, where: str, schema: Json, configuration: dict[str, str], features: set[str]
) -> None:
    def needs(what: str, *names: str) -> None:
        findings.unless(features & set(names), where, f"{what} without the feature {names[0]}")

    types = set(_leaves(schema))
    if "timestamp_ntz" in types:
        needs("timestamps without a zone", "timestampNtz")
    if "variant" in types:
        needs("variants", "variantType", "variantType-preview")
    for key, name in _ENABLING.items():
        if configuration.get(key, "").lower() == "true":
            needs(key, name, f"{name}-preview")
    if configuration.get("delta.checkpointPolicy") == "v2":
        needs("the policy v2", "v2Checkpoint")
    if any(key.startswith("delta.constraints.") for key in configuration):
        needs("CHECK constraints", "checkConstraints")
    for _, _, field in columns(schema["fields"]):
        for key in field.get("metadata", {}):
            if key == "delta.generationExpression":
                needs("generated columns", "generatedColumns")
            if key.startswith("delta.identity."):
                needs("identity columns", "identityColumns")
            if key == "delta.invariants":
                needs("invariants", "invariants")


def _leaves(data_type: Any) -> Iterator[str]:
    if isinstance(data_type, str):
        yield data_type
    else:
        inner = [field["type"] for field in data_type.get("fields", [])]
        for part in [*inner, *(data_type[k] for k in ("elementType", "keyType", "valueType") if k in data_type)]:
            yield from _leaves(part)


_BITS = {"long": 63, "integer": 31, "short": 15, "byte": 7}
_MOMENT = r"[+-]?\d{4,}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?"
_TEXTS = {
    "boolean": re.compile(r"true|false", re.IGNORECASE),
    "date": re.compile(r"[+-]?\d{4,}-\d\d-\d\d"),
    "timestamp": re.compile(rf"{_MOMENT}(Z|[+-]\d\d:?\d\d)?"),
    "timestamp_ntz": re.compile(_MOMENT),
}


def check_partition_value(findings: Findings, where: str, data_type: Any, text: str | None) -> None:
    """Checks that a partition value's text parses as its column's type; a null and an empty text
    are null."""
    if text is None or text == "" or not isinstance(data_type, str):
        return
    try:
        fits = _fits(data_type, text)
    except (ValueError, ArithmeticError):
        fits = False
    findings.unless(fits, where, f"the partition value {text!r} is no {data_type}")


def _fits(data_type: str, text: str) -> bool:
    if data_type in _BITS:
        return -(1 << _BITS[data_type]) <= int(text) < 1 << _BITS[data_type]
    if data_type in ("float", "double"):
        float(text.replace("Infinity", "inf"))
    if data_type.startswith("decimal"):
        precision, scale = map(int, re.findall(r"-?\d+", data_type))
        with decimal.localcontext() as context:
            context.prec = 80
            value = decimal.Decimal(text)
            exact = value == value.quantize(decimal.Decimal(1).scaleb(-scale))
            return exact and abs(value) < decimal.Decimal(10) ** (precision - scale)
    return data_type not in _TEXTS or _TEXTS[data_type].fullmatch(text) is not None


def days(text: str) -> int:
    """Days since 1970 of a date, whose year may have more than four digits or a sign."""
    year, month, day = map(int, re.match(r"([+-]?\d+)-(\d\d)-(\d\d)", text).groups())  # type: ignore[union-attr]
    # 400 years have a fixed number of days, so any year is mapped to one that Python supports.
    cycles = (year - 1) // 400
    return dt.date(year - cycles * 400, month, day).toordinal() + cycles * 146_097 - dt.date(1970, 1, 1).toordinal()


def micros(text: str) -> int:
    """Microseconds since 1970 of a timestamp, in UTC if it has no zone."""
    form = r"([+-]?\d+-\d\d-\d\d)[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?\s*(?:Z|([+-])(\d\d):?(\d\d))?"
    if (match := re.fullmatch(form, text)) is None:
        raise ValueError(f"{text} is no timestamp")
    date, hour, minute, second, fraction, sign, zone_hour, zone_minute = match.groups()
    seconds = days(date) * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    if sign:
        seconds -= int(f"{sign}1") * (int(zone_hour) * 3600 + int(zone_minute) * 60)
    return seconds * 1_000_000 + int(f"{fraction or ''}000000"[:6])
