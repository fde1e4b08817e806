# SPDX-License-Identifier: Apache-2.0
"""Test the requirements of the lab on a machine."""

import contextlib
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, paths
from hvstack.lab import doctor, packages, requirements, settings
from hvstack.lab.settings import LabSettings

DEBIAN = packages.Release('debian', '13', 'Debian GNU/Linux 13 (trixie)')


class MachineTest(testtools.TestCase):
    def set(self, name: str, value: object) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(f'hvstack.lab.requirements.{name}', value)
        )

    def keep_settings(self) -> list[str]:
        """Use settings of a lab, and an environment of its services.

        :returns: a list; the environment is missing once it is empty.
        """
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        is_ready = ['yes']
        for name, value in (
            ('settings._SETTINGS', directory / 'settings'),
            ('venv.ready', lambda: bool(is_ready)),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.lab.{name}', value))
        return is_ready

    def test_full_disk_is_refused_with_directory_and_sizes(self) -> None:
        self.set('DISK_GIB', 10**9)
        exc = self.assertRaises(
            errors.MissingPrerequisiteError,
            requirements.check_disk,
            LabSettings(),
        )
        self.assertIn(f'{paths.STATE} has ', str(exc))
        self.assertIn(f'needs {10**9}', str(exc))

    def test_lab_that_fills_the_disk(self) -> None:
        """It could not be started again."""
        self.keep_settings()
        self.set('free_gib', lambda _: 5.0)
        exc = self.assertRaises(
            errors.MissingPrerequisiteError,
            requirements.check_disk,
            LabSettings(),
        )
        self.assertIn('needs 15 GiB', str(exc))
        settings.save(LabSettings())
        requirements.check_disk(LabSettings())
        self.assertEqual(
            {'ok'},
            {
                diagnosis.state
                for diagnosis in doctor._machine()
                if diagnosis.check.startswith('disk ')
            },
        )
        self.set('free_gib', lambda _: 1.0)
        exc = self.assertRaises(
            errors.MissingPrerequisiteError,
            requirements.check_disk,
            LabSettings(),
        )
        self.assertIn('needs 2 GiB', str(exc))

    def test_lab_that_is_to_use_more_of_the_disk(self) -> None:
        """Its disk was full in the middle of the change."""
        is_ready = self.keep_settings()
        self.set('free_gib', lambda _: 5.0)
        settings.save(LabSettings(hosts=2))
        for lab_settings in (
            LabSettings(hosts=2, ceph=True),
            LabSettings(hosts=2, lvm=True),
            LabSettings(hosts=3),
        ):
            exc = self.assertRaises(
                errors.MissingPrerequisiteError,
                requirements.check_disk,
                lab_settings,
            )
            self.assertIn('needs 15 GiB', str(exc))
        settings.save(LabSettings(hosts=2, ceph=True))
        requirements.check_disk(LabSettings(hosts=1))
        # The environment of the services is to be built again.
        is_ready.clear()
        self.assertRaises(
            errors.MissingPrerequisiteError,
            requirements.check_disk,
            LabSettings(hosts=2, ceph=True),
        )

    def test_room_enough_is_fine(self) -> None:
        self.set('DISK_GIB', 0)
        requirements.check_disk(LabSettings())

    def test_directory_that_is_not_there_yet_counts_as_its_parent(
        self,
    ) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.assertAlmostEqual(
            requirements.free_gib(directory),
            requirements.free_gib(directory / 'not' / 'yet'),
            places=1,
        )

    def test_directory_that_users_of_services_cannot_enter(self) -> None:
        """MariaDB failed minutes later, in a directory below /root."""
        parent = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.settings.LAB', parent / 'a' / 'state' / 'lab'
            )
        )
        (parent / 'a').mkdir()
        for path in parent.parents:
            if not path.stat().st_mode & 0o001:
                self.skipTest(f'{path} is private.')
        for mode, is_refused in ((0o711, False), (0o700, True)):
            parent.chmod(mode)
            if is_refused:
                exc = self.assertRaises(
                    errors.MissingPrerequisiteError,
                    requirements.check_path,
                )
                self.assertIn(f'cannot enter {parent} (mode 700)', str(exc))
                self.assertIn('HVSTACK_STATE_DIR', str(exc))
            else:
                requirements.check_path()

    def test_not_root_is_told_the_other_way(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        exc = self.refused()
        self.assertIn('sudo', str(exc))
        self.assertIn('--os-cloud', str(exc))
        self.assertNotIn('\n', str(exc))

    def refused(self, **options: Any) -> errors.MissingPrerequisiteError:
        return self.assertRaises(
            errors.MissingPrerequisiteError,
            requirements.check,
            LabSettings(**options),
        )

    def be(self, release: packages.Release | None, gib: float = 64) -> None:
        for name, value in {
            'os.geteuid': lambda: 0,
            'platform.machine': lambda: 'x86_64',
            'hvstack.lab.packages.release': lambda: release,
            'hvstack.lab.hosts.sizes.machine_mib': lambda: int(gib * 1024),
            'hvstack.lab.hosts.cgroups.check': lambda: None,
            'hvstack.lab.settings.LAB': Path('/state/lab'),
        }.items():
            self.useFixture(fixtures.MonkeyPatch(name, value))
        self.set('DISK_GIB', 0)
        names = ('http_proxy', 'https_proxy', 'all_proxy', 'no_proxy')
        for name in (*names, *(name.upper() for name in names)):
            self.useFixture(fixtures.EnvironmentVariable(name))

    def test_proxy_that_would_get_the_requests_to_the_lab(self) -> None:
        """Keystone did not answer, minutes later, and the proxy did."""
        self.be(DEBIAN)
        proxy = 'http://user:secret@proxy.example:3128'
        for variables, name in (
            ({'http_proxy': proxy}, 'http_proxy'),
            ({'ALL_PROXY': proxy, 'NO_PROXY': 'localhost'}, 'ALL_PROXY'),
            ({'http_proxy': proxy, 'no_proxy': '110.251.0.1'}, 'http_proxy'),
            ({'https_proxy': proxy}, ''),
            ({'http_proxy': proxy, 'no_proxy': 'x, 10.251.0.1'}, ''),
            ({'http_proxy': proxy, 'no_proxy': '10.0.0.0/8'}, ''),
            ({'http_proxy': proxy, 'NO_PROXY': '*'}, ''),
        ):
            with contextlib.ExitStack() as stack:
                for key, value in variables.items():
                    stack.enter_context(
                        fixtures.EnvironmentVariable(key, value)
                    )
                findings = list(doctor._proxy())
                if name:
                    message = str(self.refused())
                    self.assertIn(f'({name})', message)
                    self.assertNotIn('secret', message)
                    self.assertIn('no_proxy="$no_proxy,10.251.0.1"', message)
                    self.assertIn(name, findings[0].detail)
                else:
                    requirements.check(LabSettings())
                    self.assertEqual([], findings)

    def test_other_distribution_is_told_the_other_way(self) -> None:
        self.be(None)
        exc = self.refused()
        self.assertIn('Debian 12, Debian 13', str(exc))
        self.assertIn('--os-cloud', str(exc))

    def test_other_architecture(self) -> None:
        """The images were built, and no guest started."""
        self.be(DEBIAN)
        self.useFixture(
            fixtures.MonkeyPatch('platform.machine', lambda: 'aarch64')
        )
        self.assertIn('(aarch64)', str(self.refused()))
        self.assertIn(
            ('architecture', 'fault', 'aarch64'),
            [(row.check, row.state, row.detail) for row in doctor._machine()],
        )

    def test_release_that_was_never_tried(self) -> None:
        self.be(packages.Release('ubuntu', '24.04', 'Ubuntu 24.04 LTS'))
        exc = self.refused()
        self.assertIn('Ubuntu 24.04 LTS', str(exc))
        self.assertIn('--untested', str(exc))
        requirements.check(LabSettings(untested=True))

    def test_too_little_memory_for_the_hosts(self) -> None:
        self.be(DEBIAN, gib=12)
        exc = self.refused(hosts=3)
        self.assertIn('need 13.50 GiB', str(exc))
        self.assertIn('--hosts 2', str(exc))
        requirements.check(LabSettings(hosts=2))

    def test_too_little_memory_for_any_host(self) -> None:
        self.be(DEBIAN, gib=7)
        exc = self.refused(hosts=1)
        self.assertIn('10.00 GiB', str(exc))
        self.assertIn('larger machine', str(exc))
