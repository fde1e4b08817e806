# SPDX-License-Identifier: Apache-2.0
"""Read-only inspection of compute hosts: libvirt's XML, /proc, nova.conf."""

import configparser
import ipaddress
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hvstack import errors, processutils, shell_scripts
from hvstack.accept import libvirt_domain
from hvstack.accept.libvirt_domain import Domain
from hvstack.cluster.base import ShellNode
from hvstack.cluster.command_node import CommandNode
from hvstack.cluster.ssh import SSHNode
from hvstack.model.plain_data import Json

#: Methods of access to compute hosts.
ACCESS = ('none', 'local', 'command', 'ssh')
_HOST_PLACEHOLDER = '{host}'
_SECONDS = 60


@dataclass(frozen=True)
class Access:
    """Access to compute hosts.

    :param host_access: one of :data:`ACCESS`.
    :param command: command that runs a program on ``{host}``.
    :param key: private key for ssh as root.
    :param ssh_config: configuration file of ssh, for example with a
        ProxyJump; empty for none.
    :param uri: URI of libvirt on the host.
    :param directory: private directory for ssh connections, which
        :meth:`close` closes; None without ssh.
    :param addresses: address for ssh by host name; other hosts are reached
        by their names.
    """

    host_access: str = 'none'
    command: str = ''
    key: str = ''
    ssh_config: str = ''
    uri: str = 'qemu:///system'
    directory: Path | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    _ssh_nodes: dict[str, SSHNode] = field(
        default_factory=dict, repr=False, compare=False
    )

    def node(self, host: str) -> ShellNode:
        """Return a host as a node that runs commands.

        :param host: host name.
        :raises hvstack.errors.InputError: the access is not configured.
        """
        if self.host_access == 'local':
            return CommandNode(host, host, 'host', host)
        if self.host_access == 'command' and _HOST_PLACEHOLDER in self.command:
            return CommandNode(
                *(host, host, 'host', host),
                enter=tuple(split_command(self.command, host)),
            )
        if self.host_access == 'ssh' and self.key and self.directory:
            if host not in self._ssh_nodes:
                self._ssh_nodes[host] = SSHNode(
                    *(host, self.addresses.get(host, host), 'host', host),
                    key=Path(self.key),
                    config=Path(self.ssh_config) if self.ssh_config else None,
                    # With the name of the host, the path of the socket would
                    # be longer than the 107 characters of unix(7).
                    directory=self.directory / str(len(self._ssh_nodes)),
                )
            return self._ssh_nodes[host]
        raise errors.InputError(
            f"Cannot access hosts (host_access '{self.host_access}'): the "
            'access is not configured. Use local, command with host_command '
            f"('... {_HOST_PLACEHOLDER} ...'), or ssh with host_ssh_key."
        )

    def close(self) -> None:
        """Close the ssh connections to all hosts, and delete the directory."""
        if self.directory is None:
            return
        for node in self._ssh_nodes.values():
            node.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def map_addresses(
    hypervisors: Sequence[Mapping[str, Json]],
) -> dict[str, str]:
    """Return the addresses of hosts, by all names that Nova gives them.

    The name of a hypervisor need not resolve on this machine.

    :param hypervisors: answer of Nova to "List Hypervisors Details".
    """
    addresses: dict[str, str] = {}
    for hypervisor in hypervisors:
        try:
            address = ipaddress.ip_address(
                str(hypervisor.get('host_ip') or '')
            )
        except ValueError:
            continue
        if address.is_loopback or address.is_unspecified:
            continue
        names = [hypervisor['hypervisor_hostname']]
        service = hypervisor.get('service')
        if isinstance(service, Mapping):
            names.append(service.get('host'))
        addresses |= {str(name): str(address) for name in names if name}
    return addresses


def split_command(command: str, host: str) -> list[str]:
    """Return the arguments of a command for a host.

    :param command: command line that contains ``{host}``.
    :param host: host name.
    """
    return [
        word.replace(_HOST_PLACEHOLDER, host) for word in shlex.split(command)
    ]


def run_power_command(command: str, host: str) -> None:
    """Run a local command that powers a host off or on.

    :param command: command line that contains ``{host}``.
    :param host: host name.
    :raises hvstack.errors.CommandError: the command failed.
    """
    processutils.run(split_command(command, host), timeout=300)


def read_domain(access: Access, host: str, instance: str) -> Domain:
    """Return the libvirt domain of a running guest.

    :param access: access to the host.
    :param host: host name.
    :param instance: Nova's instance name.
    :raises hvstack.errors.HVStackError: the host cannot be reached, or the
        guest does not run.
    """
    return libvirt_domain.parse_domain(read_domain_xml(access, host, instance))


def read_domain_xml(access: Access, host: str, instance: str) -> str:
    """Return the XML of a running guest.

    :param access: access to the host.
    :param host: host name.
    :param instance: Nova's instance name.
    :raises hvstack.errors.HVStackError: the host cannot be reached, or the
        guest does not run.
    """
    # A name can be any text, even an option or a shell command.
    return _virsh(access, host, 'dumpxml', f'--domain={instance}')


def list_domains(access: Access, host: str) -> list[Domain]:
    """Return all guests that run on a host, of all projects.

    :raises hvstack.errors.HVStackError: the host cannot be reached.
    """
    return [
        libvirt_domain.parse_domain(xml)
        for xml in list_domain_xml(access, host)
    ]


