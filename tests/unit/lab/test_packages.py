# SPDX-License-Identifier: Apache-2.0
"""Test the installation of Debian packages."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.lab import packages


class PolicyTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = directory / 'policy-rc.d'
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.packages._POLICY', self.path)
        )

    def status(self) -> int:
        """Return the exit status of the policy for invoke-rc.d."""
        return subprocess.run([self.path, 'cron', 'start']).returncode

    def test_forbids_starts_and_goes_away(self) -> None:
        with packages.nothing_starts():
            self.assertEqual(101, self.status())
        self.assertFalse(self.path.exists())

    def test_no_effect_after_a_crash(self) -> None:
        """The killed process' policy would keep services from starting."""
        for users, status in ((None, 0), ('#!/bin/sh\nexit 42\n', 42)):
            if users:
                self.path.write_text(users)
                self.path.chmod(0o755)
            code = (
                'import os, sys; from pathlib import Path; '
                'from hvstack.lab import packages; '
                'packages._POLICY = Path(sys.argv[1]); '
                'policy = packages.nothing_starts(); policy.__enter__(); '
                'os.kill(os.getpid(), 9)'
            )
            subprocess.run([sys.executable, '-c', code, self.path])
            self.assertIn('hvstack', self.path.read_text())
            self.assertEqual(status, self.status())
            packages.restore_policy()
            self.assertEqual(users is not None, self.path.exists())

    def test_installation_of_another_process(self) -> None:
        """It waits for dpkg's lock beside that of hvstack, or is before."""
        result = self.path.with_name('result')
        with packages.nothing_starts():
            # Its parent is no longer a process of hvstack.
            subprocess.run(
                [
                    *('sh', '-c', '(sleep 0.2; "$0"; echo $? >"$1") &'),
                    *(self.path, result),
                ]
            )
            self.assertEqual(101, self.status())
            for _ in range(50):
                if result.exists() and result.read_text():
                    break
                time.sleep(0.05)
            self.assertEqual('0\n', result.read_text())

    def test_link_of_the_users_comes_back(self) -> None:
        """Debian's policyrcd-script-zg2 has one of update-alternatives."""
        program = self.path.with_name('program')
        program.write_bytes(b'\x7fELF\xff')
        self.path.symlink_to('program')
        for _ in range(2):
            with packages.nothing_starts():
                self.assertFalse(self.path.is_symlink())
                self.assertEqual(101, self.status())
            self.assertEqual('program', str(self.path.readlink()))
            self.assertEqual(b'\x7fELF\xff', program.read_bytes())
            self.assertFalse(
                self.path.with_suffix('.hvstack-aside').is_symlink()
            )

    def test_old_copy_does_not_replace_a_newer_policy(self) -> None:
        self.path.write_text('newer')
        aside = self.path.with_suffix('.hvstack-aside')
        aside.write_text('older')
        packages.restore_policy()
        self.assertEqual('newer', self.path.read_text())
        self.assertFalse(aside.exists())

    def test_policy_of_the_users_comes_back(self) -> None:
        self.path.write_text('#!/bin/sh\nexit 0\n')
        self.path.chmod(0o755)
        with packages.nothing_starts():
            self.assertIn('exit 101', self.path.read_text())
        self.assertEqual('#!/bin/sh\nexit 0\n', self.path.read_text())
        self.assertEqual(0o755, self.path.stat().st_mode & 0o777)

    def test_comes_back_after_a_crash_in_between(self) -> None:
        self.path.write_text('user')
        crashed = packages.nothing_starts()
        crashed.__enter__()
        with packages.nothing_starts():
            pass
        self.assertEqual('user', self.path.read_text())


class MissingTest(testtools.TestCase):
    def test_tells_what_dpkg_does_not_have(self) -> None:
        names = ['dpkg', 'no-such-package-of-hvstack']
        self.assertEqual(names[1:], packages.missing(names))


class ReleaseTest(testtools.TestCase):
    def release(self, text: str) -> packages.Release | None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'os-release'
        path.write_text(text)
        return packages.release(path)

    def test_debian(self) -> None:
        release = self.release(
            'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n'
            'VERSION_ID="13"\n'
        )
        self.assertEqual(
            packages.Release('debian', '13', 'Debian GNU/Linux 13 (trixie)'),
            release,
        )
        self.assertTrue(release and release.is_tried)

    def test_derived_release_was_never_tried(self) -> None:
        mint = self.release(
            'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="12"\n'
        )
        self.assertEqual(
            ('ubuntu', '', False),
            mint and (mint.distribution, mint.version, mint.is_tried),
        )

    def test_other_systems(self) -> None:
        self.assertIsNone(self.release('ID=fedora\nVERSION_ID=43\n'))
        path = Path(self.useFixture(fixtures.TempDir()).path)
        self.assertIsNone(packages.release(path / 'os-release'))

    def test_names_by_release(self) -> None:
        old = packages.Release('debian', '12', '')
        new = packages.Release('debian', '13', '')
        unknown = packages.Release('ubuntu', '24.04', '')
        driver = 'libvirt-daemon-driver-nodedev'
        self.assertNotIn(driver, packages.needed(ceph=False, on=old))
        self.assertIn(driver, packages.needed(ceph=False, on=new))
        self.assertIn(driver, packages.needed(ceph=False, on=unknown))


