# SPDX-License-Identifier: Apache-2.0
"""Rally tasks of one parameter, and the SLAs that they ask for."""

import importlib
import re
from typing import Any

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
from hvstack.rally_plugins import scenario, slas
from hvstack.rally_plugins.session import WORKLOAD_SCHEMA
from tests.unit.results import factory

FOLDER = share.RALLY_TASKS
TASKS = jinja2.Environment(loader=jinja2.FileSystemLoader(FOLDER))
NAMES = sorted(
    path.name for path in FOLDER.glob('*.yaml') if path.name != 'sweep.yaml'
)

SLAS = {
    one.get_name(): one
    for one in (
        failure_rate.FailureRate,
        slas.PercentOfBareMetal,
        slas.SpreadOfRates,
        slas.CPUSteal,
    )
}


def workloads(name: str, **given: Any) -> list[dict[str, Any]]:
    content = yaml.load(
        TASKS.get_template(name).render(**given), yaml.CSafeLoader
    )
    task_cfg.TaskConfig(content)
    return [
        workload
        for subtask in content['subtasks']
        for workload in subtask['workloads']
    ]


def arguments(name: str, **given: Any) -> list[dict[str, Any]]:
    return [
        one['scenario']['HVStack.tpcx_hs'] for one in workloads(name, **given)
    ]


def labels(name: str, **given: Any) -> list[str]:
    return [
        parse(one['configuration']).label
        for one in arguments(name, **given)
        if one['configuration'] != 'bare-metal'
    ]


