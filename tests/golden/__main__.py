# SPDX-License-Identifier: Apache-2.0
"""Compare hvstack's output with what is stored in tests/golden/data.

The stored output is brought to today's names by renames.tsv first. Whole
sentences (help, messages, notes) are stored apart, in data/words, and only
shown with --words: their wording may change, their figures are compared.

    python -m tests.golden           print a diff; exit with 1 if there is any
    python -m tests.golden --words   print the diff of the wording
    python -m tests.golden --write   store today's output
"""

import argparse
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.golden import compare


def main() -> int:
    """Render, then compare or store."""
    parser = argparse.ArgumentParser(
        prog='python -m tests.golden',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--write', action='store_true', help='Store it.')
    which.add_argument(
        '--words', action='store_true', help='Compare the wording.'
    )
    args = parser.parse_args()
    started = time.monotonic()
    renames = compare.read_renames()
    with tempfile.TemporaryDirectory(prefix='hvstack-golden-') as state:
        # hvstack reads these when it is imported: nothing of this machine's
        # lab, clouds and settings may show.
        for name in list(os.environ):
            if name.startswith(('OS_', 'HVSTACK_', 'CLIFF_', 'XDG_')):
                del os.environ[name]
        os.environ |= {
            'HVSTACK_STATE_DIR': f'{state}/state',
            'HVSTACK_ETC_DIR': f'{state}/etc',
            'HOME': f'{state}/home',
            # Paths in help would be broken into lines by their length.
            'COLUMNS': '1000',
            'LC_ALL': 'C.UTF-8',
            'TZ': 'UTC',
        }
        from hvstack import speed
        from tests.golden import render

        # Nor may a lab's measurement of this machine's speed.
        speed.RECORD = Path(state) / 'speed.json'

        # Rally and Tempest log what they load.
        logging.disable(logging.WARNING)
        output = render.everything()
    if args.write:
        compare.write(output)
        lines = []
    else:
        lines = list(
            compare.differences(
                compare.stored(), output, renames, wording=args.words
            )
        )
    for line in lines:
        print(line)
    print(
        f'{len(output)} files, {len(renames)} renames, {len(lines)} lines of '
        f'difference, {time.monotonic() - started:.0f} s',
        file=sys.stderr,
    )
    if lines and not args.words:
        print(
            'The output differs. Add renames to tests/golden/renames.tsv, or '
            "run 'python -m tests.golden --write' if the change is intended.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
