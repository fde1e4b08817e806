# SPDX-License-Identifier: Apache-2.0
"""Rally tasks of one parameter, and the SLAs that they ask for."""

import importlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fixtures
import jinja2
import jsonschema
import testtools
import yaml
from rally import api
from rally.plugins.task.sla import failure_rate
from rally.task import sla, task_cfg
from rally.task.context import Context
from rally.task.scenario import Scenario

from hvstack import share
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.rally_plugins import output, slas
from hvstack.rally_plugins.workload_args import WORKLOAD_SCHEMA
from hvstack.results import telemetry
from hvstack.results.record_data import RunRecord
from hvstack.tpcxhs import kit
from tests.unit.results import factory

DIRECTORY = share.RALLY_TASKS
TASKS = jinja2.Environment(loader=jinja2.FileSystemLoader(DIRECTORY))
#: Tasks of commands, which name every workload.
OF_COMMANDS = ('study.yaml', 'sweep.yaml')
NAMES = sorted(
    path.name
    for path in DIRECTORY.glob('*.yaml')
    if path.name not in OF_COMMANDS
)
#: A size that the kit supports.
SIZE = 10**11

SLAS = {
    plugin.get_name(): plugin
    for plugin in (
        failure_rate.FailureRate,
        slas.PercentOfBareMetal,
        slas.SpreadOfRates,
        slas.CPUSteal,
    )
}


def workloads(name: str, **task_args: Any) -> list[dict[str, Any]]:
    content = yaml.load(
        TASKS.get_template(name).render(**task_args), yaml.CSafeLoader
    )
    task_cfg.TaskConfig(content)
    return [
        workload
        for subtask in content['subtasks']
        for workload in subtask['workloads']
    ]


def arguments(name: str, **task_args: Any) -> list[dict[str, Any]]:
    return [
        workload['scenario']['HVStack.tpcx_hs']
        for workload in workloads(name, **task_args)
    ]


def labels(name: str, **task_args: Any) -> list[str]:
    return [
        parse(args['configuration']).label
        for args in arguments(name, **task_args)
        if args['configuration'] != 'bare-metal'
    ]


