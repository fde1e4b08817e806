# SPDX-License-Identifier: Apache-2.0
"""Read-only checks of a cloud before anything is made on it.

What no API of OpenStack shows, such as the scheduler's filters, is "not
checked": 'hvstack accept' sees its effects, and nova.conf where it can reach
the hosts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from openstack.connection import Connection
from openstack.proxy import Proxy
from requests import Response

from hvstack import errors
from hvstack.cloud import (
    compute_services,
    connection,
    host_checks,
    host_room,
    hypervisors,
    placement,
    qos,
    quotas,
    servers,
    unified_limits,
    volume_locality,
    volumes,
    zones,
)
from hvstack.cloud.connection import (
    COMPUTE_API,
    access,
    refused,
)
from hvstack.cloud.diagnosis import (
    FAULT,
    NOTE,
    UNCHECKED,
    CloudNeeds,
    Diagnosis,
    build_finding,
)
from hvstack.cloud.network_check import network
from hvstack.cloud.signal_check import host_keys
from hvstack.cloud.unified_limits import UnifiedLimit
from hvstack.model import neutron_conf
from hvstack.model.flavor import count_classes
from hvstack.model.flavor_specs import join_worker_traits
from hvstack.model.pinned_disks import is_volume_local

#: Newest of Placement's APIs that hvstack uses.
_PLACEMENT_API = (1, 36)
#: HOT's newest version, which the templates carry: its name, and its date.
_HOT = {f'heat_template_version.{name}' for name in ('wallaby', '2021-04-16')}


def examine(conn: Connection, request: CloudNeeds) -> list[Diagnosis]:
    """Run every check; none of them changes anything."""
    findings: list[Diagnosis] = []
    for check in _CHECKS:
        try:
            findings += check(conn, request)
        except errors.HVStackError as exc:
            name = check.__name__.strip('_').replace('_', ' ')
            findings.append(unseen(name, exc))
    return findings


def unseen(check: str, exc: errors.HVStackError) -> Diagnosis:
    """Return that a check could not look, with what to do about it."""
    cause = exc.__cause__
    status = getattr(cause, 'http_status', getattr(cause, 'status_code', 0))
    if status in (401, 403):
        remedy = "give an administrator's entry of clouds.yaml: --os-cloud"
    elif status:
        remedy = "look at the service's log"
    else:
        remedy = 'have the service installed, registered and running'
    return Diagnosis(check, UNCHECKED, str(exc), remedy, refused=True)


def _get(service: Proxy, path: str, subject: str) -> Response:
    with refused(f'Cannot inspect {subject}'):
        return service.get(path, raise_exc=True)


def _services(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    needed = {
        'compute': 'nova',
        'placement': 'placement',
        'image': 'glance',
        'network': 'neutron',
        'orchestration': 'heat',
    }
    if request.needs_volumes:
        needed['block-storage'] = 'cinder'
    region = conn.config.get_region_name()
    for service_type, project in needed.items():
        interface = conn.config.get_interface(service_type)
        endpoint = f'endpoint ({interface}{f", {region}" if region else ""})'
        with refused('Cannot inspect the catalogue'):
            is_registered = bool(conn.endpoint_for(service_type))
        yield build_finding(
            f'service {project}',
            is_registered,
            f'has an {endpoint}' if is_registered else f'has no {endpoint}',
            f'install {project}, or register this endpoint',
        )


def _microversions(
    conn: Connection, request: CloudNeeds
) -> Iterator[Diagnosis]:
    for name, adapter, min_version, purpose in (
        ('compute', conn.compute, COMPUTE_API, 'checked extra specs'),
        ('placement', conn.placement, _PLACEMENT_API, 'traits in queries'),
    ):
        with refused(f'Cannot inspect the API of {name}'):
            data = adapter.get_endpoint_data()
        newest = tuple(getattr(data, 'max_microversion', None) or (0, 0))
        required = '.'.join(map(str, min_version))
        yield build_finding(
            f'{name} API',
            newest >= min_version,
            f'up to {newest[0]}.{newest[1]}',
            f'{required} is needed ({purpose}): take a newer release',
        )


def _templates(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    response = _get(conn.orchestration, '/template_versions', 'Heat')
    names = {
        version['version'] for version in response.json()['template_versions']
    }
    yield build_finding(
        'Heat templates',
        bool(_HOT & names),
        f'{len(names)} versions'
        + ('' if _HOT & names else ', wallaby is none of them'),
        'take Heat 16 (Wallaby) or newer',
    )


def _rights(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    token = access(conn)
    roles = sorted(token.role_names or ())
    yield build_finding(
        'rights',
        connection.is_administrator(conn),
        f'roles {", ".join(roles)} in project {token.project_name}',
        'flavors, ratios and hosts need the role admin; a cluster needs '
        'member only',
    )


def _zone(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Check the availability zone, if one was named."""
    if not request.zone:
        return
    names = zones.list_available(conn)
    yield build_finding(
        'availability zone',
        request.zone in names,
        request.zone
        if request.zone in names
        else f'{request.zone} is none of {", ".join(names)}',
        "name one of these as 'availability_zone' in hvstack.conf",
    )


