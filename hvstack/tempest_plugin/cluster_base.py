# SPDX-License-Identifier: Apache-2.0
"""A Hadoop cluster of a test's own, as a Heat stack of a plain member."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tempest import config
from tempest.lib import exceptions

from hvstack import errors, processutils
from hvstack.accept import (
    cluster_checks,
    tempest_conf,
)
from hvstack.accept.check_result import CheckResult
from hvstack.cloud import host_keys, stack_times
from hvstack.cluster.base import LOCAL_DROP_CACHES, ClusterFacts
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemon_http, daemons
from hvstack.hadoop.site_files import CONF as HADOOP_CONF
from hvstack.results.typed_json import Json, JsonObject
from hvstack.tempest_plugin.hdfs_files import HDFSFiles
from hvstack.tempest_plugin.member_base import MemberTest
from hvstack.tempest_plugin.stacks_client import create_stacks_client

CONF = config.CONF


class ClusterTest(HDFSFiles, MemberTest):
    """A test with clients for a stack, and the rights to make one."""

    request: tempest_conf.StackRequest

    @classmethod
    def skip_checks(cls) -> None:
        """Say what is missing to make a stack."""
        super().skip_checks()
        options = CONF.hvstack
        if options.no_cluster or not (options.stack_request or options.stack):
            reason = CONF.hvstack.no_cluster or (
                'set [hvstack] stack_request to the file that '
                "'hvstack accept' writes for a cluster"
            )
            raise cls.skipException(f'not checked: {reason}')

    @classmethod
    def setup_clients(cls) -> None:
        """Add a client for Heat to the member's."""
        super().setup_clients()
        cls.stacks_client = create_stacks_client(cls.os_primary)

    @classmethod
    def resource_setup(cls) -> None:
        """Read the request, and let the member use its flavors."""
        super().resource_setup()
        if CONF.hvstack.stack:
            return
        cls.request = tempest_conf.read_request(
            Path(CONF.hvstack.stack_request)
        )
        cls.grant_flavor_access(
            {
                str(value)
                for name, value in cls.request['parameters'].items()
                if name.endswith('_flavor')
            }
        )

    @classmethod
    def requested_workers(cls) -> int:
        """Return the number of workers in the request."""
        return int(str(cls.request['parameters']['worker_count']))

    @classmethod
    def existing_stack(cls) -> dict[str, Any] | None:
        """Return the stack that is there and was named, if one was."""
        name = CONF.hvstack.stack
        if not name:
            return None
        cls.key = Path(CONF.hvstack.stack_key)
        return cls.wait_until_complete(
            name, cls.stacks_client.find_stack(name)
        )

    @classmethod
    def create(cls) -> dict[str, Any]:
        """Make a stack with a key pair, wait, and return it.

        What was made is deleted when the class ends.
        """
        name = cls.random_name('stack')
        cls.create_key(name)
        parameters: JsonObject = {
            **cls.request['parameters'],
            'key_name': name,
        }
        stack = cls.stacks_client.create_stack(
            {
                **cls.request,
                'stack_name': name,
                'parameters': parameters,
                'timeout_mins': _compute_heat_minutes(parameters),
            }
        )
        cls.addClassResourceCleanup(host_keys.forget, name)
        cls.addClassResourceCleanup(cls.delete, name, stack['id'])
        return cls.wait_until_complete(name, stack['id'])

    @classmethod
    def update(cls, stack: JsonObject, parameters: JsonObject) -> None:
        """Begin an update of a stack; its other parameters stay.

        :param stack: stack as Heat shows it.
        :param parameters: parameters with other values.
        """
        before = stack['parameters']
        changed = (before if isinstance(before, dict) else {}) | parameters
        cls.stacks_client.update_stack(
            str(stack['stack_name']),
            str(stack['id']),
            {
                'parameters': parameters,
                'timeout_mins': _compute_heat_minutes(changed),
            },
        )

    @classmethod
    def wait_for_stack(
        cls, name: str, stack_id: str, action: str = ''
    ) -> dict[str, Any]:
        """Return a stack once nothing changes it, well or badly.

        :param action: that must have begun: Heat accepts an update some time
            before it begins it.
        """
        stack: dict[str, Any] = dict(
            cls.stacks_client.show_stack(name, stack_id)
        )

        def done() -> bool:
            stack.update(cls.stacks_client.show_stack(name, stack_id))
            status = stack['stack_status']
            return status.startswith(action) and not status.endswith(
                'IN_PROGRESS'
            )

        processutils.wait_for(
            done,
            f'stack {name}',
            timeout=_compute_stack_seconds(stack.get('parameters')),
            interval=2,
        )
        return stack

    @classmethod
    def wait_until_complete(
        cls, name: str, stack_id: str, action: str = ''
    ) -> dict[str, Any]:
        """Return a stack once it is complete.

        :param action: as for :meth:`wait_for_stack`.
        :raises hvstack.errors.CloudError: it failed; names the resource.
        """
        stack = cls.wait_for_stack(name, stack_id, action)
        if not stack['stack_status'].endswith('_COMPLETE'):
            raise errors.CloudError(
                f'Stack {name} has status {stack["stack_status"]}: '
                f'{cls.failure_reasons(name, stack_id)}.'
            )
        return stack

    @classmethod
    def failure_reasons(cls, name: str, stack_id: str) -> str:
        """Return why resources of a stack failed."""
        return '; '.join(
            f'{resource["resource_name"]}: '
            f'{resource["resource_status_reason"]}'
            for resource in cls.stacks_client.list_resources(name, stack_id)
            if resource['resource_status'].endswith('_FAILED')
        )[:1000]

    @classmethod
    def delete(cls, name: str, stack_id: str) -> None:
        """Delete a stack and wait until it is gone; none is fine."""
        stack: JsonObject = {}

        def is_deleted() -> bool:
            try:
                stack.update(cls.stacks_client.show_stack(name, stack_id))
            except exceptions.NotFound:
                return True
            return bool(stack['stack_status'] == 'DELETE_COMPLETE')

        if is_deleted():
            return
        cls.stacks_client.delete_stack(name, stack_id)
        processutils.wait_for(
            is_deleted,
            f'stack {name} to be gone',
            timeout=_compute_stack_seconds(stack.get('parameters')),
        )

    @staticmethod
    def outputs(stack: dict[str, Any]) -> dict[str, Any]:
        """Return a stack's outputs by name."""
        return {
            output['output_key']: output.get('output_value')
            for output in stack['outputs']
        }

    @classmethod
    def cluster(cls, stack: dict[str, Any]) -> StackCluster:
        """Return a stack's nodes."""
        outputs = cls.outputs(stack)
        cluster = StackCluster.from_outputs(
            outputs,
            SSHAccess.of(cls.key, CONF.hvstack.ssh_config),
            name=stack['stack_name'],
            processors=1,
            facts=ClusterFacts(
                drop_command=LOCAL_DROP_CACHES
                if CONF.hvstack.shared_kernel
                else None
            ),
            console=cls.console,
            console_timeout=stack_times.compute_ready_seconds(
                CONF.hvstack.ready_timeout, sum(map(len, cls.names(stack)))
            ),
        )
        cls.addClassResourceCleanup(cluster.close)
        return cluster

    @classmethod
    def console(cls, server_id: str) -> str:
        """Return the console log of a server; empty if it has none."""
        try:
            answer = cls.servers_client.get_console_output(server_id)
        except exceptions.RestClientException:
            return ''
        return str(answer.get('output') or '')

    @classmethod
    def wait_for_hadoop(cls, cluster: StackCluster) -> None:
        """Wait until HDFS and YARN see every worker."""
        daemons.wait_ready(
            cluster,
            stack_times.compute_ready_seconds(
                CONF.hvstack.ready_timeout, len(cluster.nodes)
            ),
        )

    @classmethod
    def host_ids(cls) -> dict[str, str]:
        """Return Nova's ``hostId`` by server, as a member sees it."""
        servers = cls.servers_client.list_servers(detail=True)['servers']
        return {server['name']: server['hostId'] for server in servers}

    @classmethod
    def list_resources(cls) -> dict[str, list[str]]:
        """Return the resources of the member's project by kind."""
        manager = cls.os_primary
        groups_client = manager.security_groups_client
        project = {'project_id': cls.project}
        resources = {
            'servers': list(cls.host_ids()),
            'ports': [
                port['id']
                for port in manager.ports_client.list_ports(**project)['ports']
            ],
            'security groups': [
                group['name']
                for group in groups_client.list_security_groups(**project)[
                    'security_groups'
                ]
                if group['name'] != 'default'
            ],
            'server groups': [
                group['name']
                for group in manager.server_groups_client.list_server_groups()[
                    'server_groups'
                ]
            ],
        }
        if CONF.service_available.cinder:
            resources['volumes'] = [
                volume['id']
                for volume in manager.volumes_client_latest.list_volumes()[
                    'volumes'
                ]
            ]
        return resources

    def new_resources(self, before: dict[str, Any]) -> dict[str, list[str]]:
        """Return the additional resources of the project by kind."""
        return {
            resource_type: sorted(set(names) - set(before[resource_type]))
            for resource_type, names in self.list_resources().items()
        }

    @staticmethod
    def effective_properties(cluster: StackCluster) -> dict[str, str]:
        """Return the properties that the running NameNode has."""
        properties = daemon_http.get_json(
            cluster.gateway, 'namenode', '/conf'
        )['properties']
        return {
            str(hadoop_property['key']): str(hadoop_property['value'])
            for hadoop_property in properties
        }

    def topology(self, cluster: StackCluster) -> list[CheckResult]:
        """Judge what HDFS knows of hosts, and its table, by Nova's hosts."""
        ids = self.host_ids()
        check_servers_exist([node.name for node in cluster.nodes], ids)
        # HDFS knows no nodes without data.
        workers = [node for node in cluster.workers if node.role != 'compute']
        hosts = {node.address: ids[node.name] for node in workers}
        names = {node.address: node.name for node in workers}
        printed = cluster.gateway.run('hdfs dfsadmin -printTopology')
        table = cluster.gateway.run(f'cat {HADOOP_CONF}/topology.table')
        # The table has all other nodes, by their addresses and names.
        lines = {
            key: node.name
            for node in cluster.nodes
            if node.role != 'compute'
            for key in (node.address, node.name)
        }
        return [
            *cluster_checks.check_node_groups(
                'NameNode',
                cluster_checks.parse_print_topology(printed.stdout),
                hosts,
                names,
            ),
            *cluster_checks.check_node_groups(
                'topology.table',
                cluster_checks.parse_topology_table(table.stdout),
                {key: ids[name] for key, name in lines.items()},
                {key: key for key in lines},
            ),
        ]

    def check_placement(self, stack: dict[str, Any]) -> list[CheckResult]:
        """Judge where Nova put the nodes.

        The numbers of an existing cluster are those of its stack.
        """
        ids = self.host_ids()
        workers, others = self.names(stack)
        check_servers_exist([*workers, *others], ids)
        compute = {
            str(worker['name'])
            for worker in self.outputs(stack).get('compute') or ()
        }
        parameters = stack['parameters']
        existing = bool(CONF.hvstack.stack)
        return [
            *cluster_checks.check_placement(
                {name: ids[name] for name in workers if name not in compute},
                {name: ids[name] for name in others},
                per_host=int(parameters['workers_per_host'])
                if existing
                else CONF.hvstack.workers_per_host,
                shared=CONF.hvstack.controllers_beside_workers,
                full=not existing,
            ),
            *cluster_checks.check_workers_per_host(
                {name: ids[name] for name in sorted(compute)},
                int(parameters.get('compute_per_host', 1)),
                'compute workers',
            ),
        ]

    @classmethod
    def names(cls, stack: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Return a stack's workers, and its other nodes.

        Outputs are one node, or a list of workers, beside other values.
        """
        workers, others = [], []
        for value in cls.outputs(stack).values():
            if isinstance(value, dict) and 'server_id' in value:
                others.append(str(value['name']))
            elif isinstance(value, list):
                workers += [str(worker['name']) for worker in value]
        return workers, others


def _compute_stack_seconds(parameters: Json) -> float:
    """Return the seconds in which Heat must complete a change of a stack.

    :param parameters: parameters of the stack, also as Heat shows them.
    """
    return stack_times.compute_stack_seconds(
        CONF.hvstack.stack_timeout,
        stack_times.count_workers(
            parameters if isinstance(parameters, dict) else {}
        ),
    )


def _compute_heat_minutes(parameters: Json) -> int:
    """Return the minutes after which Heat itself ends a change of a stack."""
    return stack_times.compute_heat_minutes(_compute_stack_seconds(parameters))


def check_servers_exist(
    names: Collection[str], existing: Collection[str]
) -> None:
    """See that a stack's servers are there.

    :raises hvstack.errors.CloudError: one is not.
    """
    if missing := sorted(set(names) - set(existing)):
        raise errors.CloudError(
            f'Cannot use the stack: its servers {", ".join(missing)} are no '
            "longer in its project. Check the stack with 'openstack stack "
            "check', and create it again."
        )


class OwnClusterTest(ClusterTest):
    """A test that changes its cluster, or needs the hosts for it."""

    @classmethod
    def skip_checks(cls) -> None:
        """Leave a cluster that is there alone, and its hosts' room."""
        super().skip_checks()
        if CONF.hvstack.stack:
            raise cls.skipException(
                'not checked: a cluster that is there is inspected, not '
                'changed: leave [hvstack] stack unset'
            )
