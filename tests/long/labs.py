# SPDX-License-Identifier: Apache-2.0
"""The lab as a test needs it, and afterwards as it was."""

from collections.abc import Mapping
from typing import Any

import testtools

from hvstack import host_profiles
from hvstack.lab import lifecycle, pools, settings
from hvstack.lab.hosts import fake
from hvstack.progress import Progress
from tests.functional.test_hosts import LAST

#: Pools of Ceph in a lab without further layouts.
POOLS = tuple(pool.name for pool in pools.list_pools(settings.LabSettings()))


def change(
    test: testtools.TestCase,
    options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> None:
    """Change the lab until the test has ended.

    A host with servers is not changed: cleaning up these is for a test to
    add after this.

    :param options: of :class:`hvstack.lab.settings.LabSettings`, to replace.
    :param changes: its other fields.
    """
    before = settings.load() or settings.LabSettings()
    after = before.change(
        **changes, options={**before.options, **(options or {})}
    )
    if after != before:
        test.addCleanup(lifecycle.up, lambda _: before, Progress())
        lifecycle.up(lambda _: after, Progress())


def fake_hosts(test: testtools.TestCase, count: int) -> None:
    """Have a number of hosts without guests, such as those of vsphere6."""
    reported = fake.from_profile(host_profiles.load('vsphere6'), 'dedicated')
    change(test, {'fake_profile': reported}, fake_hosts=count)


def emulated(
    test: testtools.TestCase, dedicated: str = '', **changes: Any
) -> None:
    """Have the last host emulate its guests.

    :param dedicated: its CPUs for pinned guests.
    """
    before = settings.load() or settings.LabSettings()
    cpus = {**before.options.get('dedicated', {}), LAST: dedicated}
    change(
        test,
        {'dedicated': {host: those for host, those in cpus.items() if those}},
        host_compute={**before.host_compute, LAST: 'qemu'},
        **changes,
    )
