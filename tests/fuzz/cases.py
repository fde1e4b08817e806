# SPDX-License-Identifier: Apache-2.0
"""Cases: what is put where, which command runs, and what is certain of it."""

import copy
import os
import random
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz import corpus, mutations
from tests.fuzz.corpus import FileType

#: Values for options that are numbers; none of them is a count.
NO_COUNTS = (
    *('', 'x', 'nan', '1.5', '0x10', '\u0663', '\uff11', '-1', '1' * 5000),
    *(str(10**30), '1e3', ' ', '1,2', '-inf'),
)
STRANGE_COUNTS = ('0', '1_0', '+1', ' 2', '00', '999999999', '2147483648')
NO_SIZES = (
    *('', 'x', 'nan', '-1GB', '0', '1', '1EB', '\u0661\u0660\u0660MB'),
    *('9' * 400 + 'GB', '1e3MB', '100.5'),
)
NO_CONFIGURATIONS = (
    *('', 'i0', 'i', 'i1-i2', 'x', 'i99999', 'c0', 'i1-', '-', 'i1-c\u0663'),
    *('$(id)', '\x1b[31mi1', 'i1\n', 'i1\x00', 'i' * 5000, 'i\u0661'),
)
NO_PROFILES = (
    *('', 'x', '\x1b[31m', '../../etc/passwd', 'x' * 300, 'a\x00b'),
    *('work', '.', 'nowhere.yaml', '$(id)', 'x' * 300 + '.yaml'),
)
NO_VALUES = (
    *('', '=', 'instances=', 'instances=0', 'instances=nan', 'zzz=1'),
    *('cpu_ratio=nan', 'cpu_ratio=inf', 'instances=\u0663', 'instances=1,1'),
    *('cpu_ratio=1e400', 'cpu_ratio=-1', 'storage=x', 'disk_pinning=maybe'),
    'instances=' + ','.join(map(str, range(1, 20_000))),
)
NO_SECONDS = ('', 'x', 'nan', '-1', 'inf', '1e400', '\u0663', '1' * 5000)
NO_PATHS = ('', 'nowhere', 'a\x00b', 'x' * 300, '\x1b[31m', 'x' * 5000)
NO_NAMES = (
    *('', '\x1b[31mred', 'a\x00b', 'x' * 300, '\ud800', 'a\nb', '../../x'),
    *('$(id)', '=1+1', '\u202eabc', ' '),
)
#: Values by the sort of an option, and whether they are certainly invalid.
SORTS: dict[str, tuple[tuple[str, ...], bool]] = {
    'count': (NO_COUNTS, True),
    'strange count': (STRANGE_COUNTS, False),
    'size': (NO_SIZES, True),
    'configuration': (NO_CONFIGURATIONS, True),
    'profile': (NO_PROFILES, True),
    'values': (NO_VALUES, True),
    'seconds': (NO_SECONDS, True),
    'path': (NO_PATHS, False),
    'name': (NO_NAMES, False),
}

