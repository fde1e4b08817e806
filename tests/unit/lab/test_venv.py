# SPDX-License-Identifier: Apache-2.0
"""Packages are installed only if their files have the expected digests."""

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, extras, share
from hvstack.lab import packages, venv

TOP = Path(__file__).parents[3]
#: uv's message, with more digests than an error message has lines.
MISMATCH = (
    """error: Failed to download `cffi==2.1.1`
  cause: Hash mismatch for `cffi==2.1.1`

         Expected:
"""
    + 60 * '           sha256:00\n'
)


class InstallTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name, value in (
            ('hvstack.lab.venv.directory', lambda: self.directory / 'venv'),
            ('hvstack.extras.program', lambda _: self.directory / 'uv'),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        # The settings of pip are not read.
        self.useFixture(fixtures.EnvironmentVariable('UV_INDEX_URL', 'x'))

    def uv(self, message: str, status: int) -> None:
        """Write a program that notes its calls and prints a message."""
        (self.directory / 'message').write_text(message)
        program = self.directory / 'uv'
        program.write_text(
            '#!/bin/sh\n'
            f'[ "$1" = pip ] || {{ mkdir -p {venv.directory()}; exit 0; }}\n'
            f'echo "$@" >>{self.directory}/calls\n'
            f'echo "$UV_DEFAULT_INDEX" >{self.directory}/index\n'
            f'echo "$UV_INSECURE_HOST" >{self.directory}/hosts\n'
            f'cat {self.directory}/message >&2\n'
            f'exit {status}\n'
        )
        program.chmod(0o755)

    def find_index(self, **variables: str) -> str:
        """Return the package index that uv uses."""
        shutil.rmtree(self.directory / 'venv', ignore_errors=True)
        with contextlib.ExitStack() as stack:
            for name in (
                *('UV_DEFAULT_INDEX', 'UV_INDEX_URL', 'UV_CONFIG_FILE'),
                *('PIP_INDEX_URL', 'PIP_CONFIG_FILE', 'XDG_CONFIG_HOME'),
                *('PIP_TRUSTED_HOST', 'UV_INSECURE_HOST'),
            ):
                stack.enter_context(
                    fixtures.EnvironmentVariable(name, variables.get(name))
                )
            venv.ensure(())
        return (self.directory / 'index').read_text().strip()

    def read_hosts(self) -> str:
        """Return the hosts whose certificates uv did not verify."""
        return (self.directory / 'hosts').read_text().strip()

    def calls(self) -> list[str]:
        return (self.directory / 'calls').read_text().splitlines()

    def test_another_digest(self) -> None:
        self.uv(MISMATCH, 1)
        error = self.assertRaises(
            errors.MissingPrerequisiteError, venv.ensure, (0, 0)
        )
        self.assertIn('Cannot install cffi==2.1.1: the SHA-256', str(error))
        self.assertNotIn('\n', str(error))
        self.assertEqual(1, len(self.calls()))
        self.assertFalse(venv.ready())

    def test_failure_that_may_pass(self) -> None:
        self.uv('error: connection reset', 2)
        error = self.assertRaises(errors.CommandError, venv.ensure, (0, 0))
        self.assertIn('connection reset', str(error))
        self.assertEqual(3, len(self.calls()))

    def test_all_digests_are_required(self) -> None:
        self.uv('', 0)
        venv.ensure(())
        (call,) = self.calls()
        for option in (
            '--require-hashes',
            '--require-build-hashes',
            '--no-deps',
            f'--requirement {venv.requirements()}',
            f'--build-constraints {venv.build_requirements()}',
        ):
            self.assertIn(f' {option}', call)
        self.assertTrue(venv.ready())

    def test_index_that_pip_is_set_to(self) -> None:
        """A machine that reaches only a mirror could not have a lab."""
        if not importlib.util.find_spec('pip'):
            self.skipTest('needs pip')
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.venv._UV_SETTINGS', ())
        )
        self.uv('', 0)
        mirror = 'https://me:secret@mirror.test/simple'
        config = self.directory / 'pip.conf'
        config.write_text(f'[global]\nindex-url = {mirror}\n')
        settings = self.directory / 'config' / 'uv' / 'uv.toml'
        settings.parent.mkdir(parents=True)
        settings.write_text('cache-dir = "/var/cache/uv"\n')
        config_env = {
            'XDG_CONFIG_HOME': str(self.directory / 'config'),
            'PIP_CONFIG_FILE': str(config),
        }
        self.assertEqual(mirror, self.find_index(**config_env))
        other = 'https://other.test/simple'
        self.assertEqual(
            other, self.find_index(**config_env, PIP_INDEX_URL=other)
        )
        # Settings of uv win.
        self.assertEqual(
            other, self.find_index(**config_env, UV_DEFAULT_INDEX=other)
        )
        self.assertEqual('', self.find_index(**config_env, UV_INDEX_URL=other))
        settings.write_text(f'[[index]]\nurl = "{other}"\ndefault = true\n')
        self.assertEqual('', self.find_index(**config_env))
        # Neither is set.
        settings.unlink()
        config_env['PIP_CONFIG_FILE'] = os.devnull
        self.assertEqual('', self.find_index(**config_env))

    def test_hosts_that_pip_trusts(self) -> None:
        """A mirror with a certificate of its own was refused."""
        if not importlib.util.find_spec('pip'):
            self.skipTest('needs pip')
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.venv._UV_SETTINGS', ())
        )
        self.uv('', 0)
        config = self.directory / 'pip.conf'
        mirror = 'https://mirror.test/simple'
        hosts = 'trusted-host =\n    mirror.test\n    other.test:8443\n'
        config_env = {
            'XDG_CONFIG_HOME': str(self.directory),
            'PIP_CONFIG_FILE': str(config),
        }
        for text, variables, expected in (
            (f'index-url = {mirror}\n', {}, ''),
            (
                f'index-url = {mirror}\n{hosts}',
                {},
                'mirror.test other.test:8443',
            ),
            (hosts, {'PIP_INDEX_URL': mirror}, 'mirror.test other.test:8443'),
            (
                f'index-url = {mirror}\n{hosts}',
                {'PIP_TRUSTED_HOST': 'a.test  b.test'},
                'a.test b.test',
            ),
            # Settings of uv win, and the hosts belong to the index.
            (
                f'index-url = {mirror}\n{hosts}',
                {'UV_INSECURE_HOST': 'c.test'},
                'c.test',
            ),
            (hosts, {}, ''),
            (hosts, {'UV_DEFAULT_INDEX': mirror}, ''),
        ):
            config.write_text(f'[global]\n{text}')
            self.find_index(**config_env, **variables)
            self.assertEqual(expected, self.read_hosts())


