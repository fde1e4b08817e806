# SPDX-License-Identifier: Apache-2.0
"""Where hvstack keeps what outlives a process: machine-wide, not in a clone.

The lab's control plane, records and journal must be found by any clone, also
after the one that made them is gone.
"""

import os
import tempfile
from pathlib import Path

#: Everything that must survive a reboot: records, journal, the lab's data.
#: Another folder (``HVSTACK_STATE_DIR``) is a lab of its own: the tests' lab
#: never touches the databases of the user's.
STATE = Path(os.environ.get('HVSTACK_STATE_DIR') or '/var/lib/hvstack')
#: Sockets, pid files, locks.
RUN = Path('/run/hvstack')
#: What can be made again: guest images, the services' virtual environment.
CACHE = Path('/var/cache/hvstack')


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that a reader sees the old or the new one, never half.

    :param path: the file; its folder is made if it is missing.
    :param text: the new content.
    :param mode: permission bits of the new file.
    :raises OSError: no room, no rights.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f'.{path.name}.')
    try:
        with os.fdopen(handle, 'w') as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
