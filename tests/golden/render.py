# SPDX-License-Identifier: Apache-2.0
"""Output of hvstack for fixed input, without this machine's paths and times.

Commands run in this process, by their command lines, so that a refactoring
of the code leaves this module as it is.
"""

import argparse
import ast
import contextlib
import io
import json
import logging
import re
import tempfile
import unittest
import uuid
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fixtures
import jinja2
import yaml
from oslo_config import cfg, generator
from rally.common.plugin import plugin

from hvstack import conf, errors, paths, share
from hvstack.cli import app, commands
from hvstack.hadoop import site_files, sizing, tuning_profiles
from hvstack.rally_plugins import contexts, scenario, slas
from hvstack.results import record, record_data
from tests.golden import compare
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake
from tests.unit.results import factory

TOP = Path(__file__).parents[2]
INPUT = Path(__file__).parent / 'input'
LAB_WORKER = str(INPUT / 'lab-worker.yaml')
HOSTS = ('vsphere6', 'vsan', 'amd', LAB_WORKER)
CONFIGURATIONS = (
    *('i1', 'i2', 'i3', 'i4', 'i5', 'i8', 'i10', 'i20'),
    *('i2-c2', 'i4-c3', 'i2-m1.2', 'i4-c2-m1.3', 'i2-c0.5', 'i2-m0.5'),
    *('i1-dedicated', 'i2-dedicated', 'i4-dedicated', 'i4-dedicated-pinned'),
    *('i1-ceph', 'i2-ceph', 'i4-dedicated-ceph', 'i2-pinned', 'i4-pinned'),
)
ROLES = ('controller', 'namenode', 'resourcemanager')
#: Minimum number of words of a sentence, see :func:`_without_words`.
SENTENCE_WORDS = 3
_NUMBER = re.compile(r'(?<![\w.])\d+(?:\.\d+)?(?![\w])')

#: The wording of the file that is rendered now.
_Words = list[str]


def everything() -> dict[str, str]:
    """Return all output by the name of its file."""
    output: dict[str, str] = {}
    for function in PARTS:
        for name, text in function():
            if name in output:
                raise ValueError(f'{name} is rendered twice')
            output[name] = _without_paths(text)
    return dict(sorted(output.items()))


def _without_paths(text: str) -> str:
    """Return a text without the directories of this machine."""
    # Of the environment that the tests run in.
    text = text.replace(metadata.version('hvstack'), '<version>')
    for path, name in (
        (share.ROOT, '<share>'),
        (paths.STATE, '<state>'),
        (paths.CACHE, '<cache>'),
        (paths.RUN, '<run>'),
        (Path.home(), '<home>'),
        (TOP, '<top>'),
    ):
        text = re.sub(rf'{re.escape(str(path))}(?![\w.-])', name, text)
    return text


def _without_words(value: Any, sentences: _Words) -> Any:
    """Return plain data with each sentence replaced by its numbers.

    What a sentence says may be said better, what it counts stays.

    :param sentences: gets the sentences.
    """
    if isinstance(value, dict):
        return {
            _without_words(key, sentences): _without_words(item, sentences)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_words(item, sentences) for item in value]
    if not isinstance(value, str) or '\n' in value:
        return value
    if len(value.split(' ')) < SENTENCE_WORDS:
        return value
    sentences.append(value)
    numbers = sorted(set(_NUMBER.findall(value)), key=float)
    return f'<sentence {" ".join(numbers)}>'.replace(' >', '>')


def _dump(data: Any) -> str:
    """Return plain data as YAML, in its own order."""
    return yaml.safe_dump(
        json.loads(json.dumps(data)), sort_keys=False, width=10**6
    )


def _files(
    name: str, text: str, sentences: _Words
) -> Iterator[tuple[str, str]]:
    """Yield a file of output, and one of its wording if it has any."""
    yield name, text
    if sentences:
        yield f'{compare.WORDS}{name}', '\n'.join(sentences) + '\n'


def run(*argv: str) -> tuple[int, str, str]:
    """Run a command; return its exit status and its two outputs."""
    # Each command adds a handler; Rally's own prints errors a second time.
    logging.getLogger().handlers.clear()
    return run_command(*argv)


