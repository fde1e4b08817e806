# SPDX-License-Identifier: Apache-2.0
"""What the tests after a lab recognize as a trace of it."""

from pathlib import Path

import fixtures
import testtools

from tests.after import test_nothing_left as after


class TracesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)

    def test_mounts(self) -> None:
        for name, value in (('STATE', 'lib'), ('RUN', 'run')):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.paths.{name}', self.top / value)
            )
        traces = [
            f'/dev/loop0 {self.top}/lib/lab/disk xfs rw 0 0',
            f'tmpfs {self.top}/run/a tmpfs rw 0 0',
            'nsfs /run/netns/hv-host2 nsfs rw 0 0',
            'tmpfs /var/tmp/hvstack-image-x tmpfs rw 0 0',
        ]
        others = [
            f'/dev/vdb {self.top}/lib ext4 rw 0 0',
            '/dev/vdc /srv/hvstack ext4 rw 0 0',
            '/dev/mapper/vg-hvstack / ext4 rw 0 0',
        ]
        text = ''.join(f'{line}\n' for line in (*others, *traces))
        self.assertEqual(traces, after.list_mounts(text))

    def test_cgroups(self) -> None:
        """Groups of version 1, of version 2, and of units of systemd."""
        for path in (
            'memory/hv-host1',
            'cpu/user',
            'hv-host2/agents',
            'hvstack.slice/hvstack-lab.service',
            'system.slice/ssh.service',
        ):
            (self.top / path).mkdir(parents=True)
        self.assertEqual(
            [
                f'{self.top}/{path}'
                for path in (
                    'hv-host2',
                    'hvstack.slice',
                    'hvstack.slice/hvstack-lab.service',
                    'memory/hv-host1',
                )
            ],
            after.list_cgroups(self.top),
        )
