# SPDX-License-Identifier: Apache-2.0
"""Create the cloud and its user, run the stages, remove everything."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hvstack import processutils
from hvstack.cluster import baseline_hosts
from hvstack.lab import constants
from tests.long.other_cloud import offloads, proxy, resources
from tests.long.other_cloud import state as names
from tests.long.other_cloud.state import State, say
from tests.long.other_cloud.user import User

#: Copy of the commands with their output, which stays.
LOG = Path('/tmp/hvstack-other-cloud.log')
_KEY = 'HVSTACK_OTHER_CLOUD_KEEP'


class OtherCloud:
    """The cloud, or what exists of it.

    :param state: IDs of what exists.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.user = User(state)

    @staticmethod
    def exists() -> bool:
        """Return whether an earlier process created the cloud."""
        return names.BASE.exists()

    @staticmethod
    def is_permanent() -> bool:
        """Return whether the cloud stays for single stages."""
        return bool(os.environ.get(_KEY))

    @classmethod
    def load(cls) -> 'OtherCloud':
        """Return the cloud that exists."""
        return cls(State())

    @classmethod
    def create(cls) -> 'OtherCloud':
        """Create the cloud.

        :raises AssertionError: it exists, or could not be created; what was
            created is removed, unless the cloud is to stay.
        """
        if cls.exists():
            raise AssertionError(
                f'{names.BASE} exists: run python -m tests.long.other_cloud '
                'down'
            )
        admin = resources.connect_admin()
        names.BASE.mkdir(mode=0o755)
        names.BASE.chmod(0o755)
        cloud = cls(State())
        try:
            cloud._create(admin)
        except BaseException:
            if not cls.is_permanent():
                cloud.remove()
            raise
        return cloud

    def _create(self, admin: Any) -> None:
        started_at = time.monotonic()
        self.state.note('started', time.strftime('%Y-%m-%d %H:%M:%S'))
        self.user.log.touch(mode=0o600)
        proxy.write_certificates(names.BASE, constants.MGMT)
        resources.create(admin, self.state)
        text = proxy.render(names.BASE / 'server.pem', proxy.lab_hosts())
        self.state.note('haproxy', proxy.start(names.BASE, text))
        self.user.create()
        say(f'other cloud: created in {time.monotonic() - started_at:.0f} s')

    def start_proxy(self) -> None:
        """Start haproxy again if it does not run."""
        pid = self.state.get('haproxy')
        if pid and not proxy.is_running(pid, names.BASE):
            text = proxy.render(names.BASE / 'server.pem', proxy.lab_hosts())
            self.state.note('haproxy', proxy.start(names.BASE, text))

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """Make tenant networks usable in a block."""
        if not names.has_tenant_network():
            yield
            return
        with offloads.disabled(self.state):
            yield

    def release_hosts(self) -> None:
        """Return the hosts of the baseline to Nova."""
        if not self.state.get('bare'):
            return
        for host in baseline_hosts.read():
            if host.release:
                processutils.run(host.release.argv(), timeout=600)
        self.state.note('bare', False)

    def remove(self) -> None:
        """Remove the cloud, its user and everything of both.

        :raises AssertionError: something could not be removed; its directory
            stays, for another attempt.
        """
        self.user.stage = 'clean-up'
        if self.user.log.exists():
            shutil.copy(self.user.log, LOG)
            LOG.chmod(0o600)
        failures = []
        for step in (self._undo, self.release_hosts):
            try:
                step()
            except Exception as exc:
                failures.append(f'{step.__name__}: {exc}')
                say(f'CLEAN-UP FAILED: {failures[-1]}')
        admin = resources.connect_admin()
        failures += resources.remove(admin, self.state)
        failures += [
            f'remains: {text}'
            for text in resources.list_remains(admin, self.state)
        ]
        if self.state.get('haproxy'):
            proxy.stop(self.state.get('haproxy'), names.BASE)
        offloads.restore(self.state)
        if failures:
            raise AssertionError('; '.join(failures))
        shutil.rmtree(names.BASE)

    def _undo(self) -> None:
        """Let the user's hvstack undo what an interrupted command left."""
        if not (self.user.bin / 'hvstack').exists():
            return
        self.start_proxy()
        cloud = ('--os-cloud', names.ADMIN_CLOUD)
        self.user.hvstack('sweep', 'recover', *cloud, status=None)
        if (self.user.config / 'accept').exists():
            self.user.hvstack(
                'accept', '--cleanup', *cloud, status=None, timeout=900
            )

    def format_table(self) -> str:
        """Return the seconds of all commands, by stage."""
        rows = self.state.get('commands', [])
        lines = [
            f'{seconds:8.1f} s  status {status}  {stage:12} {title[:110]}'
            for stage, title, seconds, status in rows
        ]
        totals = {
            stage: sum(row[2] for row in rows if row[0] == stage)
            for stage in dict.fromkeys(row[0] for row in rows)
        }
        lines += [
            f'{seconds:8.1f} s  stage {stage}'
            for stage, seconds in totals.items()
        ]
        return '\n'.join(lines)
