# SPDX-License-Identifier: Apache-2.0
"""Exceptions that hvstack raises, with messages for users.

Every message is one line that names what is wrong, where, and the remedy.
The command line prints it without a traceback and exits with
:attr:`HVStackError.exit_code`.
"""


class HVStackError(Exception):
    """Base of every error that hvstack raises on purpose."""

    #: Exit status of the command line for this kind of error.
    exit_code = 1


class InputError(HVStackError):
    """What the user gave cannot work (a file, an option, a field)."""

    exit_code = 2


class MissingPrerequisiteError(HVStackError):
    """This machine or cloud lacks something that is needed."""

    exit_code = 3


class RecordNotStoredError(MissingPrerequisiteError):
    """The database did not take a record, which was stored as a file."""


class CommandError(HVStackError):
    """A program that hvstack ran ended badly.

    :param argv: the program and its arguments, secrets already removed.
    :param returncode: its exit status, negative for a signal.
    :param tail: the last lines of what it printed.
    """

    def __init__(self, argv: list[str], returncode: int, tail: str) -> None:
        self.argv = argv
        self.returncode = returncode
        self.tail = tail
        super().__init__(
            f"'{' '.join(argv)[:200]}' exited with status {returncode}: "
            f'{tail.strip() or "it printed nothing"}'
        )


class DeadlineExceededError(HVStackError):
    """Something did not happen in the time that it was given."""


class BusyError(HVStackError):
    """Another hvstack process, or a foreign program, is in the way."""


class CloudError(HVStackError):
    """An OpenStack service refused or failed a request."""


class HostAccessError(CloudError):
    """A compute host cannot be inspected, because no command runs there."""


class HostsChangedError(CloudError):
    """A cluster has other hosts than the earlier runs of its sweep."""


class HostKeyError(HVStackError):
    """A node's ssh host key is unknown, or not the recorded one."""


class NotComparableError(HVStackError):
    """Two measurements differ in something that was not swept.

    :param differences: one line per field that differs.
    """

    exit_code = 4

    def __init__(self, differences: list[str]) -> None:
        self.differences = differences
        super().__init__('not comparable: ' + '; '.join(differences))


class RunFailedError(HVStackError):
    """A benchmark run failed, or its data check did."""

    exit_code = 5


class PartlyFailedError(RunFailedError):
    """A sweep went on to its end, but some of it failed for good."""

    exit_code = 6
