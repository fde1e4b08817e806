# SPDX-License-Identifier: Apache-2.0
"""The stages with a cluster: a member's stack, acceptance, and a sweep."""

import json
import re
import subprocess
import time
from typing import Any

import yaml

from tests.long.other_cloud import state as names
from tests.long.other_cloud.cloud import OtherCloud
from tests.long.other_cloud.stages import ADMIN, APPLICATION, SIZE
from tests.long.other_cloud.state import say

STACK = 'mine'
#: More workers than the quota of Nova has instances.
_TOO_MANY = ('--hosts', '24')
_STACK_SECONDS = 2400
#: A fact in the message that two runs are not comparable.
_DIFFERENCE = re.compile(r'\b(\w+) is .{0,220}? here and ')
#: Until Hadoop runs on a complete stack.
_READY_SECONDS = 400
_MEASURE_SECONDS = 10_800


def _list_flavors(cloud: OtherCloud) -> dict[str, str]:
    """Return the names of the flavors of i1, by role."""
    flavors: dict[str, str] = {}
    for profile in (names.WORKER_PROFILE, names.CONTROLLER_PROFILE):
        path = cloud.user.home / f'{profile}-flavors.yaml'
        for flavor in yaml.safe_load(path.read_text('utf-8'))['flavors']:
            flavors.setdefault(flavor['role'], flavor['name'])
    return flavors


def environment(cloud: OtherCloud) -> None:
    """Write the environment of a stack, and try what cannot be created."""
    user, flavors = cloud.user, _list_flavors(cloud)
    command = (
        *('cluster', 'environment', '--configuration', 'i1'),
        *('--worker-flavor', flavors['worker'], '--key-name', 'other'),
        *('--controller-flavor', flavors['controller']),
    )
    user.refused(
        *command, *_TOO_MANY, word='openstack quota set', **APPLICATION
    )
    file = f'{STACK}.yaml'
    worker_hosts = cloud.state.get('hosts')[names.WORKER_TRAIT]
    hosts = ('--hosts', str(len(worker_hosts)))
    done = user.hvstack(*command, *hosts, file, **APPLICATION)
    cloud.state.expect(
        'application credential' in done.stderr,
        'cluster environment does not report that this application '
        f'credential cannot create the stack: {done.stderr!r}',
    )
    done = user.hvstack(*command, *hosts, file, OS_CLOUD=names.CLOUD)
    cloud.state.expect(
        'application credential' not in done.stderr,
        f'cluster environment warns a user with a password: {done.stderr!r}',
    )


def create(cloud: OtherCloud) -> None:
    """Plan the cluster of the page, with each credential of the member."""
    command = (
        *('cluster', 'create', 'mycluster', '--configuration', 'i2'),
        *('--dry-run', '--os-cloud', names.ADMIN_CLOUD, '--tenant-os-cloud'),
    )
    cloud.user.refused(
        *command, names.APPLICATION_CLOUD, word='application credential'
    )
    cloud.user.hvstack(*command, names.CLOUD)


def _create_args(cloud: OtherCloud) -> tuple[str, ...]:
    """Return the arguments of 'openstack stack create'."""
    user = cloud.user

    def path(name: str) -> str:
        return user.hvstack('template', 'path', name).stdout.strip()

    args = ('-t', path('hadoop-cluster'), '-e', f'{STACK}.yaml')
    if not names.has_tenant_network():
        return args
    return (
        *args,
        *('-e', path('environments/network-new')),
        *('--parameter', f'external_network={names.EXTERNAL}'),
        *('--parameter', 'dns_nameservers=0.0.0.0'),
    )


def stack(cloud: OtherCloud) -> None:
    """Create a stack as the member, check its topology, delete it."""
    user = cloud.user
    args = _create_args(cloud)
    creation = ('stack', 'create', *args, '--wait')
    delete = ('stack', 'delete', '--yes', '--wait')
    if cloud.state.is_retry():
        user.openstack(
            *(names.CLOUD, *delete, STACK),
            status=None,
            timeout=_STACK_SECONDS,
        )
    done = user.openstack(
        *(names.APPLICATION_CLOUD, *creation, 'refused'),
        status=None,
        timeout=900,
    )
    say(f'stack: {done.stderr.strip()[-500:]}')
    if not cloud.state.expect(
        done.returncode, 'Heat created a stack with an application credential'
    ):
        user.openstack(names.CLOUD, *delete, 'refused')
    user.openstack(names.CLOUD, *creation, STACK, timeout=_STACK_SECONDS)
    user.openstack(
        *(names.APPLICATION_CLOUD, 'stack', 'output', 'show', STACK),
        *('--all', '-f', 'json'),
    )
    check_topology(cloud)
    user.openstack(names.CLOUD, *delete, STACK, timeout=_STACK_SECONDS)
    remaining = user.openstack(
        names.APPLICATION_CLOUD, 'server', 'list', '-f', 'json'
    )
    servers = [row['Name'] for row in user.read_json(remaining)]
    cloud.state.expect(
        set(servers) <= {names.JUMP}, f'servers remain: {servers}'
    )


