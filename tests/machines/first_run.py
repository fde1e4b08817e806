# SPDX-License-Identifier: Apache-2.0
"""Run the checklist for hosts with KVM in a machine with a lab of them.

``python -m tests.machines.first_run`` as root in a machine that the tests
built, whose lab has the compute backend kvm and dedicated CPUs. With the
argument ``i2-dedicated-pinned``, the lab needs local volumes, too. The machine
is emulated, so that times in it are no results.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import yaml

from hvstack import host_profiles
from hvstack.lab.hosts import numa, sizes
from hvstack.model.configuration import Configuration, parse
from hvstack.model.host import HostProfile
from hvstack.model.host_settings import PAGE_KIB, compute_host_settings
from tests.machines import disk

CONFIGURATION = 'i2-dedicated'
#: Host of the workers in a lab of two hosts.
WORKERS_HOST = sizes.name_of(2)
PROFILE = Path('/root/kvm-worker.yaml')
CONF = Path('/etc/hvstack/hvstack.conf')
#: An emulated machine takes minutes for what a server does in seconds.
_SECONDS = 6 * 3600
_CONF = f"""[cloud]
backend = kvm
host_profile = {PROFILE}
controller_profile = lab-controller
stack_timeout = {_SECONDS}
ready_timeout = {_SECONDS}
[benchmark]
phase_timeout = {_SECONDS}
stall_timeout = {_SECONDS}
"""
#: Items that cannot hold in a lab of an emulated machine, with the reason.
EXCEPTIONS = {
    'host-physical': 'the machine is emulated',
    'host-ovs-datapath': "a lab's switches have the data path netdev",
    'host-volumes': 'the configuration has no pinned disks',
}
HVSTACK = str(Path(sys.executable).with_name('hvstack'))


def allocate_pages(profile: HostProfile, nodes: Path = numa.NODES) -> None:
    """Allocate the huge pages that the guests of a host use in each cell.

    :param profile: host profile of the workers' host.
    :param nodes: directory of the machine's NUMA nodes.
    """
    for cell in compute_host_settings(profile, 'dedicated').pages:
        directory = nodes / f'node{cell.cell}/hugepages'
        path = directory / f'hugepages-{PAGE_KIB}kB/nr_hugepages'
        path.write_text(str(cell.count))
        if int(path.read_text()) != cell.count:
            raise SystemExit(
                f'Cannot allocate {cell.count} huge pages in cell '
                f'{cell.cell}: the kernel has {path.read_text().strip()}.'
            )


def find_failures(
    rows: list[Mapping[str, str]], exceptions: Collection[str]
) -> list[str]:
    """Return the items that do not have the expected verdict.

    :param rows: rows of the checklist as JSON.
    :param exceptions: items that cannot hold.
    """
    return [
        f'{row["Item"]}: {row["Verdict"]}, observed: {row["Observed"]}'
        for row in rows
        if (row['Verdict'] == 'held') == (row['Item'] in exceptions)
    ]


def list_exceptions(configuration: Configuration) -> set[str]:
    """Return the items that cannot hold with a configuration."""
    pinned = {'host-volumes'} if configuration.disk_pinning else set()
    return set(EXCEPTIONS) - pinned


def prepare() -> None:
    """Describe the hosts, and allocate the huge pages of guests."""
    profile = dataclasses.replace(
        host_profiles.load('lab-worker'), large_pages=True
    )
    text = yaml.safe_dump(profile.to_mapping(), sort_keys=False)
    PROFILE.write_text(text, encoding='utf-8')
    CONF.parent.mkdir(exist_ok=True)
    CONF.write_text(_CONF, encoding='utf-8')
    allocate_pages(profile)
    # Nova reads the pages of a host once, when nova-compute starts.
    for action in ('off', 'on'):
        subprocess.run(
            [HVSTACK, 'lab', 'host', action, WORKERS_HOST], check=True
        )


def main() -> int:
    """Prepare the machine, run the checklist, and compare its verdicts."""
    parser = argparse.ArgumentParser()
    parser.add_argument('configuration', nargs='?', default=CONFIGURATION)
    configuration = parse(parser.parse_args().configuration)
    disk.require_test_machine('allocate huge pages')
    prepare()
    cloud = ('--os-cloud', 'hvstack-lab')
    subprocess.run([HVSTACK, 'image', 'upload', *cloud], check=True)
    # The exit status is 1, because the exceptions do not hold.
    done = subprocess.run(
        [
            *(HVSTACK, 'accept', '--first-run', *cloud),
            *('--configuration', configuration.label, '-f', 'json'),
        ],
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    if not done.stdout.strip():
        return done.returncode or 1
    rows = json.loads(done.stdout)
    for row in rows:
        print(f'{row["Verdict"]:<13} {row["Item"]}: {row["Observed"]}')
    failures = find_failures(rows, list_exceptions(configuration))
    for failure in failures:
        print(f'not as expected: {failure}', file=sys.stderr)
    return int(bool(failures))


if __name__ == '__main__':
    sys.exit(main())
