"""What tests of TensorRT's engine share: files of ONNX, cells, a folder. Needs TensorRT-RTX."""

import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

from photofinish_tensorrt import library
from photofinish_worker.decode import decode
from photofinish_worker.messages import Cell, Load, ModelFiles
from tests.sketch import CELL, graph, node, value

RTX = library.load(library.RTX)
SHAPE = (2, 3)
NETWORK = graph([value("x", list(SHAPE))], [], [node("Relu", ["x"], "y")])


def field(number: int, content: bytes | str | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def described(name: str, element: int, shape: tuple[int | str, ...]) -> bytes:
    """A `ValueInfoProto`; a size that is a word is open."""
    sizes = [field(1, field(2 if isinstance(size, str) else 1, size)) for size in shape]
    return field(1, name) + field(2, field(1, field(1, element) + field(2, b"".join(sizes))))


def onnx(
    folder: str,
    operator: str = "Relu",
    element: int = 1,
    shape: tuple[int | str, ...] = SHAPE,
) -> Path:
    """A file with one operator. Elements: 1 is binary32, 10 is binary16."""
    body = field(1, "x") + field(2, "y") + field(3, "the_node") + field(4, operator)
    ends = field(11, described("x", element, shape)) + field(12, described("y", element, shape))
    path = Path(folder) / "model.onnx"
    opset = field(8, field(1, "") + field(2, 21))
    path.write_bytes(field(1, 10) + field(7, field(1, body) + field(2, "g") + ends) + opset)
    return path


def cell(**other: Any) -> Cell:
    asked = CELL | {"engine": "tensorrt/rtx", "device": "cuda:0", "factors": {}} | other
    read = decode(Cell, asked, "cell")
    assert isinstance(read, Cell)
    return read


def load(path: Path, scratch: str, **other: Any) -> Load:
    asked = cell(**other)
    files = ModelFiles("no.weights", str(path), asked.precision)
    return Load(asked, NETWORK, files, scratch)


class Folder(unittest.TestCase):
    """A test that writes files."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