def _session(
    calls: Iterator[tuple[str, ...]],
    sentences: _Words,
    read: Callable[[str], Any] = json.loads,
    show: Callable[[Any], Any] = lambda data: data,
) -> str:
    """Run commands; return their command lines, exit status and output.

    :param read: parser of standard output.
    :param show: takes what it returns, without the sentences.
    """
    parts = []
    for argv in calls:
        status, out, err = run(*argv)
        lines = [f'$ hvstack {" ".join(argv)}', f'status: {status}']
        if out:
            data = show(_without_words(read(out), sentences))
            lines.append(_dump(data).rstrip())
        if err:
            # How lines are broken is no matter.
            lines.append(
                f'error: {_without_words(" ".join(err.split()), sentences)}'
            )
        parts.append('\n'.join(lines))
    return '\n\n'.join(parts) + '\n'


def _name(host: str) -> str:
    return Path(host).stem


def flavors() -> Iterator[tuple[str, str]]:
    """Render ``flavor derive``: roles, configurations, caps; catalogues."""

    def calls(host: str) -> Iterator[tuple[str, ...]]:
        derive = 'flavor', 'derive', '-f', 'json', '--host', host
        for name in CONFIGURATIONS:
            yield *derive, '--configuration', name
        for role in ROLES:
            for name in ('i1', 'i4'):
                yield *derive, '--configuration', name, '--role', role
        yield *derive, '--instances', '2', '--cpu-quota', 'guest'
        yield *derive, '--instances', '2', '--cpu-quota', 'vcpu'
        yield *derive, '--configuration', 'i0'
        yield *derive, '--configuration', 'i2-nfs'

    for host in HOSTS:
        sentences: _Words = []
        text = _session(calls(host), sentences)
        yield from _files(f'flavor-derive-{_name(host)}.txt', text, sentences)
    sentences = []
    text = _session(
        (
            ('flavor', 'catalogue', '--host', host, 'i1', 'i2', 'i4-dedicated')
            for host in HOSTS
        ),
        sentences,
        yaml.safe_load,
    )
    yield from _files('flavor-catalogue.txt', text, sentences)


def lint() -> Iterator[tuple[str, str]]:
    """Render ``flavor lint``: the package's catalogues and one with errors."""

    def calls() -> Iterator[tuple[str, ...]]:
        for name in ('vsphere6', 'vsan', 'amd'):
            yield 'flavor', 'lint', name, '-f', 'json'
        bad = str(INPUT / 'small-flavors.yaml')
        host = str(INPUT / 'small.yaml')
        yield 'flavor', 'lint', bad, '--host', host, '-f', 'json'
        yield 'flavor', 'lint', 'vsphere6', '--host', 'vsan', '-f', 'json'

    sentences: _Words = []
    yield from _files(
        'flavor-lint.txt', _session(calls(), sentences), sentences
    )


def sizes() -> Iterator[tuple[str, str]]:
    """Render ``cluster size``."""

    def calls() -> Iterator[tuple[str, ...]]:
        for host in HOSTS:
            size = 'cluster', 'size', '-f', 'json', '--host', host
            for hosts in ('1', '3', '32'):
                for name in ('i1', 'i4', 'i4-dedicated-pinned'):
                    yield *size, '--hosts', hosts, '--configuration', name
            for rule in ('combined', 'separate', 'host', 'none'):
                yield *size, '--hosts', '8', '--controllers', rule
            yield *size, '--hosts', '8', '--native'

    sentences: _Words = []
    yield from _files(
        'cluster-size.txt', _session(calls(), sentences), sentences
    )


def _show_environment(data: Any) -> Any:
    """Return a Heat environment with Hadoop's site files as properties."""
    if isinstance(data, dict):
        return {key: _show_environment(item) for key, item in data.items()}
    if isinstance(data, str) and data.startswith('<?xml'):
        return _properties(data)
    return data


def _properties(text: str) -> dict[str, str]:
    """Read a site file."""
    return {
        item.findtext('name', ''): item.findtext('value', '')
        for item in ElementTree.fromstring(text).iter('property')
    }


def _shapes(host: str) -> tuple[str, ...]:
    """Return the configurations whose clusters are rendered."""
    if host == LAB_WORKER:
        return 'i1', 'i2', 'i2-c2', 'i2-m1.2'
    return 'i1', 'i4', 'i4-dedicated', 'i4-pinned'


def _changes(first: Any, other: Any) -> Any:
    """Return the differences of another environment; None if it has no key."""
    if not isinstance(first, dict) or not isinstance(other, dict):
        return other
    return {
        key: _changes(first.get(key), other.get(key))
        for key in {**other, **first}
        if first.get(key) != other.get(key)
    }


