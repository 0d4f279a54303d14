"""Signed checkpoints: whoever lacks the key cannot change a log up to its last checkpoint without its showing.

A checkpoint is an ed25519 signature of (run, seq, hash). Checkpoints lie beside the store, one JSON line each,
``{"$checkpoint":{"hash":…,"key":…,"run":…,"seq":…,"sig":…}}``; the log itself is as it was. In an export these
lines follow the events, and a reader that knows nothing of them may skip them. Needs the extra ``sign``.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs
import orjson

from fsm_agent.core import canon
from fsm_agent.core.errors import ConfigError, StoreError, UsageError
from fsm_agent.core.events import Head
from fsm_agent.stores import files
from fsm_agent.stores.embedded import is_report, unpack
from fsm_agent.stores.lines import CHECKPOINT

SUFFIX: Final = ".checkpoints"
"""What follows the store's name in the name of the file that holds its checkpoints."""
_DOMAIN: Final = b"fsm_agent/checkpoint/v1\x00"


@attrs.frozen(kw_only=True)
class Checkpoint:
    """A signed head.

    Attributes:
        run: The run.
        head: Where its log stood.
        key: Which key signed: the first 16 hex digits of the SHA-256 of the public key's 32 bytes.
        signature: 64 bytes.
    """

    run: str
    head: Head
    key: str
    signature: bytes

    @property
    def line(self) -> bytes:
        """The line of a file, with its end."""
        facts = {
            "run": self.run,
            "seq": self.head.seq,
            "hash": self.head.hash.hex(),
            "key": self.key,
            "sig": self.signature.hex(),
        }
        return canon.encode({"$checkpoint": facts}) + b"\n"


def place_of(location: str) -> str | None:
    """Return where the checkpoints of the store at *location* lie; None for a store that no file holds."""
    return None if location.startswith(":") else os.path.realpath(location) + SUFFIX


def read_checkpoints(place: str | os.PathLike[str] | bytes | None, run: str) -> list[Checkpoint]:
    """Return the checkpoints of *run* in a file, or in its bytes, oldest first; none if there is no such file.

    A line that is no checkpoint is passed over: who could spoil it could as well take it away.
    """
    if place is None:
        return []
    try:
        data = place if isinstance(place, bytes) else Path(place).read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"checkpoints {place!r}: {error.strerror}; name a file that can be read") from None
    return list(parse((unpack(data) if is_report(data) else data).splitlines(), run))


def parse(lines: Iterable[bytes], run: str) -> Iterator[Checkpoint]:
    """Yield the checkpoints of *run* among *lines*."""
    for line in lines:
        if not line.startswith(CHECKPOINT):
            continue
        try:
            facts = orjson.loads(line)["$checkpoint"]
            digest, signature = bytes.fromhex(facts["hash"]), bytes.fromhex(facts["sig"])
            head = Head(facts["seq"], digest)
            found = Checkpoint(run=facts["run"], head=head, key=facts["key"], signature=signature)
        except (ValueError, KeyError, TypeError):
            continue
        if found.run == run and type(head.seq) is int:
            yield found


def write_checkpoints(place: str | os.PathLike[str], checkpoints: Iterable[Checkpoint]) -> None:
    """Add checkpoints to a file, durably; what a crash left half written is ended first.

    Raises:
        StoreError: The file cannot be written.
    """
    data = b"".join(checkpoint.line for checkpoint in checkpoints)
    path = Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            files.lock(descriptor, fcntl.LOCK_EX, f"checkpoints {place}")
            size = os.fstat(descriptor).st_size
            whole = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
            files.write_all(descriptor, data if whole else b"\n" + data)
            files.sync_data(descriptor)
        finally:
            os.close(descriptor)
        if new:
            files.sync_directory(path.parent)
    except OSError as error:
        raise StoreError(
            f"checkpoints {place}: {error.strerror or error}; choose a place that can be written"
        ) from error


