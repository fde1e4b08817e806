# SPDX-License-Identifier: Apache-2.0
"""Looking at compute hosts: libvirt's XML, /proc, nova.conf. Read only."""

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvstack import errors, shell
from hvstack.accept import domain
from hvstack.accept.domain import Domain
from hvstack.cluster.base import ShellNode
from hvstack.cluster.command import CommandNode
from hvstack.cluster.ssh import SSHNode

#: How a compute host can be reached.
ACCESS = ('none', 'local', 'command', 'ssh')
_HOST_PLACEHOLDER = '{host}'
_SECONDS = 60

#: What nova-compute reads of interest, in oslo.config's order: default files
#: and folders where its command line names none, then what that names. Its
#: passwords stay on the host.
_NOVA_CONF = r"""
export LC_ALL=C
for p in /proc/[0-9]*; do
    args=$(tr '\0' '\n' <"$p/cmdline" 2>/dev/null) || continue
    printf '%s\n' "$args" | grep -q '^[^ ]*nova-compute$' || continue
    given=$(printf '%s\n' "$args" | sed -n \
        -e 's/^--config-file=/file /p' -e 's/^--config-dir=/dir /p' \
        -e '/^--config-file$/{N;s/.*\n/file /p;}' \
        -e '/^--config-dir$/{N;s/.*\n/dir /p;}')
    text=$(
        for kind in file dir; do
            printf '%s\n' "$given" | grep -q "^$kind " && continue
            end=; [ $kind = dir ] && end=.d
            for name in nova.conf nova-compute.conf; do
                for folder in /etc/nova /etc; do
                    [ -e "$folder/$name$end" ] || continue
                    printf '%s\n' "$kind $folder/$name$end"
                    break
                done
            done
        done | {
            cat
            printf '%s\n' "$given"
        } | while read -r kind path; do
            [ "$path" ] || continue
            if [ "$kind" = dir ]; then
                set -- "$path"/*.conf
                [ -e "$1" ] || continue
            else
                set -- "$path"
            fi
            for one; do
                cat "$one" && echo || exit 4
            done
        done
    ) || exit 4
    printf '%s\n' "$text" |
        grep -E '^(\[|(cpu|ram)_allocation_ratio|cpu_(dedicated|shared)_set)'
    exit
done
echo 'no nova-compute runs here' >&2
exit 3
"""
#: Each thread of a guest's QEMU with the CPUs that it may run on.
_THREADS = r"""
name=%s
for p in /proc/[0-9]*; do
    tr '\0' '\n' <"$p/cmdline" 2>/dev/null |
        grep -qF -e "guest=$name," || continue
    for t in "$p"/task/*; do
        printf '%%s\t' "$(cat "$t/comm")"
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$t/status"
    done
    exit
done
echo 'no QEMU of that name runs here' >&2
exit 3
"""
#: The file system that each path is on.
_FILE_SYSTEMS = r"""
for path in %s; do
    if [ -b "$path" ]; then
        kind=device
    else
        real=$(readlink -f "$path") || exit
        kind=$(findmnt -n -o FSTYPE -T "$real" 2>/dev/null | tail -n 1)
        [ "$kind" ] || kind=$(stat -f -c %%T "$real") || exit
    fi
    printf '%%s\t%%s\n' "$kind" "$path"
done
"""


@dataclass(frozen=True)
class Access:
    """How compute hosts are reached.

    :param kind: one of :data:`ACCESS`.
    :param command: program that runs another one on ``{host}``.
    :param key: private key for ssh as root.
    :param uri: of libvirt on the host.
    :param directory: nobody else's, for ssh's connections, which :meth:`close`
        ends.
    """

    kind: str = 'none'
    command: str = ''
    key: str = ''
    uri: str = 'qemu:///system'
    directory: Path | None = None

    def node(self, host: str) -> ShellNode:
        """Return a host as a node that runs commands.

        :raises hvstack.errors.InputError: there is no way to it.
        """
        names: dict[str, Any] = {
            'name': host,
            'address': host,
            'role': 'host',
            'host': host,
        }
        if self.kind == 'local':
            return CommandNode(**names)
        if self.kind == 'command' and _HOST_PLACEHOLDER in self.command:
            return CommandNode(
                **names, enter=tuple(split_command(self.command, host))
            )
        if self.kind == 'ssh' and self.key and self.directory:
            return SSHNode(
                **names, key=Path(self.key), folder=self.directory / host
            )
        raise errors.InputError(
            f"host_access is '{self.kind}': give local, command with "
            f"host_command ('... {_HOST_PLACEHOLDER} ...'), or ssh with "
            'host_ssh_key'
        )

    def close(self) -> None:
        """End ssh's connections to all hosts, and remove their folder."""
        if self.directory is None:
            return
        for host_dir in self.directory.glob('*'):
            node = self.node(host_dir.name)
            if isinstance(node, SSHNode):
                node.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def split_command(command: str, host: str) -> list[str]:
    """Return a command for a host as words.

    :param command: with ``{host}`` in it.
    """
    return [
        word.replace(_HOST_PLACEHOLDER, host) for word in shlex.split(command)
    ]