def environments() -> Iterator[tuple[str, str]]:
    """Render ``cluster environment`` on a cloud with derived flavors."""
    flavors = []
    for host in HOSTS:
        for name in _shapes(host):
            _, out, _ = run(
                *('flavor', 'derive', '-f', 'json', '--host', host),
                *('--configuration', name),
            )
            if not out:
                continue
            flavor = json.loads(out)
            flavors.append(
                {
                    'id': f'id-{_name(host)}-{name}',
                    'name': f'{_name(host)}-{name}',
                    'vcpus': flavor['vcpus'],
                    'ram': flavor['ram'],
                    'disk': flavor['disk'],
                    'extra_specs': flavor['extra_specs'],
                    'links': [],
                }
            )

    def calls(host: str) -> Iterator[tuple[str, ...]]:
        def call(name: str, *options: str) -> tuple[str, ...]:
            flavor = name if name in _shapes(host) else 'i4'
            return (
                *('cluster', 'environment', '--key-name', 'key'),
                *('--worker-flavor', f'{_name(host)}-{flavor}'),
                *('--hosts', '8', '--configuration', name, *options),
            )

        for name in _shapes(host):
            yield call(name)
        if host != 'vsphere6':
            return
        for tuning in tuning_profiles.list_names():
            yield call('i4', '--tuning', tuning)
        for name in ('amd', 'amd-2.4.1', 'amd-2.4.2', 'stock', 'vsan'):
            yield call('i4', '--os-profile', name)
        for deployment in '1234':
            yield call('i4', '--deployment', deployment)
        yield call('i4', '--controllers', 'separate', '--readiness')
        yield call('i4', '--gateway', '--controller-slots', '2')
        yield call('i1', '--workers', '9')
        yield call('i4', '--replication', '9')
        yield call('i4', '--no-node-groups', '--replication', '2')
        yield call('i4-ceph', '--disks', '3', '--disk-gb', '0')
        yield call('i4-ceph', '--disks', '3', '--volume-type', 'fast')
        yield call('i4', '--namenode-handlers', '1', '--readiness')

    types = [f'disk-slot-{slot}' for slot in range(1, 5)] + ['ceph', 'fast']
    with contextlib.ExitStack() as stack:
        stack.enter_context(fake.CloudsFile('test'))
        stack.enter_context(fixtures.EnvironmentVariable('OS_CLOUD', 'test'))
        cloud = stack.enter_context(
            fake.FakeCloud(
                services={'image': fake.GLANCE, 'network': fake.NEUTRON}
            )
        )
        cloud.resources()
        limits = {'limits': {'absolute': {}, 'rate': []}}
        cloud.http.get(f'{fake.NOVA}/limits', json=limits)
        cloud.http.get(f'{fake.CINDER}/limits', json=limits)
        cloud.http.get(
            f'{fake.CINDER}/types',
            json={
                'volume_types': [
                    {'id': name, 'name': name, 'extra_specs': {}}
                    for name in types
                ]
            },
        )
        cloud.http.get(
            f'{fake.NOVA}/flavors/detail', json={'flavors': flavors}
        )
        for host in HOSTS:
            sentences: _Words = []
            first: dict[str, Any] = {}

            def show(data: Any, first: dict[str, Any] = first) -> Any:
                environment = _show_environment(data)
                if first:
                    return {'changes': _changes(first, environment)}
                first |= environment
                return environment

            text = _session(calls(host), sentences, yaml.safe_load, show)
            name = f'cluster-environment-{_name(host)}.txt'
            yield from _files(name, text, sentences)


def hadoop_site_files() -> Iterator[tuple[str, str]]:
    """Render Hadoop's site files by host, tuning profile and cluster."""
    data: dict[str, Any] = {}
    for host in HOSTS:
        _, out, _ = run('host', 'show', host, '-f', 'json')
        profile = json.loads(out)
        for tuning in tuning_profiles.list_names():
            sized = sizing.size_node(
                profile['cpus'],
                profile['memory_mib'],
                tuning=tuning,
                native=True,
            )
            files = site_files.render_site_files(
                sized, controller='10.0.0.1', tuning=tuning, bind=True
            )
            data[f'{_name(host)}, {tuning}'] = {
                name: _properties(text) for name, text in files.items()
            } | {'hadoop-env.sh': site_files.render_hadoop_env(sized)}
    for tuning in tuning_profiles.list_names():
        data[f'digest, {tuning}'] = site_files.digest_settings(tuning)
    yield 'hadoop-site-files.yaml', _dump(data)


