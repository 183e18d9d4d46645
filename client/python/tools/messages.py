"""Makes `helve/_wire/messages.py` and its types from the contracts under `proto/`.

The package carries the contracts' descriptors, not the code that protoc writes: that code refuses
to run beside a protobuf of another major version, and descriptors work with all of them.

Usage: python tools/messages.py (needs grpcio-tools). With --check, fails if the package speaks
of a field that the contracts no longer have, and says what they have beyond it.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

PACKAGE = Path(__file__).parents[1]
CONTRACTS = PACKAGE.parents[1] / "proto" / "proto"
TARGET = PACKAGE / "src" / "helve" / "_wire"
FILES = ["types", "handles", "state", "transact", "call", "watch"]

HEAD = '''"""The messages of `helve.v1`. Made by `tools/messages.py`: do not edit."""

import base64

from google.protobuf import descriptor_pool, message_factory

# A serialized google.protobuf.FileDescriptorSet would need a class to be read: one file a line.
_FILES = [
{files}]

# Of its own, so that no other package's messages of the same names are in the way.
_pool = descriptor_pool.DescriptorPool()
for _file in _FILES:
    _pool.AddSerializedFile(base64.b64decode(_file))


def _message(name):
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(name))


'''

TYPES = '''"""Types of the messages. Made by `tools/messages.py` from the contracts: do not edit."""

from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import Any as _Any, ClassVar as _ClassVar, Optional as _Optional, Union as _Union

from google.protobuf import descriptor_pool as _descriptor_pool, message as _message
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper

_pool: _descriptor_pool.DescriptorPool
'''


def compiled() -> tuple[FileDescriptorSet, str]:
    """The descriptors, and the types that protoc writes for all files as one."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        names = [f"helve/v1/{name}.proto" for name in FILES] + ["status.proto"]
        status = protoc.main(
            [
                "protoc", f"-I{CONTRACTS}", f"-I{PACKAGE / 'proto'}", f"--pyi_out={out}",
                f"--descriptor_set_out={out / 'set'}", "--include_imports", *names,
            ]
        )  # fmt: skip
        if status != 0:
            raise SystemExit(f"protoc failed with {status}")
        found = FileDescriptorSet.FromString((out / "set").read_bytes())
        parts = [out / file.name.replace(".proto", "_pb2.pyi") for file in found.file]
        return found, "\n".join(types_of(part.read_text()) for part in parts)


def types_of(text: str) -> str:
    """The classes of one file: without imports, and without the names of other files' modules."""
    head = ("from ", "import ", "DESCRIPTOR")
    lines = [line for line in text.splitlines() if not line.startswith(head)]
    classes = re.sub(r"\b_\w+_pb2\.", "", "\n".join(lines)).strip() + "\n"
    return classes.replace("_Mapping]", "_Mapping[str, _Any]]")


def chunked(text: str) -> str:
    lines = [text[at : at + 88] for at in range(0, len(text), 88)]
    return "".join(f'    "{line}"\n' for line in lines)


def module_of(found: FileDescriptorSet) -> str:
    files, names = "", ""
    for file in found.file:
        encoded = base64.b64encode(file.SerializeToString(deterministic=True)).decode()
        files += f"{chunked(encoded)[:-1]},\n"
        for message in file.message_type:
            names += f'{message.name} = _message("{file.package}.{message.name}")\n'
        for enum in file.enum_type:
            names += "".join(f"{value.name} = {value.number}\n" for value in enum.value)
    return HEAD.replace("{files}", files) + names


def fields(files: list[FileDescriptorProto]) -> dict[str, str]:
    """Each field, with what it is on the wire."""
    return {
        f"{file.package}.{message.name}.{field.name}": f"{field.number} {field.type} {field.label}"
        for file in files
        for message in file.message_type
        for field in message.field
    }


def check(found: FileDescriptorSet) -> None:
    text = (TARGET / "messages.py").read_text()
    blocks = text.split("_FILES = [\n")[1].split("\n]\n")[0].split(",\n")
    shipped = ["".join(re.findall(r'"(.*)"', block)) for block in blocks]
    files = [FileDescriptorProto.FromString(base64.b64decode(file)) for file in shipped if file]
    ours, theirs = fields(files), fields(list(found.file))
    wrong = [name for name, what in ours.items() if theirs.get(name) != what]
    if wrong:
        raise SystemExit(f"the contracts speak otherwise of {wrong}: run tools/messages.py")
    beyond = sorted(theirs.keys() - ours.keys())
    if beyond:
        print(f"the contracts have {len(beyond)} fields that the package does not: {beyond}")


def main() -> None:
    found, types = compiled()
    if "--check" in sys.argv:
        check(found)
        return
    (TARGET / "messages.py").write_text(module_of(found))
    (TARGET / "messages.pyi").write_text(f"{TYPES}\n{types}")


if __name__ == "__main__":
    main()
