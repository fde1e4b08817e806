# SPDX-License-Identifier: Apache-2.0
"""Clusters of a sweep that have other hosts than its runs so far."""

from types import SimpleNamespace
from typing import Any

import testtools

from hvstack import conf, errors
from hvstack.cloud import connection
from hvstack.cluster.plan import ClusterSpec
from hvstack.rally_plugins import host_count, task_state
from hvstack.sweep import sweep_store
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories
from tests.unit.sweep.test_session import workload_args

EARLIER = '2026-11-20T05:45:00Z'


def build_plan(*names: str, controllers: str = 'combined') -> Any:
    """Return the plan of a cluster on hosts."""
    return SimpleNamespace(
        spec=ClusterSpec(controllers=controllers),
        hosts=SimpleNamespace(providers=dict.fromkeys(names, '')),
    )


class HostCountTest(testtools.TestCase):
    SWEEP = 'model-based-20261129-000000-0000'

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(SweepDirectories())
        self.state: Any = task_state.TaskState(
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            conf.load(()),
        )
        self.store = sweep_store.open_store()

    def add(self, configuration: str, hosts: int, **values: Any) -> None:
        self.store.append(
            factory.run(
                *(configuration, 0, 50),
                **{'sweep': self.SWEEP, 'hosts': hosts, **values},
            )
        )

    def check(
        self,
        count: int,
        *,
        sweep: str = SWEEP,
        controllers: str = 'combined',
        **overrides: Any,
    ) -> None:
        args = workload_args(sweep=sweep, **overrides)
        plan: Any = build_plan('a', 'b', controllers=controllers)
        host_count.check_plan(self.state, args, plan)
        nodes = [SimpleNamespace(host=f'h{n % count}') for n in range(9)]
        host_count.check_cluster(
            self.state, args, plan, SimpleNamespace(nodes=nodes)
        )

    def test_first_cluster(self) -> None:
        self.add('i1', 2, reason='failed')
        self.add('i1', 2, sweep='other')
        # Their storage can have a trait that other hosts lack.
        self.add('i1-ceph', 2, backend='kvm', started=EARLIER)
        self.add('bare-metal', 2, started='2026-11-19T05:45:00Z')
        self.check(3)

    def test_host_that_is_down(self) -> None:
        self.add('i1', 3)
        self.check(3, configuration='i2')
        for count in (2, 4):
            error = self.assertRaises(
                errors.HostsChangedError, self.check, count
            )
            # No failure of the configuration, which two would exclude.
            self.assertTrue(connection.is_outage(error))
            self.assertIn(f'on {count} hosts', str(error))
            self.state.refused_hosts.clear()
        self.check(2, allow=['hosts'])

    def test_variants_of_a_study(self) -> None:
        """The first run of a variant decides for the others."""
        self.add('i1', 3, sweep='study-x-v1')
        self.check(3, sweep='study-x-v2')
        error = self.assertRaises(
            errors.HostsChangedError, *(self.check, 2), sweep='study-x-v2'
        )
        self.assertIn("continue 'study-x'", str(error))
        # No further variant creates a cluster on these hosts.
        args = workload_args(sweep='study-x-v3')
        plan = build_plan('a', 'b')
        self.assertRaises(
            errors.HostsChangedError,
            *(host_count.check_plan, self.state, args, plan),
        )
        self.check(2, sweep='study-x-v3', allow=['hosts'])
        self.check(2, sweep='study-y-v1')

    def test_sides_of_trials(self) -> None:
        """A command before a side may turn a host off."""
        self.add('i1', 3, sweep='trials-x-0-a')
        self.check(2, sweep='trials-x-0-b')
        self.add('i1', 2, sweep='trials-x-0-b', backend='kvm')
        self.check(3, sweep='trials-x-1-a')
        self.check(2, sweep='trials-x-1-b')
        for side, count in (('a', 2), ('b', 3)):
            error = self.assertRaises(
                errors.HostsChangedError,
                *(self.check, count),
                sweep=f'trials-x-1-{side}',
            )
            self.assertIn("continue 'trials-x'", str(error))

    def test_other_controllers(self) -> None:
        """They can have hosts of their own."""
        self.add('i2', 3, sweep='study-x-v1')
        separate = {'sweep': 'study-x-v2', 'controllers': 'separate'}
        self.check(4, **separate)
        self.add('i2', 4, sweep='study-x-v2', controllers='separate')
        self.check(3, sweep='study-x-v3')
        self.assertRaises(
            errors.HostsChangedError,
            *(self.check, 3),
            **separate,
        )

    def test_no_second_cluster_on_these_hosts(self) -> None:
        self.add('i1', 3)
        self.assertRaises(errors.HostsChangedError, self.check, 2)
        plan: Any = build_plan('a', 'b')
        args = workload_args(sweep=self.SWEEP)
        self.assertRaises(
            errors.HostsChangedError,
            *(host_count.check_plan, self.state, args, plan),
        )
        for other in (
            (workload_args(sweep='other'), plan),
            (args, build_plan('a')),
            (args, build_plan('a', 'b', controllers='separate')),
        ):
            host_count.check_plan(self.state, *other)
