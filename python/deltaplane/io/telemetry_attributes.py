"""The attributes of spans, by OpenTelemetry's semantic conventions for databases and HTTP clients.

No attribute has a credential, a query of a URL, or a value of a row. Knows no tracing library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["commit_attributes", "request_attributes", "table_name"]

# A partition's value in a path; servers get `=` also as `%3D`.
_VALUE = re.compile(r"(=|%3[dD])[^/]*")
# Statuses without a failure: absent objects are looked for, and a lost race is no fault.
_EXPECTED = {404, 409, 412}


def table_name(location: str) -> str:
    """A location without what may be secret in a URL: a user and password, a query, a fragment.

    >>> table_name("s3://key:secret@bucket/t?token=x"), table_name("/data/t?")
    ('s3://bucket/t', '/data/t?')
    """
    scheme, separator, rest = location.partition("://")
    if not separator:
        return location
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def commit_attributes(fields: Mapping[str, str], lost: int) -> dict[str, str | int]:
    """The attributes of a commit that lost some races, from the core's fields.

    >>> commit_attributes({"operation": "WRITE", "table": "s3://b/t", "version": "3"}, 1)["deltaplane.commit.attempts"]
    2
    """
    attributes: dict[str, str | int] = {
        "db.operation.name": fields["operation"],
        "db.collection.name": table_name(fields["table"]),
        "deltaplane.commit.attempts": lost + ("version" in fields),
    }
    if "version" in fields:
        attributes["deltaplane.commit.version"] = int(fields["version"])
    if "error" in fields:
        attributes["error.type"] = fields["error"]
    return attributes


def request_attributes(fields: Mapping[str, str]) -> tuple[dict[str, str | int], str | None]:
    """The attributes of a request from the core's fields, and the reason why it failed, None if it
    didn't.

    >>> fields = {"method": "GET", "scheme": "https", "host": "h", "path": "/b/t/day=mon/p.parquet", "status": "503"}
    >>> attributes, failed = request_attributes(fields)
    >>> attributes["url.full"], failed
    ('https://h/b/t/day=REDACTED/p.parquet', '503')
    """
    port, path = fields.get("port", ""), _VALUE.sub(r"\1REDACTED", fields["path"])
    attributes: dict[str, str | int] = {
        "http.request.method": fields["method"],
        "server.address": fields["host"],
        "server.port": int(port or (80 if fields["scheme"] == "http" else 443)),
        "url.full": f"{fields['scheme']}://{fields['host']}{port and ':' + port}{path}",
    }
    for field, name in (("sent_bytes", "http.request.body.size"), ("received_bytes", "http.response.body.size")):
        if fields.get(field, "").isdigit():
            attributes[name] = int(fields[field])
    if "status" not in fields:
        # A request without an answer, or one that its caller gave up.
        attributes["error.type"] = fields.get("error", "cancelled")
        return attributes, str(attributes["error.type"])
    status = attributes["http.response.status_code"] = int(fields["status"])
    if status < 400:
        return attributes, None
    attributes["error.type"] = fields["status"]
    return attributes, None if status in _EXPECTED else fields["status"]
