# SPDX-License-Identifier: Apache-2.0
"""What is done about each way to tamper with a record."""

import testtools

from tests import tamper


class TamperTest(testtools.TestCase):
    """The table of ``tests.tamper``."""

    def test_no_way_is_silent(self) -> None:
        table = list(tamper.rows())
        self.assertGreaterEqual(len(table), 100)
        self.assertEqual([], [row.name for row in table if row.is_silent])
        # Without a signature, the record's own contradictions are left.
        self.assertEqual(
            [row.name for row in table if row.plausible],
            [row.name for row in table if row.unsigned == tamper.COUNTS],
        )
        for row in table:
            for result in (row.edited, row.forged, row.unsigned):
                self.assertTrue(result.isprintable(), result)
