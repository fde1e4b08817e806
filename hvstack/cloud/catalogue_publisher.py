# SPDX-License-Identifier: Apache-2.0
"""Publishing a catalogue: Nova's flavors converge to what it says.

What hvstack published has extra specs in a name space of its own, which
Nova's validation and its scheduler's filters leave alone, and an ID that is
computed from host profile and name. Another flavor is never changed, not even
one of the same name or a copy with the same extra specs. A flavor's size
cannot change in Nova: another size is another name, and the older flavor is
retired, kept until no server uses it.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import openstack.exceptions
from openstack.compute.v2.flavor import Flavor as NovaFlavor
from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import cluster_flavors, nova_flavors
from hvstack.cloud.connection import refused
from hvstack.model.catalogue import Catalogue, CatalogueEntry
from hvstack.results.typed_json import JsonObject

FLAVOR = f'{nova_flavors.PREFIX}flavor'
EVIDENCE = f'{nova_flavors.PREFIX}evidence'
RETIRED = 'retired'
#: Requests at a time. More only wait for Nova's few API workers.
_THREADS = 3
#: Namespace of the IDs of flavors.
_NAMESPACE = uuid.UUID('5d0a9a5e-6c0f-4f0e-9d6b-1f3a7c2e8b41')


@dataclass(frozen=True)
class FlavorChange:
    """One difference between the catalogue and the cloud.

    :param flavor: its name.
    :param action: ``create``, ``add``, ``change``, ``remove``, ``retire``,
        ``delete``, or ``keep`` for access that would end with a cluster.
    :param field: what changes: an extra spec, ``description``, ``access``,
        or ``flavor``.
    """

    flavor: str
    action: str
    field: str
    before: str = ''
    after: str = ''


@dataclass
class Job:
    """All changes of one flavor, and how to make them.

    :param steps: requests in order; none is made before all are known.
    """

    flavor: str
    changes: list[FlavorChange] = field(default_factory=list)
    steps: list[Callable[[], object]] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """How flavors are published.

    :param public: for everybody, rather than for some projects.
    :param projects: ids of those that have access, exactly; None leaves
        access as it is.
    :param temporary_access: IDs of flavors and projects whose access would
        end with a cluster or a process of hvstack.
    """

    public: bool = False
    projects: Collection[str] | None = None
    temporary_access: Collection[tuple[str, str]] = ()


def labels(host: str, entry: CatalogueEntry) -> dict[str, str]:
    """Return the extra specs that tell what a flavor is and has earned.

    Their values are ``name=value`` pairs between blanks.

    :param host: name of the host profile.
    """
    flavor_labels = {
        FLAVOR: _packed(
            {
                'host': host,
                'role': entry.flavor.role,
                'configuration': entry.configuration.name,
                'status': entry.status,
            }
        )
    }
    evidence = entry.evidence or {}
    if entry.status == 'approved' and evidence:
        names = ('percent', 'low', 'high', 'runs', 'backend', 'date', 'digest')
        values = dict(evidence)
        flavor_labels[EVIDENCE] = _packed(
            {name: values[name] for name in names}
        )
    return flavor_labels


def _packed(values: Mapping[str, object]) -> str:
    return ' '.join(
        f'{name}={value:g}' if isinstance(value, float) else f'{name}={value}'
        for name, value in values.items()
    )


def labelled(flavor: NovaFlavor) -> dict[str, str]:
    """Return the labels of a flavor of Nova's; none if it is not ours."""
    specs = flavor.extra_specs or {}
    pairs = f'{specs.get(FLAVOR, "")} {specs.get(EVIDENCE, "")}'.split()
    return dict(pair.split('=', 1) for pair in pairs if '=' in pair)


def described(entry: CatalogueEntry) -> str:
    """Return a flavor's description, with its evidence in short."""
    evidence = entry.evidence or {}
    if entry.status != 'approved' or not evidence:
        return entry.flavor.description
    return (
        f'{entry.flavor.description}; {evidence["percent"]:.1f} % of bare '
        f'metal ({evidence["low"]:.1f} to {evidence["high"]:.1f}), '
        f'{evidence["runs"]} runs, {evidence["backend"]}, {evidence["date"]}'
    )


def flavor_id(host: str, name: str) -> str:
    """Return the ID that hvstack gives a flavor.

    Nova sets extra specs only after it has created a flavor; the ID shows at
    once whose flavor it is, also after a crash in between.

    :param host: name of the host profile.
    :param name: name of the flavor.
    """
    return str(uuid.uuid5(_NAMESPACE, f'{host}/{name}'))


def is_managed(flavor: NovaFlavor) -> bool:
    """Tell whether hvstack published a flavor of Nova's."""
    host = labelled(flavor).get('host')
    return host is not None and flavor.id == flavor_id(host, flavor.name)


def in_use(conn: Connection, flavor: NovaFlavor) -> bool:
    """Tell whether any server has a flavor."""
    with refused(f"Cannot list the servers of flavor '{flavor.name}'"):
        servers = conn.compute.servers(
            details=False,
            paginated=False,
            all_projects=True,
            flavor=flavor.id,
            limit=1,
        )
        return next(iter(servers), None) is not None


