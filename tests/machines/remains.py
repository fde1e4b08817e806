# SPDX-License-Identifier: Apache-2.0
"""List and check the traces of hvstack on a machine without a lab.

``python -m tests.machines.remains records`` as root after ``hvstack lab
destroy``, which leaves the records of all clouds; ``nothing`` after
``hvstack lab destroy --records``.
"""

import argparse
import os
import sys
import unittest
from pathlib import Path

from hvstack import paths, processutils
from tests.after import test_nothing_left as after

#: Entries of the state directory that ``hvstack lab destroy`` leaves.
RECORDS = frozenset(
    {
        *(paths.STAMP, 'accept', 'journal', 'keys', 'known_hosts', 'logs'),
        *('rally', 'records', 'ssh', 'studies', 'sweeps', 'timelines'),
        *('trials', 'hvstack.conf'),
    }
)
#: Directories that may have traces; the clone is below /root.
_TREES = ('/etc', '/opt', '/run', '/srv', '/tmp', '/usr', '/var')


def check_files(expected: str) -> list[str]:
    """Print the topmost files of hvstack and its records.

    :returns: the files that should not exist.
    """
    unexpected = []
    for tree in _TREES:
        argv = ('find', tree, '-xdev', '-regextype', 'posix-extended')
        names = ('-regex', r'.*/(hv-[^/]*|[^/]*hvstack[^/]*)', '-prune')
        for path in processutils.run([*argv, *names, '-print']).stdout.split():
            print(path)
            if path != str(paths.STATE) or expected == 'nothing':
                unexpected.append(path)
    if paths.STATE.exists():
        for entry in sorted(paths.STATE.iterdir()):
            count = sum(1 for _ in entry.rglob('*'))
            print(f'{entry}: {count} files' if count else entry)
            if entry.name not in RECORDS:
                unexpected.append(str(entry))
    return unexpected


def check_units() -> list[str]:
    """Return the units of hvstack that systemd has."""
    if not Path('/run/systemd/system').exists():
        return []
    argv = ('systemctl', 'list-units', '--all', '--no-legend', '--plain')
    return after.lines_of_ours(*argv)


def main() -> int:
    """Check processes, networks, mounts, cgroups, units and files."""
    parser = argparse.ArgumentParser()
    parser.add_argument('expected', choices=('records', 'nothing'))
    args = parser.parse_args()
    failures = [f'unit: {line}' for line in check_units()]
    failures += [f'file: {path}' for path in check_files(args.expected)]
    os.environ['HVSTACK_LAB'] = 'destroyed'
    suite = unittest.TestSuite(
        after.NothingLeftTest(name)
        for name in unittest.defaultTestLoader.getTestCaseNames(
            after.NothingLeftTest
        )
        if args.expected == 'nothing' or name != 'test_files'
    )
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    for failure in failures:
        print(f'FAIL {failure}')
    return 0 if result.wasSuccessful() and not failures else 1


if __name__ == '__main__':
    sys.exit(main())