class DigestsTest(testtools.TestCase):
    """The files that 'make requirements' writes."""

    def packages(self, path: Path) -> dict[str, str]:
        """Return the version of each package, after a check of its form."""
        text = path.read_text(encoding='utf-8')
        self.assertNotIn('://', text)
        # Entries begin in the first column, digests do not.
        entries = re.split(r'(?m)^(?=[a-z0-9])', text)[1:]
        versions = {}
        for entry in entries:
            self.assertRegex(
                entry,
                r'\A[a-z0-9.-]+==[0-9][^ ]*( ; [^\\]+)?'
                r'( \\\n    --hash=sha256:[0-9a-f]{64})+\n\Z',
            )
            name, _, version = entry.split()[0].partition('==')
            versions[name] = version
        return versions

    def test_services(self) -> None:
        for path in share.LAB.rglob('constraints.txt'):
            versions = self.packages(path.with_name('requirements.txt'))
            for line in path.read_text().splitlines():
                if line and not line.startswith('#'):
                    name, _, version = line.partition('==')
                    self.assertEqual(version, versions.get(name), name)

    def test_clients_and_builds(self) -> None:
        data = tomllib.loads((TOP / 'pyproject.toml').read_text())
        optional = data['project']['optional-dependencies']
        installed = [
            *data['project']['dependencies'],
            *(optional['rally'] + optional['tempest'] + optional['lab']),
            *(optional['docs'] + optional['test']),
        ]
        for path, requirements in (
            (TOP / 'etc' / 'requirements.txt', installed),
            (venv.build_requirements(), data['build-system']['requires']),
        ):
            versions = self.packages(path)
            for requirement in requirements:
                name = re.split('[<>=!]', requirement)[0]
                self.assertIn(extras.normalize(name), versions)


