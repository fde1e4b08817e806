# SPDX-License-Identifier: Apache-2.0
"""The stages before a cluster: from the installation to the image.

They follow the page "Quick start on your own cloud" of the user guide. Where
the page does not suffice, a comment says what the user adds.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from hvstack import processutils
from hvstack.cluster import baseline_hosts
from hvstack.lab import images
from hvstack.progress import Progress
from tests.long import ssh_hosts
from tests.long.other_cloud import state as names
from tests.long.other_cloud.cloud import OtherCloud
from tests.long.other_cloud.state import say
from tests.long.other_cloud.user import CommandFailedError

ADMIN = {'OS_CLOUD': names.ADMIN_CLOUD}
APPLICATION = {'OS_CLOUD': names.APPLICATION_CLOUD}
#: Size of a root disk in GB; the default of 40 does not fit the lab.
_ROOT_GB = 12
#: Data of a run: the sweep is to show function, not figures.
SIZE = '20MB'
#: Options of 'host detect', from none to all: no API reports what is missing.
_DETECT_OPTIONS = (
    (),
    ('--cells', '1'),
    ('--cells', '1', '--sockets', '1'),
    ('--cells', '1', '--sockets', '1', '--threads', '1'),
    ('--cells', '1', '--sockets', '1', '--threads', '2'),
)
_JUMP_SECONDS = 180


def install(cloud: OtherCloud) -> None:
    """Build the wheel and install it as the user."""
    cloud.user.install()
    cloud.user.hvstack('--version')


def credentials(cloud: OtherCloud) -> None:
    """Create clouds.yaml, a key and an application credential."""
    user = cloud.user
    user.write_clouds()
    user.refused(
        *('doctor', '--host', 'vsphere6', '--os-cloud', names.BLIND_CLOUD),
        word='cacert',
    )
    user.openstack(names.CLOUD, 'catalog', 'list')
    if not user.key.exists():
        user.run(
            *('/usr/bin/ssh-keygen', '-q', '-t', 'ed25519', '-N', ''),
            *('-f', user.key),
        )
    if not cloud.state.get('credential'):
        if cloud.state.is_retry():
            user.openstack(
                *(names.CLOUD, 'application', 'credential', 'delete'),
                'hvstack',
                status=None,
            )
        created = user.openstack(
            names.CLOUD,
            *('application', 'credential', 'create', 'hvstack', '-f', 'json'),
        )
        # Some releases of python-openstackclient print the names in titles.
        fields = {
            name.lower(): value
            for name, value in json.loads(created.stdout).items()
        }
        cloud.state.note(
            'credential',
            {
                'application_credential_id': fields['id'],
                'application_credential_secret': fields['secret'],
            },
        )
    user.write_clouds()
    user.openstack(names.APPLICATION_CLOUD, 'flavor', 'list')


def write_conf(cloud: OtherCloud) -> None:
    """Write hvstack.conf of the user."""
    home = cloud.user.home
    sections: dict[str, dict[str, str]] = {
        'cloud': {
            'host_profile': str(home / f'{names.WORKER_PROFILE}.yaml'),
            'controller_profile': str(
                home / f'{names.CONTROLLER_PROFILE}.yaml'
            ),
            'network': names.NETWORK
            if names.has_tenant_network()
            else names.EXTERNAL,
        },
        # Containers cannot drop caches, so that bare metal must not either.
        'benchmark': {'drop_caches': 'false'},
        'sweep': {'baseline_hosts': str(home / 'bare-metal.yaml')},
    }
    if (home / 'ssh_config').exists():
        sections['cloud']['ssh_config'] = str(home / 'ssh_config')
    lines = [
        line
        for section, options in sections.items()
        for line in (
            f'[{section}]',
            *(f'{name} = {value}' for name, value in options.items()),
        )
    ]
    cloud.user.write(
        cloud.user.config / 'hvstack.conf', '\n'.join([*lines, ''])
    )


def _detect(cloud: OtherCloud, host: str, profile: str) -> dict[str, Any]:
    """Return the profile of a host of the cloud."""
    for options in _DETECT_OPTIONS:
        done = cloud.user.hvstack(
            *('host', 'detect', '--os-cloud', names.ADMIN_CLOUD),
            *('--from-cloud', host, '--name', profile, '--disks', 'none'),
            *options,
            status=None,
        )
        if not done.returncode:
            say(f'hosts: {host} needs the options {options or "none"}')
            return dict(yaml.safe_load(done.stdout))
        say(f'hosts: {done.stderr.strip()[-300:]}')
    raise CommandFailedError(f'no profile of {host}: {done.stderr}')


def hosts(cloud: OtherCloud) -> None:
    """Describe the two kinds of hosts, with the traits of each."""
    by_trait = cloud.state.get('hosts')
    for profile, role, trait in (
        (names.WORKER_PROFILE, 'worker', names.WORKER_TRAIT),
        (names.CONTROLLER_PROFILE, 'controller', names.CONTROLLER_TRAIT),
    ):
        data = _detect(cloud, by_trait[trait][0], profile)
        # The page has no hosts of several kinds: the table of fields in
        # "Flavors" names the traits.
        data |= {'root_gb': _ROOT_GB, 'traits': {role: trait}}
        path = cloud.user.home / f'{profile}.yaml'
        cloud.user.write(path, yaml.safe_dump(data, sort_keys=False))
        cloud.user.hvstack('host', 'show', f'./{path.name}')
    write_conf(cloud)
    cloud.user.hvstack('host', 'nova-conf', f'./{names.WORKER_PROFILE}.yaml')


def baseline(cloud: OtherCloud) -> None:
    """Measure bare metal over SSH, while no guest is on the hosts."""
    program = shutil.which('nft')
    assert program, 'needs nft (Debian package nftables)'
    user = cloud.user
    public_key = user.key.with_suffix('.pub').read_text('utf-8')
    built = images.build('hadoop', Progress(), outputs=['lxc', 'rootfs'])
    lab_hosts = baseline_hosts.read()
    cloud.state.note('bare', True)
    try:
        lines = []
        for host in lab_hosts:
            ssh_hosts.start_sshd(host, public_key)
            ssh_hosts.copy_nft(host, program, names.BASE)
            key = processutils.run(
                [*host.enter, 'cat', '/etc/ssh/ssh_host_ed25519_key.pub']
            ).stdout
            lines.append(f'{host.address} {" ".join(key.split()[:2])}')
        user.write(user.home / 'hosts_keys', '\n'.join([*lines, '']))
        inventory = {
            'key': str(user.key),
            'known_hosts': str(user.home / 'hosts_keys'),
            'rootfs': str(built.outputs['rootfs']),
            'hosts': [
                {
                    'name': host.name,
                    'role': host.role,
                    'address': host.address,
                    'vcpus': host.vcpus,
                    'memory_mib': host.memory_mib,
                }
                for host in lab_hosts
            ],
        }
        user.write(user.home / 'bare-metal.yaml', yaml.safe_dump(inventory))
        command = ('baseline', 'run', '--hosts', 'bare-metal.yaml')
        user.hvstack(*command, '--dry-run')
        user.hvstack(*command, '--size', SIZE, timeout=3600)
        user.hvstack('baseline', 'list')
    finally:
        cloud.release_hosts()


def _list_faults(
    cloud: OtherCloud, done: subprocess.CompletedProcess[str]
) -> dict[str, str]:
    """Return the checks of doctor that failed, with their details."""
    rows = cloud.user.read_json(done)
    for row in rows:
        say(f'doctor: {row["Check"]}: {row["State"]}: {row["Detail"]}')
    return {
        row['Check']: row['Detail']
        for row in rows
        if row['State'] not in ('ok', 'not checked', 'note')
    }


def doctor(cloud: OtherCloud) -> None:
    """Check the cloud before it has the image."""
    command = ('doctor', '--configuration', 'i2', '-f', 'json')
    done = cloud.user.hvstack(*command, status=None, **ADMIN)
    faults = _list_faults(cloud, done)
    cloud.state.expect(
        set(faults) == {'image'},
        f'doctor of the administrator reports {faults}, not only the image',
    )
    done = cloud.user.hvstack(*command, status=None, **APPLICATION)
    cloud.state.expect(
        done.returncode == 1, 'doctor of a member did not exit with status 1'
    )
    say(f'doctor of a member: {_list_faults(cloud, done)}')


def flavors(cloud: OtherCloud) -> None:
    """Derive the flavors, check them, and publish them for the project."""
    user = cloud.user
    for profile, configurations in (
        (names.WORKER_PROFILE, ('i1', 'i2')),
        (names.CONTROLLER_PROFILE, ('i1', 'i2')),
    ):
        host = ('--host', f'./{profile}.yaml')
        catalogue = user.hvstack('flavor', 'catalogue', *host, *configurations)
        file = f'{profile}-flavors.yaml'
        user.write(user.home / file, catalogue.stdout)
        user.hvstack('flavor', 'lint', file, *host)
        publish = ('flavor', 'publish', file, *host, '--include-candidates')
        user.hvstack(*publish, '--dry-run', **ADMIN)
        # Without --project, members see no private flavor.
        user.hvstack(*publish, '--project', names.PROJECT, **ADMIN)
    user.hvstack('flavor', 'list', **APPLICATION)


def image(cloud: OtherCloud) -> None:
    """Upload the image that root has built on this machine."""
    user = cloud.user
    command = ('image', 'upload', '--output', 'lxc')
    user.refused(*command, word='root', **ADMIN)
    # The user's own cache has no image.
    user.hvstack(*command, XDG_CACHE_HOME='/var/cache', timeout=1200, **ADMIN)
    done = user.hvstack(
        *('doctor', '--configuration', 'i2', '-f', 'json'),
        status=None,
        **ADMIN,
    )
    faults = _list_faults(cloud, done)
    cloud.state.expect(
        not faults and not done.returncode,
        f'doctor reports {faults} with status {done.returncode}',
    )


def jump(cloud: OtherCloud) -> None:
    """Create a key pair, and a server through which the user reaches nodes."""
    user = cloud.user
    member = names.APPLICATION_CLOUD
    if cloud.state.is_retry():
        for resource in (
            ('server', 'delete', '--wait', names.JUMP),
            ('security', 'group', 'delete', 'other-ssh'),
            ('keypair', 'delete', 'other'),
        ):
            user.openstack(member, *resource, status=None)
    user.openstack(
        member, 'keypair', 'create', '--public-key', f'{user.key}.pub', 'other'
    )
    if not names.has_tenant_network():
        return
    group = ('security', 'group')
    user.openstack(member, *group, 'create', 'other-ssh')
    user.openstack(
        *(member, *group, 'rule', 'create', '--protocol', 'tcp'),
        *('--dst-port', '22', '--remote-ip', '0.0.0.0/0', 'other-ssh'),
    )
    user.openstack(
        *(member, 'server', 'create', '--flavor', names.JUMP, '--image'),
        *(names.IMAGE, '--network', names.NETWORK, '--key-name', 'other'),
        *('--security-group', 'other-ssh', '--wait', names.JUMP),
    )
    created = user.openstack(
        *(member, 'floating', 'ip', 'create', names.EXTERNAL, '-f', 'json')
    )
    address = json.loads(created.stdout)['floating_ip_address']
    user.openstack(
        member, 'server', 'add', 'floating', 'ip', names.JUMP, address
    )
    user.write(
        user.home / 'ssh_config',
        f'Host {names.JUMP}\n'
        f'    HostName {address}\n'
        '    User root\n'
        f'    IdentityFile {user.key}\n'
        '    IdentitiesOnly yes\n'
        f'    UserKnownHostsFile {user.home}/jump_keys\n'
        '    StrictHostKeyChecking accept-new\n'
        f'Host {names.ADDRESSES}\n'
        f'    ProxyJump {names.JUMP}\n',
    )
    write_conf(cloud)
    _wait_for_jump(cloud, user.home / 'ssh_config')


def _wait_for_jump(cloud: OtherCloud, config: Path) -> None:
    end = time.monotonic() + _JUMP_SECONDS
    command = (
        *('/usr/bin/ssh', '-F', config, '-o', 'BatchMode=yes'),
        *('-o', 'ConnectTimeout=10', names.JUMP, 'uptime'),
    )
    while time.monotonic() < end:
        if not cloud.user.run(*command, status=None).returncode:
            return
        time.sleep(5)
    cloud.user.run(*command)
