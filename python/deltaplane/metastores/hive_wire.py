"""Calls of the Hive metastore's Thrift service over the package `thrift`, whose structs are plain
dictionaries here: field number → value.

A struct that is read and sent again keeps the fields of newer servers. Knows no Delta table.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from deltaplane.exceptions import (
    InvalidArgumentError,
    StoreUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

__all__ = [
    "Endpoints",
    "Struct",
    "call",
    "map_in",
    "strings",
    "struct_in",
    "structs_in",
    "text",
    "text_in",
    "texts_in",
]

# Thrift's numbers of types.
BOOL, BYTE, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, SET, LIST = 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15
# A value with its type; a list, set or map has its elements' types, even if it is empty.
Value = tuple[int, Any]
Struct = dict[int, Value]

PORT = 9083
# Limits of what a server may send.
_STRING_BYTES = 64 << 20
_ELEMENTS = 1_000_000
_DEPTH = 24
_UNKNOWN_METHOD = 1
# The exceptions that a call declares: its name → field number of the result → class.
_ERRORS: Mapping[str, Mapping[int, str]] = {
    "get_all_databases": {1: "meta"},
    "get_database": {1: "missing", 2: "meta"},
    "create_database": {1: "exists", 2: "invalid", 3: "meta"},
    "drop_database": {1: "missing", 2: "invalid", 3: "meta"},
    "get_all_tables": {1: "meta"},
    "get_table": {1: "meta", 2: "missing"},
    "get_table_req": {1: "meta", 2: "missing"},
    "get_table_objects_by_name_req": {1: "meta", 2: "invalid", 3: "missing"},
    "create_table": {1: "exists", 2: "invalid", 3: "meta", 4: "missing"},
    "drop_table": {1: "missing", 2: "meta"},
    "alter_table": {1: "invalid", 2: "meta"},
}
# The types of the results of those that have one; lists are of texts.
_RESULTS = {
    "get_all_databases": LIST,
    "get_database": STRUCT,
    "get_all_tables": LIST,
    "get_table": STRUCT,
    "get_table_req": STRUCT,
    "get_table_objects_by_name_req": STRUCT,
}
_CLASSES = {
    "missing": TableNotFoundError,
    "exists": TableAlreadyExistsError,
    "invalid": InvalidArgumentError,
    "meta": StoreUnavailableError,
}


class Endpoints:
    """The addresses of one metastore, tried in order.

    Args:
        uri: `thrift://host:port`, several joined by commas as in `hive.metastore.uris`. The port is
            9083 by default.
        seconds: time limit of connecting, and of each answer.

    Raises:
        InvalidArgumentError: another form of address, or one with a password.
    """

    def __init__(self, uri: str, seconds: float) -> None:
        self.addresses = tuple(map(_address, uri.split(",")))
        self.uri = ",".join(f"thrift://{f'[{host}]' if ':' in host else host}:{port}" for host, port in self.addresses)
        self.seconds = seconds


def _address(uri: str) -> tuple[str, int]:
    parts = re.fullmatch(r"thrift://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?/?", uri.strip())
    port = PORT if parts is None or parts[2] is None else int(parts[2])
    if parts is None or not 0 < port < 65536:
        # The text isn't shown: a part before an @ may be a password.
        raise InvalidArgumentError(
            "a Hive metastore's address is thrift://host:port, several joined by commas, without user or password"
        )
    return parts[1].strip("[]"), port


def text(value: str) -> Value:
    """A text as a field's value."""
    return STRING, value


def strings(values: Sequence[str]) -> Value:
    """A list of texts as a field's value."""
    return LIST, (STRING, list(values))


def texts_in(value: Any) -> list[str]:
    """The texts of a list; other elements are left out."""
    return [item for item in value[1] if isinstance(item, str)]


def structs_in(struct: Struct, number: int) -> list[Struct]:
    """The structs of a field that is a list of them; none if it is something else."""
    kind, value = struct.get(number, (STRUCT, {}))
    return value[1] if kind == LIST and value[0] == STRUCT else []


def struct_in(struct: Struct, number: int) -> Struct:
    """The struct of a field; an empty one if it is missing or something else."""
    kind, value = struct.get(number, (STRUCT, {}))
    return value if kind == STRUCT else {}


def text_in(struct: Struct, number: int) -> str | None:
    """The text of a field; None if it is missing or something else."""
    value = struct.get(number, (STRING, None))[1]
    return value if isinstance(value, str) else None


def map_in(struct: Struct, number: int) -> dict[str, str]:
    """The texts of a field that is a map; none if it is something else."""
    kind, value = struct.get(number, (MAP, (STRING, STRING, {})))
    items = value[2] if kind == MAP else {}
    return {key: item for key, item in items.items() if isinstance(key, str) and isinstance(item, str)}