class BootstrapTest(testtools.TestCase):
    """The shell function that finds the package in messages."""

    def changed(self, message: str) -> str:
        script = (TOP / 'tools' / 'bootstrap').read_text()
        body = re.search(r'(?ms)^changed\(\) \{.*?^\}\n', script)
        assert body
        return subprocess.run(
            ['sh', '-c', f'{body[0]}changed /dev/stdin'],
            input=message,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def test_uv(self) -> None:
        self.assertEqual('cffi==2.1.1\n', self.changed(MISMATCH))

    def test_pip(self) -> None:
        message = (
            'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE '
            'REQUIREMENTS FILE.\n'
            '    uv==0.13.8 from https://index.test/uv.whl (from -r uv.txt):\n'
            '        Expected sha256 00\n'
        )
        self.assertEqual('uv==0.13.8\n', self.changed(message))

    def test_other_failures(self) -> None:
        self.assertEqual('', self.changed('error: connection reset\n'))


#: Debian's interpreter; it notes the environments that ``-m venv`` makes.
_PYTHON = """
top=${0%/*/*}
case $* in
*cache_tag*) cat "$top/version" ;;
'-m venv --clear .venv')
    rm -rf .venv
    mkdir -p .venv/bin
    ln -s /bin/true .venv/bin/uv
    echo "$PWD $(cat "$top/version")" >>"$top/environments"
    ;;
esac"""


class UserTest(testtools.TestCase):
    """Who may run the script, in a clone whose .venv is complete."""

    def setUp(self) -> None:
        super().setUp()
        self.clone = Path(self.useFixture(fixtures.TempDir()).path)
        self.programs = self.clone / 'programs'
        for name in ('tools', 'programs', '.venv'):
            (self.clone / name).mkdir()
        self.write_program('python3', _PYTHON)
        (self.clone / 'version').write_text('cpython-311\n')
        script = (TOP / 'tools' / 'bootstrap').read_text()
        script = script.replace(
            '\npython=/usr/bin/python3\n',
            f'\npython={self.programs}/python3\n',
        )
        # The settings that uv has on this machine are not read.
        files = ' /etc/uv/uv.toml /etc/xdg/uv/uv.toml'
        self.assertIn(files, script)
        script = script.replace(files, '')
        (self.clone / 'tools' / 'bootstrap').write_text(script)
        for path in (
            *('pyproject.toml', 'setup.cfg', 'setup.py'),
            'etc/requirements.txt',
            'hvstack/share/lab/build-requirements.txt',
        ):
            (self.clone / path).parent.mkdir(parents=True, exist_ok=True)
            (self.clone / path).touch()
        identity = f'{self.clone.resolve()} cpython-311\n'
        (self.clone / '.venv' / '.made').write_text(identity)
        digest = hashlib.sha256((identity + script).encode()).hexdigest()[:16]
        (self.clone / '.venv' / f'.hvstack-{digest}').touch()
        self.write_program('apt-get', f'touch {self.clone}/installed; exit 1')

    def write_program(self, name: str, commands: str) -> None:
        """Write a program that precedes the machine's."""
        path = self.programs / name
        path.write_text(f'#!/bin/sh\n{commands}\n')
        path.chmod(0o755)

    def bootstrap(
        self,
        user_id: int,
        *args: str,
        path: str = os.environ['PATH'],
        **variables: str,
    ) -> tuple[int, str]:
        """Return the status and the messages of the script."""
        self.write_program('id', f'echo {user_id}')
        done = subprocess.run(
            ['/bin/sh', self.clone / 'tools' / 'bootstrap', *args],
            env={'PATH': f'{self.programs}:{path}', **variables},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stderr

    def test_only_a_lab_needs_root(self) -> None:
        if not shutil.which('git', path='/usr/bin:/bin'):
            self.skipTest('needs git')
        self.assertEqual((0, ''), self.bootstrap(1000))
        status, message = self.bootstrap(1000, 'lab')
        self.assertEqual(3, status)
        self.assertIn('the lab needs root', message)
        if packages.release():
            self.assertEqual((0, ''), self.bootstrap(0, 'lab'))

    def test_index_that_pip_is_set_to(self) -> None:
        """A machine that reaches only a mirror could not have .venv."""
        for path in (self.clone / '.venv').glob('.hvstack-*'):
            path.unlink()
        (self.clone / '.venv' / 'bin').symlink_to(self.programs)
        log = self.clone / 'index'
        self.write_program('python', 'exit 0')
        self.write_program(
            'uv', f'echo "$UV_DEFAULT_INDEX $UV_INSECURE_HOST" >{log}'
        )
        # In the form in which pip prints two lines.
        (self.clone / 'options').write_text(
            "global.extra-index-url='x'\nglobal.index-url='pip'\n"
            "global.trusted-host='\\na.test\\nb.test:8443'\n"
        )
        self.write_program(
            'pip',
            f'[ "$*" = "${{*%config list}}" ] || cat {self.clone}/options',
        )
        settings = self.clone / 'uv' / 'uv.toml'
        settings.parent.mkdir()
        config_env = {'XDG_CONFIG_HOME': str(self.clone)}
        for text, variables, index in (
            ('', {}, 'pip a.test b.test:8443'),
            ('', {'PIP_INDEX_URL': 'other'}, 'other a.test b.test:8443'),
            ('', {'PIP_TRUSTED_HOST': 'c.test\n d.test'}, 'pip c.test d.test'),
            ('', {'UV_INSECURE_HOST': 'c.test'}, 'pip c.test'),
            ('', {'UV_DEFAULT_INDEX': 'other'}, 'other '),
            ('', {'UV_INDEX_URL': 'other'}, ' '),
            ('index-url = "other"', {}, ' '),
        ):
            settings.write_text(text)
            self.assertEqual(
                0, self.bootstrap(1000, **config_env, **variables)[0]
            )
            self.assertEqual(f'{index}\n', log.read_text())
            for path in (self.clone / '.venv').glob('.hvstack-*'):
                path.unlink()

    def test_clone_of_another_user(self) -> None:
        """Git refused it, and pbr had no version."""
        git = shutil.which('git', path='/usr/bin:/bin')
        if not git:
            self.skipTest('needs git')
        subprocess.run([git, 'init', '-q', self.clone], check=True)
        for path in (self.clone / '.venv').glob('.hvstack-*'):
            path.unlink()
        # What pbr does where uv builds hvstack.
        self.write_program('uv', 'exec git rev-parse --git-dir >/dev/null')
        self.write_program('sleep', 'exit 0')
        (self.clone / '.venv' / 'bin').symlink_to(self.programs)
        self.write_program('python', 'exit 0')
        variables = {
            'GIT_TEST_ASSUME_DIFFERENT_OWNER': '1',
            'GIT_CONFIG_COUNT': '1',
            'GIT_CONFIG_KEY_0': 'safe.directory',
            'GIT_CONFIG_VALUE_0': '/nonexistent',
        }
        status, message = self.bootstrap(1000, **variables)
        self.assertEqual((0, 'hvstack: setting up .venv\n'), (status, message))

    def test_python_of_a_newer_release_of_debian(self) -> None:
        """The new Python had no packages, and .venv was never made again."""
        (self.clone / 'version').write_text('cpython-313\n')
        for _ in range(2):
            self.assertEqual(0, self.bootstrap(1000)[0])
        environments = (self.clone / 'environments').read_text()
        self.assertEqual(f'{self.clone.resolve()} cpython-313\n', environments)

    def test_clone_that_was_moved_or_copied(self) -> None:
        """Programs of a copy ran the code of the original."""
        parent = Path(self.useFixture(fixtures.TempDir()).path)
        names = ('copy', 'moved')
        for name in names:
            original, self.clone = self.clone, parent / name
            if name == 'copy':
                shutil.copytree(original, self.clone)
            else:
                original.rename(self.clone)
            for _ in range(2):
                self.assertEqual(0, self.bootstrap(1000)[0])
        # The interpreter is that of the first clone.
        text = (self.programs.parent / 'environments').read_text()
        self.assertEqual(
            [f'{parent.resolve()}/{name} cpython-311' for name in names],
            text.splitlines(),
        )

    def test_only_root_installs_packages(self) -> None:
        """Git is not installed."""
        for name in ('dirname', 'mktemp', 'rm'):
            program = shutil.which(name)
            assert program
            (self.programs / name).symlink_to(program)
        status, message = self.bootstrap(1000, path='/nonexistent')
        self.assertEqual(3, status)
        self.assertIn('Cannot make .venv: ', message)
        self.assertFalse((self.clone / 'installed').exists())

    def test_targets_of_make(self) -> None:
        text = (TOP / 'Makefile').read_text()
        lines = re.findall(r'(?m)^([a-z-]+):.*\$\(bootstrap\)(.*)', text)
        labs = {name for name, args in lines if args.startswith(' lab ')}
        self.assertEqual({'demo', 'test', 'test-long', 'test-machines'}, labs)