def exported(flavor: NovaFlavor) -> JsonObject:
    """Return a published flavor as an entry of a catalogue."""
    flavor_labels = labelled(flavor)
    return {
        'status': 'candidate',
        'configuration': flavor_labels.get('configuration', ''),
        'name': flavor.name,
        'role': flavor_labels.get('role', ''),
        'vcpus': flavor.vcpus,
        'ram': flavor.ram,
        'disk': flavor.disk,
        'ephemeral': flavor.ephemeral or 0,
        'extra_specs': {
            key: value
            for key, value in flavor.extra_specs.items()
            if not key.startswith(nova_flavors.PREFIX)
        },
        # Without the evidence that described() put behind it.
        'description': (flavor.description or '').partition('; ')[0],
    }


def plan(
    conn: Connection,
    catalogue: Catalogue,
    entries: Iterable[CatalogueEntry],
    options: Options,
) -> list[Job]:
    """Return the changes that make the cloud match a catalogue.

    :param entries: those to publish; what the catalogue as a whole no longer
        has is retired.
    :raises hvstack.errors.CloudError: a flavor that is not hvstack's, or is
        public, is in the way.
    """
    flavors_by_name = nova_flavors.list_flavors(conn)
    options = replace(
        options, temporary_access=cluster_flavors.list_temporary_access()
    )
    jobs = [
        _publish(
            conn,
            catalogue.host,
            entry,
            flavors_by_name.get(entry.flavor.name),
            options,
        )
        for entry in entries
    ]
    catalogue_names = {entry.flavor.name for entry in catalogue.entries}
    for name, flavor in sorted(flavors_by_name.items()):
        is_of_catalogue = labelled(flavor).get('host') == catalogue.host
        if (
            is_of_catalogue
            and is_managed(flavor)
            and name not in catalogue_names
        ):
            jobs.append(retirement(conn, flavor))
    return [job for job in jobs if job.changes]


def retirement(conn: Connection, flavor: NovaFlavor) -> Job:
    """Return how to retire a flavor, or to delete one without servers."""
    job = Job(flavor.name)
    if not in_use(conn, flavor):
        job.changes.append(FlavorChange(flavor.name, 'delete', 'flavor'))
        job.steps.append(
            lambda: conn.compute.delete_flavor(flavor, ignore_missing=True)
        )
        return job
    flavor_labels = labelled(flavor)
    if flavor_labels.get('status') == RETIRED:
        return job
    names = ('host', 'role', 'configuration')
    label = {
        name: flavor_labels[name] for name in names if name in flavor_labels
    }
    packed = _packed({**label, 'status': RETIRED})
    job.changes.append(
        FlavorChange(
            flavor.name, 'retire', 'flavor', after='kept while in use'
        )
    )
    if not flavor.is_public:
        for project in nova_flavors.list_access(conn, flavor):
            job.steps.append(
                partial(nova_flavors.revoke, conn, flavor, project)
            )
    # Last: a flavor with this label is retired, and is not changed again.
    job.steps.append(
        lambda: nova_flavors.set_extra_specs(conn, flavor, {FLAVOR: packed})
    )
    return job


def apply(
    conn: Connection,
    jobs: list[Job],
    done: Callable[[str], object] = lambda _name: None,
) -> None:
    """Make all changes; those of different flavors at the same time.

    :param done: called with the name of each flavor that is as it should be.
    :raises hvstack.errors.CloudError: one could not be made. The others
        were; the next call continues with what is left.
    """

    def run(job: Job) -> Exception | None:
        try:
            with refused(f"Cannot change flavor '{job.flavor}'"):
                for step in job.steps:
                    step()
        except errors.CloudError as exc:
            return exc
        done(job.flavor)
        return None

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        failed = [failure for failure in pool.map(run, jobs) if failure]
    if failed:
        raise errors.CloudError(
            f'Cannot change {len(failed)} of {len(jobs)} flavors: '
            f'{str(failed[0]).removesuffix(".")}{_rights(failed[0])}. Run the '
            'command again for these flavors.'
        ) from failed[0]


def _rights(failed: Exception) -> str:
    if isinstance(failed.__cause__, openstack.exceptions.ForbiddenException):
        return (
            ' (publishing needs the role admin, or policies '
            'os_compute_api:os-flavor-manage, os-flavor-extra-specs and '
            'os-flavor-access)'
        )
    return ''


