# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of growth does to a lab and its cloud."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import stacks
from hvstack.lab.settings import LabSettings
from tests.unit.benchmarks import load

growth = load('growth')
growth_boots = load('growth_boots')
SIZE = growth.Size(2)


class GrowthLabTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.lab = LabSettings(fake_hosts=2)

    def patch(self, name: str, value: Any) -> None:
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def test_server_in_error_ends_the_wait(self) -> None:
        conn = mock.MagicMock()
        conn.compute.servers.return_value = [
            SimpleNamespace(status=status)
            for status in ('ACTIVE', 'ACTIVE', 'BUILD', 'ERROR')
        ]
        flavors = dict.fromkeys(
            ('worker', 'controller'), SimpleNamespace(id='f')
        )
        cloud = growth.Cloud(conn, 'image', 'network', flavors)
        error = self.assertRaises(
            errors.CloudError, growth_boots.boot, cloud, SIZE
        )
        self.assertIn('1 have the status ERROR', str(error))
        self.assertEqual(1, conn.compute.servers.call_count)

    def test_heat_gets_the_time_of_the_stage(self) -> None:
        create, wait = (
            mock.create_autospec(item) for item in (stacks.create, stacks.wait)
        )
        self.patch('hvstack.cloud.stacks.create', create)
        self.patch('hvstack.cloud.stacks.wait', wait)
        cloud = growth.Cloud(None, '', '', {})
        growth.create_stack(cloud, SIZE, Path('x.yaml'))
        seconds = growth.compute_timeout(SIZE)
        self.assertEqual(seconds, create.call_args.kwargs['timeout'])
        self.assertEqual(seconds, wait.call_args.kwargs['timeout'])

    def test_environment_has_the_limit_of_the_lab(self) -> None:
        calls: list[dict[str, Any]] = []
        self.patch(
            'hvstack.processutils.run',
            lambda _, **kwargs: calls.append(kwargs),
        )
        flavors = dict.fromkeys(
            ('worker', 'controller'), SimpleNamespace(name='f')
        )
        cloud = growth.Cloud(None, '', '', flavors)
        growth.write_environment(cloud, SIZE, Path('x.yaml'))
        self.assertEqual(
            {'OS_CLOUD__MAX_RESOURCES_PER_STACK': '-1'}, calls[0]['env']
        )

    def test_fake_hosts_are_restored_after_a_sigkill(self) -> None:
        def up(change: Any, _: object) -> None:
            self.lab = change(self.lab)

        self.patch('hvstack.lab.lifecycle.up', up)
        self.patch('hvstack.lab.settings.load', lambda: self.lab)
        path = self.directory / 'growth.lab.json'
        with growth.restored_lab(path):
            text = path.read_text(encoding='utf-8')
        self.assertFalse(path.exists())
        self.assertEqual(2, json.loads(text)['fake_hosts'])
        path.write_text(text, encoding='utf-8')
        self.lab = self.lab.change(fake_hosts=34, options={'fake_profile': {}})
        with growth.restored_lab(path):
            pass
        self.assertEqual(LabSettings(fake_hosts=2), self.lab)
        self.assertFalse(path.exists())
