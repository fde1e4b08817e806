# SPDX-License-Identifier: Apache-2.0
"""Create the cloud, run single stages, and remove it: for debugging.

The environment is that of the long tests (``HVSTACK_STATE_DIR`` names the
lab), as root.
"""

import argparse
import sys

from tests.long.other_cloud.cloud import OtherCloud
from tests.long.other_cloud.order import STAGES, run_stage
from tests.long.other_cloud.state import say


def main() -> int:
    """Run the command of the command line."""
    parser = argparse.ArgumentParser(
        prog='python -m tests.long.other_cloud',
        description=__doc__.splitlines()[0],
    )
    parser.add_argument('command', choices=('up', 'run', 'table', 'down'))
    parser.add_argument(
        'stages', nargs='*', metavar='STAGE', help=', '.join(STAGES)
    )
    args = parser.parse_args()
    if args.command == 'up':
        OtherCloud.create()
        return 0
    cloud = OtherCloud.load()
    if args.command == 'down':
        cloud.remove()
    elif args.command == 'table':
        say(cloud.format_table())
    else:
        for name in args.stages or STAGES:
            run_stage(cloud, name)
        failures = cloud.state.list_failures()
        for failure in failures:
            say(f'NOT AS DOCUMENTED: {failure}')
        return int(bool(failures))
    return 0


if __name__ == '__main__':
    sys.exit(main())