#: Command lines that end well, with the sorts of their values.
COMMANDS: tuple[tuple[tuple[str, str], ...], ...] = tuple(
    tuple((word, '') if isinstance(word, str) else word for word in command)
    for command in (
        (
            *('flavor', 'derive', '--host', ('vsan', 'profile')),
            *('--configuration', ('i4', 'configuration')),
        ),
        (
            *('flavor', 'derive', '--host', 'vsan'),
            *('--instances', ('4', 'count'), '--role', 'worker'),
        ),
        (
            *('flavor', 'catalogue', '--host', ('vsan', 'profile')),
            ('i2', 'configuration'),
        ),
        (
            *('cluster', 'size', '--host', ('vsan', 'profile')),
            *('--hosts', ('4', 'count'), '--instances', ('2', 'count')),
        ),
        (
            *('cluster', 'size', '--host', 'vsan', '--hosts', '4'),
            *('--configuration', ('i2', 'configuration')),
        ),
        (
            *('sweep', 'plan', '--host', ('vsan', 'profile')),
            *('--backend', 'lxc', '--values', ('instances=1,2', 'values')),
            *('--run-seconds', ('60', 'seconds')),
            *('--setup-seconds', ('10', 'seconds')),
            *('--runs', ('2', 'count'), '--size', ('1GB', 'size')),
        ),
        (
            *('sweep', 'plan', '--host', 'vsan', '--backend', 'lxc'),
            *('--values', 'instances=1,2', '--start'),
            *(('i1', 'configuration'), '--run-seconds', '1'),
            *('--setup-seconds', '1'),
        ),
        (
            *('sweep', 'plan', '--host', 'vsan', '--backend', 'lxc'),
            *('--space', ('space.yaml', 'path'), '--run-seconds', '1'),
            *('--setup-seconds', '1', '--records', ('.', 'path')),
        ),
        ('host', 'show', ('vsan', 'profile')),
        (
            *('report', ('', 'name'), '--records', ('../records', 'path')),
            *('--allow', ('caps', 'name')),
        ),
        ('report', '--baseline', ('auto', 'name'), '-f', 'csv'),
        ('report', ('a', 'name'), ('b', 'name'), '--changed', ('x', 'name')),
        ('baseline', 'list', '--records', ('../records', 'path')),
        ('baseline', 'show', ('0000', 'name')),
        ('baseline', 'import', ('nowhere', 'path')),
        ('sweep', 'show', (corpus.SWEEP, 'name')),
        ('sweep', 'trials', 'show', (corpus.TRIALS_ID, 'name')),
        ('flavor', 'lint', ('good.yaml', 'path'), '--host', ('vsan', 'name')),
        (
            *('flavor', 'approve', ('good.yaml', 'path'), ('x', 'name')),
            *('--min-percent', ('90', 'seconds'), '--dry-run'),
            *('--sweep', ('x', 'name'), '--baseline', ('auto', 'name')),
        ),
        (
            *('host', 'detect', '--name', ('x', 'name')),
            *('--disks', ('2x10', 'name'), '--rotational', 'yes'),
        ),
    )
)

#: Command lines that would change something: their options are only parsed.
PARSED: tuple[tuple[tuple[str, str], ...], ...] = tuple(
    tuple((word, '') if isinstance(word, str) else word for word in command)
    for command in (
        (
            *('lab', 'up', '--hosts', ('3', 'count')),
            *('--fake-hosts', ('0', 'count'), '--racks', ('1', 'count')),
            *('--host-compute', ('x', 'name'), '--dedicated', ('x', 'name')),
        ),
        ('lab', 'host', 'cap', ('50', 'seconds')),
        ('lab', 'host', 'off', ('x', 'name')),
        ('demo', '--size', ('1GB', 'size'), '--passes', ('2', 'count')),
        (
            *('baseline', 'run', '--size', ('1GB', 'size')),
            *('--runs', ('2', 'count'), '--hosts', ('x', 'path')),
            *('--kit', ('x', 'path'), '--sweep', ('x', 'name')),
        ),
        (
            *('cluster', 'create', ('x', 'name'), '--workers'),
            *(('2', 'count'), '--replication', ('2', 'count')),
        ),
        ('cluster', 'delete', ('x', 'name')),
        (
            *('cluster', 'scale', ('x', 'name'), '--workers'),
            *(('2', 'count'), '--map', ('x', 'path')),
        ),
        (
            *('sweep', 'run', '--host', ('vsan', 'profile')),
            *('--backend', 'lxc', '--values', ('instances=1', 'values')),
            *('--size', ('1GB', 'size'), '--runs', ('2', 'count')),
        ),
        ('sweep', 'resume', ('x', 'name')),
        (
            *('sweep', 'trials', 'run', '--a', ('i1', 'configuration')),
            *('--b', ('i2', 'configuration'), '--trials', ('1', 'count')),
            *('--size', ('1GB', 'size'), '--max-trials', ('1', 'count')),
        ),
        ('image', 'build', '--hadoop-tarball', ('x', 'path')),
        ('accept', '--concurrency', ('2', 'count'), '--test', ('x', 'name')),
    )
)

