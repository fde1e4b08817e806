# SPDX-License-Identifier: Apache-2.0
"""A cluster from the templates, with a member's rights only."""

from tempest import config
from tempest.lib import decorators

from hvstack import errors
from hvstack.accept import check_result, cluster_checks
from hvstack.hadoop import daemons
from hvstack.tempest_plugin.cluster_base import OwnClusterTest
from hvstack.tempest_plugin.hdfs_files import get_replication
from hvstack.tempest_plugin.volume_base import ClusterVolumesTest
from hvstack.tpcxhs import run
from hvstack.tpcxhs.workload import Workload, parse_size

CONF = config.CONF
#: Outputs that every cluster has, whatever its roles.
_OUTPUTS = ('controller', 'workers', 'topology', 'web_uis', 'ssh')


@decorators.serial
class StackTest(ClusterVolumesTest):
    """One cluster, inspected from all sides."""

    @classmethod
    def resource_setup(cls) -> None:
        """Make it, or take the one that is there."""
        super().resource_setup()
        cls.stack = cls.existing_stack() or cls.create()
        cls.nodes = cls.cluster(cls.stack)

    #: Why Hadoop is not whole; None before anybody has looked.
    trouble: str | None = None

    def hadoop(self) -> str:
        """Return why Hadoop is not whole; nothing where it is.

        Waits once for all tests; each test ends here without Hadoop.
        """
        if not CONF.hvstack.hadoop:
            self.skip_unchecked('no Hadoop runs here ([hvstack] hadoop)')
        if self.trouble is None:
            try:
                self.wait_for_hadoop(self.nodes)
                problems = daemons.find_dead_daemons(
                    self.nodes.nodes, silent=True
                )
            except errors.HVStackError as exc:
                problems = [str(exc)]
            type(self).trouble = ', '.join(problems)
        return self.trouble or ''

    def skip_if_unhealthy(self) -> None:
        """End a test that a worker's absence would fail for a wrong reason.

        The absence itself is for test_all_nodes_are_in to tell.
        """
        if trouble := self.hadoop():
            self.skip_unchecked(f'Hadoop is not whole: {trouble}')

    @decorators.idempotent_id('4e5f6071-8293-4a4b-b5c6-d7e8f90a1bba')
    def test_outputs(self) -> None:
        """Every output of a cluster has a value."""
        outputs = self.outputs(self.stack)
        self.assert_results(
            [
                check_result.CheckResult(
                    f'output {name}',
                    'a value',
                    str(outputs.get(name))[:200],
                    bool(outputs.get(name)),
                )
                for name in _OUTPUTS
            ]
        )

    @decorators.idempotent_id('5f607182-93a4-4b5c-86d7-e8f90a1b2ccb')
    def test_nodes_per_host(self) -> None:
        """A host has the promised number of workers, controllers apart."""
        self.assert_results(self.check_placement(self.stack))

    @decorators.idempotent_id('9c4d1f0e-27b8-4a63-8d5e-b1f7c0a2e394')
    def test_volumes(self) -> None:
        """Workers have the promised volumes, on disks as promised, or none."""
        self.volumes(self.stack)

    @decorators.idempotent_id('60718293-a4b5-4c6d-97e8-f90a1b2c3ddc')
    def test_all_nodes_are_in(self) -> None:
        """HDFS and YARN have every worker, and no daemon has died."""
        trouble = self.hadoop()
        self.assert_results(
            [
                check_result.check_equal(
                    'HDFS and YARN', 'every worker', trouble
                )
            ]
            if trouble
            else [
                check_result.check_equal(
                    'missing in HDFS or YARN',
                    [],
                    daemons.find_unmet_conditions(self.nodes),
                ),
                check_result.check_equal(
                    'daemons that have died',
                    [],
                    daemons.find_dead_daemons(self.nodes.nodes, silent=True),
                ),
            ]
        )

    @decorators.idempotent_id('718293a4-b5c6-4d7e-a8f9-0a1b2c3d4eed')
    def test_topology(self) -> None:
        """HDFS' node groups are Nova's hosts."""
        self.skip_if_unhealthy()
        self.assert_results(self.topology(self.nodes))

    @decorators.idempotent_id('f90a1b2c-3d4e-4f60-a172-8394b5c6d665')
    def test_node_groups(self) -> None:
        """The NameNode places replicas by node groups (HVE)."""
        self.skip_if_unhealthy()
        self.assert_results(
            cluster_checks.check_hve_properties(
                self.effective_properties(self.nodes)
            )
        )

    @decorators.idempotent_id('8293a4b5-c6d7-4e8f-b90a-1b2c3d4e5ffe')
    def test_replicas(self) -> None:
        """No two replicas of a block are on one host, over ten files."""
        if not CONF.hvstack.stack and CONF.hvstack.replication < 2:
            self.skip_unchecked(
                'a block has one replica ([hvstack] replication)'
            )
        self.skip_if_unhealthy()
        if get_replication(self.nodes) < 2:
            self.skip_unchecked(
                'a block has one replica (dfs.replication of the cluster)'
            )
        self.addCleanup(self.delete_files, self.nodes)
        self.write_files(self.nodes)
        self.assert_results(self.check_replicas(self.nodes))

    @decorators.idempotent_id('93a4b5c6-d7e8-4f90-8a1b-2c3d4e5f600f')
    def test_small_run(self) -> None:
        """A small TPCx-HS-derived run validates its data."""
        if CONF.hvstack.stack:
            self.skip_unchecked(
                'a run ends all jobs and deletes the trash of all users: a '
                'cluster that is there is inspected, not changed'
            )
        self.skip_if_unhealthy()
        done = run.run(
            self.nodes,
            Workload(
                parse_size(CONF.hvstack.benchmark_size),
                CONF.hvstack.replication,
                maps=2,
                reduces=2,
            ),
        )
        phases = ', '.join(
            f'{phase.name} {phase.seconds:.0f} s' for phase in done.phases
        )
        self.assert_results(
            [
                check_result.CheckResult(
                    'run and its data checks',
                    'valid',
                    done.reason or f'valid: {phases}',
                    done.is_valid,
                )
            ]
        )


@decorators.serial
class StackLifeTest(OwnClusterTest):
    """A cluster that changes and goes."""

    @decorators.idempotent_id('a4b5c6d7-e8f9-4a1b-9c3d-4e5f60718110')
    def test_scale_and_delete(self) -> None:
        """One worker less leaves the others; deleting leaves nothing."""
        count = self.requested_workers()
        if count < 2:
            self.skip_unchecked('a cluster of one worker cannot be scaled in')
        before = self.list_resources()
        stack = self.create()
        name, stack_id = stack['stack_name'], stack['id']
        self.update(stack, {'worker_count': count - 1})
        smaller = self.wait_until_complete(name, stack_id, 'UPDATE')
        workers, others = self.names(smaller)
        self.assert_results(
            [
                check_result.check_equal(
                    'workers after the update', count - 1, len(workers)
                ),
                check_result.check_equal(
                    'servers of it',
                    sorted([*workers, *others]),
                    sorted(set(self.host_ids()) - set(before['servers'])),
                ),
            ]
        )
        self.delete(name, stack_id)
        self.assert_results(
            cluster_checks.check_deleted(self.new_resources(before))
        )
