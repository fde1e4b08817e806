# SPDX-License-Identifier: Apache-2.0
"""An archive of the classes that Hadoop's short-lived JVMs load.

A small run is mostly JVMs that start: a client and an ApplicationMaster for
each job, and its tasks. Java's class data sharing [1]_ maps classes that are
parsed and verified already. Daemons, which start once, go without: their
class path begins with directories, which such an archive cannot hold.

.. [1] https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

import zipfile
from pathlib import Path

from hvstack import processutils
from hvstack.lab.images import recipes

#: Names all jars, in one order: a wildcard's is the file system's. The
#: archive, hadoop.jsa beside it, is for class paths that begin with it.
JAR = 'opt/hadoop/hadoop.jar'


def make(root: Path) -> None:
    """Add :data:`JAR` and its archive to a tree that is otherwise whole.

    Hadoop runs in it for that, on one node and in namespaces of its own.

    :param root: the image's tree, with Hadoop.
    :raises hvstack.errors.CommandError: Hadoop failed in it.
    :raises hvstack.errors.DeadlineExceededError: Hadoop hangs in it.
    """
    write_jar(root)
    hosts = root / 'etc/hosts'
    hosts.write_text('127.0.0.1 localhost\n', encoding='utf-8')
    processutils.run(
        [
            *('unshare', '--mount', '--net', '--uts', '--ipc', '--pid'),
            *('--fork', '--kill-child', '--root', root, '--wd', '/'),
            *('--mount-proc', 'env', '-i'),
            # JAVA_HOME and its like are of the machine that builds.
            *('PATH=/usr/sbin:/usr/bin', 'HOME=/root'),
            *(
                'sh',
                '-c',
                recipes.FIRST_RUN.read_text(encoding='utf-8'),
                'first_run',
            ),
        ],
        timeout=900,
        display_argv=['sh', str(recipes.FIRST_RUN)],
    )
    hosts.unlink()


def write_jar(root: Path) -> None:
    """Write the jar that names all others, which holds nothing else."""
    jar = root / JAR
    names = sorted(path.name for path in (jar.parent / 'lib').glob('*.jar'))
    text = f'Class-Path: {" ".join(f"lib/{name}" for name in names)}'
    # "No line may be longer than 72 bytes", and a continued one begins with
    # a space (JAR file specification).
    lines = [text[:72]]
    for begin in range(72, len(text), 71):
        lines.append(f' {text[begin : begin + 71]}')
    with zipfile.ZipFile(jar, 'w') as archive:
        archive.writestr(
            # The same bytes from the same jars.
            zipfile.ZipInfo('META-INF/MANIFEST.MF'),
            '\r\n'.join(['Manifest-Version: 1.0', *lines, '', '']),
        )