def call(endpoints: Endpoints, method: str, arguments: Struct, about: str) -> Any:
    """Calls a method and returns its result, None if it has none.

    Raises:
        TableNotFoundError, TableAlreadyExistsError: what the call needs is missing, or exists.
        InvalidArgumentError: the metastore refuses the arguments.
        StoreUnavailableError: no address answers in time, or the metastore failed.
        UnsupportedFeatureError: the metastore has no such method.
    """
    from thrift.Thrift import TApplicationException, TException, TMessageType

    with _connection(endpoints) as protocol:
        try:
            protocol.writeMessageBegin(method, TMessageType.CALL, 0)
            _write_struct(protocol, arguments)
            protocol.writeMessageEnd()
            protocol.trans.flush()
            name, kind, _ = protocol.readMessageBegin()
            if kind == TMessageType.EXCEPTION:
                raised = TApplicationException()
                raised.read(protocol)
                if raised.type == _UNKNOWN_METHOD:
                    raise UnsupportedFeatureError(f"the metastore {endpoints.uri} has no method {method}")
                raise StoreUnavailableError(
                    f"the metastore {endpoints.uri} failed in {method}: {_short(raised.message)}"
                )
            if kind != TMessageType.REPLY or name != method:
                raise StoreUnavailableError(f"the metastore {endpoints.uri} answered {method} with something else")
            result = _read_struct(protocol)
            protocol.readMessageEnd()
        except (TException, OSError, EOFError, ValueError, MemoryError, OverflowError) as e:
            raise StoreUnavailableError(
                f"the metastore {endpoints.uri} gave no answer to {method}: {_short(e)}; a server that wants SASL or TLS "
                "looks like this too, neither of which is supported"
            ) from None
    for number, (_, raised_fields) in result.items():
        if number:
            _refuse(_ERRORS[method].get(number, "meta"), raised_fields, about, endpoints)
    kind, value = result.get(0, (0, None))
    if kind != _RESULTS.get(method, 0) or (value is not None and kind == LIST and value[0] != STRING):
        raise StoreUnavailableError(f"the metastore {endpoints.uri} answered {method} with something else")
    return value


def _refuse(kind: str, raised: object, about: str, endpoints: Endpoints) -> NoReturn:
    message = text_in(raised, 1) if isinstance(raised, dict) else None
    problem = {
        "missing": f"{about} doesn't exist in the metastore {endpoints.uri}",
        "exists": f"{about} exists already in the metastore {endpoints.uri}",
        "invalid": f"the metastore {endpoints.uri} refuses {about}: {_short(message or '')}",
        "meta": f"the metastore {endpoints.uri} failed for {about}: {_short(message or '')}",
    }[kind]
    raise _CLASSES[kind](problem)


def _short(message: object) -> str:
    return " ".join(str(message).split())[:300]


@contextmanager
def _connection(endpoints: Endpoints) -> Iterator[Any]:
    """A connection for one call: a kept one could be cut by a proxy, or be shared by a fork."""
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport

    reasons = []
    for host, port in endpoints.addresses:
        try:
            # Opened here, because TSocket logs an address that is away as an error.
            connected = socket.create_connection((host, port), endpoints.seconds)
        except OSError as e:
            reasons.append(f"thrift://{host}:{port}: {_short(e)}")
            continue
        with connected:
            handle = TSocket(host, port)
            handle.setHandle(connected)
            transport = TBufferedTransport(handle)
            yield TBinaryProtocol(transport, string_length_limit=_STRING_BYTES, container_length_limit=_ELEMENTS)
        return
    raise StoreUnavailableError(f"no Hive metastore answers ({'; '.join(reasons)})")


def _write_struct(protocol: Any, struct: Struct) -> None:
    for number, (kind, value) in sorted(struct.items()):
        protocol.writeFieldBegin("", kind, number)
        _write(protocol, kind, value)
    protocol.writeFieldStop()


def _write(protocol: Any, kind: int, value: Any) -> None:
    if kind == STRUCT:
        _write_struct(protocol, value)
    elif kind in (LIST, SET):
        element, values = value
        protocol.writeListBegin(element, len(values))
        for item in values:
            _write(protocol, element, item)
    elif kind == MAP:
        key, element, items = value
        protocol.writeMapBegin(key, element, len(items))
        for name, item in items.items():
            _write(protocol, key, name)
            _write(protocol, element, item)
    elif kind == STRING:
        protocol.writeBinary(value if isinstance(value, bytes) else value.encode())
    else:
        getattr(protocol, _SCALARS[kind][1])(value)


_SCALARS = {
    BOOL: ("readBool", "writeBool"),
    BYTE: ("readByte", "writeByte"),
    DOUBLE: ("readDouble", "writeDouble"),
    I16: ("readI16", "writeI16"),
    I32: ("readI32", "writeI32"),
    I64: ("readI64", "writeI64"),
}


def _read_struct(protocol: Any, depth: int = 0) -> Struct:
    struct: Struct = {}
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == 0:
            return struct
        struct[number] = kind, _read(protocol, kind, depth + 1)


def _read(protocol: Any, kind: int, depth: int) -> Any:
    if depth > _DEPTH:
        raise ValueError("the answer is nested too deeply")
    if kind == STRUCT:
        return _read_struct(protocol, depth)
    if kind in (LIST, SET):
        element, count = protocol.readListBegin()
        return element, [_read(protocol, element, depth + 1) for _ in range(count)]
    if kind == MAP:
        key, element, count = protocol.readMapBegin()
        return (
            key,
            element,
            {_read(protocol, key, depth + 1): _read(protocol, element, depth + 1) for _ in range(count)},
        )
    if kind == STRING:
        data = protocol.readBinary()
        try:
            return data.decode()
        except UnicodeDecodeError:
            # Sent back unchanged.
            return data
    if kind not in _SCALARS:
        raise ValueError(f"the answer has a value of the unknown type {kind}")
    return getattr(protocol, _SCALARS[kind][0])()