def list_domain_xml(access: Access, host: str) -> list[str]:
    """Return the XML of all guests that run on a host, of all projects.

    :raises hvstack.errors.HVStackError: the host cannot be reached.
    """

    def names() -> list[str]:
        lines = _virsh(access, host, 'list', '--name').splitlines()
        return [line for line in lines if line.strip()]

    domains = []
    for name in names():
        try:
            domains.append(read_domain_xml(access, host, name))
        except errors.CloudError:
            # Guests of other users may end in the meantime.
            if name in names():
                raise
    return domains


def file_systems(
    access: Access, host: str, paths: Sequence[str]
) -> dict[str, str]:
    """Return the type of the file system of each path, or ``device``.

    :raises hvstack.errors.HVStackError: the host cannot be reached, or a path
        does not exist.
    """
    text = _run(access, host, shell_scripts.render('file-systems', *paths))
    kinds = (line.partition('\t') for line in text.splitlines())
    return {path: file_system for file_system, _, path in kinds}


def read_cells(access: Access, host: str) -> dict[int, set[int]]:
    """Return the CPUs of a host's NUMA cells.

    :raises hvstack.errors.HVStackError: the host cannot be reached.
    """
    return libvirt_domain.parse_cells(_virsh(access, host, 'capabilities'))


def read_threads(
    access: Access, host: str, instance: str
) -> dict[str, set[int]]:
    """Return the allowed CPUs of each thread of a guest's QEMU.

    :raises hvstack.errors.HVStackError: the host cannot be reached, or the
        process does not exist.
    """
    return libvirt_domain.parse_threads(
        _run(access, host, shell_scripts.render('guest-threads', instance))
    )


def read_nova_conf(access: Access, host: str) -> dict[str, str]:
    """Return the allocation ratios and CPU sets of a host's nova-compute.

    :raises hvstack.errors.HVStackError: the host cannot be reached, or
        nova-compute does not run.
    """
    text = _run(access, host, shell_scripts.load('nova-options'))
    try:
        return libvirt_domain.parse_nova_conf(text)
    except configparser.Error:
        # A program that splits the command into words can print anything,
        # also variables with passwords.
        raise _build_error(
            *(errors.HostAccessError, access, host),
            'the output is not that of the command',
        ) from None


def read_facts(access: Access, host: str) -> dict[str, str]:
    """Return facts of a host's CPUs, of KVM and of its huge pages.

    :raises hvstack.errors.HVStackError: the host cannot be reached.
    """
    program = shell_scripts.load('hardware')
    output = _run(access, host, program + shell_scripts.load('kvm-host-facts'))
    return parse_facts(output)


def parse_facts(output: str) -> dict[str, str]:
    """Parse lines with a name, an equals sign and a value."""
    lines = (line.partition('=') for line in output.splitlines())
    return {name: value for name, mark, value in lines if mark}


def read_bridges(access: Access, host: str) -> dict[str, str]:
    """Return the type of the data path of Open vSwitch by bridge.

    :raises hvstack.errors.HVStackError: the host cannot be reached, or does
        not run Open vSwitch.
    """
    program = shell_scripts.load('find-namespace')
    output = _run(access, host, program + shell_scripts.load('ovs-bridges'))
    lines = (line.partition(' ') for line in output.splitlines())
    # An empty datapath_type is the default.
    return {name: kind.strip() or 'system' for name, _, kind in lines if name}


def _virsh(access: Access, host: str, *command: str) -> str:
    args = ('-c', access.uri, *command)
    program = shell_scripts.load('find-namespace')
    return _run(access, host, program + shell_scripts.render('virsh', *args))


def _runs_commands(node: ShellNode) -> bool:
    """Return whether a command that does nothing succeeds on a host.

    A program such as ssh, which joins its arguments, is no access: the shell
    of the host would split the commands into words.
    """
    try:
        result = node.run('[ "a  b" = "a  b" ]', timeout=_SECONDS, check=False)
        return result.returncode == 0
    except (errors.DeadlineExceededError, errors.HostKeyError):
        return False


def _run(access: Access, host: str, command: str) -> str:
    """Run a command on a host and return its output.

    :raises hvstack.errors.HostAccessError: no command runs on the host.
    :raises hvstack.errors.CloudError: the command failed.
    """
    node = access.node(host)
    error = errors.CloudError
    try:
        return node.run(command, timeout=_SECONDS).stdout
    except errors.CommandError as exc:
        reason = ' '.join(exc.tail.split()) or f'status {exc.returncode}'
    except (errors.DeadlineExceededError, errors.HostKeyError) as exc:
        reason = ' '.join(str(exc).split())
    if not _runs_commands(node):
        error = errors.HostAccessError
    raise _build_error(error, access, host, reason)


def _build_error(
    kind: type[errors.CloudError], access: Access, host: str, reason: str
) -> errors.CloudError:
    """Return the error of a host that cannot be inspected."""
    return kind(
        f'Cannot inspect the host {host}: {reason[-300:]}. Check [hvstack] '
        f'host_access ({access.host_access}) and libvirt_uri ({access.uri}), '
        'or use host_access none, so that hosts are not checked.'
    )
