# SPDX-License-Identifier: Apache-2.0
"""Ed25519 signatures of run records and evidence.

Each machine has a key pair of its own, which is created when it is first
needed. A signature contains the public key, so that it can be verified
anywhere; whether the key counts is decided by lists of trusted and revoked
keys. Public keys are written as OpenSSH writes them.
"""

import base64
import fcntl
import hashlib
import os
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from hvstack import conf, errors, paths, textfile
from hvstack.results.typed_json import Json

#: Directory of this machine's key pair and of the lists that commands change.
KEYS = paths.STATE / 'keys'
#: Directory of lists that the administrator maintains.
ADMINISTRATOR = paths.ETC
PRIVATE, PUBLIC = 'ed25519', 'ed25519.pub'
TRUSTED, REVOKED = 'trusted_keys', 'revoked_keys'
#: What a signature covers.
RECORD, EVIDENCE = 'run record', 'evidence'

_TYPE = 'ssh-ed25519'
_LINE = re.compile(rf'({_TYPE} [A-Za-z0-9+/=]{{40,120}})(?:[ \t]+(.*))?')
_MAX_COMMENT = 80
_MAX_LIST_BYTES = 1 << 20
_SIGNATURE_CHARACTERS = 88


@dataclass(frozen=True)
class Key:
    """A public key.

    :param text: type and key as in OpenSSH's files, without the comment.
    :param comment: name of the machine or person, for people only.
    :param source: file that contains it.
    """

    text: str
    comment: str = ''
    source: Path | None = None

    @property
    def fingerprint(self) -> str:
        """The fingerprint that ``ssh-keygen -l`` prints."""
        return fingerprint(self.text)

    @property
    def line(self) -> str:
        """The key as a line of a file."""
        return f'{self.text} {self.comment}'.rstrip()


def fingerprint(text: str) -> str:
    """Return the fingerprint of a public key.

    :param text: type and key as in OpenSSH's files.
    """
    blob = base64.b64decode(text.split()[1])
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode()
    return f'SHA256:{digest.rstrip("=")}'


def parse(line: str, source: Path | None = None) -> Key:
    """Return the key of a line.

    :param source: file that contains the line.
    :raises ValueError: the line is not an ed25519 public key.
    """
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise ValueError(f"not a line such as '{_TYPE} AAAA... host'")
    _public(match[1])
    comment = ''.join(c for c in match[2] or '' if c.isprintable())
    return Key(match[1], comment[:_MAX_COMMENT].strip(), source)


@lru_cache(maxsize=256)
def _public(text: str) -> Ed25519PublicKey:
    """Return a public key.

    :raises ValueError: the text is not an ed25519 public key.
    """
    try:
        key = serialization.load_ssh_public_key(text.encode())
    except (UnsupportedAlgorithm, ValueError) as exc:
        raise ValueError(f'not an {_TYPE} key ({exc})') from exc
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(f'not an {_TYPE} key')
    # Two texts of one key would make a revoked key another one.
    if _text(key) != text:
        raise ValueError(f'not an {_TYPE} key as OpenSSH writes it')
    return key


def _text(key: Ed25519PublicKey) -> str:
    return key.public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    ).decode()


def own_key() -> Ed25519PrivateKey:
    """Return the private key of this machine; create it if there is none.

    :raises hvstack.errors.MissingPrerequisiteError: it cannot be created or
        read, or other users can read it.
    """
    path = KEYS / PRIVATE
    try:
        if not path.exists():
            _create(path)
        status = path.stat()
        if status.st_mode & 0o077:
            raise errors.MissingPrerequisiteError(
                f'Cannot use the signing key ({path}): other users can read '
                "it. Run 'hvstack key revoke' for it: the next run creates "
                'another one.'
            )
        pem = textfile.read(path, _MAX_LIST_BYTES)
        # The library ignores what follows the key, such as the zeros of a
        # block that a power failure left.
        if '\0' in pem:
            raise ValueError('NUL')
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (errors.InputError, OSError) as exc:
        reason = getattr(exc, 'strerror', None) or str(exc).removesuffix('.')
        raise errors.MissingPrerequisiteError(
            f'Cannot use the signing key ({path}): {reason}. Restore it, or '
            'delete it to have another one created.'
        ) from exc
    except (TypeError, UnsupportedAlgorithm, ValueError) as exc:
        raise errors.MissingPrerequisiteError(
            f'Cannot use the signing key ({path}): it is not a private key '
            'in PEM format without a passphrase. Restore it, or delete it to '
            'have another one created.'
        ) from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise errors.MissingPrerequisiteError(
            f'Cannot use the signing key ({path}): it is not an ed25519 key. '
            'Delete it to have another one created.'
        )
    text = _text(key.public_key())
    if text in {other.text for other in revoked()}:
        raise errors.MissingPrerequisiteError(
            f'Cannot use the signing key ({path}): it is revoked. Delete it '
            'to have another one created.'
        )
    own = own_public()
    if own is None or own.text != text:
        line = f'{text} hvstack@{socket.gethostname()}\n'
        paths.write_whole(KEYS / PUBLIC, line)
    return key