def _short(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task whose contexts do not repeat the scenario's arguments."""
    for subtask in task['subtasks']:
        for workload in subtask['workloads']:
            (arguments,) = workload['scenario'].values()
            contexts = workload['contexts']
            for name, context_arguments in contexts.items():
                if context_arguments == arguments:
                    contexts[name] = 'as the scenario'
    return task


def tasks() -> Iterator[tuple[str, str]]:
    """Render the Rally tasks, each with its defaults and with arguments."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(share.RALLY_TASKS),
        autoescape=False,
    )
    common = {'sweep': 'mine', 'runs': 3}
    for path in sorted(share.RALLY_TASKS.glob('*.yaml')):
        if path.stem == 'sweep':
            first = {
                'sweep': 'mine',
                'workloads': [
                    {'configuration': name, 'first_index': 1, 'sizes': [100]}
                    for name in ('bare-metal', 'i2-c1-m1-local-shared-pinned')
                ],
            }
            cases = [first, {**first, 'kit': '/opt/kit', 'allow': ['caps']}]
        elif path.stem == 'study':
            cases = [
                {
                    'sweep': 'mine',
                    'workloads': [
                        {
                            'title': 'i2, pass 2',
                            'sweep': 'mine-v1',
                            'configuration': 'i2-c1-m1-local-shared-pinned',
                            'first_index': 1,
                            'size': 100,
                            'replication': 2,
                            'setup': {'tuning': 'stock'},
                        }
                    ],
                }
            ]
        elif path.stem == 'quick':
            cases = [{}, common, {'configurations': ['i1'], 'size_bytes': 200}]
        else:
            cases = [
                {},
                common,
                {
                    **common,
                    'baseline': 'auto',
                    'allow': ['caps'],
                    'without': ['ceph'],
                    'kit': '/opt/kit',
                    'percent_of_bare_metal': 80,
                    'spread': 5,
                    'steal': 1,
                },
            ]
        sentences: _Words = []
        parts = []
        for arguments in cases:
            text = environment.get_template(path.name).render(**arguments)
            parts.append(
                f'# {json.dumps(arguments)}\n'
                + _dump(
                    _without_words(_short(yaml.safe_load(text)), sentences)
                )
            )
        yield from _files(
            f'rally-tasks/{path.name}', '---\n'.join(parts), sentences
        )


def plans() -> Iterator[tuple[str, str]]:
    """Render ``sweep plan``."""
    values = (
        ('instances=1,2,4', 'cpu_ratio=1,2', 'ram_ratio=1,1.2'),
        ('instances=1,2,3,4,5,10,20',),
        ('instances=1,4', 'cpu_policy=shared,dedicated'),
        ('storage=local,ceph', 'disk_pinning=on,off'),
    )

    def calls() -> Iterator[tuple[str, ...]]:
        for host in HOSTS:
            plan = 'sweep', 'plan', '-f', 'json', '--host', host, '--values'
            for sweep_values in values:
                yield *plan, *sweep_values, '--backend', 'kvm'
        plan = 'sweep', 'plan', '-f', 'json', '--host', 'vsphere6', '--values'
        for strategy in ('full-factorial', 'one-at-a-time'):
            for backend in ('kvm', 'lxc', 'qemu'):
                yield (
                    *(*plan, *values[0], '--backend', backend),
                    *('--strategy', strategy, '--runs', '3'),
                    *('--run-seconds', '600', '--setup-seconds', '120'),
                )
        kvm = (*plan, *values[2], '--backend', 'kvm')
        yield *kvm, '--missing-capability', 'dedicated'
        yield *kvm, '--start', 'i4-dedicated'
        yield *kvm, '--start', 'i3'
        yield *kvm, '--tuning', 'amd'
        yield *plan, 'instances=0', '--backend', 'kvm'
        yield *plan, 'speed=1', '--backend', 'kvm'

    sentences: _Words = []
    yield from _files(
        'sweep-plan.txt', _session(calls(), sentences), sentences
    )


def _records(directory: Path) -> list[record_data.RunRecord]:
    """Store the records of two sweeps; return them."""
    caps = {'caps': {'hv-host2': {'cpu': 0.65}}}
    runs: list[tuple[str, int, float, dict[str, Any]]] = [
        ('bare-metal', 0, 122.0, {}),
        ('i1', 0, 125.0, {}),
        ('i1', 1, 128.0, {}),
        ('bare-metal', 1, 130.0, {}),
        ('i2', 0, 155.0, {}),
        ('i2', 1, 158.0, {}),
        ('bare-metal', 2, 117.0, {}),
        ('i2-c2', 0, 140.0, {}),
        ('i2-c2', 1, 139.0, {}),
        ('i2-ceph', 0, 170.0, {'storage': 'ceph'}),
        ('i2-ceph', 1, 171.0, {'storage': 'ceph'}),
        ('i4', 0, 90.0, {'cpu_model': 'Opteron'}),
        ('i4-dedicated', 0, 900.0, {'backend': 'qemu'}),
        ('i2-m1.2', 0, 40.0, {'reason': 'OOM kill of java (pid 12)'}),
        ('bare-metal', 3, 200.0, {'size': 2 * 10**9}),
        ('i1', 2, 230.0, {'size': 2 * 10**9}),
    ]
    records = []
    for sweep, factor in (('first', 1.0), ('second', 1.1)):
        for run_index, (name, index, seconds, changes) in enumerate(runs):
            day = 21 if sweep == 'first' else 22
            run_record = factory.run(
                *(name, index, seconds * factor),
                sweep=sweep,
                started=f'2026-11-{day}T{run_index:02d}:00:00Z',
                observations=dict(caps),
                **changes,
            )
            run_uuid = uuid.uuid5(uuid.NAMESPACE_URL, f'{sweep}/{run_index}')
            # A signature would need a key of the machine's.
            run_record = factory.with_digest(
                factory.edit(run_record, 'id', str(run_uuid))
            )
            record.store(run_record, directory)
            records.append(run_record)
    return records


def reports() -> Iterator[tuple[str, str]]:
    """Render ``report`` of stored records, and a record."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        records = _records(directory)
        stored = yaml.safe_load(
            min(directory.iterdir()).read_text(encoding='utf-8')
        )
        yield 'record.yaml', _dump(stored)
        report = ('report', '--unsigned', '--records', name)
        for title, argv in (
            ('one', ('first',)),
            ('allow', ('first', '--allow', 'cpu_model')),
            ('baseline', ('second', '--baseline', records[0].id)),
            ('two', ('first', 'second', '--changed', 'nova')),
        ):
            status, out, err = run(*report, *argv, '-f', 'json')
            sentences: _Words = []
            # Where a record is, and so its path, is this run's.
            text = (out or f'{{"status": {status}}}').replace(
                name, '<records>'
            )
            sentences += err.replace(name, '<records>').splitlines()
            data = _dump(_without_words(json.loads(text), sentences))
            yield from _files(f'report-{title}.yaml', data, sentences)
        for form in ('csv', 'junit'):
            _, out, _ = run(*report, 'first', '-f', form)
            yield f'report.{form}', out.replace(name, '<records>')
        for title, argv in (
            ('table', ('first',)),
            ('details', ('first', '--details')),
            ('compare', ('first', 'second', '--changed', 'nova')),
        ):
            _, out, _ = run(*report, *argv)
            yield (
                f'{compare.WORDS}report-{title}.txt',
                out.replace(name, '<records>'),
            )


def _default(value: object) -> object:
    if value is argparse.SUPPRESS:
        return '<suppressed>'
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_default(item) for item in value]
    return str(value)


