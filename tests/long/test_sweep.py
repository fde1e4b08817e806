# SPDX-License-Identifier: Apache-2.0
"""A small sweep that is killed, and resumes from its records alone."""

import signal
import subprocess
import time
from collections.abc import Callable

from hvstack import processutils
from hvstack.cloud import allocation_ratios, journal
from hvstack.cluster import acquired_hosts
from hvstack.results import record
from hvstack.sweep import sweep_store
from tests.long.sweeps import BY_HAND, HVSTACK, SweepCase

_SECONDS = 900.0


def are_hosts_taken() -> bool:
    """Tell whether bare-metal hosts are taken."""
    return bool(list(acquired_hosts.ACQUIRED_HOSTS_DIR.glob('*.json')))


def noted(resource_type: str) -> bool:
    """Tell whether a change of this kind is in the journal."""
    return any(change.kind == resource_type for change in journal.entries())


class SweepTest(SweepCase):
    def killed(self, args: list[str], moment: Callable[[], bool]) -> str:
        """Start a command, SIGKILL it at a moment, and return its sweep."""
        with subprocess.Popen(
            [HVSTACK, *args],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                processutils.wait_for(
                    lambda: process.poll() is not None or moment(),
                    'the moment to kill',
                    timeout=_SECONDS,
                    interval=0.2,
                )
                self.assertIsNone(process.poll(), 'it ended before')
            finally:
                process.send_signal(signal.SIGKILL)
        # Rally dies with it; a moment later nothing of it writes any more.
        processutils.wait_for(self.quiet, 'Rally to die', timeout=30)
        return sweep_store.list_sweeps()[-1].id

    def finish(self, sweep: str, runs: dict[str, int]) -> None:
        """Let a sweep go on to its end; nothing of it may be left."""
        before = self.files(sweep)
        done = processutils.run(
            [HVSTACK, 'sweep', 'resume', sweep], timeout=3600, check=False
        )
        self.assertEqual(0, done.returncode, done.stderr[-3000:])
        after = self.files(sweep)
        self.assertEqual(before, {name: after[name] for name in before})
        counts: dict[str, list[int]] = {}
        for run_record in record.load_all(sweep_store.RECORDS_DIR, sweep):
            if run_record.valid:
                counts.setdefault(run_record.configuration, []).append(
                    run_record.index
                )
        self.assertEqual(
            {name: list(range(count)) for name, count in runs.items()},
            {name: sorted(indexes) for name, indexes in counts.items()},
        )
        self.assertEqual(self.flavors, self.flavor_names())
        self.assertEqual([], list(self.cloud.orchestration.stacks()))
        self.assertEqual([], journal.entries())
        self.assertFalse(are_hosts_taken())
        now = allocation_ratios.current(self.cloud, self.providers)
        self.assertEqual({BY_HAND}, {ratio['VCPU'] for ratio in now.values()})

    def test_ended_in_a_run(self) -> None:
        """Rally's runner loses Ctrl-C: no other workload may begin."""
        with subprocess.Popen(
            [HVSTACK, *self.sweep_args('instances=1')],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if 'HSSort ...' in line:
                    # As Ctrl-C, which tests in the background may ignore.
                    process.send_signal(signal.SIGTERM)
                    break
            output = process.stderr.read()
        self.assertEqual(130, process.returncode, output)
        self.assertIn('interrupted', output)
        sweep = sweep_store.list_sweeps()[-1].id
        log = sweep_store.SWEEPS_DIR.parent / 'logs' / f'{sweep}.log'
        self.assertIn('bare metal: give the hosts back', log.read_text())
        self.assertNotIn('i1: stack', log.read_text())
        self.assertEqual({}, self.files(sweep))
        self.assertEqual([], journal.entries())
        self.assertFalse(are_hosts_taken())

    def test_killed_while_the_stack_is_made(self) -> None:
        sweep = self.killed(
            self.sweep_args('instances=1'), lambda: noted('stack')
        )
        done = self.files(sweep)
        self.assertEqual(1, len(done), 'bare metal comes first')
        self.finish(
            sweep, {'bare-metal': 2, 'i1-c1-m1-local-shared-unpinned': 1}
        )

    def test_killed_at_five_moments(self) -> None:
        """One sweep: on bare metal, with flavors, ratios, a stack, a run."""

        def sorting() -> bool:
            log = (
                sweep_store.SWEEPS_DIR.parent
                / 'logs'
                / f'{sweep_store.list_sweeps()[-1].id}.log'
            )
            return log.exists() and 'HSSort ...' in log.read_text()[size:]

        size = 0
        sweep = self.killed(self.sweep_args('instances=1,2'), are_hosts_taken)
        for moment in (
            lambda: noted('flavor'),
            lambda: noted('ratio'),
            lambda: noted('stack'),
            sorting,
        ):
            log = sweep_store.SWEEPS_DIR.parent / 'logs' / f'{sweep}.log'
            size = len(log.read_text())
            self.killed(['sweep', 'resume', sweep], moment)
            time.sleep(1)
        self.finish(
            sweep,
            {
                # First and last, as two configurations are a pass.
                'bare-metal': 2,
                'i1-c1-m1-local-shared-unpinned': 1,
                'i2-c1-m1-local-shared-unpinned': 1,
            },
        )