#: Variables, their values, the command, and whether the value is invalid.
VARIABLES: tuple[tuple[str, tuple[str, ...], tuple[str, ...], bool], ...] = (
    (
        'OS_TELEMETRY__INTERVAL',
        ('nan', 'inf', '-1', 'x', '', '\u0663'),
        ('call:conf',),
        True,
    ),
    (
        'OS_CLOUD__STACK_TIMEOUT',
        ('nan', '-1', 'x', '1', '', '1' * 5000, '\u0666\u0660\u0660'),
        ('call:conf',),
        True,
    ),
    ('OS_CLOUD__BACKEND', ('xen', '', '\x1b[31m'), ('call:conf',), True),
    ('OS_HADOOP__TUNING', ('x', ''), ('call:conf',), True),
    (
        'OS_CLOUD',
        ('nowhere', '\x1b[31mred', 'x' * 300, '$(id)', '\u202e', ''),
        ('flavor', 'list'),
        True,
    ),
    (
        'OS_CLIENT_CONFIG_FILE',
        ('', '.', 'nowhere', 'x' * 5000, 'good.yaml', '/'),
        ('flavor', 'list', '--os-cloud', 'fuzz'),
        False,
    ),
    (
        'OS_AUTH_URL',
        ('', 'x', 'ftp://127.0.0.1', 'http://[', 'http://127.0.0.1:99999'),
        ('flavor', 'list'),
        True,
    ),
    ('HOME', ('', 'nowhere', 'x' * 5000), ('flavor', 'list'), False),
    (
        'COLUMNS',
        ('0', '-1', 'x', '1', '99999999', '\u0663'),
        ('host', 'list'),
        False,
    ),
    ('CLIFF_FIT_WIDTH', ('x', '2', ''), ('host', 'list'), False),
    ('CLIFF_MAX_TERM_WIDTH', ('x', '-1', '0'), ('host', 'list'), False),
)

#: Targets of ``-o``, which must be what they were afterwards.
OUTPUTS = ('device', 'FIFO', 'link', 'directory', 'no directory', 'socket')
WRITERS = (
    ('report', '-o', 'OUT'),
    ('report', '--html', 'OUT'),
    ('report', '-f', 'json', '-o', 'OUT'),
    ('report', '-f', 'csv', '-o', 'OUT'),
)


@dataclass
class Case:
    """A command line with what surrounds it.

    :param group: kind of file, or ``options``, ``environment``, ``output``,
        ``cloud``.
    :param label: what was changed.
    :param argv: the command line, or ``call:NAME`` with arguments.
    :param invalid: whether the command must not accept the input.
    :param names: texts of which a good message has one at least.
    :param env: variables to set.
    :param is_parsed: only the options are parsed.
    :param output: target of ``-o``, with its file mode before.
    :param offline: no cloud is needed.
    :param reader: the command line before anything is put in.
    """

    group: str
    label: str
    argv: tuple[str, ...]
    invalid: bool
    names: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    is_parsed: bool = False
    output: tuple[Path, int, int] | None = None
    offline: bool = True
    reader: tuple[str, ...] = ()


