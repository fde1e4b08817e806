# SPDX-License-Identifier: Apache-2.0
"""Phases of a run as its record contains them."""

import testtools

from hvstack.results.observations import DataCheck, MachineCpu
from hvstack.tpcxhs.result import PhaseResult

JOB = 'job_1_1'


class PhaseResultTest(testtools.TestCase):
    def test_facts_that_are_unknown_are_missing(self) -> None:
        self.assertEqual(
            {'name': 'HSSort', 'seconds': 3.5},
            PhaseResult('HSSort', 3.5).to_mapping(),
        )

    def test_client_that_printed_no_job(self) -> None:
        """A client that was stopped at the deadline has no key at all."""
        for job_id in (JOB, None):
            phase = PhaseResult('HSSort', 3.5, 7.0, None, True, job_id)
            self.assertEqual(
                {
                    'name': 'HSSort',
                    'seconds': 3.5,
                    'began': 7.0,
                    'job_id': job_id,
                },
                phase.to_mapping(),
            )

    def test_data_check_and_machine(self) -> None:
        phase = PhaseResult(
            'HSDataCheck',
            3.5,
            data_check=DataCheck(100, 2, 2, 0),
            machine_cpu=MachineCpu(seconds=3.5, busy=1.25),
        )
        self.assertEqual(
            {
                'name': 'HSDataCheck',
                'seconds': 3.5,
                'bytes': 100,
                'files': 2,
                'blocks': 2,
                'blocks_on_one_host': 0,
                'machine_cpu': {
                    'seconds': 3.5,
                    'busy': 1.25,
                    'hosts': 0,
                    'control_plane': 0,
                    'hvstack': 0,
                    'foreign': 0,
                },
            },
            phase.to_mapping(),
        )
