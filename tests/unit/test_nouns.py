# SPDX-License-Identifier: Apache-2.0
"""Nouns with their numbers."""

import testtools

from hvstack import nouns


class FormatNounTest(testtools.TestCase):
    def test_only_one_is_singular(self) -> None:
        self.assertEqual(
            ['0 runs', '1 run', '2 runs'],
            [nouns.format_noun(count, 'run') for count in range(3)],
        )
