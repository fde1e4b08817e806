# SPDX-License-Identifier: Apache-2.0
"""The package as users get it: built, and installed outside the clone.

The commands run as a user who is not root, with Debian's Python, in a home
directory that is deleted afterwards. One environment starts as the base
install and gets the extras; without an extra means without its packages.
"""

import atexit
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import testtools
from keystoneauth1 import fixture as ksa

from hvstack.results import record
from tests.unit.results import factory

TOP = Path(__file__).parents[2]
PYTHON = Path('/usr/bin/python3')
UV = Path(sys.executable).with_name('uv')
#: Debian's user without rights; where tests run without root, their user.
UNPRIVILEGED_ID = 65534
#: Settings of pip, uv and the network that a throw-away home needs, too.
PASSED = (
    'PIP_',
    'UV_',
    'SSL_CERT_',
    'REQUESTS_CA',
    'HTTP',
    'http',
    'NO_PROXY',
)
#: Packages of each extra, and a command that needs it.
EXTRAS = {
    'rally': (
        ('rally', 'rally-openstack'),
        ('sweep', 'resume', '00000000-0000-0000-0000-000000000000'),
    ),
    'tempest': (('tempest',), ('accept', '--catalogue', 'vsphere6')),
    'lab': (('supervisor', 'uv'), ('lab', 'status')),
}
SAMPLE = 'hvstack/share/hvstack.conf.sample'
PLAN = (
    *('sweep', 'plan', '--host', 'vsphere6', '--backend', 'kvm'),
    *('--values', 'instances=1,2,4'),
)


@functools.cache
def scratch() -> Path:
    """Return a directory that everybody can read, deleted at exit."""
    path = Path(tempfile.mkdtemp(prefix='hvstack-package-'))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    path.chmod(0o755)
    # The clone may be below a directory that only root can enter.
    shutil.copy(UV, path / 'uv')
    shutil.copy(Path(__file__).with_name('inside.py'), path)
    shutil.copy(TOP / 'etc' / 'constraints.txt', path)
    return path