def _create(path: Path) -> None:
    """Create a private key; of two processes the first one creates it.

    :raises OSError: it cannot be written.
    """
    paths.make_directory(path.parent)
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    # mkstemp creates a file that only its owner can read.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix='.new-key-')
    temporary = Path(name)
    try:
        with os.fdopen(handle, 'wb') as stream:
            stream.write(pem)
            stream.flush()
            os.fsync(stream.fileno())
        # A link fails where the file exists, a rename would replace it.
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return
    finally:
        temporary.unlink(missing_ok=True)
    paths.sync_directory(path.parent)


def sign(subject: str, content: str) -> dict[str, str]:
    """Return a signature by this machine's key.

    :param subject: :data:`RECORD` or :data:`EVIDENCE`.
    :param content: canonical text of what is signed.
    :raises hvstack.errors.MissingPrerequisiteError: the key cannot be used.
    """
    key = own_key()
    value = key.sign(_message(subject, content))
    return {
        'key': _text(key.public_key()),
        'value': base64.b64encode(value).decode(),
    }


def _message(subject: str, content: str) -> bytes:
    # The subject keeps a signed record from passing as signed evidence.
    return f'hvstack {subject} 1\n{content}'.encode()


def verify(subject: str, content: str, signature: Json) -> Key:
    """Return the key that made a signature.

    :param subject: :data:`RECORD` or :data:`EVIDENCE`.
    :param content: canonical text of what is signed.
    :raises ValueError: the content is not what was signed.
    """
    if not isinstance(signature, Mapping) or set(signature) != {
        'key',
        'value',
    }:
        raise ValueError('is not a key and a value')
    text, encoded = signature['key'], signature['value']
    if not isinstance(text, str) or not isinstance(encoded, str):
        raise ValueError('is not a key and a value')
    if not _LINE.fullmatch(text):
        raise ValueError(f'has a key that is not {_TYPE}')
    public = _public(text)
    if len(encoded) != _SIGNATURE_CHARACTERS:
        raise ValueError('has a value of a wrong length')
    try:
        public.verify(
            base64.b64decode(encoded, validate=True),
            _message(subject, content),
        )
    except (InvalidSignature, ValueError):
        raise ValueError('does not fit the content') from None
    return Key(text)


@dataclass(frozen=True)
class Policy:
    """The signatures that count.

    :param trusted: keys by their text.
    :param revoked: likewise.
    :param unsigned: count what is not signed by a trusted key, too.
    """

    trusted: Mapping[str, Key]
    revoked: Mapping[str, Key]
    unsigned: bool = False

    def assess(self, subject: str, content: str, signature: Json) -> str:
        """Return why something counts only on request; empty if it counts.

        :param subject: :data:`RECORD` or :data:`EVIDENCE`.
        :param content: canonical text of what is signed.
        :param signature: empty where there is none.
        :raises ValueError: it does not count, with the remedy.
        """
        if not signature:
            reason = 'is not signed'
            remedy = 'Use --unsigned to count it all the same'
        else:
            try:
                key = verify(subject, content, signature)
            except ValueError as exc:
                raise ValueError(
                    f'has a signature that {exc}: it was edited. Restore '
                    'it, or move it to another directory'
                ) from None
            if key.text in self.revoked:
                raise ValueError(
                    f'is signed by the revoked key {key.fingerprint}. '
                    'Measure it again'
                )
            if key.text in self.trusted:
                return ''
            reason = f'is signed by {key.fingerprint}, which is not trusted'
            remedy = (
                "Run 'hvstack key trust' with that key if you trust its "
                'machine, or use --unsigned'
            )
        if self.unsigned:
            return reason
        raise ValueError(f'{reason}. {remedy}')