class TaskTest(testtools.TestCase):
    def test_all_are_tasks_of_our_plugins(self) -> None:
        schema = jsonschema.Draft7Validator(WORKLOAD_SCHEMA)
        for name in NAMES:
            bounds = {'percent_of_bare_metal': 80, 'spread': 10}
            given = {} if name == 'quick.yaml' else bounds
            for one in workloads(name, **given):
                (args,) = one['scenario'].values()
                schema.validate(args)
                self.assertEqual(
                    len(args['sizes']), one['runner']['serial']['times']
                )
                for context in one['contexts'].values():
                    self.assertEqual(args, context)
                for plugin, value in one.get('sla', {}).items():
                    jsonschema.validate(value, SLAS[plugin].CONFIG_SCHEMA)

    def test_a_typo_is_named(self) -> None:
        # Rally's own, which its command loads.
        importlib.import_module('rally.plugins.common.validators')
        good = arguments('12-stripe.yaml', disks=[2])[0]
        for typo, word in (
            ({'sizess': [100]}, 'sizess'),
            ({'without': ['cehp']}, 'cehp'),
            ({'setup': {'tunning': 'amd'}}, 'tunning'),
            ({'setup': {'tuning': 'fast'}}, 'fast'),
            ({'setup': {'disks': 0}}, '0'),
            ({'sizes': [99]}, '99'),
        ):
            for name in ('hvstack_baseline', 'hvstack_cluster'):
                (said,) = Context.validate(name, None, None, {**good, **typo})
                self.assertIn(word, said.split('\n')[0])

    def test_an_unknown_task_argument_is_named(self) -> None:
        rally = api._Task.__new__(api._Task)
        for path in sorted(FOLDER.glob('*.yaml')):
            given = {'sweep': 'mine', 'workloads': []}
            if path.name != 'sweep.yaml':
                del given['workloads']
            text = path.read_text()
            rally.render_template(text, str(FOLDER), **given)
            # The second is a name of Jinja's.
            for typo in ('vaules', 'range'):
                error = self.assertRaises(
                    KeyError,
                    rally.render_template,
                    *(text, str(FOLDER)),
                    **given,
                    **{typo: [1]},
                )
                self.assertIn(
                    f"unknown task argument '{typo}': take one of", str(error)
                )
                self.assertNotIn('\n', str(error))

    def test_all_that_a_task_takes_is_used(self) -> None:
        for path in sorted(FOLDER.glob('*.yaml')):
            text = path.read_text()
            used = set(re.findall(r'\b([a-z_]+)\s*\| default', text))
            error = self.assertRaises(
                KeyError, TASKS.from_string(text).render, vaules=[1]
            )
            taken = set(error.args[0].partition('take one of ')[2].split(', '))
            if path.name == 'sweep.yaml':
                used |= {'sweep', 'workloads'}
            self.assertEqual(used - {'allow'}, taken - {'allow'}, path.name)

    def test_what_a_task_does_not_take_is_refused(self) -> None:
        for name, given, words in (
            ('quick', {'start': 'i2'}, "unknown task argument 'start'"),
            ('quick', {'baseline': 'auto'}, "argument 'baseline'"),
            ('08-replication', {'replication': 2}, "argument 'replication'"),
            ('01-instances', {'values': []}, "'values' is []: give a list"),
            ('01-instances', {'values': '12'}, 'give a list'),
            ('01-instances', {'values': 3}, 'give a list'),
            ('quick', {'configurations': ['i1'] * 101}, 'of 1 to 100 values'),
            ('full-sweep', {'values': {'instnces': [1]}}, "'instnces'"),
        ):
            error = self.assertRaises(
                KeyError, arguments, f'{name}.yaml', **given
            )
            self.assertIn(words, str(error))

    def test_a_value_that_makes_no_sense_is_named(self) -> None:
        importlib.import_module('rally.plugins.common.validators')

        def said(given: dict[str, Any]) -> list[str]:
            found: list[str] = Scenario.validate(
                'HVStack.tpcx_hs', None, {'args': given}, None, vtype='syntax'
            )
            return found

        bare, foo, *_ = arguments('01-instances.yaml', values=['foo'])
        for one in (bare, foo):
            (line,) = said(one)
            self.assertIn("configuration 'ifoo': 'ifoo' is unknown", line)
            self.assertNotIn('\n', line)
        good = arguments('01-instances.yaml', values=[1])[0]
        self.assertEqual([], said(good))
        (line,) = said({**good, 'sweep': 'my/own'})
        self.assertIn("sweep 'my/own'", line)

    def test_one_parameter_is_varied(self) -> None:
        for name, wanted in (
            ('01-instances', ['i1', 'i2', 'i3', 'i4', 'i5', 'i10', 'i20']),
            ('02-cpu-ratio', ['i4', 'i4-c2', 'i4-c3', 'i4-c4']),
            ('03-ram-ratio', ['i4', 'i4-m1.1', 'i4-m1.2', 'i4-m1.3']),
            ('04-storage', ['i1', 'i1-ceph']),
            ('05-cpu-policy', ['i1', 'i1-dedicated']),
            ('06-disk-pinning', ['i1', 'i1-pinned']),
        ):
            self.assertEqual(wanted, labels(f'{name}.yaml'))
        self.assertEqual(
            ['i4-c2-ceph', 'i4-c3-ceph'],
            labels('02-cpu-ratio.yaml', start='i4-c4-ceph', values=[2, 3]),
        )
        self.assertEqual(12, len(set(labels('full-sweep.yaml'))))

    def test_a_start_that_is_not_named_leaves_storage_to_the_cloud(
        self,
    ) -> None:
        for name in ('01-instances', '02-cpu-ratio', 'full-sweep'):
            found = arguments(f'{name}.yaml')
            self.assertEqual({'deck'}, {one['storage'] for one in found})
        for one in arguments('01-instances.yaml', start='i1'):
            self.assertNotIn('storage', one)
        for one in arguments('04-storage.yaml'):
            self.assertNotIn('storage', one)

    def test_a_baseline_saves_the_runs_on_bare_metal(self) -> None:
        found = arguments('01-instances.yaml', baseline='auto', values=[1, 2])
        self.assertEqual(['i1', 'i2'], [one['configuration'] for one in found])
        self.assertEqual({'auto'}, {one['baseline'] for one in found})
        self.assertNotIn('allow', found[0])
        for name in NAMES:
            if name != 'quick.yaml':
                (one, *_) = arguments(name, baseline='auto', allow=['caps'])
                self.assertEqual(['caps'], one['allow'])

    def test_what_is_allowed_reaches_the_percentage(self) -> None:
        runs = [
            factory.run('bare-metal', 0, 90),
            factory.run('i1', 0, 100, jre='8'),
        ]
        for allow, status in (((), 'not comparable'), (('jre',), 'ok')):
            answer = scenario.build_interim_report(runs, allow)
            assert answer
            self.assertEqual(status, answer.rows[1].status)

    def test_bare_metal_goes_with_its_configuration(self) -> None:
        found = arguments('01-instances.yaml', values=[1, 2])
        self.assertEqual(
            ['i1', None, 'i2', None, None],
            [one.get('before') for one in found],
        )
        self.assertTrue(found[-1]['skip'])

    def test_sizes_and_replications_are_sweeps_of_their_own(self) -> None:
        found = arguments('08-replication.yaml', sweep='mine')
        self.assertEqual(
            {('mine-r1', 1), ('mine-r3', 3)},
            {(one['sweep'], one['replication']) for one in found},
        )
        found = arguments('07-data-size.yaml', sweep='mine', sizes=[100, 200])
        self.assertEqual(
            {('mine-100', 100), ('mine-200', 200)},
            {(one['sweep'], size) for one in found for size in one['sizes']},
        )

    def test_a_cluster_sorts_all_sizes(self) -> None:
        found = arguments(
            '07-data-size.yaml',
            configurations=['i1', 'i2'],
            sizes=[100, 200],
            sweep='mine',
            runs=2,
        )
        bare = 'bare-metal'
        self.assertEqual(
            [
                (name, f'mine-{size}', [size] * runs, size == 100, index)
                for name, runs, index in (
                    *((bare, 1, 0), ('i1', 2, 0)),
                    *((bare, 1, 1), ('i2', 2, 0)),
                    (bare, 1, 2),
                )
                for size in (100, 200)
            ],
            [
                (
                    one['configuration'],
                    one['sweep'],
                    one['sizes'],
                    one.get('keep', False),
                    one['first_index'],
                )
                for one in found
            ],
        )
        (first, *_) = arguments('07-data-size.yaml', sizes=[100], sweep='m')
        self.assertEqual(('m-100', None), (first['sweep'], first.get('keep')))

    def test_set_ups_are_sweeps_of_their_own(self) -> None:
        for name, sweeps, first in (
            ('09-tuning', 5, ('stock', {'tuning': 'stock'})),
            ('10-os-profile', 4, ('stock', {'os_profile': 'stock'})),
            (
                '11-amd-steps',
                7,
                (
                    'amd-3.1.1-amd-2.4.1',
                    {'tuning': 'amd-3.1.1', 'os_profile': 'amd-2.4.1'},
                ),
            ),
            ('12-stripe', 5, ('d1', {'disks': 1, 'volume_type': 'ceph'})),
            (
                '13-ceph-copies',
                3,
                ('r3-c1', {'copies': 1, 'volume_type': 'ceph-copies-1'}),
            ),
            (
                '14-osd-groups',
                3,
                (
                    'g2',
                    {'osd_groups': 2, 'copies': 2, 'volume_type': 'ceph'},
                ),
            ),
        ):
            found = arguments(f'{name}.yaml', sweep='mine')
            self.assertEqual(sweeps, len({one['sweep'] for one in found}))
            self.assertEqual(
                (f'mine-{first[0]}', first[1]),
                (found[0]['sweep'], found[0]['setup']),
            )
            # Bare metal has the set-up of its configurations.
            for one in found:
                same = [o for o in found if o['sweep'] == one['sweep']]
                self.assertEqual(
                    [one['setup']] * len(same), [o['setup'] for o in same]
                )
                self.assertEqual('bare-metal', same[0]['configuration'])

    def test_clusters_are_left_where_hadoop_alone_differs(self) -> None:
        for name in NAMES:
            kept = any(one.get('keep') for one in arguments(name))
            self.assertEqual(name[:2] in ('07', '08', '09', '11'), kept, name)

    def test_set_ups_take_other_values(self) -> None:
        found = arguments('12-stripe.yaml', disks=[6], volume_type='fast')
        self.assertEqual(
            {'disks': 6, 'volume_type': 'fast'}, found[0]['setup']
        )
        found = arguments('13-ceph-copies.yaml')
        self.assertEqual(
            {(3, 1), (1, 3), (2, 2)},
            {(one['replication'], one['setup']['copies']) for one in found},
        )
        found = arguments('14-osd-groups.yaml', groups=[4], copies=3)
        self.assertEqual(
            (2, 3), (found[0]['replication'], found[0]['setup']['copies'])
        )


