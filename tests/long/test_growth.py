# SPDX-License-Identifier: Apache-2.0
"""A stack of 40 workers on hosts without guests, through all its stages.

benchmarks/growth.py measures larger stacks, too. The lab is up. About ten
minutes.
"""

import json
import os
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils

TOP = Path(__file__).resolve().parents[2]
STAGES = {'boots', 'create', 'topology', 'replace', 'scale', 'delete'}


class GrowthTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('HVSTACK_LAB is not set: no lab is used')

    def test_40_workers(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'growth.json'
        # The status says whether the goals for the durations are met.
        result = processutils.run(
            [
                *(sys.executable, 'benchmarks/growth.py'),
                *('--workers', '40', '--results', str(path)),
            ],
            cwd=TOP,
            timeout=3600,
            check=False,
        )
        self.assertIn(result.returncode, (0, 1), result.stderr)
        rows = json.loads(path.read_text(encoding='utf-8'))
        self.assertEqual(STAGES, set(rows['40']), result.stderr)
