"""The stream that a worker speaks over."""

import fcntl
import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from photofinish_worker.messages import CONTROL_VARIABLE


class NoStream(Exception):
    """The stream could not be opened, and why."""


class Gone(Exception):
    """The supervisor has gone."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Descriptors to read from and to write to."""

    reader: int
    writer: int

    def send(self, line: bytes) -> None:
        """Writes all of a line."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self.writer, rest) :]
        except OSError as error:
            raise Gone from error


def open_stream(environment: Mapping[str, str]) -> Stream:
    """Opens the stream.

    The original standard streams become private copies, which no child inherits; from here on
    descriptor 1 is standard error and descriptor 0 is empty, so that neither an engine nor a
    compiler that it starts can touch them.
    """
    try:
        reader = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        writer = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
    except OSError as error:
        raise NoStream(f"cannot move standard input and output away: {error}") from error
    address = environment.get(CONTROL_VARIABLE)
    if address is None:
        return Stream(reader, writer)
    try:
        descriptor = _connect(address).detach()
    except (OSError, NoStream) as error:
        raise NoStream(f"{CONTROL_VARIABLE}={address}: {error}") from error
    return Stream(descriptor, descriptor)


def _connect(address: str) -> socket.socket:
    kind, _, place = address.partition(":")
    if kind == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(place)
        return connection
    if kind != "tcp":
        raise NoStream("neither `unix:/path` nor `tcp:127.0.0.1:port`")
    host, _, port = place.rpartition(":")
    try:
        ip = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError as error:
        raise NoStream("not an IP address and a port, such as `tcp:127.0.0.1:4711`") from error
    if not ip.is_loopback:
        raise NoStream(
            "refused: only loopback addresses are spoken to, the protocol is not encrypted"
        )
    connection = socket.create_connection((str(ip), number))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
