# SPDX-License-Identifier: Apache-2.0
"""What ``hvstack accept`` writes for Tempest before the tests."""

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from hvstack import conf, errors, extras, host_profiles, paths
from hvstack.accept import (
    placement_only,
    tempest_conf,
    visibility,
)
from hvstack.accept.tempest_conf import (
    Workspace,
    has_separate_controller_hosts,
)
from hvstack.cli.accept_options import (
    DEFAULT_CONFIGURATION,
    POWER_COMMANDS,
)
from hvstack.cloud import keypairs, servers, zones
from hvstack.cluster import baseline_hosts, planner
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.conf import CloudOptions
from hvstack.lab.clouds_yaml import ADMIN_CLOUD
from hvstack.lab.hosts.sizes import CATALOGUES
from hvstack.model.catalogue import Catalogue
from hvstack.model.configuration import Configuration, parse
from hvstack.model.host import HostProfile
from hvstack.progress import Progress

_HVSTACK = extras.program('hvstack')

#: What is known of the lab without being told.
_LAB = {
    'host_access': 'command',
    'host_command': f'{_HVSTACK} lab host exec {{host}} --',
    'power_off_command': f'{_HVSTACK} lab host off {{host}}',
    'power_on_command': f'{_HVSTACK} lab host on {{host}}',
}

#: HDFS property in the parameter ``hdfs_site`` of a request.
_REPLICATION = re.compile(
    r'<name>dfs\.replication</name>\s*<value>(\d+)</value>'
)

_HOST_OPTIONS = (*_LAB, 'libvirt_uri')


def prepare_workspace(
    conn: Connection,
    tenant: Connection,
    cloud: str,
    workspace: Workspace,
    parsed_args: argparse.Namespace,
    progress: Progress,
) -> None:
    """Write tempest.conf and the request for a cluster."""
    options = conf.load().cloud
    configuration = parse(parsed_args.configuration or DEFAULT_CONFIGURATION)
    catalogues = _catalogues(cloud, parsed_args)
    placed = parsed_args.placement_only
    accounts = parsed_args.accounts
    if parsed_args.stack:
        accounts = workspace.directory / 'accounts.yaml'
        paths.write_whole(
            accounts, tempest_conf.render_accounts(tenant, conn), 0o600
        )
    values = tempest_conf.credential_sections(conn, accounts)
    values |= tempest_conf.service_sections(
        conn,
        image=parsed_args.image or options.image,
        network=options.network,
        volume_types=[
            assignment.partition(':')[0]
            for assignment in parsed_args.volume_backend
        ],
        new_projects=_uses_new_projects(parsed_args),
    )
    group = values['hvstack']
    group |= {
        'catalogues': [path.resolve() for path in catalogues],
        'configuration': configuration.name,
        'include_candidates': parsed_args.include_candidates,
        'public': parsed_args.public,
        'volume_backends': parsed_args.volume_backend,
        'disk_pinning': parsed_args.disk_pinning,
        'guests': not placed,
        'hadoop': not (parsed_args.no_hadoop or placed),
        'stack': parsed_args.stack,
        'stack_key': parsed_args.stack
        and keypairs.DIRECTORY / parsed_args.stack,
        'ssh_config': options.ssh_config
        and Path(options.ssh_config).expanduser().absolute(),
        'stack_timeout': options.stack_timeout,
        'ready_timeout': options.ready_timeout,
    }
    group |= _list_zone_options(conn, options.availability_zone)
    group |= list_host_options(cloud, parsed_args)
    if not parsed_args.destructive:
        # 'tempest run' takes whatever tempest.conf allows.
        for name in POWER_COMMANDS:
            group.pop(name, None)
    try:
        if not values['service_available']['heat']:
            raise errors.CloudError(
                'The cloud has no Heat. Use a cloud that has Heat.'
            )
        if parsed_args.stack:
            group |= _existing(conn, configuration, parsed_args, options)
        elif placed:
            group |= _placed(
                conn,
                values,
                workspace,
                [host_profiles.read_catalogue(path) for path in catalogues],
                configuration,
                options,
            )
        else:
            group |= _cluster(
                conn, configuration, workspace, parsed_args, options
            )
    except errors.HVStackError as exc:
        reason = ' '.join(f'Cannot create a cluster: {exc}'.split())
        group['no_cluster'] = reason
        progress.warn(f'{reason} Its tests are skipped.')
    workspace.write(values)


