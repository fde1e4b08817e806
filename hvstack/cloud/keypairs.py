# SPDX-License-Identifier: Apache-2.0
"""Key pairs: the private half stays on this machine, for its owner only."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors, paths, processutils
from hvstack.cloud import journal
from hvstack.cloud.connection import refused, scope
from hvstack.results.typed_json import JsonObject

KIND = 'keypair'
DIRECTORY = paths.STATE / 'keys'


@dataclass(frozen=True)
class _CreatedKeyPair:
    """Data of an entry of the journal.

    :param name: name of the key pair.
    :param path: file of the private key.
    :param public_key: the public key; empty in entries of old releases.
    """

    name: str
    path: str
    public_key: str = ''


def create(conn: Connection, name: str) -> Path:
    """Make a key pair and return the private key's file (0600).

    :param name: of the key pair and of its files below :data:`DIRECTORY`.
    :raises hvstack.errors.InputError: the user has one of that name, or such
        a file exists.
    :raises hvstack.errors.MissingPrerequisiteError: ssh-keygen is missing
        here.
    :raises hvstack.errors.CloudError: Nova refused it.
    """
    if shutil.which('ssh-keygen') is None:
        raise errors.MissingPrerequisiteError(
            f"Cannot create key pair '{name}': this machine has no "
            'ssh-keygen. Install openssh-client, which hvstack also uses to '
            'connect to the nodes.'
        )
    # Before it is in the journal: undoing would delete the user's own.
    with refused(f"Cannot find key pair '{name}'"):
        exists = any(
            key_pair.name == name for key_pair in conn.compute.keypairs()
        )
    if exists:
        raise errors.InputError(
            f"Cannot create key pair '{name}': it already exists. Use another "
            f"name, or run 'openstack keypair delete {name}' if no user "
            'needs it.'
        )
    paths.make_directory(DIRECTORY)
    DIRECTORY.chmod(0o700)
    path = DIRECTORY / name
    with tempfile.TemporaryDirectory(prefix='.', dir=DIRECTORY) as new:
        private = Path(new) / name
        processutils.run(
            [
                *('ssh-keygen', '-q', '-t', 'ed25519', '-N', ''),
                *('-C', name, '-f', private),
            ]
        )
        public = _public(private).read_text(encoding='utf-8').strip()
        data = {'name': name, 'path': str(path), 'public_key': public}
        entry = journal.note(KIND, data, scope(conn))
        linked: list[Path] = []
        try:
            for key in (private, _public(private)):
                # Unlike a rename, a link fails if the name is in use.
                (DIRECTORY / key.name).hardlink_to(key)
                linked.append(DIRECTORY / key.name)
        except FileExistsError as exc:
            for target in linked:
                target.unlink()
            journal.forget(entry)
            raise errors.InputError(
                f"Cannot create key pair '{name}': {exc.filename2} exists. "
                'Use another name, or move the file if no cluster needs it.'
            ) from exc
    with refused(f"Cannot create key pair '{name}'"):
        conn.compute.create_keypair(name=name, public_key=public, type='ssh')
    return path


def undo(conn: Connection, data: JsonObject) -> None:
    """Delete a key pair that hvstack created, and its files.

    Nova knows key pairs by name alone: another key of that name stays.

    :param data: of the journal: ``name``, ``path`` and ``public_key``.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    created = journal.read_data(_CreatedKeyPair, data)
    name = created.name
    with refused(f"Cannot delete key pair '{name}'"):
        pair = conn.compute.find_keypair(name, ignore_missing=True)
        if pair is not None and _same(pair.public_key, created.public_key):
            conn.compute.delete_keypair(pair, ignore_missing=True)
    remove_files(data)


def remove_files(data: JsonObject) -> None:
    """Delete the files of a key pair, unless they hold another key.

    :param data: of the journal: ``name``, ``path`` and ``public_key``.
    """
    created = journal.read_data(_CreatedKeyPair, data)
    path = Path(created.path)
    public = _public(path)
    if path.parent != DIRECTORY or not public.is_file():
        return
    if _same(public.read_text(encoding='utf-8'), created.public_key):
        # The public key goes last: it shows whose the private one is.
        path.unlink(missing_ok=True)
        public.unlink()


def _public(path: Path) -> Path:
    """Return the file of the public key that belongs to a private key."""
    return path.with_name(f'{path.name}.pub')


def _same(public_key: str | None, created_key: str) -> bool:
    """Return whether a public key is that of an entry, comment aside."""
    expected = created_key.split()[:2]
    return len(expected) == 2 and str(public_key).split()[:2] == expected