class TaskTest(testtools.TestCase):
    def test_all_are_tasks_of_our_plugins(self) -> None:
        schema = jsonschema.Draft7Validator(WORKLOAD_SCHEMA)
        for name in NAMES:
            bounds = {'percent_of_bare_metal': 80, 'spread': 10}
            task_args = {} if name == 'quick.yaml' else bounds
            for workload in workloads(name, **task_args):
                (args,) = workload['scenario'].values()
                schema.validate(args)
                self.assertEqual(
                    len(args['sizes']), workload['runner']['serial']['times']
                )
                for context in workload['contexts'].values():
                    self.assertEqual(args, context)
                for plugin, value in workload.get('sla', {}).items():
                    jsonschema.validate(value, SLAS[plugin].CONFIG_SCHEMA)

    def test_a_typo_is_named(self) -> None:
        # Rally's own, which its command loads.
        importlib.import_module('rally.plugins.common.validators')
        good = arguments('01-instances.yaml', values=[2])[0]
        for typo, word in (
            ({'sizess': [100]}, 'sizess'),
            ({'without': ['cehp']}, 'cehp'),
            ({'setup': {'tunning': 'amd'}}, 'tunning'),
            ({'setup': {'tuning': 'fast'}}, 'fast'),
            ({'setup': {'disks': 0}}, '0'),
            ({'sizes': [99]}, '99'),
            ({'sizes': [150]}, '150'),
        ):
            for name in ('hvstack_baseline', 'hvstack_cluster'):
                (message,) = Context.validate(
                    name, None, None, {**good, **typo}
                )
                self.assertIn(word, message.split('\n')[0])

    def test_an_unknown_task_argument_is_named(self) -> None:
        rally = api._Task.__new__(api._Task)
        for path in sorted(DIRECTORY.glob('*.yaml')):
            task_args = {'sweep': 'mine', 'workloads': []}
            if path.name not in OF_COMMANDS:
                del task_args['workloads']
            text = path.read_text()
            rally.render_template(text, str(DIRECTORY), **task_args)
            # The second is a name of Jinja's.
            for typo in ('vaules', 'range'):
                error = self.assertRaises(
                    KeyError,
                    rally.render_template,
                    *(text, str(DIRECTORY)),
                    **task_args,
                    **{typo: [1]},
                )
                self.assertIn(
                    f"unknown task argument '{typo}': choose one of",
                    str(error),
                )
                self.assertNotIn('\n', str(error))

    def test_all_that_a_task_takes_is_used(self) -> None:
        pattern = r'\b([a-z_]+)\s*\| default'
        options = set(
            re.findall(pattern, (DIRECTORY / 'options.j2').read_text())
        )
        for path in sorted(DIRECTORY.glob('*.yaml')):
            text = path.read_text()
            used = set(re.findall(pattern, text))
            error = self.assertRaises(
                KeyError, TASKS.from_string(text).render, vaules=[1]
            )
            accepted = set(
                error.args[0].partition('choose one of ')[2].split(', ')
            )
            if path.name in OF_COMMANDS:
                used |= {'sweep', 'workloads'}
            if "from 'options.j2'" in text:
                # Tasks may set these two themselves.
                own = {'storage', 'replication'}
                used |= options - own | options & own & accepted
            self.assertEqual(used - {'allow'}, accepted - {'allow'}, path.name)

    def test_what_a_task_does_not_take_is_refused(self) -> None:
        for name, task_args, message in (
            ('quick', {'start': 'i2'}, "unknown task argument 'start'"),
            ('quick', {'baseline': 'auto'}, "argument 'baseline'"),
            ('01-instances', {'values': []}, "'values' is []: give a list"),
            ('01-instances', {'values': '12'}, 'give a list'),
            ('01-instances', {'values': 3}, 'give a list'),
            ('quick', {'configurations': ['i1'] * 101}, 'of 1 to 100 values'),
            ('full-sweep', {'values': {'instnces': [1]}}, "'instnces'"),
        ):
            error = self.assertRaises(
                KeyError, arguments, f'{name}.yaml', **task_args
            )
            self.assertIn(message, str(error))

    def test_a_value_that_makes_no_sense_is_named(self) -> None:
        importlib.import_module('rally.plugins.common.validators')

        def validate(args: dict[str, Any]) -> list[str]:
            messages: list[str] = Scenario.validate(
                'HVStack.tpcx_hs', None, {'args': args}, None, vtype='syntax'
            )
            return messages

        baseline, foo, *_ = arguments('01-instances.yaml', values=['foo'])
        for args in (baseline, foo):
            (line,) = validate(args)
            self.assertIn("configuration 'ifoo': 'ifoo' is unknown", line)
            self.assertNotIn('\n', line)
        good = arguments('01-instances.yaml', values=[1])[0]
        self.assertEqual([], validate(good))
        (line,) = validate({**good, 'sweep': 'my/own'})
        self.assertIn("sweep 'my/own'", line)
        directory = self.useFixture(fixtures.TempDir()).path
        with_kit = {**good, 'kit': directory, 'sizes': [SIZE]}
        (line,) = validate(with_kit)
        self.assertIn(f'Cannot use the kit (--kit {directory})', line)
        for name in kit.FILES:
            (Path(directory) / name).write_text('2.0.3\n')
        self.assertEqual([], validate(with_kit))
        (line,) = validate({**with_kit, 'sizes': [SIZE, 5 * SIZE]})
        self.assertIn('the kit supports only 100GB', line)

    def test_one_parameter_is_varied(self) -> None:
        for name, expected in (
            ('01-instances', ['i1', 'i2', 'i3', 'i4', 'i5', 'i10', 'i20']),
            ('02-cpu-ratio', ['i4', 'i4-c2', 'i4-c3', 'i4-c4']),
            ('03-ram-ratio', ['i4', 'i4-m1.1', 'i4-m1.2', 'i4-m1.3']),
            ('04-storage', ['i1', 'i1-ceph']),
            ('05-cpu-policy', ['i1', 'i1-dedicated']),
            ('06-disk-pinning', ['i1', 'i1-pinned']),
        ):
            self.assertEqual(expected * 2, labels(f'{name}.yaml'))
        self.assertEqual(
            ['i4-c2-ceph', 'i4-c3-ceph'] * 2,
            labels('02-cpu-ratio.yaml', start='i4-c4-ceph', values=[2, 3]),
        )
        self.assertEqual(12, len(set(labels('full-sweep.yaml'))))

    def test_a_start_that_is_not_named_leaves_storage_to_the_cloud(
        self,
    ) -> None:
        for name in ('01-instances', '02-cpu-ratio', 'full-sweep'):
            workload_args = arguments(f'{name}.yaml')
            self.assertEqual(
                {'deck'}, {args['storage'] for args in workload_args}
            )
        for args in arguments('01-instances.yaml', start='i1'):
            self.assertNotIn('storage', args)
        for args in arguments('04-storage.yaml'):
            self.assertNotIn('storage', args)

    def test_a_baseline_saves_the_runs_on_bare_metal(self) -> None:
        workload_args = arguments(
            '01-instances.yaml', baseline='auto', values=[1, 2]
        )
        self.assertEqual(
            ['i1', 'i2', 'i1', 'i2'],
            [args['configuration'] for args in workload_args],
        )
        self.assertEqual(
            {'auto'}, {args['baseline'] for args in workload_args}
        )
        self.assertNotIn('allow', workload_args[0])
        for name in NAMES:
            if name != 'quick.yaml':
                (args, *_) = arguments(name, baseline='auto', allow=['caps'])
                self.assertEqual(['caps'], args['allow'])

    def test_what_is_allowed_reaches_the_percentage(self) -> None:
        runs = [
            factory.run('bare-metal', 0, 90),
            factory.run('i1', 0, 100, jre='8'),
        ]
        for allow, status in (((), 'not comparable'), (('jre',), 'ok')):
            answer = output.build_interim_report(runs, allow)
            assert answer
            self.assertEqual(status, answer.rows[1].status)

    def test_bare_metal_goes_with_its_configuration(self) -> None:
        workload_args = arguments('01-instances.yaml', values=[1, 2])
        self.assertEqual(
            ['i1', None, 'i2', None, None, None, None],
            [args.get('before') for args in workload_args],
        )
        self.assertTrue(workload_args[-1]['skip'])

    def test_kit_measures_whole_pairs_on_bare_metal(self) -> None:
        """With odd numbers of values and runs too."""
        for name, values, count in (
            ('01-instances.yaml', [1, 2, 3], 4),
            ('full-sweep.yaml', {'instances': [2, 3]}, 3),
        ):
            bare_metal = [
                (args['first_index'], args['sizes'])
                for args in arguments(
                    name, values=values, kit='/kit', runs=3, size_bytes=SIZE
                )
                if args['configuration'] == 'bare-metal'
            ]
            self.assertEqual(
                [(2 * index, [SIZE] * 2) for index in range(count)],
                bare_metal,
            )


