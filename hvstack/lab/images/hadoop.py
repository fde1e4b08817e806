# SPDX-License-Identifier: Apache-2.0
"""Hadoop's jars for the guest image: Maven Central's, or a release's.

Both end in one layout: ``/opt/hadoop/lib`` with all jars, ``webapps`` and,
where the release has them, ``native`` libraries beside it.
"""

import hashlib
import re
import shutil
import tarfile
from pathlib import Path

from hvstack import errors, paths, processutils, textfile
from hvstack.lab.images import maven_settings, recipes, rootfs

#: SHA-256 of every jar, as sha256sum prints it. Made again with the pom.
DIGESTS = Path(__file__).with_name('jars.sha256')
#: Jars of a release. A directory of its own has the timeline service, without
#: whose classes the ResourceManager does not start; HBase, for which the other
#: jars there are, is not needed.
JARS = re.compile(
    r'share/hadoop/((common|hdfs|yarn|mapreduce|client)?(/lib)?/[^/]+|'
    r'yarn/timelineservice/hadoop-yarn-server-timelineservice-\d[^/]*)\.jar'
)
#: Jars of a release that only its own tests and sources need.
UNWANTED = re.compile(r'(tests|sources|test-sources)\.jar$|/client/')

#: Jar of TestDFSIO, NNBench and MRBench. Its name in the image has no version,
#: and no daemon has it on its class path.
BENCHMARKS = re.compile(
    r'hadoop-mapreduce-client-jobclient-\d[\w.]*(-SNAPSHOT)?-tests\.jar'
)
BENCHMARKS_NAME = 'hadoop-mapreduce-client-jobclient-tests.jar'


def maven_jars() -> Path:
    """Return a directory with the jars that the pom names, fetched once.

    :raises hvstack.errors.CommandError: Maven could not get them.
    :raises hvstack.errors.MissingPrerequisiteError: a jar is not the one whose
        SHA-256 hvstack has.
    """
    target = _maven_dir()
    if has_maven_jars():
        return target
    partial = target.with_name(f'.{target.name}')
    # Maven keeps a failed download in mind and, unless it is told to update,
    # repeats its message for a day in place of trying again.
    argv = [
        *('mvn', '--batch-mode', '--quiet', '--update-snapshots'),
        '--strict-checksums',
        *('-f', str(recipes.POM)),
        'dependency:copy-dependencies',
        '-DincludeScope=runtime',
        f'-DoutputDirectory={partial}',
    ]
    paths.make_directory(target.parent)
    shutil.rmtree(partial, ignore_errors=True)
    with maven_settings.proxy_args() as args:
        processutils.retried(
            lambda: processutils.run([*argv, *args], timeout=600)
        )
    check_jars(partial)
    partial.replace(target)
    return target


def has_maven_jars() -> bool:
    """Return whether the jars that the pom names were fetched before."""
    return _maven_dir().is_dir()


def _maven_dir() -> Path:
    """Return the cache directory of the jars that the pom names."""
    digest = hashlib.sha256(recipes.POM.read_bytes()).hexdigest()[:12]
    return paths.CACHE / 'maven' / digest


def check_jars(directory: Path) -> None:
    """Compare downloaded jars with the digests that hvstack has.

    :param directory: where Maven put them.
    :raises hvstack.errors.MissingPrerequisiteError: a jar is missing, is not
        in the list, or has another digest.
    """
    expected = {}
    for line in DIGESTS.read_text(encoding='utf-8').splitlines():
        digest, _, name = line.partition('  ')
        expected[name] = digest
    actual = {path.name: sha256(path) for path in directory.glob('*.jar')}
    differing = sorted(
        name
        for name in expected.keys() | actual.keys()
        if expected.get(name) != actual.get(name)
    )
    if differing:
        name = differing[0]
        raise errors.MissingPrerequisiteError(
            f'Cannot use the jars in {directory}: {len(differing)} of them '
            f'differ from {DIGESTS.name}, such as {name} (SHA-256 '
            f'{actual.get(name, "missing")} instead of '
            f'{expected.get(name, "none")}). Check the Maven repository that '
            'your settings name, or use --hadoop-tarball.'
        )