def _uses_new_projects(parsed_args: argparse.Namespace) -> bool:
    """Return whether tests start servers in projects that Tempest creates.

    After a dry run, users of existing projects can use the request for a
    cluster.
    """
    return not (
        parsed_args.accounts
        or parsed_args.stack
        or parsed_args.smoke
        or parsed_args.dry_run
        or 'tenant' not in (parsed_args.scope or ('tenant',))
    )


def _list_zone_options(
    conn: Connection, zone: str | None
) -> dict[str, tempest_conf.Option]:
    """Return the options of the availability zones of servers and volumes.

    :param zone: name of the zone; None or empty for any.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    if not zone:
        return {}
    return {
        'availability_zone': zone,
        'volume_zone': zone if zones.has_volumes(conn, zone) else None,
    }


def list_host_options(
    cloud: str, parsed_args: argparse.Namespace
) -> dict[str, str]:
    """Return the options of the access to compute hosts by name.

    :param cloud: name of the cloud; the lab has defaults.
    :param parsed_args: options of the command, which win.
    :raises hvstack.errors.InputError: the key or the configuration is not a
        file.
    """
    host_options: dict[str, str] = {}
    if cloud == ADMIN_CLOUD and not parsed_args.placement_only:
        host_options |= _LAB
    host_options |= {
        name: value
        for name in _HOST_OPTIONS
        if (value := getattr(parsed_args, name)) is not None
    }
    for name, content in (
        ('host_ssh_key', 'the private key of root on the hosts'),
        ('host_ssh_config', 'the configuration of ssh for the hosts'),
    ):
        path: Path | None = getattr(parsed_args, name)
        if path is None:
            continue
        if not path.is_file():
            raise errors.InputError(
                f'Cannot use --{name.replace("_", "-")} {path}: it is not a '
                f'file. Name the file with {content}.'
            )
        # Tests run in another directory.
        host_options[name] = str(path.absolute())
    return host_options


def _placed(
    conn: Connection,
    values: Mapping[str, Any],
    workspace: Workspace,
    catalogues: list[tuple[Catalogue, HostProfile]],
    configuration: Configuration,
    options: CloudOptions,
) -> dict[str, Any]:
    """Return the options that describe a cluster without guests to tests.

    :raises hvstack.errors.HVStackError: none can be made here.
    """
    cluster_plan, size = placement_only.plan_cluster(
        conn,
        catalogues,
        configuration,
        image=values['hvstack']['image'],
        network=options.network,
    )
    tempest_conf.write_request(
        workspace,
        tempest_conf.build_stack_request(cluster_plan, conn),
    )
    return {
        'stack_request': workspace.stack_request,
        'workers_per_host': configuration.instances,
        'controllers_beside_workers': size.rule != 'host',
        'replication': cluster_plan.nodes.replication,
        'full_cluster': True,
    }


def _cluster(
    conn: Connection,
    configuration: Configuration,
    workspace: Workspace,
    parsed_args: argparse.Namespace,
    options: CloudOptions,
) -> dict[str, Any]:
    """Return the options that describe the cluster that tests create.

    :raises hvstack.errors.HVStackError: none can be made here.
    """
    if parsed_args.stack_request is not None:
        request = tempest_conf.read_request(parsed_args.stack_request)
        return {
            'stack_request': parsed_args.stack_request.resolve(),
            **_read_numbers(request, parsed_args.stack_request),
            'controllers_beside_workers': True,
            # It was written by this command, which takes every slot.
            'full_cluster': True,
        }
    if _uses_new_projects(parsed_args):
        # It can differ from --image.
        visibility.check_image(
            servers.image(conn, options.image), options.image
        )
    cluster_plan = _plan(conn, configuration, options)
    tempest_conf.write_request(
        workspace,
        tempest_conf.build_stack_request(cluster_plan, conn),
    )
    return {
        'stack_request': workspace.stack_request,
        'workers_per_host': configuration.instances,
        'controllers_beside_workers': not has_separate_controller_hosts(
            cluster_plan
        ),
        'replication': cluster_plan.nodes.replication,
        'full_cluster': True,
        **_list_backend_options(cluster_plan, parsed_args),
    }


def _existing(
    conn: Connection,
    configuration: Configuration,
    parsed_args: argparse.Namespace,
    options: CloudOptions,
) -> dict[str, tempest_conf.Option]:
    """Return the options that describe the hosts of an existing cluster.

    The tests read the numbers of its nodes from its stack.
    """
    try:
        cluster_plan = _plan(conn, configuration, options)
    except errors.HVStackError:
        # The existing cluster may have another configuration or other hosts.
        return {'controllers_beside_workers': True}
    return {
        'controllers_beside_workers': not has_separate_controller_hosts(
            cluster_plan
        ),
        **_list_backend_options(cluster_plan, parsed_args),
    }


def _plan(
    conn: Connection, configuration: Configuration, options: CloudOptions
) -> ClusterPlan:
    """Plan a cluster that uses every slot of the hosts.

    :raises hvstack.errors.HVStackError: none can be made here.
    """
    return planner.plan_cluster(
        conn,
        ClusterSpec(
            configuration,
            tuning=baseline_hosts.default_tuning(options.host_profile),
        ),
        options,
    )


def _list_backend_options(
    cluster_plan: ClusterPlan, parsed_args: argparse.Namespace
) -> dict[str, tempest_conf.Option]:
    """Return the options that depend on the hypervisors of the workers."""
    backend_options: dict[str, tempest_conf.Option] = {
        'shared_kernel': cluster_plan.hosts.shared_kernel
    }
    if cluster_plan.hosts.backend == 'lxc' and parsed_args.libvirt_uri is None:
        backend_options['libvirt_uri'] = 'lxc:///'
    return backend_options


def _read_numbers(
    request: tempest_conf.StackRequest, path: Path
) -> dict[str, int]:
    """Return workers per host and replicas of a cluster in a request.

    :param path: file of the request, for the message.
    :raises hvstack.errors.InputError: the request has other values.
    """
    parameters = request['parameters']
    workers_per_host = str(parameters.get('workers_per_host', 1))
    replication = _REPLICATION.search(str(parameters.get('hdfs_site')))
    if replication is None or not workers_per_host.isdecimal():
        raise errors.InputError(
            f'Cannot use --stack-request {path}: its parameter hdfs_site has '
            'no dfs.replication, or workers_per_host is not a number. Let '
            "'hvstack accept --dry-run' write the file again."
        )
    return {
        'workers_per_host': int(workers_per_host),
        'replication': int(replication[1]),
    }


def _catalogues(cloud: str, parsed_args: argparse.Namespace) -> list[Path]:
    """Return the catalogues that were given, or the lab's.

    :raises hvstack.errors.InputError: there are none, or one is not there.
    """
    catalogue_paths: list[Path] = parsed_args.catalogue or []
    if not catalogue_paths and cloud == ADMIN_CLOUD:
        catalogue_paths = sorted(CATALOGUES.glob('*.yaml'))
    if not catalogue_paths:
        raise errors.InputError(
            'Cannot check the published flavors: no --catalogue is given. Use '
            "the files that 'hvstack flavor export' writes."
        )
    for path in catalogue_paths:
        if not os.access(path, os.R_OK):
            raise errors.InputError(
                f'Cannot read --catalogue {path}: the file does not exist, or '
                'is not readable. Use a YAML file.'
            )
    return catalogue_paths
