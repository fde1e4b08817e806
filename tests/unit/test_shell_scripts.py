# SPDX-License-Identifier: Apache-2.0
"""Shell programs of the package."""

import subprocess

import testtools

from hvstack import share, shell_scripts


class ShellScriptsTest(testtools.TestCase):
    def test_header_and_directives_stay_here(self) -> None:
        for path in sorted(share.SHELL.iterdir()):
            self.assertEqual('.sh', path.suffix)
            header, _, program = path.read_text().partition('\n\n')
            first, second, *_ = header.splitlines()
            self.assertEqual('# shellcheck shell=sh', first, path)
            self.assertEqual('# SPDX-License-Identifier: Apache-2.0', second)
            text = shell_scripts.load(path.stem)
            self.assertNotIn('shellcheck', text)
            self.assertNotIn('SPDX', text)
            program_lines = [
                line
                for line in program.splitlines()
                if '# shellcheck' not in line
            ]
            self.assertEqual(program_lines, text.splitlines())

    def test_programs_are_of_any_shell(self) -> None:
        for path in sorted(share.SHELL.iterdir()):
            for shell in ('/bin/sh', '/bin/bash'):
                subprocess.run([shell, '-n', str(path)], check=True)