class FailureTest(testtools.TestCase):
    """An installation that ends before all packages are installed."""

    def setUp(self) -> None:
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.enabled = {'ssh.service'}
        self.disabled: list[set[str]] = []
        self.error: BaseException | None = None
        for name, value in (
            ('missing', lambda _: ['mariadb-server', 'rabbitmq-server']),
            ('enabled_units', lambda: set(self.enabled)),
            ('disable_units', lambda units: self.disabled.append(units)),
            ('nothing_starts', contextlib.nullcontext),
            ('processutils.retried', self.fetch),
            ('_RECORD', Path(directory) / 'installation.json'),
            ('_list_units', lambda names: {f'{n}.service' for n in names}),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.lab.packages.{name}', value)
            )

    def fetch(self, _action: object) -> None:
        packages._RECORD.write_text('{"packages": ["mariadb", "rabbitmq"]}')
        # Another process installs nginx.
        self.enabled |= {'mariadb.service', 'nginx.service'}
        if self.error:
            raise self.error

    def test_units_of_packages_that_were_installed(self) -> None:
        """They took the ports of the lab after the next boot.

        The next installation finds them enabled, and leaves them alone.
        """
        for error, expected in (
            (None, None),
            (
                errors.CommandError(['apt-get'], 100, 'No space left'),
                errors.MissingPrerequisiteError,
            ),
            (KeyboardInterrupt(), KeyboardInterrupt),
        ):
            self.enabled = {'ssh.service'}
            self.error = error
            if expected:
                self.assertRaises(expected, packages.install, ['x'])
            else:
                packages.install(['x'])
            self.assertEqual({'mariadb.service'}, self.disabled.pop())

    def test_failure_before_anything_was_installed(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.packages.processutils.retried',
                lambda _: self.enabled.add('nginx.service'),
            )
        )
        packages.install(['x'])
        self.assertEqual([set()], self.disabled)


#: Programs of a machine. ``apt-get install`` enables the service of a package
#: and kills the process that called it; dpkg knows the user's service, too.
_PROGRAMS = {
    'apt-get': """
        case "$*" in
            *--simulate*) echo 'Inst mariadb-server (1 Debian [amd64])' ;;
            *install*)
                echo mariadb.service >>"$0.enabled"
                kill -9 "$PPID" ;;
        esac""",
    'dpkg': 'exit 0',
    'dpkg-query': """
        case "$*" in
            *-L*mariadb-server*)
                echo /lib/systemd/system/mariadb.service ;;
            *-W*) [ ! -e "$0.installed" ] || echo mariadb-server installed ;;
        esac""",
    'systemctl': """
        case "$*" in
            *list-unit-files*) sed 's/$/ enabled/' "${0%/*}/apt-get.enabled" ;;
            *disable*) echo "$*" >>"$0.log" ;;
        esac""",
}


