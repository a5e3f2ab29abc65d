# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any, TypeAlias, TypedDict

from typing_extensions import Buffer

class Error(RuntimeError): ...
class InvalidArgumentError(Error, ValueError): ...
class MismatchError(Error): ...
class OperationTimeoutError(Error, TimeoutError): ...
class PeerLostError(Error, ConnectionError): ...
class PeerLeftError(Error, ConnectionError): ...
class NoContactError(Error, ConnectionError): ...
class AbortedError(Error): ...
class NetworkError(Error, OSError): ...
class UnsupportedError(Error, NotImplementedError): ...
class DeviceError(Error): ...
class InternalError(Error): ...

class Runtime:
    """A socket, an engine and its progress thread."""

    def __init__(self, options: dict[str, Any] = ...) -> None: ...
    @property
    def address(self) -> str: ...
    def stats(self) -> dict[str, int]: ...
    def peer_stats(self) -> list[PeerStats]: ...
    def shutdown(self, limit_s: float = 1.0) -> None: ...

class Memory(Buffer):
    """Bytes that stay registered with RDMA devices from one operation to the next."""

    def __init__(self, bytes: int) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Operation:
    """A call that was made and may still run."""

    def wait(self, timeout_s: float | None = None) -> bool: ...
    @property
    def done(self) -> bool: ...
    @property
    def status(self) -> str: ...

# None where a call is not asynchronous, which its caller knows.
Begun: TypeAlias = Operation | Any

class Group:
    """One rank of a group. Buffers are held until the operation is complete.

    A call with asynchronous=False returns once it is; it raises what Operation.wait() would.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        key: bytes,
        rank: int,
        addresses: Sequence[str],
        timeout_s: float = 1800.0,
        global_ranks: Sequence[int] = ...,
        hosts: Sequence[int] = ...,
    ) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def status(self) -> str: ...
    def set_timeout(self, timeout_s: float) -> None: ...
    def abort(self, reason: str = "aborted by the user") -> None: ...
    def close(self) -> None: ...
    def all_reduce(
        self,
        buffer: Buffer,
        dtype: str,
        op: str = "SUM",
        output: Buffer | None = None,
        premul_factor: float = 1.0,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def reduce(
        self,
        buffer: Buffer,
        dtype: str,
        root: int,
        op: str = "SUM",
        output: Buffer | None = None,
        premul_factor: float = 1.0,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def reduce_scatter(
        self,
        input: Buffer,
        output: Buffer,
        dtype: str,
        op: str = "SUM",
        counts: Sequence[int] | None = None,
        premul_factor: float = 1.0,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def broadcast(
        self,
        buffer: Buffer,
        dtype: str,
        root: int,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def all_gather(
        self,
        input: Buffer,
        output: Buffer,
        dtype: str,
        counts: Sequence[int] | None = None,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def gather(
        self,
        input: Buffer,
        output: Buffer | None,
        dtype: str,
        root: int,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def scatter(
        self,
        input: Buffer | None,
        output: Buffer,
        dtype: str,
        root: int,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def all_to_all(
        self,
        input: Buffer,
        output: Buffer,
        dtype: str,
        input_counts: Sequence[int] | None = None,
        output_counts: Sequence[int] | None = None,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def barrier(
        self, timeout_s: float = 0.0, algorithm: str = "", asynchronous: bool = True
    ) -> Begun: ...
    def send(
        self,
        buffer: Buffer,
        dtype: str,
        to: int,
        tag: int = 0,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...
    def recv(
        self,
        buffer: Buffer,
        dtype: str,
        source: int,
        tag: int = 0,
        timeout_s: float = 0.0,
        algorithm: str = "",
        asynchronous: bool = True,
    ) -> Begun: ...

class PeerStats(TypedDict):
    group: str
    rank: int  # global
    address: str
    path: str  # its name in docs/observability.md
    in_use: bool  # it carries what is sent now
    bytes_sent: int
    bytes_received: int
    packets_sent: int
    packets_received: int
    packets_retransmitted: int
    rtt_us: float | None
    congestion_window_bytes: int | None
    last_heard_s: float | None

def process_stats() -> dict[str, int]: ...
def process_groups() -> list[dict[str, Any]]: ...
def process_peer_stats() -> list[PeerStats]: ...
def failed_groups() -> tuple[int, int]: ...

class OptionAlias:
    """A variable of another library."""

    @property
    def variable(self) -> str: ...
    def in_our_words(self, text: str) -> str: ...

class Option:
    """A row of the table; None as a value is "auto"."""

    @property
    def name(self) -> str: ...
    @property
    def accepted(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def default(self) -> Any: ...
    @property
    def unit(self) -> str: ...
    @property
    def doc(self) -> str: ...
    @property
    def process_wide(self) -> bool: ...
    @property
    def aliases(self) -> list[OptionAlias]: ...
    @property
    def must_agree(self) -> bool: ...
    @staticmethod
    def text(value: Any) -> str: ...
    @property
    def of_runtime(self) -> bool: ...
    def read(self, given: Any, origin: str) -> Any: ...

def option_table() -> list[Option]: ...
def with_defaults(named: dict[str, Any]) -> dict[str, Any]: ...
def algorithm_names(collective: str, ranks: int = ..., hosts: Sequence[int] = ...) -> list[str]: ...
def describe_devices(options: dict[str, Any] = ...) -> str: ...
def take_log_entry(timeout_s: float) -> tuple[str, str] | None: ...
def stop_log_waits() -> None: ...
def version() -> str: ...