def _hosts(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    hypervisors_by_name = {
        hypervisor.name: hypervisor
        for hypervisor in hypervisors.hypervisors(conn)
    }
    yield compute_services.check(
        conn, request, list(hypervisors_by_name.values())
    )
    traits = join_worker_traits(request.profile, request.configuration)
    worker_hosts = [
        name
        for name in host_checks.list_request_hosts(conn, request)
        if name in hypervisors_by_name
    ]
    yield build_finding(
        "workers' hosts",
        bool(worker_hosts),
        f'{len(worker_hosts)} with trait {traits or "(none is asked for)"}',
        placement.explain_trait(traits),
    )
    kinds = sorted(
        {hypervisors_by_name[name].hypervisor_type for name in worker_hosts}
    )
    if len(kinds) > 1:
        yield Diagnosis(
            'hypervisors',
            FAULT,
            ', '.join(kinds),
            'figures of different ones do not compare: take hosts of one',
        )


def _inventories(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Check ratios, CPUs of the wanted kind and reserved memory."""
    inventories_by_host = placement.seen_inventories(
        conn, host_checks.list_request_hosts(conn, request)
    )
    for host, inventories in inventories_by_host.items():
        yield from host_checks.check_inventories(host, inventories, request)


def _hidden(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Name what no API shows, with what should be there."""
    yield from host_checks.list_unchecked(request)
    if is_volume_local(request.profile, request.configuration):
        yield from host_checks.list_unchecked_cinder(request)


def _cinder_hosts(
    conn: Connection, request: CloudNeeds
) -> Iterator[Diagnosis]:
    """Check that Cinder has the hosts of Nova, for pinned local disks."""
    profile = request.profile
    if not is_volume_local(profile, request.configuration):
        return
    worker_hosts = host_checks.list_request_hosts(conn, request)
    names = sorted(
        hypervisor.host
        for hypervisor in hypervisors.hypervisors(conn)
        if hypervisor.name in worker_hosts
    )
    reason = volume_locality.explain_missing_backends(
        volume_locality.count_backends(conn),
        names,
        profile.disks.count if profile.disks else 0,
    )
    yield build_finding(
        "Cinder's hosts",
        bool(names) and not reason,
        reason
        or f'a backend for each disk on {", ".join(names) or "no host"}',
        "run cinder-volume on the workers' hosts, under the names that Nova "
        "gives them, with a backend for each disk: 'hvstack host nova-conf "
        f"{profile.name} --disk-pinning --file cinder'",
    )


def _volumes(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    if not request.needs_volumes:
        return
    if not request.volume_types:
        yield Diagnosis(
            'volume types',
            UNCHECKED,
            'none was named',
            "name the types of the workers' volumes with --volume-type",
        )
        return
    types_by_name = {
        str(volume_type['name']): volume_type
        for volume_type in volumes.list_types(conn)
    }
    is_administrator = connection.is_administrator(conn)
    for name in request.volume_types:
        specs = types_by_name.get(name, {}).get('extra_specs')
        backend = isinstance(specs, dict) and specs.get('volume_backend_name')
        if not backend and name in types_by_name and not is_administrator:
            yield Diagnosis(
                f'volume type {name}',
                UNCHECKED,
                'exists; only an administrator sees its backend',
                "give an administrator's entry of clouds.yaml: --os-cloud",
            )
            continue
        yield build_finding(
            f'volume type {name}',
            bool(backend),
            f'backend {backend}' if backend else 'missing, or of no backend',
            f"'openstack volume type create --property "
            f"volume_backend_name=BACKEND {name}'",
        )
    # Only administrators see them.
    for limit in qos.list_volume_limits(conn, request.volume_types):
        yield Diagnosis(
            'QoS and encryption of volumes',
            NOTE,
            f'{limit}; bare metal has neither QoS nor encryption',
            'name another volume type with --volume-type; QoS specs can be '
            "taken from this one with 'openstack volume qos disassociate'",
        )


def _quotas(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Compare the project's quotas, less what is used, with the cluster."""
    project = conn.current_project_id
    workers, *others = (count for _, count in request.nodes)
    # One group for each slot of a host, and one for controllers apart.
    slots = (
        request.configuration.instances
        if request.configuration.disk_pinning
        else 1
    )
    quota = _get(
        conn.compute, f'/os-quota-sets/{project}/detail', "Nova's quotas"
    ).json()['quota_set']
    needed = {
        'instances': request.servers,
        'cores': sum(flavor.vcpus * n for flavor, n in request.nodes),
        'ram': sum(flavor.ram * n for flavor, n in request.nodes),
        'key_pairs': 1,
        'server_groups': slots + any(count > 1 for count in others),
        'server_group_members': max(-(-workers // slots), *others),
    }
    limits = _limits(quota, needed)
    unified = unified_limits.read(conn, limits)
    if unified is not None:
        needed = unified_limits.name_needs(
            needed, count_classes(request.nodes)
        )
        limits = quotas.get_unified(unified, needed)
        yield from _list_unregistered(needed, limits)
    yield _quota('nova', limits, needed, unified)
    quota = _get(
        conn.network, f'/quotas/{project}/details.json', "Neutron's quotas"
    ).json()['quota']
    needed = neutron_conf.count_quotas(request.servers)
    yield _quota('neutron', _limits(quota, needed), needed)
    if request.needs_volumes:
        quota = _get(
            conn.block_storage,
            f'/os-quota-sets/{project}?usage=True',
            "Cinder's quotas",
        ).json()['quota_set']
        needed = dict(
            zip(('volumes', 'gigabytes'), request.volumes, strict=True)
        )
        yield _quota('cinder', _limits(quota, needed), needed)


def _list_unregistered(
    needed: Mapping[str, int], limits: Iterable[str]
) -> Iterator[Diagnosis]:
    """Name what has no limit in Keystone, although Nova looks there.

    :param needed: needed amounts by resource.
    :param limits: resources with a limit.
    """
    names = ', '.join(sorted(needed.keys() - set(limits)))
    if names:
        yield Diagnosis(
            'limits in Keystone',
            UNCHECKED,
            f'none of {names}: [quota] unified_limits_resource_list of Nova '
            'decides whether it accepts them; releases without it reject them',
            "'openstack registered limit create --service SERVICE "
            "--default-limit NUMBER RESOURCE' if it rejects them",
        )


def _limits(
    quota: Mapping[str, Mapping[str, int]], needed: Iterable[str]
) -> dict[str, tuple[int, int]]:
    """Return limits and used amounts of what is needed."""
    return {
        # Nova counts a user's key pairs and a group's members as never used.
        name: (
            quota[name]['limit'],
            quota[name].get('in_use', quota[name].get('used', 0)),
        )
        for name in needed
    }


def _quota(
    service: str,
    limits: Mapping[str, tuple[int, int]],
    needed: Mapping[str, int],
    unified: Mapping[str, UnifiedLimit] | None = None,
) -> Diagnosis:
    shortages = quotas.find_shortages(needed, limits)
    return build_finding(
        f'quotas of {service}',
        not shortages,
        '; '.join(
            f'{shortage.name}: {shortage.needed} needed, {shortage.limit} '
            f'less {shortage.used} used'
            for shortage in shortages
        )
        or f'enough for {", ".join(f"{n} {k}" for k, n in needed.items())}',
        quotas.format_commands(shortages, 'PROJECT', unified),
    )


def _image(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    with refused('Cannot list the images'):
        image = conn.image.find_image(request.image, ignore_missing=True)
    if image is None:
        yield Diagnosis(
            'image',
            FAULT,
            f"'{request.image}' is not there",
            "'hvstack image upload', or set 'image' in hvstack.conf",
        )
        return
    state = f'{image.name}: {image.status}, {image.visibility}'
    reason = servers.explain_unusable_image(
        image, (flavor for flavor, _ in request.nodes)
    )
    yield build_finding(
        'image',
        image.status == 'active' and not reason,
        f'{state}, {image.disk_format}' + (reason and f': {reason}'),
        "upload it again, set its properties with 'openstack image set "
        "--property', or raise 'root_gb' or the memory in the host profile",
    )
    if servers.IMAGE_DIGEST not in (image.properties or {}):
        yield Diagnosis(
            'content of the image',
            NOTE,
            f'hvstack did not upload {image.name}: its content is not checked',
            'run /usr/lib/hvstack/check-image in a server of this image, or '
            "upload it with 'hvstack image upload --disk'",
        )


_CHECKS: tuple[
    Callable[[Connection, CloudNeeds], Iterator[Diagnosis]], ...
] = (
    _services,
    _microversions,
    _templates,
    _rights,
    _zone,
    _hosts,
    _inventories,
    host_checks.other_servers,
    host_room.room,
    _hidden,
    host_checks.local_disks,
    _cinder_hosts,
    _volumes,
    _quotas,
    _image,
    network,
    host_keys,
)
