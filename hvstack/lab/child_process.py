# SPDX-License-Identifier: Apache-2.0
"""Programs that must not outlive the command that runs them.

A database migration or an installation that continues after its parent was
killed would meet the next one.
"""

import os
from collections.abc import Mapping, Sequence

from hvstack import processutils


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout: float = 600,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> processutils.Result:
    """Run a program as :func:`hvstack.processutils.run` does.

    The kernel kills the program when this process dies.

    :param argv: the program and its arguments.
    :param timeout: seconds it may take.
    :param env: variables added to this process' environment.
    :param check: raise if it exits with another status than 0.
    :raises hvstack.errors.CommandError: it failed.
    :raises hvstack.errors.DeadlineExceededError: it took too long.
    """
    command = [os.fspath(word) for word in argv]
    return processutils.run(
        ['setpriv', '--pdeathsig', 'KILL', '--', *command],
        timeout=timeout,
        env=env,
        check=check,
        display_argv=command,
    )