class KeySigner:
    """Signs heads with a private key.

    Args:
        key: File of the private key, as :func:`make_keys` writes it.
        place: File that the checkpoints go to.

    Raises:
        ConfigError: There is no such key, or the extra ``sign`` is not installed.
    """

    def __init__(self, key: str | os.PathLike[str], place: str) -> None:
        private = _private(key)
        self._sign: Callable[[bytes], bytes] = private.sign
        self._key = _name(private.public_key().public_bytes_raw())
        self._place = place
        self._last: dict[str, Head] = {}

    def sign(self, run: str, head: Head) -> None:
        """Keep a signature of *head*, durably, unless it was the last one."""
        if self._last.get(run) != head:
            signature = self._sign(_message(run, head))
            write_checkpoints(
                self._place, [Checkpoint(run=run, head=head, key=self._key, signature=signature)]
            )
            self._last[run] = head


class Verifier:
    """Tells the signatures of one public key.

    Args:
        key: File of the public key.

    Raises:
        ConfigError: There is no such key, or the extra ``sign`` is not installed.
    """

    def __init__(self, key: str | os.PathLike[str]) -> None:
        public = _public(key)
        self.key = _name(public.public_bytes_raw())
        self._verify: Callable[[bytes, bytes], None] = public.verify

    def holds(self, checkpoint: Checkpoint) -> bool:
        """Whether this key signed *checkpoint* as it is."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._verify(checkpoint.signature, _message(checkpoint.run, checkpoint.head))
        except InvalidSignature:
            return False
        return True


def make_keys(path: str | os.PathLike[str]) -> str:
    """Write a new private key to *path*, readable by its owner alone, and the public one to ``<path>.pub``.

    Returns:
        The key's name, as checkpoints give it.

    Raises:
        UsageError: One of the files is there already, or cannot be made.
        ConfigError: The extra ``sign`` is not installed.
    """
    keys, serialization = _cryptography()
    private = keys.Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = private.public_key()
    open_text = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for file, data, mode in ((Path(path), pem, 0o600), (Path(f"{os.fspath(path)}.pub"), open_text, 0o644)):
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except OSError as error:
            raise UsageError(
                f"key {file}: {error.strerror}; name a new file in a directory that can be written"
            ) from None
        try:
            files.write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return _name(public.public_bytes_raw())


def _message(run: str, head: Head) -> bytes:
    return _DOMAIN + canon.encode({"run": run, "seq": head.seq, "hash": head.hash.hex()})


def _name(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]


def _cryptography() -> tuple[ModuleType, ModuleType]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfigError(
            "signed checkpoints: the package cryptography is not installed; install fsm-agent[sign]"
        ) from None
    return ed25519, serialization


def _private(path: str | os.PathLike[str]) -> Any:
    keys, serialization = _cryptography()
    found = _read(path, lambda data: serialization.load_pem_private_key(data, None))
    if not isinstance(found, keys.Ed25519PrivateKey):
        raise _no_key(path, "no private ed25519 key")
    return found


def _public(path: str | os.PathLike[str]) -> Any:
    keys, serialization = _cryptography()
    found = _read(path, serialization.load_pem_public_key)
    if not isinstance(found, keys.Ed25519PublicKey):
        raise _no_key(path, "no public ed25519 key")
    return found


def _read(path: str | os.PathLike[str], load: Callable[[bytes], Any]) -> Any:
    try:
        return load(Path(path).read_bytes())
    except OSError as error:
        raise _no_key(path, error.strerror or str(error)) from None
    except (ValueError, TypeError):
        raise _no_key(path, "no key in PEM form, or one that asks for a password") from None


def _no_key(path: str | os.PathLike[str], found: str) -> ConfigError:
    return ConfigError(
        f"key {os.fspath(path)}: {found}; name a file that `fsm-agent key` wrote (the public one ends in .pub)"
    )
