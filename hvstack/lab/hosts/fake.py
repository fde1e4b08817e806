# SPDX-License-Identifier: Apache-2.0
"""Fake hosts: computes without guests, for scheduling at scale.

Nova's scheduler, its filters and Placement are the lab's own; only the virt
driver and the port binding are ours.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping

from hvstack import paths, processutils, share
from hvstack.lab import render, settings, supervisord, venv
from hvstack.lab.hosts import nova
from hvstack.lab.hosts.host_status import HostStatus
from hvstack.lab.settings import LabSettings
from hvstack.model.host import HostProfile
from hvstack.model.host_settings import compute_host_settings
from hvstack.model.local_space import compute_host_space_gib
from hvstack.model.plain_data import Json, JsonObject
from hvstack.progress import Progress

DIRECTORY = settings.LAB / 'fake'
PREFIX = 'hv-fake'
_READY_SECONDS = 180
#: A fake host where no profile is named: two cells of four cores with two
#: threads each, one half of the cores for dedicated CPUs.
DEFAULT_PROFILE: JsonObject = {
    'cells': [
        {
            'shared': [8 * cell + cpu for cpu in (0, 1, 4, 5)],
            'dedicated': [8 * cell + cpu for cpu in (2, 3, 6, 7)],
            'siblings': [
                [8 * cell + cpu, 8 * cell + cpu + 4] for cpu in range(4)
            ],
            'memory_mib': 32768,
            'hugepages_2m': 8192,
        }
        for cell in (0, 1)
    ],
    'disk_gb': 2000,
}


def install() -> None:
    """Put the driver of fake hosts into the environment of Nova."""
    shutil.copyfile(
        share.LAB / 'fake' / 'nova_driver.py',
        venv.site_packages() / 'nova' / 'virt' / 'hvstack_fake.py',
    )


def from_profile(
    profile: HostProfile, cpu_policy: str = 'dedicated'
) -> JsonObject:
    """Return the resources that a fake host of a host profile reports.

    :param cpu_policy: ``dedicated`` gives all CPUs to guests that ask for
        their own, and their memory as 2 MiB pages if the profile has
        ``large_pages``; ``shared`` neither.
    """
    own = cpu_policy == 'dedicated'
    cores = profile.sockets * profile.cores_per_socket
    pages = {
        cell.cell: cell.count
        for cell in compute_host_settings(profile, cpu_policy).pages
    }
    # Local disks of guests are on the data disks. Without these, there is a
    # root disk for as many guests as there are CPUs.
    space = compute_host_space_gib(profile)
    if profile.disks is None or profile.policy.lab:
        space += profile.cpus * profile.root_gb
    return {
        'cells': [
            {
                'shared': [] if own else list(cell.cpus),
                'dedicated': list(cell.cpus) if own else [],
                # Linux counts the first threads of all cores first.
                'siblings': [
                    threads
                    for core in range(cores)
                    if (threads := [c for c in cell.cpus if c % cores == core])
                ],
                'memory_mib': cell.memory_mib,
                'hugepages_2m': pages.get(cell.id, 0),
            }
            for cell in profile.cells
        ],
        'disk_gb': space,
    }


def names(count: int) -> list[str]:
    """Return the names of a number of fake hosts."""
    return [f'{PREFIX}{index}' for index in range(1, count + 1)]


def up(lab_settings: LabSettings, progress: Progress) -> None:
    """Bring fake hosts to the wanted number.

    :raises hvstack.errors.DeadlineExceededError: one does not come up.
    """
    chosen = names(lab_settings.fake_hosts)
    cloud = nova.connect()
    for name in sorted(set(_list_names()) - set(chosen)):
        supervisord.remove(name)
        nova.forget(cloud, name)
        shutil.rmtree(DIRECTORY / name, ignore_errors=True)
    if not chosen:
        return
    profile = lab_settings.get_option('fake_profile') or DEFAULT_PROFILE
    programs = [_program(name, profile) for name in chosen]
    changed = supervisord.add_all(programs)
    states = supervisord.status()
    fresh = [
        name
        for name in chosen
        if name in changed or states[name].state != 'RUNNING'
    ]
    if fresh:
        progress.say(f'{len(fresh)} fake hosts without guests')
    for name in fresh:
        if not (DIRECTORY / name / 'compute_id').exists():
            nova.forget(cloud, name)
        supervisord.start(name, wait=False)
    processutils.wait_for(
        lambda: all(nova.computes(cloud).get(name) == 'up' for name in chosen),
        'fake hosts to be up in Nova',
        timeout=_READY_SECONDS,
        get_reason=lambda: supervisord.log_tail(chosen[-1]),
    )
    if fresh:
        nova.discover()


def _list_names() -> list[str]:
    return [path.name for path in DIRECTORY.glob(f'{PREFIX}*')]


def _program(name: str, profile: Mapping[str, Json]) -> supervisord.Program:
    directory = DIRECTORY / name
    (directory / 'instances').mkdir(parents=True, exist_ok=True)
    (directory / 'lock').mkdir(exist_ok=True)
    paths.write_whole(directory / 'profile.json', json.dumps(profile))
    config = directory / 'nova.conf'
    render.write(
        'fake/nova.conf.j2',
        config,
        context={'name': name, 'directory': directory},
    )
    driver = share.LAB / 'fake' / 'nova_driver.py'
    digest = hashlib.sha256()
    for file in (directory / 'profile.json', config, driver):
        digest.update(file.read_bytes())
    return supervisord.Program(
        name,
        [venv.program('nova-compute'), '--config-file', str(config)],
        # Another text of the program's: supervisord starts it again.
        env={'HVSTACK_DIGEST': digest.hexdigest()[:16]},
    )


def down(lab_settings: LabSettings) -> None:
    """Stop fake hosts; they are programs of the control plane's."""
    if supervisord.alive():
        for name in _list_names():
            supervisord.stop(name, wait=False)


def destroy(lab_settings: LabSettings) -> None:
    """Remove fake hosts and what they kept."""
    if supervisord.alive():
        for name in _list_names():
            supervisord.remove(name)
    shutil.rmtree(DIRECTORY, ignore_errors=True)


def status(lab_settings: LabSettings) -> list[HostStatus]:
    """Look at the fake hosts; change nothing."""
    states = supervisord.status()
    return [
        HostStatus(
            name,
            'up' if states[name].state == 'RUNNING' else 'off',
            0.0,
            'fake: no guests, for scheduling only',
        )
        for name in names(lab_settings.fake_hosts)
        if name in states
    ]
