# SPDX-License-Identifier: Apache-2.0
"""The options that choose how Hadoop is set up."""

import argparse
from pathlib import Path

import fixtures
import testtools

from hvstack import conf
from hvstack.cli import hadoop_options


class ChosenTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.file = directory / 'hvstack.conf'
        self.file.write_text('[hadoop]\ntuning = amd\n')
        load = conf.load
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.conf.load', lambda: load((self.file,))
            )
        )

    def parsed(self, *args: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        hadoop_options.add(parser)
        return parser.parse_args(args)

    def test_option_then_file_then_default(self) -> None:
        self.assertEqual(
            {'tuning': 'amd', 'os_profile': 'vsphere6'},
            hadoop_options.chosen(self.parsed()),
        )
        self.assertEqual(
            {'tuning': 'stock', 'os_profile': 'vsan'},
            hadoop_options.chosen(
                self.parsed('--tuning', 'stock', '--os-profile', 'vsan')
            ),
        )
