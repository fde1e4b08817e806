# SPDX-License-Identifier: Apache-2.0
"""Directories of the state of sweeps, and their hosts, for tests."""

import json
from pathlib import Path

import fixtures


class SweepDirectories(fixtures.Fixture):
    """Empty directories of sweeps, trials, studies, timelines and records."""

    def _setUp(self) -> None:
        self.path = Path(self.useFixture(fixtures.TempDir()).path)
        for name in (
            'sweep.sweep_store.SWEEPS_DIR',
            'sweep.sweep_store.RECORDS_DIR',
            'sweep.trials.TRIALS_DIR',
            'results.timeline.TIMELINES_DIR',
            'study.study_store.STUDIES_DIR',
        ):
            directory = self.path / name.rpartition('.')[2].lower()
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', directory))
        (self.path / 'records_dir').mkdir()


class BaselineHosts(fixtures.Fixture):
    """A list of two hosts for bare metal, which hvstack.conf names.

    :ivar path: path of the list.
    """

    def _setUp(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = directory / 'baseline.json'
        hosts = [
            {
                'name': role,
                'role': role,
                'address': '127.0.0.1',
                'vcpus': 2,
                'memory_mib': 4096,
                'enter': [],
            }
            for role in ('controller', 'worker')
        ]
        self.path.write_text(json.dumps(hosts))
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_SWEEP__BASELINE_HOSTS', str(self.path)
            )
        )
