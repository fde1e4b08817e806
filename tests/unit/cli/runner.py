# SPDX-License-Identifier: Apache-2.0
"""Execution of hvstack in the process of a test."""

import io
from contextlib import redirect_stderr, redirect_stdout

from hvstack.cli.app import main


def run_command(*argv: str) -> tuple[int, str, str]:
    """Return the exit status, the output and the errors of a command."""
    output, error = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(error):
        try:
            status = main(argv)
        except SystemExit as exc:
            status = int(exc.code or 0)
    return status, output.getvalue(), error.getvalue()