@functools.cache
def home(name: str) -> Path:
    """Return a new home directory of the unprivileged user."""
    path = scratch() / name
    path.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(path, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
    return path


def run(
    directory: Path, *argv: str | os.PathLike[str], **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a home directory, as its owner.

    :param directory: the home directory.
    :param argv: the program and its arguments.
    :param env: further variables.
    """
    command = [os.fspath(word) for word in argv]
    if os.geteuid() == 0:
        ids = (
            f'--reuid={UNPRIVILEGED_ID}',
            f'--regid={UNPRIVILEGED_ID}',
            '--clear-groups',
        )
        command = ['setpriv', *ids, '--', *command]
    passed = {k: v for k, v in os.environ.items() if k.startswith(PASSED)}
    return subprocess.run(
        command,
        cwd=directory,
        env=passed
        | {
            'HOME': str(directory),
            'HVSTACK_ETC_DIR': str(directory / 'etc'),
            'PATH': '/usr/bin:/bin',
            'LANG': 'C.UTF-8',
            'UV_CACHE_DIR': str(directory / '.cache' / 'uv'),
        }
        | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def must_run(
    directory: Path, *argv: str | os.PathLike[str], **env: str
) -> str:
    """Run a program as :func:`run` does; return its output.

    :raises AssertionError: its exit status is not 0.
    """
    done = run(directory, *argv, **env)
    if done.returncode:
        raise AssertionError(
            f'{argv} exited with status {done.returncode}:\n'
            f'{done.stdout[-3000:]}\n{done.stderr[-3000:]}'
        )
    return done.stdout


def git(*args: str | os.PathLike[str], cwd: Path = TOP) -> bytes:
    """Return the output of git.

    The clone may belong to another user than the one who runs the tests.
    """
    return subprocess.run(
        ['git', '-c', 'safe.directory=*', *args],
        cwd=cwd,
        check=True,
        capture_output=True,
    ).stdout


def build(source: Path, *args: str) -> Path:
    """Build a wheel from a directory; return its path."""
    target = Path(tempfile.mkdtemp(dir=scratch()))
    target.chmod(0o755)
    subprocess.run(
        [
            UV,
            'build',
            '--quiet',
            '--wheel',
            *args,
            '--out-dir',
            target,
            source,
        ],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, 'SOURCE_DATE_EPOCH': '1700000000'},
        # Another repository must not lend its tags or its files.
        cwd=source,
    )
    (wheel,) = target.glob('*.whl')
    return wheel


@functools.cache
def clone() -> Path:
    """Return a clone of what is committed."""
    path = scratch() / 'clone'
    git('clone', '--quiet', '--no-hardlinks', TOP, path)
    return path


@functools.cache
def wheel() -> Path:
    """Return the wheel of the clone."""
    return build(clone())


def unpack(target: Path) -> Path:
    """Return an unpacked archive of the clone, which has no git history."""
    git('archive', '--output', target.with_suffix('.tar'), 'HEAD', cwd=clone())
    target.mkdir()
    subprocess.run(
        ['tar', '-xf', target.with_suffix('.tar'), '-C', target], check=True
    )
    return target


def content(path: Path) -> set[str]:
    """Return the names of a wheel's files, without those of its metadata."""
    names = zipfile.ZipFile(path).namelist()
    return {name for name in names if '.dist-info/' not in name}


class _PackageTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not (TOP / '.git').exists() or not shutil.which('git'):
            self.skipTest('not a clone, or git is not installed')
        if not PYTHON.exists() or not UV.exists():
            self.skipTest(f'{PYTHON} or {UV} is not installed')


class BuildTest(_PackageTest):
    """Wheels from a clone, a tag and an archive."""

    def test_wheel_holds_all_files_of_the_package(self) -> None:
        tracked = git('ls-files', '-z', 'hvstack', cwd=clone()).decode()
        self.assertEqual(set(tracked.split('\0')) - {''}, content(wheel()))

    def test_metadata(self) -> None:
        archive = zipfile.ZipFile(wheel())
        (name,) = (n for n in archive.namelist() if n.endswith('/METADATA'))
        metadata = archive.read(name).decode()
        self.assertIn('License-Expression: Apache-2.0', metadata)
        self.assertIn('Provides-Extra: all', metadata)
        base = [
            line
            for line in metadata.splitlines()
            if line.startswith('Requires-Dist') and 'extra ==' not in line
        ]
        for package in ('rally', 'tempest', 'supervisor', 'pip', 'setuptools'):
            self.assertNotIn(f'Requires-Dist: {package}', '\n'.join(base))

    def test_same_source_same_wheel(self) -> None:
        digests = {
            hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (wheel(), build(clone()))
        }
        self.assertEqual(1, len(digests))

    def test_archive_without_git(self) -> None:
        path = build(unpack(scratch() / 'archive'))
        commit = git('rev-parse', '--short', 'HEAD', cwd=clone()).decode()
        self.assertIn(f'+g{commit.strip()}-', path.name)
        self.assertEqual(content(wheel()), content(path))

    def test_tag(self) -> None:
        wheel()
        identity = ('-c', 'user.name=test', '-c', 'user.email=test@localhost')
        git(*identity, 'tag', '-m', 'test', '9.8.7', cwd=clone())
        try:
            paths = build(clone()), build(unpack(scratch() / 'tagged'))
        finally:
            git('tag', '--delete', '9.8.7', cwd=clone())
        for path in paths:
            self.assertEqual('hvstack-9.8.7-py3-none-any.whl', path.name)


class DocumentationTest(_PackageTest):
    """The documentation of a source distribution."""

    def test_build_without_git_and_network(self) -> None:
        target = Path(tempfile.mkdtemp(dir=scratch()))
        build_args = (UV, 'build', '--quiet', '--sdist', '--out-dir', target)
        subprocess.run([*build_args, clone()], check=True, cwd=clone())
        (archive,) = target.glob('*.tar.gz')
        subprocess.run(['tar', '-xf', archive, '-C', target], check=True)
        (source,) = (path for path in target.iterdir() if path.is_dir())
        isolate = ('unshare', '--net') if os.geteuid() == 0 else ()
        done = subprocess.run(
            [*isolate, sys.executable, 'tools/builddocs.py'],
            cwd=source,
            env={
                **os.environ,
                'PYTHONPATH': str(source),
                # No directory above is a repository.
                'GIT_CEILING_DIRECTORIES': str(target),
            },
            capture_output=True,
            text=True,
        )
        self.assertEqual((0, ''), (done.returncode, done.stderr), done.stdout)
        self.assertTrue((source / 'doc/build/html/index.html').exists())
        self.assertTrue((source / 'doc/build/man/hvstack.1').exists())
        self.assert_one_title(source / 'doc/build/html')

    def assert_one_title(self, site: Path) -> None:
        """Check that no page has text in the place of a title.

        A page of Markdown takes each comment of a file for a title that is
        not in a block of code.
        """
        titles = {
            str(page.relative_to(site)): page.read_text().count('<h1>')
            for page in site.rglob('*.html')
        }
        # The theme repeats the title above the text.
        self.assertEqual(
            [], [page for page, count in titles.items() if count > 2]
        )


class _Cloud(BaseHTTPRequestHandler):
    """The services, as far as 'cluster environment' asks them."""

    def do_POST(self) -> None:
        """Give a token, with a catalogue of the services."""
        token = ksa.V3Token(project_id='p1', user_id='u1')
        for service_type, path in (
            ('compute', 'v2.1'),
            ('identity', 'v3'),
            ('image', 'image'),
            ('network', 'network'),
        ):
            service = token.add_service(service_type)
            service.add_standard_endpoints(
                public=f'http://{self.headers["Host"]}/{path}', region='One'
            )
        self._answer(token, 201)

    def do_GET(self) -> None:
        """Answer discovery, limits and flavors; all else does not exist."""
        url = f'http://{self.headers["Host"]}{self.path}'.rstrip('/')
        path = self.path.partition('?')[0].rstrip('/')
        nova = {
            'id': 'v2.1',
            'status': 'CURRENT',
            'version': '2.96',
            'min_version': '2.1',
            'links': [{'rel': 'self', 'href': url}],
        }
        flavor = {
            'id': 'f1',
            'name': 'worker',
            'vcpus': 4,
            'ram': 16384,
            'disk': 20,
            'OS-FLV-EXT-DATA:ephemeral': 0,
            'swap': 0,
            'rxtx_factor': 1.0,
            'os-flavor-access:is_public': True,
            'extra_specs': {},
        }
        network = {'id': 'n1', 'name': 'provider', 'subnets': ['s1']}
        answers: dict[str, Any] = {
            '/v3': {'version': ksa.V3Discovery(url)},
            '/v2.1': {'version': nova},
            '/v2.1/limits': {'limits': {'rate': [], 'absolute': {}}},
            '/v2.1/flavors/detail': {'flavors': [flavor]},
            '/v2.1/os-keypairs/mine': {'keypair': {'name': 'mine'}},
            '/image': {
                'versions': [
                    {
                        'id': 'v2.9',
                        'status': 'CURRENT',
                        'links': [{'rel': 'self', 'href': f'{url}/v2/'}],
                    }
                ]
            },
            '/image/v2/images': {
                'images': [{'id': 'i1', 'name': 'hvstack-hadoop'}]
            },
            '/network': {
                'versions': [
                    {
                        'id': 'v2.0',
                        'status': 'CURRENT',
                        'links': [{'rel': 'self', 'href': f'{url}/v2.0/'}],
                    }
                ]
            },
            '/network/v2.0/networks': {'networks': [network]},
            '/network/v2.0/networks/n1': {'network': network},
            '/network/v2.0/subnets': {
                'subnets': [
                    {
                        'id': 's1',
                        'network_id': 'n1',
                        'ip_version': 4,
                        'cidr': '192.0.2.0/24',
                        'allocation_pools': [
                            {'start': '192.0.2.10', 'end': '192.0.2.200'}
                        ],
                    }
                ]
            },
        }
        answer = answers.get(path)
        self._answer(answer or {}, 200 if answer else 404)

    def _answer(self, document: Any, status: int) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.send_header('X-Subject-Token', 'token-of-test')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@contextmanager
def cloud() -> Iterator[dict[str, str]]:
    """Serve a cloud on loopback; yield the variables of its credentials."""
    server = ThreadingHTTPServer(('127.0.0.1', 0), _Cloud)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {
            'OS_AUTH_URL': f'http://127.0.0.1:{server.server_port}/v3',
            'OS_USERNAME': 'me',
            'OS_PASSWORD': 'secret-of-test',
            'OS_PROJECT_NAME': 'mine',
            'OS_USER_DOMAIN_NAME': 'Default',
            'OS_PROJECT_DOMAIN_NAME': 'Default',
            'OS_IDENTITY_API_VERSION': '3',
            'NO_PROXY': '127.0.0.1',
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@functools.cache
def environment() -> Path:
    """Return the directory of programs of a virtual environment.

    It has the base install.
    """
    directory = home('venv')
    must_run(directory, PYTHON, '-m', 'venv', '--without-pip', '.venv')
    install()
    return directory / '.venv' / 'bin'


def install(extra: str = '') -> None:
    """Install hvstack into the virtual environment."""
    must_run(
        home('venv'),
        *(scratch() / 'uv', 'pip', 'install', '--quiet'),
        *('--python', '.venv/bin/python'),
        *('--constraint', scratch() / 'constraints.txt'),
        f'hvstack{extra} @ file://{wheel()}',
    )


def uninstall(*packages: str) -> None:
    """Remove packages from the virtual environment."""
    must_run(
        home('venv'),
        *(scratch() / 'uv', 'pip', 'uninstall', '--quiet'),
        *('--python', '.venv/bin/python', *packages),
    )


class InstalledTest(_PackageTest):
    """One test goes through all installations, one after the other."""

    def check_base(self, directory: Path, bin: Path, python: Path) -> None:
        """Check everything that the base install promises."""
        hvstack = bin / 'hvstack'
        version = must_run(directory, hvstack, '--version').split()[-1]
        self.assertEqual(wheel().name.split('-')[1], version)
        inside = (python, '-I', scratch() / 'inside.py')
        if bin.parent.name == '.local':
            # Isolated mode would leave out what --user installs.
            inside = (python, '-P', scratch() / 'inside.py')
        must_run(directory, *inside, 'help')
        derived = must_run(
            directory,
            *(hvstack, 'flavor', 'derive', '--host', 'vsphere6'),
            *('--instances', '4', '-f', 'value', '-c', 'name'),
        )
        self.assertIn('hv-vsphere6-worker-i4', derived)
        must_run(directory, hvstack, 'flavor', 'lint', 'vsphere6')
        size = must_run(
            directory,
            *(hvstack, 'cluster', 'size', '--host', 'vsphere6'),
            *('--hosts', '32', '--instances', '4', '-f', 'json'),
        )
        self.assertIn('"workers"', size)
        with cloud() as credentials:
            text = must_run(
                directory,
                *(hvstack, 'cluster', 'environment', '--hosts', '3'),
                *('--worker-flavor', 'worker', '--key-name', 'mine'),
                *('--configuration', 'i2'),
                **credentials,
            )
        self.assertIn('worker_flavor: worker', text)
        self.assertNotIn(str(TOP), text)
        must_run(directory, hvstack, *PLAN)
        task = must_run(directory, hvstack, 'task', 'path', 'quick')
        self.assertTrue(task.strip().endswith('rally-tasks/quick.yaml'))
        self.assertNotIn(str(TOP), task)
        template = must_run(
            directory, hvstack, 'template', 'path', 'hadoop-cluster'
        )
        self.assertNotIn(str(TOP), template)
        records = scratch() / 'records'
        if not records.exists():
            for hour, (configuration, index, seconds) in enumerate(
                (
                    *(('bare-metal', 0, 100.0), ('bare-metal', 1, 102.0)),
                    *(('i2', 0, 110.0), ('i2', 1, 112.0)),
                )
            ):
                run_record = factory.run(
                    *(configuration, index, seconds),
                    started=f'2026-11-21T0{hour}:45:00Z',
                )
                # A signature would need a key of the machine's.
                run_record = factory.with_digest(run_record)
                record.store(run_record, records)
            records.chmod(0o755)
            for path in records.iterdir():
                path.chmod(0o644)
        report = must_run(
            directory,
            *(hvstack, 'report', '--unsigned', '--records', records),
        )
        self.assertIn('i2', report)
        self.assertIn('bare metal', report)

    def check_extra(self, extra: str) -> None:
        """Check the commands of an extra that is installed."""
        directory, bin = home('venv'), environment()
        if extra == 'rally':
            output = must_run(directory, bin / 'rally', 'plugin', 'list')
            for plugin in ('HVStack.tpcx_hs', 'hvstack_cluster'):
                self.assertIn(plugin, output)
            must_run(
                directory,
                *(bin / 'python', '-I', scratch() / 'inside.py', 'tasks'),
            )
        elif extra == 'tempest':
            output = must_run(directory, bin / 'tempest', 'list-plugins')
            self.assertIn('hvstack', output)
        done = run(directory, bin / 'hvstack', *EXTRAS[extra][1])
        self.assertNotIn('pip install', done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def check_missing(self, extra: str) -> None:
        """Check the commands of an extra that is not installed."""
        done = run(home('venv'), environment() / 'hvstack', *EXTRAS[extra][1])
        self.assertIn(f"pip install 'hvstack[{extra}]'", done.stderr)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
        self.assertEqual(3, done.returncode)

    def test_virtual_environment(self) -> None:
        directory, bin = home('venv'), environment()
        python = bin / 'python'
        self.check_base(directory, bin, python)
        for extra in EXTRAS:
            self.check_missing(extra)
        sample = must_run(
            directory,
            *(bin / 'oslo-config-generator', '--namespace', 'hvstack'),
        )
        self.assertEqual((clone() / SAMPLE).read_text('utf-8'), sample)
        install('[all]')
        inside = scratch() / 'inside.py'
        must_run(directory, python, '-I', inside, 'imports')
        for extra in EXTRAS:
            self.check_extra(extra)
        for extra, (packages, _) in EXTRAS.items():
            uninstall(*packages)
            self.check_missing(extra)
            must_run(directory, python, '-I', inside, 'help')
            must_run(directory, bin / 'hvstack', *PLAN)
            for other in set(EXTRAS) - {extra}:
                self.check_extra(other)
            install('[all]')

    def test_user_install(self) -> None:
        wheels = sorted(Path('/usr/share/python-wheels').glob('pip-*.whl'))
        if not wheels:
            self.skipTest("Debian's wheel of pip is not installed")
        directory = home('user')
        must_run(
            directory,
            *(PYTHON, wheels[-1] / 'pip', 'install', '--quiet', '--user'),
            *('--break-system-packages', '--no-warn-script-location'),
            *('--constraint', scratch() / 'constraints.txt', wheel()),
        )
        self.check_base(directory, directory / '.local' / 'bin', PYTHON)