class KilledTest(testtools.TestCase):
    """An installation that SIGKILL ended, with the programs of a machine."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name, text in _PROGRAMS.items():
            path = self.directory / name
            path.write_text(f'#!/bin/sh\n{text}\n')
            path.chmod(0o755)
        self.enabled = self.directory / 'apt-get.enabled'
        self.enabled.write_text('ssh.service\n')
        self.log = self.directory / 'systemctl.log'
        self.log.touch()
        search_path = f'{self.directory}:{os.environ["PATH"]}'
        self.useFixture(fixtures.EnvironmentVariable('PATH', search_path))

        for name in ('_POLICY', '_RECORD'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.lab.packages.{name}', self.directory / name
                )
            )

    def install(self, *names: str) -> list[str]:
        return packages.install(['mariadb-server', *names])

    def kill(self) -> None:
        """Install in a process that is killed."""
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                self.install()
            os._exit(1)
        self.assertEqual(9, os.waitpid(pid, 0)[1])

    def test_packages_that_would_be_removed(self) -> None:
        """Such as another database server of the user."""
        path = self.directory / 'apt-get'
        path.write_text(
            '#!/bin/sh\ncase "$*" in *--simulate*)\n'
            "echo 'Remv busybox [1]'; echo 'Remv mysql-community-server [8]'\n"
            f"echo 'Inst mariadb-server (1)' ;; *install*) touch {path}.done\n"
            'esac\n'
        )
        error = self.assertRaises(
            errors.MissingPrerequisiteError, self.install
        )
        self.assertIn('remove mysql-community-server, which', str(error))
        self.assertFalse(path.with_name('apt-get.done').exists())
        path.write_text(path.read_text().replace('mysql-community', 'mysql'))
        path.write_text(path.read_text().replace('Remv mysql-server', 'x'))
        self.install()
        self.assertTrue(path.with_name('apt-get.done').exists())

    def test_release_that_was_never_tried(self) -> None:
        """It may have libvirt's drivers in other packages."""
        driver = 'libvirt-daemon-driver-'
        names = [f'{driver}nodedev', f'{driver}secret']
        for version, expected in (('24.04', names[:1]), ('13', names)):
            name = 'ubuntu' if version == '24.04' else 'debian'
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.lab.packages.release',
                    lambda args=(name, version, ''): packages.Release(*args),
                )
            )
            log = self.directory / 'installed'
            for program, text in (
                # It knows packages after an update only.
                (
                    'apt-cache',
                    f'[ ! -e {log} ] || echo Package: {names[0]}; exit 100',
                ),
                ('apt-get', f'echo "$*" | grep -v simulate >>{log} || :'),
            ):
                (self.directory / program).write_text(f'#!/bin/sh\n{text}\n')
                (self.directory / program).chmod(0o755)
            self.assertEqual(
                ['mariadb-server', *expected], self.install(*names)
            )
            last = log.read_text().splitlines()[-1]
            self.assertEqual(
                ['mariadb-server', *expected],
                last.split()[-1 - len(expected) :],
            )
            log.unlink()

    def test_units_are_disabled_later(self) -> None:
        """The packages may be complete when the lab starts again."""
        for function in (self.install, packages.finish_interrupted):
            self.kill()
            # As the machine's user did before the next command.
            with self.enabled.open('a') as stream:
                stream.write('nginx.service\n')
            (self.directory / 'dpkg-query.installed').touch()
            self.assertEqual('', self.log.read_text())
            for _ in range(2):
                function()
                self.assertEqual(
                    '--root=/ disable mariadb.service\n',
                    self.log.read_text(),
                )
            (self.directory / 'dpkg-query.installed').unlink()
            self.enabled.write_text('ssh.service\n')
            self.log.write_text('')


class LockTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.pauses: list[float] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.packages.time.sleep', self.pauses.append
            )
        )
        self.file = Path(self.useFixture(fixtures.TempDir()).path) / 'calls'

    def wait(self, message: str, status: int) -> None:
        """Let dpkg end with a message, and later with success."""
        packages._wait_for_dpkg(
            [
                *('sh', '-c'),
                '[ -e "$1" ] && exit 0; touch "$1"; echo "$2" >&2; exit "$3"',
                *('sh', str(self.file), message, str(status)),
            ]
        )

    def test_lock_of_another_process(self) -> None:
        for name in (
            'dpkg frontend lock was locked by another process with pid 7',
            'dpkg database lock was locked by another process with pid 7',
            # Older releases.
            'dpkg frontend is locked by another process',
            'dpkg status database is locked by another process',
        ):
            self.file.unlink(missing_ok=True)
            self.pauses.clear()
            self.wait(f'dpkg: error: {name}', 2)
            self.assertIn(5, self.pauses)

    def test_other_messages(self) -> None:
        """A package with such a message stopped the lab for ten minutes."""
        for message, status in (
            ('W: Possible missing firmware for block device', 0),
            ('Created symlink systemd-time-wait-sync.service for clock', 0),
            ('dpkg: error processing package locales (--configure)', 1),
        ):
            self.file.unlink(missing_ok=True)
            self.wait(message, status)
            self.assertNotIn(5, self.pauses)


@testtools.skipUnless(shutil.which('systemctl'), 'systemctl is missing')
class UnitsTest(testtools.TestCase):
    def test_units_of_packages_do_not_start_at_the_next_boot(self) -> None:
        root = Path(self.useFixture(fixtures.TempDir()).path)
        units = root / 'usr/lib/systemd/system'
        links = root / 'etc/systemd/system/multi-user.target.wants'
        units.mkdir(parents=True)
        links.mkdir(parents=True)
        for name in ('hv-old.service', 'hv-new.service', 'hv-new.timer'):
            (units / name).write_text(
                '[Install]\nWantedBy=multi-user.target\n'
            )
        (links / 'hv-old.service').symlink_to(units / 'hv-old.service')
        before = packages.enabled_units(root)
        self.assertEqual({'hv-old.service'}, before)
        for name in ('hv-new.service', 'hv-new.timer'):
            (links / name).symlink_to(units / name)
        packages.disable_units(packages.enabled_units(root) - before, root)
        self.assertEqual({'hv-old.service'}, packages.enabled_units(root))
        self.assertTrue((links / 'hv-new.timer').is_symlink())