def iteration(*skipped: str, **figures: float) -> dict[str, Any]:
    titles = {
        'percent': slas.PERCENT,
        'low': slas.LOWER_BOUND,
        'rate': slas.RATE,
        'steal': slas.STEAL,
    }
    return {
        'output': {
            'additive': [
                {'title': titles[name], 'data': [[name, value]]}
                for name, value in figures.items()
            ],
            'complete': [
                {'title': slas.SKIPPED, 'data': [reason]} for reason in skipped
            ],
        }
    }


def steal_figures(record: RunRecord) -> list[float]:
    """Return the stolen CPU time in the charts of a run."""
    charts: list[dict[str, Any]] = []
    benchmark = SimpleNamespace(
        add_output=lambda additive: charts.append(additive)
    )
    output.add_run(benchmark, Progress(), record, [], ())
    return slas.list_figures({'output': {'additive': charts}}, slas.STEAL)


class SLATest(testtools.TestCase):
    def judge(
        self, name: str, bound: float, *iterations: dict[str, Any]
    ) -> tuple[bool, str]:
        criterion = sla.SLA.get(name)(bound)
        for task_iteration in iterations:
            criterion.add_iteration(task_iteration)
        return bool(criterion.success), criterion.details()

    def test_percent_is_that_of_all_runs(self) -> None:
        runs = iteration(percent=90, low=60), iteration(percent=92, low=85)
        good, text = self.judge('percent_of_bare_metal', 80, *runs)
        self.assertTrue(good)
        self.assertIn('85.0 %', text)
        # The percentage would be high enough, its lower bound is not.
        self.assertFalse(self.judge('percent_of_bare_metal', 90, *runs)[0])

    def test_no_percent_is_no_success(self) -> None:
        before = iteration(percent=97, low=90)
        too_few = 'too few runs for an interval'
        for runs, reason in (
            ((iteration(),), 'not available'),
            ((iteration(percent=99),), too_few),
            # The interval over all runs is not reported any more.
            ((before, iteration(percent=99)), too_few),
        ):
            good, text = self.judge('percent_of_bare_metal', 80, *runs)
            self.assertFalse(good)
            self.assertIn(f': {reason} - ', text)

    def test_a_skipped_configuration_does_not_fail(self) -> None:
        good, text = self.judge(
            'percent_of_bare_metal', 80, iteration('no Ceph')
        )
        self.assertTrue(good)
        self.assertIn('skipped', text)

    def test_spread(self) -> None:
        runs = iteration(rate=1.0), iteration(rate=1.2)
        self.assertTrue(self.judge('spread_of_rates', 25, *runs)[0])
        self.assertFalse(self.judge('spread_of_rates', 15, *runs)[0])

    def test_steal_may_be_not_available(self) -> None:
        self.assertEqual(
            (True, 'Stolen CPU time at most 5 %: not available - Passed'),
            self.judge('cpu_steal', 5, iteration()),
        )
        self.assertFalse(self.judge('cpu_steal', 5, iteration(steal=6))[0])

    def test_merge(self) -> None:
        criterion = sla.SLA.get('spread_of_rates')(10)
        other = sla.SLA.get('spread_of_rates')(10)
        criterion.add_iteration(iteration(rate=1.0))
        other.add_iteration(iteration(rate=2.0))
        self.assertFalse(criterion.merge(other))

    def test_steal_of_a_record(self) -> None:
        node = {'steal': 3.0, 'cpus': 2, 'seconds': 30.0}
        record = factory.run(
            'i1', 0, 60, observations={'telemetry': {'nodes': {}}}
        )
        self.assertEqual([], steal_figures(record))
        nodes = {
            'w1': node,
            'w2': {**node, 'steal': 0.6},
            'w3': {'seconds': 30.0},
        }
        record = factory.edit(record, 'seen/telemetry/nodes', nodes)
        self.assertEqual([5.0], steal_figures(record))
        # The report has the same figure, also for a node that is no worker.
        nodes['w2'] |= {'role': 'controller', 'steal': 6.0}
        record = factory.edit(record, 'seen/telemetry/nodes', nodes)
        self.assertEqual([10.0], steal_figures(record))
        self.assertEqual(
            {'w1': 0.05, 'w2': 0.1}, telemetry.compute_steal_shares(record)
        )