def sha256(tarball: Path) -> str:
    """Return a file's SHA-256.

    :raises hvstack.errors.InputError: it cannot be read.
    """
    if tarball.exists() and not textfile.is_regular(tarball):
        raise errors.InputError(
            f'Cannot use {tarball}: not a regular file. Set '
            '--hadoop-tarball to a Hadoop release, such as '
            'hadoop-3.5.0.tar.gz.'
        )
    try:
        with tarball.open('rb') as stream:
            return hashlib.file_digest(stream, 'sha256').hexdigest()
    except OSError as exc:
        raise errors.InputError(
            f'Cannot read --hadoop-tarball {tarball}: {exc.strerror}. Use a '
            'release of Hadoop, such as hadoop-3.5.0.tar.gz.'
        ) from exc


def install_release(tarball: Path, home: Path) -> None:
    """Lay a release's jars, pages and native libraries out below a directory.

    :param home: ``/opt/hadoop`` of the image.
    :raises hvstack.errors.InputError: it is no Hadoop release.
    """
    (home / 'lib').mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(tarball) as archive:
            for member in archive:
                target = _target_path(member.name, home)
                if target is None or member.isdir():
                    continue
                stream = archive.extractfile(member)
                if stream is None:
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open('wb') as out:
                    shutil.copyfileobj(stream, out)
    except (tarfile.TarError, OSError, EOFError, KeyError) as exc:
        raise errors.InputError(
            f'Cannot unpack --hadoop-tarball {tarball}: '
            f'{str(exc).removesuffix(".")}. Use a release of Hadoop, such as '
            'hadoop-3.5.0.tar.gz.'
        ) from exc
    if (home / 'native').is_dir():
        # Daemons and clients have an option of Java. MapReduce lets its tasks
        # look here (the default of mapreduce.admin.user.env).
        (home / 'lib/native').symlink_to('../native')


def _target_path(member: str, home: Path) -> Path | None:
    """Return where a release's file goes, if it goes anywhere."""
    if '..' in Path(member).parts:
        return None
    _, _, inner = member.removeprefix('./').partition('/')
    if JARS.fullmatch(inner) and BENCHMARKS.fullmatch(Path(inner).name):
        return home / BENCHMARKS_NAME
    if JARS.fullmatch(inner) and not UNWANTED.search(inner):
        return home / 'lib' / Path(inner).name
    if inner.startswith('share/hadoop/hdfs/webapps/'):
        return home / inner.removeprefix('share/hadoop/hdfs/')
    if inner.startswith('lib/native/') and '.so' in inner:
        return home / 'native' / Path(inner).name
    return None


def install(root: Path, tarball: Path | None) -> str:
    """Put Hadoop into a root file system.

    :param root: the tree.
    :param tarball: a release; none for Maven Central's jars.
    :returns: Hadoop's version.
    :raises hvstack.errors.InputError: the release lacks what is needed.
    """
    home = root / 'opt/hadoop'
    if tarball:
        install_release(tarball, home)
    else:
        shutil.copytree(maven_jars(), home / 'lib', dirs_exist_ok=True)
        for path in (home / 'lib').iterdir():
            if BENCHMARKS.fullmatch(path.name):
                path.rename(home / BENCHMARKS_NAME)
        rootfs.overlay(root, 'webapps')
    source = tarball or recipes.POM
    version = _jar_version(home, 'hadoop-common', source)
    examples = _jar_version(home, 'hadoop-mapreduce-examples', source)
    _jar_version(home, 'hadoop-hdfs', source)
    _jar_version(home, 'hadoop-yarn-server-resourcemanager', source)
    stable = home / 'hadoop-mapreduce-examples.jar'
    stable.unlink(missing_ok=True)
    stable.symlink_to(f'lib/hadoop-mapreduce-examples-{examples}.jar')
    return version


def _jar_version(home: Path, artifact: str, source: Path) -> str:
    """Return the version of a jar that must be there once."""
    pattern = re.compile(rf'{artifact}-(\d[\w.]*(?:-SNAPSHOT)?)\.jar')
    versions = [
        match[1]
        for path in (home / 'lib').iterdir()
        if (match := pattern.fullmatch(path.name))
    ]
    if len(versions) != 1:
        raise errors.InputError(
            f'Cannot use {source}: it has {len(versions)} jars of {artifact}, '
            'and hvstack needs exactly one. Use a complete release of Hadoop.'
        )
    return versions[0]