def write(path: Path, data: Any) -> None:
    """Write a valid document in the form that its name asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    form = 'json' if path.suffix == '.json' else 'yaml'
    path.write_bytes(mutations.render(data, form))


def prepare(root: Path) -> None:
    """Write what every case has, into an empty directory."""
    write(root / 'work/good.yaml', corpus.CATALOGUE | {'flavors': []})
    write(root / 'work/space.yaml', corpus.SPACE)
    write(root / 'work/clouds.yaml', corpus.CLOUDS)
    (root / 'work/key').write_text('key\n', encoding='utf-8')
    (root / 'home').mkdir()
    if corpus.UNSIGNED:
        path = root / 'hvstack.conf'
        path.write_text('[records]\nunsigned = true\n', encoding='utf-8')


def make(rng: random.Random, root: Path, cloud_url: str) -> Case | None:
    """Prepare a case below an empty directory.

    :param cloud_url: of the server whose answers are mutated, with the case.
    :returns: None where this machine cannot make it.
    """
    prepare(root)
    group = rng.choices(
        ('field', 'file', 'options', 'environment', 'output', 'cloud'),
        (60, 16, 14, 3, 4, 3),
    )[0]
    if group == 'options':
        return _options(rng, root)
    if group == 'environment':
        return _environment(rng)
    if group == 'output':
        return _output(rng, root)
    if group == 'cloud':
        return _cloud(rng, root, cloud_url)
    return _file(rng, root, rng.choice(corpus.ALL), group)


def control(file_type: FileType, reader: tuple[str, ...], root: Path) -> Case:
    """Prepare a case with nothing changed."""
    prepare(root)
    _write_other_files(file_type, root)
    path = root / file_type.path
    _write(file_type, _plain(file_type), path)
    path.chmod(file_type.mode)
    argv = _argv(file_type, reader, root)
    return Case(
        *(file_type.name, 'nothing', argv, False, ()),
        offline=file_type.offline,
        reader=reader,
    )


def _write_other_files(file_type: FileType, root: Path) -> None:
    for name, data in file_type.other_files.items():
        write(root / name, data)


def _argv(
    file_type: FileType, reader: tuple[str, ...], root: Path
) -> tuple[str, ...]:
    path = os.path.relpath(root / file_type.path, root / 'work')
    return tuple(path if word == 'FILE' else word for word in reader)


def _file(
    rng: random.Random, root: Path, file_type: FileType, group: str
) -> Case | None:
    if not file_type.is_known or (group == 'field' and file_type.only_damage):
        return None
    _write_other_files(file_type, root)
    path = root / file_type.path
    path.parent.mkdir(parents=True, exist_ok=True)
    reader = rng.choice(file_type.readers)
    field_name = ''
    if group == 'file':
        if file_type.is_foreign:
            return None
        damaged = mutations.damage(
            rng, path, _plain(file_type), file_type.form
        )
        if damaged is None:
            return None
        label, invalid = damaged
        # A missing file among others, or of options, is no mistake.
        if label == 'missing' and 'FILE' not in reader:
            invalid = False
        if file_type.form == 'ini' and label in (
            'deep',
            'alias bomb',
            'empty',
        ):
            invalid = label != 'empty'
        if file_type.only_damage:
            invalid = label in mutations.NO_FILES
        elif file_type.form == 'lines' and not file_type.rules.required:
            # A list of keys may be empty, and its last line longer.
            invalid = invalid and label not in ('empty', 'NUL bytes')
        if file_type.name == 'journal entry' and label == 'directory':
            invalid = False
    else:
        mutation = mutations.mutate(rng, file_type.data, file_type.rules)
        data = copy.deepcopy(mutation.data)
        if file_type.seal:
            data = file_type.seal(data)
        if mutation.field == 'digest':
            data = mutation.data
        label, invalid = mutation.label, mutation.invalid
        # The number of a line is part of many messages.
        field_name = mutation.field if file_type.form != 'lines' else ''
        if file_type.form == 'ini':
            invalid = invalid and not _is_valid_option(mutation)
        try:
            _write(file_type, data, path)
        except (ValueError, TypeError):
            return None
    if stat.S_ISREG(path.lstat().st_mode if os.path.lexists(path) else 0):
        path.chmod(file_type.mode)
    is_strict = not any(
        reader[: len(command)] == command for command in file_type.lenient
    )
    return Case(
        file_type.name,
        label,
        _argv(file_type, reader, root),
        invalid and file_type.offline and is_strict,
        tuple(
            filter(
                None,
                (
                    path.name,
                    field_name,
                    path.stem,
                    # The profile has no file, or the file no profile.
                    *(
                        ['lab-worker']
                        if label in ('missing', 'profiles = {}')
                        else []
                    ),
                    # Without the file, its name is known by the ID alone.
                    *(
                        word
                        for word in reader
                        if label == 'missing'
                        and len(word) > 8
                        and word in path.stem
                    ),
                ),
            )
        ),
        offline=file_type.offline,
        reader=reader,
    )


def _is_valid_option(mutation: mutations.Mutation) -> bool:
    """Tell whether what is no valid field is a valid text or section."""
    if mutation.data in ([], {}):
        # A file without any section.
        return True
    name, _, value = mutation.label.partition(' = ')
    if (name, value) == ('cloud.max_resources_per_stack', '-1'):
        # As in heat.conf, no limit.
        return True
    if '.' not in name:
        return value in ('[]', '{}')
    is_text = any(
        word in name
        for word in ('os_cloud', 'image', 'network', 'profile', 'baseline')
    )
    # Whatever is not a text is written as one.
    return (is_text and value[:1] not in '\'"') or value == "'\\ud800'"


def _plain(file_type: FileType) -> Any:
    return (
        file_type.data
        if file_type.seal is None
        else file_type.seal(dict(file_type.data))
    )


def _write(file_type: FileType, data: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if file_type.form != 'ini':
        path.write_bytes(mutations.render(data, file_type.form))
        return
    lines = []
    for section, options in _items(data):
        lines.append(f'[{section}]')
        lines += [f'{key} = {value}' for key, value in _items(options)]
    path.write_text(
        '\n'.join(lines) + '\n', encoding='utf-8', errors='replace'
    )


def _items(data: Any) -> list[tuple[Any, Any]]:
    if isinstance(data, dict):
        return list(data.items())
    if isinstance(data, list):
        return list(enumerate(data))
    return [('content', data)]


def _options(rng: random.Random, root: Path) -> Case:
    is_parsed = rng.random() < 0.35
    command = rng.choice(PARSED if is_parsed else COMMANDS)
    positions = [index for index, (_, sort) in enumerate(command) if sort]
    position = rng.choice(positions)
    sort = command[position][1]
    if sort == 'count' and rng.random() < 0.2:
        sort = 'strange count'
    values, invalid = SORTS[sort]
    value = rng.choice(values)
    argv = [word for word, _ in command]
    # None of a process' arguments has these.
    passed = value.replace('\x00', '').encode(errors='ignore').decode()
    argv[position] = passed
    for name, data in corpus.RECORDS.items():
        write(root / name, data)
    write(root / f'sweeps/{corpus.SWEEP}.json', corpus.MARKER)
    write(root / f'trials/{corpus.TRIALS_ID}.json', corpus.TRIALS)
    option = argv[position - 1] if position else ''
    plain = ' '.join(passed.split())
    names = {option, option.removeprefix('--'), plain[:20], sort, 'usage'}
    names |= {f"'{passed}'", repr(passed), passed.rpartition('/')[2]}
    # As the terminal gets it.
    names.add(repr(passed)[1:-1][:20])
    if command[:2] == (('flavor', ''), ('approve', '')):
        names |= {'sweep', 'baseline'}
    if passed != value:
        invalid = False
    return Case(
        'options',
        f'{option} {value!r:.60}',
        tuple(argv),
        invalid and not is_parsed,
        tuple(name for name in names if name),
        is_parsed=is_parsed,
    )


def _environment(rng: random.Random) -> Case:
    name, values, argv, invalid = rng.choice(VARIABLES)
    value = rng.choice(values)
    names = (name, name.rpartition('__')[2].lower(), value or name, 'fuzz')
    return Case(
        'environment',
        f'{name}={value!r:.60}',
        argv,
        invalid,
        names,
        env={name: value},
        offline=argv[0].startswith('call:'),
    )


def _output(rng: random.Random, root: Path) -> Case | None:
    for name, data in corpus.RECORDS.items():
        write(root / name, data)
    target = root / 'work/out'
    sort = rng.choice(OUTPUTS)
    if sort == 'device':
        try:
            os.mknod(target, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except OSError:
            return None
    elif sort == 'FIFO':
        os.mkfifo(target)
    elif sort == 'link':
        (root / 'work/file').write_text('old\n', encoding='utf-8')
        target.symlink_to('file')
    elif sort == 'directory':
        target.mkdir()
    elif sort == 'socket':
        os.mknod(target, 0o666 | stat.S_IFSOCK)
    else:
        target = root / 'work/good.yaml/out'
    before = target.lstat() if os.path.lexists(target) else None
    writer = rng.choice(WRITERS)
    return Case(
        'output',
        f'-o {sort}',
        tuple(
            os.path.relpath(target, root / 'work') if word == 'OUT' else word
            for word in writer
        ),
        sort in ('directory', 'no directory', 'socket'),
        ('out', '-o', '--html'),
        output=(target, before.st_mode, before.st_rdev) if before else None,
    )


def _cloud(rng: random.Random, root: Path, cloud_url: str) -> Case:
    data = copy.deepcopy(corpus.CLOUDS)
    data['clouds']['fuzz']['auth']['auth_url'] = cloud_url  # type: ignore[index]
    write(root / 'work/clouds.yaml', data)
    reader = rng.choice(
        next(
            file_type
            for file_type in corpus.ALL
            if file_type.name == 'clouds.yaml'
        ).readers
    )
    return Case(
        'cloud',
        'answers of the cloud',
        reader,
        False,
        ('cloud', '127.0.0.1'),
        offline=False,
    )
