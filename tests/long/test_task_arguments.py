# SPDX-License-Identifier: Apache-2.0
r"""Rally itself refuses task arguments that are not valid. The lab is up.

    HVSTACK_LAB=1 OS_CLOUD=hvstack-lab stestr --test-path ./tests/long \
        run --serial test_task_arguments

Nothing is started: about 30 seconds.
"""

import json
import os
from typing import Any

import testtools

from hvstack import processutils, share
from hvstack.sweep import rallyenv


class TaskArgumentsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        rallyenv.ensure_environment('hvstack-lab')

    def validate(self, name: str, **arguments: Any) -> processutils.Result:
        return rallyenv.run_rally(
            *('task', 'validate', '--task', str(share.RALLY_TASKS / name)),
            *('--task-args', json.dumps(arguments)),
            check=False,
        )

    def test_what_is_unknown_is_named(self) -> None:
        for name, arguments, message in (
            ('01-instances.yaml', {'vaules': [1]}, "argument 'vaules'"),
            ('quick.yaml', {'baseline': 'auto'}, "argument 'baseline'"),
            ('01-instances.yaml', {'values': ['foo']}, "'ifoo' is unknown"),
            ('01-instances.yaml', {'without': ['cehp']}, 'cehp'),
        ):
            done = self.validate(name, **arguments)
            self.assertNotEqual(0, done.returncode, arguments)
            self.assertIn(message, done.stdout + done.stderr)
            self.assertNotIn('Traceback', done.stdout + done.stderr)

    def test_good_ones_are_taken(self) -> None:
        done = self.validate('01-instances.yaml', values=[1, 2], runs=1)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