def policy(unsigned: bool | None = None) -> Policy:
    """Return the signatures that count on this machine.

    This machine's own key is trusted unless it is revoked.

    :param unsigned: count what is not signed by a trusted key, too; None
        uses ``[records] unsigned`` of ``hvstack.conf``.
    :raises hvstack.errors.InputError: a list of keys or ``hvstack.conf`` is
        not valid.
    """
    if unsigned is None:
        unsigned = bool(conf.load().records.unsigned)
    return Policy(
        {key.text: key for key in trusted()},
        {key.text: key for key in revoked()},
        unsigned,
    )


def own_public() -> Key | None:
    """Return this machine's public key; None before its first run.

    :raises hvstack.errors.InputError: its file is not a public key.
    """
    return next(iter(_read_keys(KEYS / PUBLIC)), None)


def trusted() -> list[Key]:
    """Return the trusted keys, this machine's own first.

    :raises hvstack.errors.InputError: a list of keys is not valid.
    """
    blocked = {key.text for key in revoked()}
    own = own_public()
    keys = [
        *([own] if own else []),
        *_read_keys(ADMINISTRATOR / TRUSTED),
        *_read_keys(KEYS / TRUSTED),
    ]
    unique: dict[str, Key] = {}
    for key in keys:
        unique.setdefault(key.text, key)
    return [key for key in unique.values() if key.text not in blocked]


def revoked() -> list[Key]:
    """Return the revoked keys.

    :raises hvstack.errors.InputError: a list of keys is not valid.
    """
    return [
        *_read_keys(ADMINISTRATOR / REVOKED),
        *_read_keys(KEYS / REVOKED),
    ]


def _read_keys(path: Path) -> list[Key]:
    try:
        text = textfile.read(path, _MAX_LIST_BYTES)
    except textfile.MissingFileError:
        return []
    keys = []
    for line_number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith('#'):
            continue
        try:
            keys.append(parse(line, path))
        except ValueError as exc:
            raise errors.InputError(
                f'Cannot read the list of keys ({path}:{line_number}): {exc}. '
                'Correct or delete the line.'
            ) from exc
    return keys


def trust(key: Key) -> bool:
    """Add a key to the trusted ones.

    :returns: whether it was not trusted before.
    :raises hvstack.errors.InputError: it is revoked.
    :raises OSError: the list cannot be written.
    """
    with _locked():
        if key.text in {other.text for other in revoked()}:
            raise errors.InputError(
                f'Cannot trust {key.fingerprint}: it is revoked. Use a new '
                'key.'
            )
        if key.text in {other.text for other in trusted()}:
            return False
        _write(TRUSTED, [*_read_keys(KEYS / TRUSTED), key])
    return True


def revoke(key: Key) -> None:
    """Revoke a key: nothing that it signed counts any more.

    If it is this machine's own, its private key is deleted, and the next run
    creates another one.

    :raises OSError: the lists cannot be written.
    """
    with _locked():
        others = _read_keys(KEYS / REVOKED)
        if key.text not in {other.text for other in others}:
            _write(REVOKED, [*others, key])
        trusted_keys = _read_keys(KEYS / TRUSTED)
        if key.text in {other.text for other in trusted_keys}:
            remaining = [
                other for other in trusted_keys if other.text != key.text
            ]
            _write(TRUSTED, remaining)
        own = own_public()
        if own is not None and own.text == key.text:
            (KEYS / PRIVATE).unlink(missing_ok=True)
            (KEYS / PUBLIC).unlink(missing_ok=True)


def _write(name: str, keys: Iterable[Key]) -> None:
    lines = ''.join(f'{key.line}\n' for key in keys)
    paths.write_whole(KEYS / name, lines)


@contextmanager
def _locked() -> Iterator[None]:
    paths.make_directory(KEYS)
    with paths.open_lock(KEYS / '.lock') as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
