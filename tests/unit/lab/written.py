# SPDX-License-Identifier: Apache-2.0
"""The files that a lab writes when it comes up, for tests without one."""

from pathlib import Path

import fixtures

from hvstack.lab.hosts import sizes
from hvstack.lab.settings import LabSettings


class LabProfiles(fixtures.Fixture):
    """Profiles ``lab-worker``, ``lab-controller`` of a lab of three hosts."""

    def _setUp(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'hosts.yaml'
        for name in (
            'hvstack.host_profiles.LAB',
            f'{sizes.__name__}.PROFILES',
        ):
            self.useFixture(fixtures.MonkeyPatch(name, path))
        host_sizes = sizes.plan(
            LabSettings(compute='lxc'), cores=2, memory=24 * 1024
        )
        sizes.write_profiles(sizes.profiles(host_sizes).values())
