# SPDX-License-Identifier: Apache-2.0
"""Test that the reference page of Hadoop fits the code."""

import runpy
from pathlib import Path

import testtools

from hvstack.hadoop import os_profiles, tuning_profiles

ROOT = Path(__file__).parents[3]
PAGE = 'doc/source/reference/hadoop.md'


class DocTest(testtools.TestCase):
    def test_doc_has_the_tables_as_they_are(self) -> None:
        text = (ROOT / PAGE).read_text()
        tool = runpy.run_path(str(ROOT / 'tools/hadoopdoc.py'))
        self.assertTrue(
            tool['renewed'](text) == text,
            f'{PAGE} is old: run tools/hadoopdoc.py {PAGE}',
        )

    def test_doc_names_every_profile(self) -> None:
        prose = (ROOT / PAGE).read_text().partition('<!--')[0]
        for name in {*tuning_profiles.list_names(), *os_profiles.list_names()}:
            self.assertIn(f'`{name}`', prose)
