# SPDX-License-Identifier: Apache-2.0
"""A user who is not root, with the wheel in a virtual environment."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from hvstack.lab import constants
from tests.long.other_cloud import state as names
from tests.long.other_cloud.proxy import URL
from tests.long.other_cloud.state import State, say
from tests.package.test_package import (
    PASSED,
    PYTHON,
    TOP,
    UNPRIVILEGED_ID,
    UV,
    wheel,
)

#: Variables that only pip and uv get: hvstack must not use their bundle of
#: certificates in place of that of the cloud.
_INSTALLER = ('PIP_', 'UV_', 'SSL_CERT_', 'REQUESTS_CA')
#: Seconds for a command to undo its changes after an interruption.
_END_SECONDS = 300


class CommandFailedError(AssertionError):
    """A command had another exit status than expected."""


class User:
    """The user, his home directory and his commands.

    :param state: gets the seconds of each command.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.home = names.BASE / 'u'
        self.bin = self.home / 'venv' / 'bin'
        self.config = self.home / '.local' / 'state' / 'hvstack'
        self.key = self.home / 'key'
        self.log = names.BASE / 'log'
        self.stage = ''

    def create(self) -> None:
        """Create the home directory."""
        self.home.mkdir(mode=0o700)
        os.chown(self.home, UNPRIVILEGED_ID, UNPRIVILEGED_ID)

    def write(self, path: Path, text: str, mode: int = 0o600) -> Path:
        """Write a file as the user would do it."""
        parents = [
            parent
            for parent in path.parents
            if parent.is_relative_to(self.home)
        ]
        for parent in reversed(parents):
            if not parent.exists():
                parent.mkdir(mode=0o700)
                os.chown(parent, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        path.write_text(text, 'utf-8')
        path.chmod(mode)
        os.chown(path, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        return path

    def _env(self, is_installer: bool) -> dict[str, str]:
        env = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(PASSED)
            and (is_installer or not name.startswith(_INSTALLER))
        }
        direct = f'{constants.MGMT},127.0.0.1,localhost'
        no_proxy = ','.join(filter(None, (env.get('NO_PROXY'), direct)))
        return env | {
            'HOME': str(self.home),
            'HVSTACK_ETC_DIR': f'{self.home}/etc',
            'PATH': f'{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin',
            'LANG': 'C.UTF-8',
            'UV_CACHE_DIR': str(self.home / 'uv'),
            'NO_PROXY': no_proxy,
            'no_proxy': no_proxy,
        }

    def run(
        self,
        *argv: str | os.PathLike[str],
        status: int | None = 0,
        timeout: float = 600,
        is_installer: bool = False,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the home directory.

        :param argv: command and arguments.
        :param status: expected exit status; None accepts each.
        :param timeout: seconds.
        :param is_installer: whether it is pip or uv.
        :param variables: further environment variables.
        :raises CommandFailedError: the command had another exit status, or
            took too long. The message contains all of its output.
        """
        args = [os.fspath(word) for word in argv]
        title = shlex.join([Path(args[0]).name, *args[1:]])
        say(f'{self.stage}: {title}')
        started_at = time.monotonic()
        process = subprocess.Popen(
            [
                *('setpriv', f'--reuid={UNPRIVILEGED_ID}'),
                *(f'--regid={UNPRIVILEGED_ID}', '--clear-groups', '--'),
                *args,
            ],
            cwd=self.home,
            env=self._env(is_installer) | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        is_late = False
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            is_late = True
            stdout, stderr = _end(process)
        except BaseException:
            _end(process)
            raise
        seconds = round(time.monotonic() - started_at, 1)
        self.state.append(
            'commands', [self.stage, title, seconds, process.returncode]
        )
        text = (
            f'$ {title}\n{stdout}{stderr}'
            f'[{self.stage}, status {process.returncode}, {seconds} s]\n'
        )
        with self.log.open('a', encoding='utf-8') as stream:
            stream.write(text)
        say(f'{self.stage}: status {process.returncode}, {seconds} s')
        if is_late:
            raise CommandFailedError(
                f'not complete after {timeout} s:\n{text}'
            )
        if status not in (None, process.returncode):
            raise CommandFailedError(f'status {status} was expected:\n{text}')
        return subprocess.CompletedProcess(
            args, process.returncode, stdout, stderr
        )

    def hvstack(
        self, *args: str | os.PathLike[str], **kwargs: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of hvstack, see :meth:`run`."""
        return self.run(self.bin / 'hvstack', *args, **kwargs)

    def openstack(
        self, cloud: str, *args: str, **kwargs: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of python-openstackclient, see :meth:`run`."""
        return self.run(
            self.bin / 'openstack', '--os-cloud', cloud, *args, **kwargs
        )

    def refused(
        self, *args: str, word: str, **kwargs: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of hvstack that is refused in one line.

        :param word: part of the line.
        """
        done = self.hvstack(*args, status=None, **kwargs)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        title = ' '.join(args)
        self.state.expect(done.returncode, f"'{title}' was not refused")
        self.state.expect(
            len(lines) == 1,
            f"'{title}' was refused in {len(lines)} lines: {lines[-5:]}",
        )
        self.state.expect(
            word in done.stderr,
            f"the refusal of '{title}' does not contain '{word}': "
            f'{lines[-1:]}',
        )
        say(f'{self.stage}: refused: {" ".join(lines[-1:])}')
        return done

    def install(self) -> None:
        """Install the wheel of the work tree with all extras.

        Not part of the wheel are the clients of OpenStack.
        """
        package = names.BASE / wheel().name
        shutil.copy(wheel(), package)
        package.chmod(0o644)
        # The clone may be below a directory that only root can enter.
        program = names.BASE / 'uv'
        shutil.copy(UV, program)
        constraints = names.BASE / 'constraints.txt'
        shutil.copy(TOP / 'etc' / 'constraints.txt', constraints)
        self.run(PYTHON, '-m', 'venv', '--without-pip', 'venv')
        self.run(
            *(program, 'pip', 'install', '--quiet'),
            *('--python', self.bin / 'python'),
            *('--constraint', constraints, f'hvstack[all] @ file://{package}'),
            *('python-openstackclient', 'osc-placement'),
            timeout=1800,
            is_installer=True,
        )

    def write_clouds(self) -> None:
        """Write clouds.yaml with the certificate of the CA."""
        certificate = self.home / 'ca.pem'
        shutil.copy(names.BASE / 'ca.pem', certificate)
        os.chown(certificate, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        common = {
            'region_name': names.REGION,
            'interface': 'public',
            'identity_api_version': 3,
            'cacert': str(certificate),
        }
        url = f'{URL}/identity'
        passwords = self.state.get('passwords')
        users = {names.CLOUD: names.MEMBER, names.ADMIN_CLOUD: names.ADMIN}
        clouds: dict[str, Any] = {
            cloud: {
                'auth': {
                    'auth_url': url,
                    'username': user,
                    'password': passwords[user],
                    'project_name': names.PROJECT,
                    'user_domain_name': 'Default',
                    'project_domain_name': 'Default',
                },
                **common,
            }
            for cloud, user in users.items()
        }
        clouds[names.BLIND_CLOUD] = {
            key: value
            for key, value in clouds[names.CLOUD].items()
            if key != 'cacert'
        }
        credential = self.state.get('credential')
        if credential:
            clouds[names.APPLICATION_CLOUD] = {
                'auth_type': 'v3applicationcredential',
                'auth': {'auth_url': url, **credential},
                **common,
            }
        self.write(
            self.home / '.config' / 'openstack' / 'clouds.yaml',
            yaml.safe_dump({'clouds': clouds}),
        )

    def write_accounts(self) -> Path:
        """Write Tempest's accounts.yaml; return its path."""
        common = {
            'project_name': names.PROJECT,
            'user_domain_name': 'Default',
            'project_domain_name': 'Default',
        }
        passwords = self.state.get('passwords')
        users = [
            {
                'username': user,
                'password': passwords[user],
                **common,
                **extra,
            }
            for user, extra in (
                (names.MEMBER, {'roles': ['member']}),
                (names.ADMIN, {'types': ['admin']}),
            )
        ]
        path = self.home / 'accounts.yaml'
        return self.write(path, yaml.safe_dump(users))

    def read_json(
        self, done: subprocess.CompletedProcess[str]
    ) -> list[dict[str, Any]]:
        """Return the rows that a command printed with ``-f json``."""
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows


def _end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Interrupt a command, then end it; return its output."""
    for signum in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_END_SECONDS)
    return '', ''