def iteration(*skipped: str, **figures: float) -> dict[str, Any]:
    titles = {
        'percent': slas.PERCENT,
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
                {'title': slas.SKIPPED, 'data': [why]} for why in skipped
            ],
        }
    }


class SLATest(testtools.TestCase):
    def judge(
        self, name: str, bound: float, *iterations: dict[str, Any]
    ) -> tuple[bool, str]:
        one = sla.SLA.get(name)(bound)
        for number in iterations:
            one.add_iteration(number)
        return bool(one.success), one.details()

    def test_percent_is_that_of_all_runs(self) -> None:
        runs = iteration(percent=70), iteration(percent=85)
        good, text = self.judge('percent_of_bare_metal', 80, *runs)
        self.assertTrue(good)
        self.assertIn('85.0 %', text)
        self.assertFalse(self.judge('percent_of_bare_metal', 90, *runs)[0])

    def test_no_percent_is_no_success(self) -> None:
        good, text = self.judge('percent_of_bare_metal', 80, iteration())
        self.assertFalse(good)
        self.assertIn('not available', text)

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
        one = sla.SLA.get('spread_of_rates')(10)
        other = sla.SLA.get('spread_of_rates')(10)
        one.add_iteration(iteration(rate=1.0))
        other.add_iteration(iteration(rate=2.0))
        self.assertFalse(one.merge(other))

    def test_steal_of_a_record(self) -> None:
        node = {'steal': 3.0, 'cpus': 2, 'seconds': 30.0}
        found = factory.run('i1', 0, 60, seen={'telemetry': {'nodes': {}}})
        self.assertIsNone(scenario.steal_percent(found))
        found.seen['telemetry']['nodes'] = {
            'w1': node,
            'w2': {**node, 'steal': 0.6},
            'w3': {'seconds': 30.0},
        }
        self.assertEqual(5.0, scenario.steal_percent(found))
