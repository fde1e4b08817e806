# SPDX-License-Identifier: Apache-2.0
"""A lab with the services of another release of OpenStack."""

import testtools

from hvstack import errors, share
from hvstack.lab import services, settings, venv
from hvstack.lab.settings import RELEASE, RELEASES, LabSettings
from tests.unit.lab.test_volume_groups import HostFixture


class ReleaseTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(HostFixture())

    def commands(self) -> dict[str, str]:
        """Return the command line of each service."""
        return {
            service.name: ' '.join(service.program.command)
            for service in services.openstack()
        }

    def test_each_release_has_requirements_of_its_own(self) -> None:
        files = set()
        for release in RELEASES:
            settings.save(LabSettings(release=release))
            files.add(venv.requirements())
            self.assertTrue(venv.requirements().is_file())
            self.assertTrue(
                venv.requirements().with_name('constraints.txt').is_file()
            )
        self.assertEqual(len(RELEASES), len(files))
        settings.save(LabSettings())
        self.assertEqual(share.LAB / 'requirements.txt', venv.requirements())

    def test_green_threads_need_no_program_of_hvstack(self) -> None:
        settings.save(LabSettings(release='2025.1'))
        commands = self.commands()
        for name, program in (
            ('heat-engine', 'heat-engine'),
            ('nova-conductor', 'nova-conductor'),
            ('neutron-ovn-maintenance', 'neutron-ovn-maintenance-worker'),
        ):
            self.assertStartsWith(
                f'{venv.program(program)} --config-file ', commands[name]
            )
        settings.save(LabSettings())
        for name in ('heat-engine', 'nova-conductor'):
            self.assertStartsWith(
                f'{services.DAEMON.target} {name} ', self.commands()[name]
            )

    def assertStartsWith(self, start: str, text: str) -> None:
        self.assertTrue(text.startswith(start), text)

    def test_a_lab_keeps_its_release(self) -> None:
        settings.save(LabSettings(release='2025.1'))
        settings.check_release(LabSettings(hosts=2, release='2025.1'))
        settings.save(LabSettings())
        settings.check_release(LabSettings(hosts=2))
        exc = self.assertRaises(
            errors.InputError,
            settings.check_release,
            LabSettings(release='2025.1'),
        )
        self.assertEqual(
            'Cannot use --release 2025.1: the lab has OpenStack '
            f"{RELEASE}. Run 'hvstack lab destroy' first.",
            str(exc),
        )

    def test_unknown_release(self) -> None:
        exc = self.assertRaises(
            errors.InputError, LabSettings, release='2012.2'
        )
        self.assertIn("Cannot use OpenStack '2012.2'", str(exc))
        self.assertIn('2025.1', str(exc))
