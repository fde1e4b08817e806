# SPDX-License-Identifier: Apache-2.0
"""Directories of the state of sweeps, for tests."""

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