def _actions(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """Return the arguments of a parser, without their help."""
    return [
        {
            'argument': ', '.join(action.option_strings) or action.dest,
            'metavar': action.metavar,
            'nargs': action.nargs,
            'required': action.required,
            'default': _default(action.default),
            'choices': None
            if action.choices is None
            else [str(choice) for choice in action.choices],
        }
        for action in parser._actions
        if action.dest != 'help'
    ]


def command_lines() -> Iterator[tuple[str, str]]:
    """Render every command: its arguments, and its help apart."""
    main = app.HVStack()
    data = {'hvstack': _actions(main.parser)}
    helps = [main.parser.format_help()]
    for name, entry_point in sorted(
        commands.Commands('hvstack.cli').commands.items()
    ):
        parser = entry_point.load()(main, None).get_parser(f'hvstack {name}')
        data[name] = _actions(parser)
        helps.append(parser.format_help())
    yield 'commands.yaml', _dump(data)
    yield f'{compare.WORDS}help.txt', '\n'.join(helps)


def options() -> Iterator[tuple[str, str]]:
    """Render the options of ``hvstack.conf``, and the sample apart."""
    data = {
        group: {
            option.name: {
                'type': type(option.type).__name__,
                'default': _default(option.default),
                'choices': _default(getattr(option.type, 'choices', None)),
                'min': getattr(option.type, 'min', None),
                'max': getattr(option.type, 'max', None),
                'required': option.required,
                'secret': option.secret,
                'deprecated': [str(old) for old in option.deprecated_opts],
            }
            for option in group_options
        }
        for group, group_options in conf.list_opts()
    }
    yield 'hvstack.conf.yaml', _dump(data)
    config = cfg.ConfigOpts()
    generator.register_cli_opts(config)
    config(['--namespace', 'hvstack'])
    output = io.StringIO()
    generator.generate(config, output_file=output)
    yield f'{compare.WORDS}hvstack.conf.sample', output.getvalue()


def exit_codes() -> Iterator[tuple[str, str]]:
    """Render the exit status of each class of errors."""
    data = {
        name: {'base': item.__base__.__name__, 'exit_code': item.exit_code}
        for name, item in sorted(vars(errors).items())
        if isinstance(item, type) and issubclass(item, errors.HVStackError)
    }
    yield 'exit-codes.yaml', _dump(data)


def heat() -> Iterator[tuple[str, str]]:
    """Render parameters, outputs and resources of the Heat templates."""
    data: dict[str, Any] = {}
    sentences: _Words = []
    for path in sorted(share.HEAT_TEMPLATES.rglob('*.yaml')):
        content = yaml.safe_load(path.read_text(encoding='utf-8'))
        name = str(path.relative_to(share.HEAT_TEMPLATES))
        data[name] = {
            key: content[key]
            for key in ('parameters', 'resource_registry')
            if key in content
        }
        for key in ('outputs', 'resources'):
            if key in content:
                data[name][key] = sorted(content[key])
    yield from _files(
        'heat-templates.yaml',
        _dump(_without_words(data, sentences)),
        sentences,
    )


def plugins() -> Iterator[tuple[str, str]]:
    """Render Rally's plugins and their schemas."""
    data: dict[str, Any] = {}
    sentences: _Words = []
    for module in (contexts, scenario, slas):
        for item in vars(module).values():
            if (
                not isinstance(item, type)
                or item.__module__ != module.__name__
                or not issubclass(item, plugin.Plugin)
                or not item._meta_is_inited(raise_exc=False)
            ):
                continue
            data[item.get_name()] = {
                'platform': item.get_platform(),
                'schema': getattr(item, 'CONFIG_SCHEMA', None),
            }
    yield from _files(
        'rally-plugins.yaml', _dump(_without_words(data, sentences)), sentences
    )


def tempest_ids() -> Iterator[tuple[str, str]]:
    """Render the idempotent ids of Tempest's tests."""
    lines = []
    root = TOP / 'hvstack' / 'tempest_plugin'
    for path in sorted(root.rglob('*.py')):
        module = '.'.join(path.relative_to(TOP).with_suffix('').parts)
        tree = ast.parse(path.read_text(encoding='utf-8'))
        for group in ast.walk(tree):
            if not isinstance(group, ast.ClassDef):
                continue
            for item in group.body:
                for decorator in getattr(item, 'decorator_list', []):
                    if ast.unparse(decorator).startswith(
                        'decorators.idempotent_id('
                    ):
                        identity = ast.literal_eval(decorator.args[0])
                        lines.append(
                            f'{identity} {module}.{group.name}.{item.name}'
                        )
    yield 'tempest-ids.txt', _counted(lines, 'tests')


def test_ids() -> Iterator[tuple[str, str]]:
    """Render the ids of all tests."""
    lines: list[str] = []
    for name in ('unit', 'package', 'functional', 'long', 'after', 'fuzz'):
        loader = unittest.TestLoader()
        suite = loader.discover(str(TOP / 'tests' / name), top_level_dir=TOP)
        if loader.errors:
            raise ValueError(loader.errors[0])
        lines += _ids(suite)
    yield 'tests.txt', _counted(lines, 'tests')


def _ids(suite: unittest.TestSuite | unittest.TestCase) -> Iterator[str]:
    if isinstance(suite, unittest.TestCase):
        yield suite.id()
        return
    for item in suite:
        yield from _ids(item)


def _counted(lines: list[str], noun: str) -> str:
    return f'# {len(lines)} {noun}\n' + ''.join(
        f'{line}\n' for line in sorted(lines)
    )


PARTS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (
    *(
        flavors,
        lint,
        sizes,
        environments,
        hadoop_site_files,
        tasks,
        plans,
        reports,
    ),
    *(command_lines, options, exit_codes, heat, plugins, tempest_ids),
    test_ids,
)
