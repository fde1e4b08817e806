# SPDX-License-Identifier: Apache-2.0
"""An archive of the classes that Hadoop's JVMs load.

A small run is mostly JVMs that start: the daemons of a new cluster, a client
and an ApplicationMaster for each job, and its tasks. Java's class data sharing
[1]_ maps classes that are parsed and verified already. A class path of
directories is not for such an archive: :data:`JAR` comes before them.

The classes are those of a first run of Hadoop. For the jars of Maven Central,
the package contains their list, because such a run takes longer than all jars
to download. After a change of these jars, ``tools/class-list`` writes a new
list.

.. [1] https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

import hashlib
import zipfile
from pathlib import Path

from hvstack import processutils
from hvstack.lab.images import hadoop, recipes

#: Names all jars, in one order: a wildcard's is the file system's. The
#: archive, hadoop.jsa beside it, is for class paths that begin with it.
JAR = 'opt/hadoop/hadoop.jar'


def make(root: Path, *, has_list: bool) -> None:
    """Add :data:`JAR` and its archive to a tree that is otherwise whole.

    :param root: the image's tree, with Hadoop.
    :param has_list: whether the package contains the list of classes of these
        jars. Otherwise, Hadoop runs in the tree, on one node and in
        namespaces of its own.
    :raises hvstack.errors.CommandError: Hadoop or Java failed in it.
    :raises hvstack.errors.DeadlineExceededError: Hadoop hangs in it.
    """
    write_jar(root)
    hosts = root / 'etc/hosts'
    hosts.write_text('127.0.0.1 localhost\n', encoding='utf-8')
    classes = (
        recipes.CLASSES.read_text(encoding='utf-8').partition('\n')[2]
        if has_list
        else run_hadoop(root)
    )
    _run_in_tree(root, recipes.DUMP_ARCHIVE, classes)
    hosts.unlink()


def run_hadoop(root: Path) -> str:
    """Run Hadoop in a tree, and return the list of the loaded classes.

    :param root: tree of an image with :data:`JAR`.
    :raises hvstack.errors.CommandError: Hadoop failed in it.
    :raises hvstack.errors.DeadlineExceededError: Hadoop hangs in it.
    """
    return _run_in_tree(root, recipes.FIRST_RUN).stdout


def write_list(root: Path) -> None:
    """Write :data:`hvstack.lab.images.recipes.CLASSES` from a first run.

    :param root: tree of an image with the jars of Maven Central.
    :raises hvstack.errors.HVStackError: Hadoop failed in it.
    """
    (root / 'etc/hosts').write_text('127.0.0.1 localhost\n', encoding='utf-8')
    recipes.CLASSES.write_text(
        f'{describe_jars()}\n{run_hadoop(root)}', encoding='utf-8'
    )


def describe_jars() -> str:
    """Return the first line of a list of classes: the jars that it is for."""
    digest = hashlib.sha256(hadoop.DIGESTS.read_bytes()).hexdigest()
    return (
        f'# Classes of a first run; SHA-256 of {hadoop.DIGESTS.name}: {digest}'
    )


def _run_in_tree(
    root: Path, program: Path, stdin: str | None = None
) -> processutils.Result:
    """Run a shell program in a tree, in namespaces of its own."""
    return processutils.run(
        [
            *('unshare', '--mount', '--net', '--uts', '--ipc', '--pid'),
            *('--fork', '--kill-child', '--root', root, '--wd', '/'),
            *('--mount-proc', 'env', '-i'),
            # JAVA_HOME and its like are of the machine that builds.
            *('PATH=/usr/sbin:/usr/bin', 'HOME=/root'),
            *('sh', '-c', program.read_text(encoding='utf-8'), program.stem),
        ],
        timeout=900,
        stdin=stdin,
        display_argv=['sh', str(program)],
    )


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