def run_power_command(command: str, host: str) -> None:
    """Run a command of this machine that takes or gives a host's power.

    :raises hvstack.errors.CommandFailed: it failed.
    """
    shell.run(split_command(command, host), timeout=300)


def read_domain(access: Access, host: str, instance: str) -> Domain:
    """Return a running guest as libvirt has it.

    :param instance: Nova's instance name.
    :raises hvstack.errors.HVStackError: the host cannot be reached, or has
        no such guest.
    """
    # A name may be any text, even an option or a command of the shell.
    name = shlex.quote(f'--domain={instance}')
    return domain.parse_domain(_virsh(access, host, f'dumpxml {name}'))


def list_domains(access: Access, host: str) -> list[Domain]:
    """Return all guests that run on a host, whoever has them.

    :raises hvstack.errors.HVStackError: the host cannot be reached.
    """

    def names() -> list[str]:
        lines = _virsh(access, host, 'list --name').splitlines()
        return [line for line in lines if line.strip()]

    domains = []
    for name in names():
        try:
            domains.append(read_domain(access, host, name))
        except errors.CloudError:
            # Others' guests may end while we look.
            if name in names():
                raise
    return domains


def file_systems(
    access: Access, host: str, paths: Sequence[str]
) -> dict[str, str]:
    """Return on which kind of file system each path is, or ``device``.

    :raises hvstack.errors.HVStackError: the host cannot be reached, or has
        no such path.
    """
    text = _run(access, host, _FILE_SYSTEMS % shlex.join(paths))
    kinds = (line.partition('\t') for line in text.splitlines())
    return {path: kind for kind, _, path in kinds}


def read_cells(access: Access, host: str) -> dict[int, set[int]]:
    """Return the CPUs of a host's NUMA cells.

    :raises hvstack.errors.HVStackError: the host cannot be reached.
    """
    return domain.parse_cells(_virsh(access, host, 'capabilities'))


def read_threads(
    access: Access, host: str, instance: str
) -> dict[str, set[int]]:
    """Return where each thread of a guest's QEMU may run.

    :raises hvstack.errors.HVStackError: the host cannot be reached, or no
        such process is there.
    """
    return domain.parse_threads(
        _run(access, host, _THREADS % shlex.quote(instance))
    )


def read_nova_conf(access: Access, host: str) -> dict[str, str]:
    """Return what a host's nova-compute reads of ratios and CPU sets.

    :raises hvstack.errors.HVStackError: the host cannot be reached, or no
        nova-compute runs there.
    """
    return domain.parse_nova_conf(_run(access, host, _NOVA_CONF))


def _virsh(access: Access, host: str, command: str) -> str:
    uri = shlex.quote(access.uri)
    return _run(access, host, f'virsh -c {uri} {command}')


def _run(access: Access, host: str, command: str) -> str:
    """Run a command on a host and return what it printed.

    :raises hvstack.errors.CloudError: it failed; says what to look at.
    """
    node = access.node(host)
    try:
        return node.run(command, timeout=_SECONDS).stdout
    except errors.CommandFailed as exc:
        reason = ' '.join(exc.tail.split()) or f'status {exc.returncode}'
    except errors.DeadlineExceeded:
        reason = f'no answer in {_SECONDS} s'
    raise errors.CloudError(
        f'host {host} cannot be looked at: {reason[-300:]}: see to [hvstack] '
        f'host_access ({access.kind}) and libvirt_uri ({access.uri}), or take '
        'host_access none, which leaves hosts not checked'
    )