def _publish(
    conn: Connection,
    host: str,
    entry: CatalogueEntry,
    published: NovaFlavor | None,
    options: Options,
) -> Job:
    derived = entry.flavor
    specs = {**derived.extra_specs, **labels(host, entry)}
    job = Job(derived.name)
    if published is None:
        _create(conn, job, entry, specs, options, host)
        return job
    if published.id != flavor_id(host, derived.name):
        raise errors.CloudError(
            f"Cannot publish flavor '{derived.name}': the cloud has a flavor "
            f'of this name ({published.id}) that hvstack did not publish from '
            f"host profile '{host}'. {_advise(published)}."
        )
    for name, size, expected in nova_flavors.compare_sizes(published, derived):
        raise errors.CloudError(
            f"Cannot publish flavor '{derived.name}': it exists with {name} "
            f'{size} instead of {expected}, and Nova cannot change sizes. '
            'Rename the flavor in the catalogue, or delete the existing '
            'flavor.'
        )
    if bool(published.is_public) != options.public:
        raise errors.CloudError(
            f"Cannot publish flavor '{derived.name}': it is "
            f'{"public" if published.is_public else "private"}, which Nova '
            f'cannot change. {"Omit" if options.public else "Use"} --public, '
            'or retire the flavor first.'
        )
    _converge(conn, job, published, specs, described(entry))
    if options.projects is not None and not options.public:
        project_ids = nova_flavors.list_access(conn, published)
        for project in sorted(set(options.projects) - project_ids):
            job.changes.append(
                FlavorChange(derived.name, 'add', 'access', after=project)
            )
            job.steps.append(
                partial(nova_flavors.grant, conn, published, project)
            )
        for project in sorted(project_ids & set(options.projects)):
            if (published.id, project) in options.temporary_access:
                job.changes.append(
                    FlavorChange(derived.name, 'keep', 'access', after=project)
                )
                job.steps.append(
                    partial(cluster_flavors.keep_access, published.id, project)
                )
        for project in sorted(project_ids - set(options.projects)):
            job.changes.append(
                FlavorChange(derived.name, 'remove', 'access', before=project)
            )
            job.steps.append(
                partial(nova_flavors.revoke, conn, published, project)
            )
    return job


def _advise(other: NovaFlavor) -> str:
    """Return the remedy for another flavor with a name of the catalogue.

    Clusters and sweeps create flavors of the same names, and the stacks of
    clusters refer to them by their IDs.
    """
    owners = ' and '.join(cluster_flavors.list_owners(other.id))
    if owners:
        return (
            f'It was created for {owners}. Publish the catalogue after the '
            f'end of {owners}, or rename the flavor in the catalogue'
        )
    return (
        'If a cluster or a sweep of hvstack uses it, publish the catalogue '
        "after the cluster ('hvstack cluster list') is deleted or the sweep "
        'has ended. Otherwise, rename the flavor in the catalogue, or delete '
        "the other one with 'openstack flavor delete'"
    )


def _create(
    conn: Connection,
    job: Job,
    entry: CatalogueEntry,
    specs: dict[str, str],
    options: Options,
    host: str,
) -> None:
    derived = entry.flavor
    size = nova_flavors.format_sizes(derived)
    job.changes.append(
        FlavorChange(derived.name, 'create', 'flavor', after=size)
    )
    job.changes += [
        FlavorChange(derived.name, 'add', name, after=value)
        for name, value in sorted(specs.items())
    ]
    projects = () if options.public else options.projects or ()
    job.changes += [
        FlavorChange(derived.name, 'add', 'access', after=project)
        for project in sorted(projects)
    ]

    def create() -> None:
        try:
            nova_flavors.create(
                conn,
                replace(
                    derived, extra_specs=specs, description=described(entry)
                ),
                flavor_id(host, derived.name),
                public=options.public,
                projects=projects,
            )
        except openstack.exceptions.ConflictException:
            # Another process publishes the same catalogue, or created
            # another flavor, which _publish() refuses.
            flavor = nova_flavors.list_flavors(conn).get(derived.name)
            if flavor is None:
                raise
            late = _publish(conn, host, entry, flavor, options)
            for step in late.steps:
                step()

    job.steps.append(create)


def _converge(
    conn: Connection,
    job: Job,
    published: NovaFlavor,
    specs: Mapping[str, str],
    description: str,
) -> None:
    name = job.flavor
    current_specs = dict(published.extra_specs or {})
    job.changes += _differences(name, current_specs, specs)
    new = {
        key: value
        for key, value in specs.items()
        if current_specs.get(key) != value
    }
    if new:
        job.steps.append(
            lambda: nova_flavors.set_extra_specs(conn, published, new)
        )
    for key in sorted(set(current_specs) - set(specs)):
        job.steps.append(
            partial(nova_flavors.delete_extra_spec, conn, published, key)
        )
    if (published.description or '') != description:
        job.changes.append(
            FlavorChange(
                name,
                'change',
                'description',
                published.description or '',
                description,
            )
        )
        # By its ID: the object also holds extra specs that were set before,
        # and Nova refuses them in this request.
        job.steps.append(
            lambda: conn.compute.update_flavor(
                published.id, description=description
            )
        )


def _differences(
    name: str, current: Mapping[str, str], requested: Mapping[str, str]
) -> Iterator[FlavorChange]:
    for key in sorted({*current, *requested}):
        if key not in current:
            yield FlavorChange(name, 'add', key, after=requested[key])
        elif key not in requested:
            yield FlavorChange(name, 'remove', key, before=current[key])
        elif current[key] != requested[key]:
            yield FlavorChange(
                name, 'change', key, current[key], requested[key]
            )
