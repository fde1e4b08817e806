# SPDX-License-Identifier: Apache-2.0
"""Bare metal: a lab host without Nova, with the guests' file system on it.

Run as a program, since whoever measures knows only a command to prepare and
one to release a host: ``python -m hvstack.lab.hosts.bare_metal prepare NAME``.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors, pid_files, processutils, shell_scripts
from hvstack.cluster import host_script
from hvstack.lab import images
from hvstack.lab.hosts import find, host, nova
from hvstack.lab.hosts.sizes import profile

_READY_SECONDS = 180


def prepare(name: str, image: Path | None = None) -> None:
    """Take Nova's agents off a host and mount the guests' file system.

    It is a loop-mounted raw image, the kind of disk that Nova's containers
    write through. Harmless on a prepared host.

    :param image: an ext4 image; that of the built Hadoop image by default.
    :raises hvstack.errors.BusyError: guests run on the host.
    :raises hvstack.errors.MissingPrerequisiteError: no image exists.
    """
    size = find(name)
    if host.is_bare(name) and _mounted(name):
        return
    running = host.guests(name)
    if running:
        raise errors.BusyError(
            f'Cannot measure bare metal on {name}: it has guests '
            f'({", ".join(running)}). Delete their servers first.'
        )
    if image is None:
        built = images.find('hadoop')
        if built is None:
            raise errors.MissingPrerequisiteError(
                'Cannot start the host: no Hadoop image exists. Run '
                "'hvstack image build hadoop'."
            )
        image = built.outputs['lxc']
    # Whoever asked is the parent of this program: hosts of one that is gone
    # are released at the next 'lab up'.
    pid_files.write(host.bare_record(name), os.getppid())
    # nova-compute takes its shutdown timeout of 3 s, whatever it has to do.
    with ThreadPoolExecutor(max_workers=1) as pool:
        stop = pool.submit(host.supervisorctl, name, 'stop', 'all')
        _create_disk(name, image, profile(size).root_gb)
        stop.result()
    host_dir = host.directory(name)
    raw, root = host_dir / 'bare.raw', host_dir / 'bare'
    program = shell_scripts.load('mount-image')
    host.enter(name, 'sh', '-c', program, 'mount', str(raw), str(root))
    host.enter(
        name,
        *(
            'sh',
            '-c',
            'cat > "$1"/etc/hosts <<EOF\n'
            f'127.0.0.1 localhost\n{size.data} {name}\nEOF',
        ),
        *('hosts', str(root)),
    )


def _create_disk(name: str, image: Path, root_gb: int) -> None:
    """Create a host's disk from an image.

    :param root_gb: size of the disk in GB.
    """
    _end(name)
    raw = host.directory(name) / 'bare.raw'
    raw.touch(mode=0o600)
    processutils.run(['cp', '--sparse=always', image, raw])
    processutils.run(['truncate', '-s', f'{root_gb}G', raw])
    processutils.run(['resize2fs', '-f', raw])


def _mounted(name: str) -> bool:
    root = str(host.directory(name) / 'bare')
    done = host.enter(name, 'mountpoint', '-q', root, check=False)
    return done.returncode == 0


def _end(name: str) -> None:
    """Kill what runs on bare metal, unmount and forget its disk."""
    host_dir = host.directory(name)
    host.enter(name, *host_script.kill(str(host_dir / 'bare')))
    (host_dir / 'bare.raw').unlink(missing_ok=True)


def release(name: str) -> None:
    """Give a host back to Nova. Harmless on a host that was not taken.

    :raises hvstack.errors.DeadlineExceededError: Nova does not say it is up.
    """
    find(name)
    if not host.is_bare(name):
        return
    if host.pid(name) is not None:
        _end(name)
        started_at = time.time()
        host.supervisorctl(name, 'start', 'all')
        cloud = nova.connect()
        was_down = nova.computes(cloud).get(name) == 'down'
        # A service that starts saves its version, which Nova's API shows as
        # an update, but not as a report: a host that was stopped for less
        # than service_down_time looks up then, and down a moment later.
        # The update after that is a report. Only a report makes a host that
        # was down look up.
        _wait_until_up(cloud, name, started_at)
        if not was_down:
            _wait_until_up(cloud, name, time.time())
    host.bare_record(name).unlink(missing_ok=True)


def _wait_until_up(cloud: Connection, name: str, since: float) -> None:
    """Wait until Nova shows a host as up, with an update after a time.

    :param since: seconds since the epoch.
    :raises hvstack.errors.DeadlineExceededError: Nova does not.
    """
    processutils.wait_for(
        lambda: nova.ready(cloud, [name], {name: since}),
        f'{name} to be up in Nova again',
        timeout=_READY_SECONDS,
        interval=1,
        get_reason=lambda: host.log_tail(name, 'nova-compute'),
    )


def main(argv: list[str]) -> int:
    """Prepare or release one host; errors are one line."""
    verbs = {'prepare': prepare, 'release': release}
    if len(argv) not in (2, 4) or argv[0] not in verbs:
        print(
            'usage: bare prepare NAME [--image PATH] | release NAME',
            file=sys.stderr,
        )
        return 2
    try:
        if len(argv) == 4 and argv[2] == '--image' and argv[0] == 'prepare':
            prepare(argv[1], Path(argv[3]))
        else:
            verbs[argv[0]](argv[1])
    except errors.HVStackError as exc:
        print(f'hvstack: {exc}', file=sys.stderr)
        return exc.exit_code
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
