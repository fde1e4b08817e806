# SPDX-License-Identifier: Apache-2.0
"""``hvstack image upload``: which build goes where."""

import io
import types
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack.cli.app import main
from tests.unit.cloud import fake


class UploadTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        entry = {'auth': fake.CREDENTIAL, 'region_name': 'RegionOne'}
        clouds = directory / 'clouds.yaml'
        clouds.write_text(
            yaml.safe_dump({'clouds': {'mine': entry, 'hvstack-lab': entry}})
        )
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', str(clouds))
        )
        self.useFixture(fake.FakeCloud())
        host = types.SimpleNamespace(backend='lxc')
        for name, value in (
            ('images.build', self.build),
            ('images.upload', self.upload),
            ('settings.load', lambda: None),
            ('hosts.planned', lambda _: [host]),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.lab.{name}', value))
        self.built: list[list[str]] = []
        self.uploaded: list[str] = []

    def build(self, name: str, _: Any, *, outputs: list[str]) -> str:
        self.built.append(outputs)
        return name

    def upload(
        self, _: Any, image: str, output: str, *, visibility: str
    ) -> str:
        self.uploaded.append(output)
        self.visibility = visibility
        return f'id-of-{image}'

    def call(self, *args: str) -> str:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(['image', 'upload', *args])
        self.assertEqual(0, status, err.getvalue())
        return out.getvalue()

    def test_machines_for_a_cloud_of_ones_own(self) -> None:
        self.assertEqual('id-of-hadoop\n', self.call('--os-cloud', 'mine'))
        self.assertEqual(['qemu'], self.uploaded)
        # Bare metal's build comes with it.
        self.assertEqual([['lxc', 'qemu']], self.built)

    def test_what_the_labs_hosts_take(self) -> None:
        self.call('--os-cloud', 'hvstack-lab')
        self.assertEqual((['lxc'], [['lxc']]), (self.uploaded, self.built))

    def test_what_is_asked_for(self) -> None:
        self.call('--os-cloud', 'hvstack-lab', '--output', 'qemu')
        self.assertEqual(['qemu'], self.uploaded)
        self.assertEqual('public', self.visibility)
        self.call('--os-cloud', 'mine', '--visibility', 'private')
        self.assertEqual('private', self.visibility)
