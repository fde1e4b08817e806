# SPDX-License-Identifier: Apache-2.0
"""Lab hosts without Nova that run sshd, as hosts of an inventory do."""

import re
import shutil
import subprocess
from pathlib import Path

from hvstack import processutils
from hvstack.cluster import host_inventory

#: Starts sshd in the file system that the lab has mounted on the bare host.
SSHD = """
mkdir -p /run/sshd /root/.ssh
chmod 700 /root/.ssh
cat >/root/.ssh/authorized_keys
key=/etc/ssh/ssh_host_ed25519_key
[ -s $key ] || ssh-keygen -q -t ed25519 -N '' -f $key
# The machine's kernel reports the memory of the machine.
[ "$(wc -l </proc/meminfo)" = 1 ] || {
    echo "MemTotal: $(($1 * 1024)) kB" >/run/meminfo
    mount --bind /run/meminfo /proc/meminfo
}
/usr/sbin/sshd
"""
_LIBRARIES = 'usr/lib/x86_64-linux-gnu'


def start_sshd(host: host_inventory.Host, public_key: str) -> None:
    """Take a lab host from Nova, and start sshd on it.

    :param host: host of the lab's own list.
    :param public_key: key of root.
    """
    processutils.run(host.prepare, timeout=300)
    processutils.run(
        [*host.enter, 'sh', '-c', SSHD, 'sshd', str(host.memory_mib)],
        stdin=public_key,
        timeout=60,
    )


def copy_nft(host: host_inventory.Host, program: str, directory: Path) -> None:
    """Copy nft, which the guests' file system does not contain.

    :param host: host with sshd.
    :param program: path of nft on this machine.
    :param directory: directory for the files to copy.
    """
    root = directory / 'nft'
    (root / 'usr/sbin').mkdir(parents=True, exist_ok=True)
    (root / _LIBRARIES).mkdir(parents=True, exist_ok=True)
    shutil.copy(program, root / 'usr/sbin/nft')
    libraries = processutils.run(['ldd', program]).stdout
    for name, path in re.findall(r'(\S+) => (/\S+)', libraries):
        shutil.copy(path, root / _LIBRARIES / name)
    with subprocess.Popen(
        ['tar', '-c', '-C', root, 'usr/sbin/nft', _LIBRARIES],
        stdout=subprocess.PIPE,
    ) as archive:
        subprocess.run(
            [*host.enter, 'tar', '-x', '--skip-old-files', '-C', '/'],
            stdin=archive.stdout,
            check=True,
        )
