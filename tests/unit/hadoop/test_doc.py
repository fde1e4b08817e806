# SPDX-License-Identifier: Apache-2.0
import runpy
from pathlib import Path

import testtools

from hvstack.hadoop import osprofiles, tables

ROOT = Path(__file__).parents[3]


class DocTest(testtools.TestCase):
    def test_doc_has_the_tables_as_they_are(self) -> None:
        text = (ROOT / 'doc/hadoop.md').read_text()
        tool = runpy.run_path(str(ROOT / 'tools/hadoopdoc.py'))
        self.assertTrue(
            tool['renewed'](text) == text,
            'doc/hadoop.md is old: run tools/hadoopdoc.py doc/hadoop.md',
        )

    def test_doc_names_every_profile(self) -> None:
        prose = (ROOT / 'doc/hadoop.md').read_text().partition('<!--')[0]
        for name in {*tables.TUNINGS, *osprofiles.PROFILES}:
            self.assertIn(f'`{name}`', prose)
