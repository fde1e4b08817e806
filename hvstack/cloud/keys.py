# SPDX-License-Identifier: Apache-2.0
"""Key pairs: the private half stays on this machine, for its owner only."""

import shutil
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from hvstack import errors, paths, shell
from hvstack.cloud import journal
from hvstack.cloud.connection import refused, scope

KIND = 'keypair'
FOLDER = paths.STATE / 'keys'


def create(conn: Connection, name: str) -> Path:
    """Make a key pair and return the private key's file (0600).

    :raises hvstack.errors.InputError: the user has one of that name.
    :raises hvstack.errors.MissingPrerequisite: there is no ssh-keygen here.
    :raises hvstack.errors.CloudError: Nova refused it.
    """
    if shutil.which('ssh-keygen') is None:
        raise errors.MissingPrerequisite(
            'ssh-keygen is not on this machine: install openssh-client, by '
            'which hvstack reaches the nodes, too'
        )
    # Before it is in the journal: undoing would delete the user's own.
    with refused(f"key pair '{name}' cannot be looked up"):
        there = any(one.name == name for one in conn.compute.keypairs())
    if there:
        raise errors.InputError(
            f"a key pair '{name}' is there already: take another name, or "
            f"'openstack keypair delete {name}' if nobody needs it"
        )
    paths.make_directory(FOLDER)
    FOLDER.chmod(0o700)
    path = FOLDER / name
    journal.note(KIND, {'name': name, 'path': str(path)}, scope(conn))
    remove_files(path)
    shell.run(
        ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', path]
    )
    public = path.with_name(f'{name}.pub').read_text(encoding='utf-8').strip()
    with refused(f"Nova did not take the key pair '{name}'"):
        conn.compute.create_keypair(name=name, public_key=public, type='ssh')
    return path


def undo(conn: Connection, data: dict[str, Any]) -> None:
    """Delete a key pair that we made, both halves."""
    with refused(f"key pair '{data['name']}' cannot be deleted"):
        conn.compute.delete_keypair(data['name'], ignore_missing=True)
    remove_files(Path(data['path']))


def remove_files(path: Path) -> None:
    """Delete the files of a key pair.

    :param path: file of the private key.
    """
    path.unlink(missing_ok=True)
    path.with_name(f'{path.name}.pub').unlink(missing_ok=True)