def check_topology(cloud: OtherCloud) -> None:
    """Show, write and check the topology of the stack.

    The stack is complete before Hadoop runs, and its workers have no table of
    the topology yet.
    """
    topology = ('cluster', 'topology', STACK, '--key', str(cloud.user.key))

    def run(*args: str, status: int | None = 0) -> tuple[int, str]:
        done = cloud.user.hvstack(
            *topology, *args, status=status, timeout=900, **APPLICATION
        )
        say(f'stack: topology: {done.stderr.strip()[-300:]}')
        return done.returncode, done.stdout

    run()
    end = time.monotonic() + _READY_SECONDS
    # Without Hadoop, the command prints no table.
    while not run('--check', status=None)[1].strip():
        cloud.state.expect(
            time.monotonic() < end, 'the check of the topology is not possible'
        )
        if time.monotonic() > end:
            break
        time.sleep(10)
    while run('--refresh', status=None)[0] and time.monotonic() < end:
        time.sleep(10)
    run('--check')


def accept(cloud: OtherCloud) -> None:
    """Run the acceptance tests of members and operators."""
    user = cloud.user
    accounts = user.write_accounts()
    done = user.hvstack(
        *('accept', '--accounts', accounts, '--include-candidates'),
        *('--catalogue', f'{names.WORKER_PROFILE}-flavors.yaml'),
        *('--catalogue', f'{names.CONTROLLER_PROFILE}-flavors.yaml'),
        *('--configuration', 'i1', '--scope', 'tenant'),
        *('--scope', 'operator', '--allow-unchecked', '-f', 'json'),
        status=None,
        timeout=_MEASURE_SECONDS,
        **ADMIN,
    )
    rows: list[dict[str, Any]] = (
        user.read_json(done) if done.stdout.startswith('[') else []
    )
    for row in rows:
        say(f'accept: {row["Verdict"]}: {row["Test"]}: {row["Why"]}')
    failed = [row['Test'] for row in rows if row['Verdict'] == 'failed']
    cloud.state.expect(
        rows and not done.returncode,
        f'accept exited with status {done.returncode}: {failed} '
        f'{done.stderr[-2000:]}',
    )


def sweep(cloud: OtherCloud) -> None:
    """Measure i1 and i2, compared with the recorded baseline."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        done = cloud.user.hvstack(
            *('sweep', 'run', '--host', f'./{names.WORKER_PROFILE}.yaml'),
            *('--values', 'instances=1,2'),
            *('--size', SIZE, '--runs', '1', '--baseline', 'auto'),
            *('--strategy', 'one-at-a-time', *args),
            status=None,
            timeout=_MEASURE_SECONDS,
            **ADMIN,
        )
        cloud.state.expect(
            not done.returncode,
            f'sweep run {" ".join(args)} exited with status '
            f'{done.returncode}: {done.stderr[-3000:]}',
        )
        return done

    done = run()
    facts = sorted(set(_DIFFERENCE.findall(done.stderr)))
    if done.returncode and facts:
        # Bare metal and containers of the lab differ in this: the note names
        # it, and the other commands are tried anyway.
        run(*(word for fact in facts for word in ('--allow', fact)))


def report(cloud: OtherCloud) -> None:
    """Report the percentages of bare metal."""
    done = cloud.user.hvstack('report')
    say(done.stdout)
    for label in ('i1', 'i2'):
        cloud.state.expect(
            re.search(rf'^\s*{label}\s.*\d+\.\d', done.stdout, re.MULTILINE),
            f'the report has no percentage of {label}',
        )
    cloud.user.hvstack('sweep', 'list')
    done = cloud.user.openstack(
        names.APPLICATION_CLOUD, 'stack', 'list', '-f', 'json'
    )
    stacks = json.loads(done.stdout)
    cloud.state.expect(not stacks, f'stacks remain: {stacks}')
