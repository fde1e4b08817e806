# SPDX-License-Identifier: Apache-2.0
"""Execution of studies by Rally, and checks before a study starts."""

import datetime
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors, host_profiles
from hvstack.cloud import (
    placement,
    servers,
    stateless_groups,
    volume_locality,
)
from hvstack.cloud.hypervisors import Hypervisor
from hvstack.cluster import (
    baseline_hosts,
    node_counts,
    planner,
    validation,
    worker_hosts,
)
from hvstack.cluster.plan import ClusterSpec
from hvstack.conf import ConfOptions
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import derive_flavor
from hvstack.model.flavor_specs import join_worker_traits
from hvstack.model.host import HostProfile
from hvstack.model.vnics import MACVTAP
from hvstack.nouns import format_noun
from hvstack.progress import Progress
from hvstack.study import os_differences, study_plan, study_store
from hvstack.study.definition import Study
from hvstack.study.study_store import StartedStudy, StudyRecords, StudyStep
from hvstack.study.variants import Variant
from hvstack.sweep import (
    capabilities,
    forecast,
    kept_records,
    rallytask,
    search_space,
    sweep_store,
    tuning_check,
)

#: Rally task that executes the runs of a study.
TASK = 'study.yaml'


@dataclass(frozen=True)
class _Cloud:
    """Cloud of a study.

    :param conn: connection of an administrator.
    :param hosts_up: hosts that are up by name.
    :param controller_profile: host profile of the controllers.
    """

    conn: Connection
    hosts_up: dict[str, Hypervisor]
    controller_profile: HostProfile


def find_impossible(
    conn: Connection | None,
    study: Study,
    host: str,
    backend: str,
    options: ConfOptions,
) -> dict[str, str]:
    """Return the variants that a cloud cannot have, with the reasons.

    :param conn: connection of an administrator; None checks the profile of
        the hosts and the backend alone.
    :param study: the study.
    :param host: name of the host profile of the workers.
    :param backend: compute backend of the workers.
    :param options: options of :mod:`hvstack.conf`.
    :returns: reasons by the names of the variants, also of those whose claims
        need such a variant.
    :raises hvstack.errors.InputError: a host profile or the availability zone
        does not exist.
    :raises hvstack.errors.CloudError: a service does not respond.
    """
    profile = host_profiles.load(host)
    reasons = os_differences.find_equal(
        study.variants, options.hadoop.os_profile, backend
    )
    cloud = None
    if conn is not None:
        cloud = _Cloud(
            conn,
            worker_hosts.list_up(conn, options.cloud.availability_zone or ''),
            host_profiles.load(
                planner.get_controller_profile(options.cloud, host)
            ),
        )
    for variant in study.variants:
        reason = _explain_impossible(cloud, variant, profile, backend, options)
        if reason:
            reasons[variant.name] = reason
    return reasons | _find_useless(study, reasons)


def _find_useless(study: Study, skipped: Mapping[str, str]) -> dict[str, str]:
    """Return the variants whose runs would decide nothing, with the reasons.

    The first variant is the reference of the others in a report.

    :param study: the study. With a table of a paper, each variant is compared.
    :param skipped: reasons by the names of variants that are not possible.
    """
    if study.table is not None:
        return {}
    missing: dict[str, set[str]] = {}
    needed = {study.variants[0].name}
    for claim in study.claims:
        names = {claim.variant, claim.against} - {''}
        lacking = names & skipped.keys()
        if not lacking:
            needed |= names
        for name in names:
            missing.setdefault(name, set()).update(lacking)
    return {
        name: 'its claims need '
        + ' and '.join(f"'{other}'" for other in sorted(others))
        + ', and the cloud cannot have that'
        for name, others in missing.items()
        if name not in needed and name not in skipped
    }


def _explain_impossible(
    cloud: _Cloud | None,
    variant: Variant,
    profile: HostProfile,
    backend: str,
    options: ConfOptions,
) -> str:
    """Return why a cloud cannot have a variant; empty if it can."""
    target = variant.target
    if not isinstance(target, Configuration):
        return '' if cloud is None else _explain_bare_metal(variant, options)
    missing = []
    details = {}
    for name, capability in search_space.CAPABILITIES.items():
        if cloud is None or not capability.is_needed(target):
            continue
        if name == 'ceph' and variant.setup.volumes:
            continue
        reason = capabilities.explain_missing(
            cloud.conn, name, profile, target, options.sweep
        )
        if reason:
            missing.append(name)
            details[capability.reason] = reason
    spec = _build_spec(variant, target)
    try:
        search_space.check_possible(
            target,
            profile,
            backend,
            missing,
            variant.setup.tuning
            or options.hadoop.tuning
            or baseline_hosts.default_tuning(profile.name),
        )
        validation.disks(profile, target)
        validation.volumes(target, spec.volumes)
        if target.disk_pinning and spec.volumes:
            node_counts.plan_disks(
                target, derive_flavor(profile, target), spec.volumes
            )
        if spec.deployment is not None:
            validation.deployment(spec.deployment, target)
        validation.security_group(spec)
    except errors.InputError as exc:
        text = str(exc)
        return f'{text} ({details[text]})' if text in details else text
    if cloud is None:
        return ''
    return _explain_missing(cloud, variant, spec, profile, options)


def _build_spec(variant: Variant, target: Configuration) -> ClusterSpec:
    """Return the cluster of a variant, without its profiles."""
    setup = variant.setup
    return ClusterSpec(
        target,
        volumes=setup.volumes,
        replication=_count_copies(variant),
        deployment=setup.deployment,
        controllers=setup.controllers or ClusterSpec.controllers,
        node_groups=setup.node_groups is not False,
        vnic=setup.vnic or ClusterSpec.vnic,
        stateless_security_group=bool(setup.stateless_security_group),
    )


def _explain_missing(
    cloud: _Cloud,
    variant: Variant,
    spec: ClusterSpec,
    profile: HostProfile,
    options: ConfOptions,
) -> str:
    """Return why a cloud cannot have a cluster; empty if it can."""
    conn, target = cloud.conn, spec.configuration
    reason = _explain_few_hosts(cloud, variant, spec, profile)
    if not reason and spec.vnic == MACVTAP:
        reason = servers.explain_missing_macvtap(
            conn, options.cloud.macvtap_network
        )
    if not reason and spec.stateless_security_group:
        reason = stateless_groups.explain_missing(conn)
    if not reason and spec.volumes and not target.disk_pinning:
        reason = capabilities.explain_missing_ceph(conn, spec.volumes)
    if not reason and variant.setup.host_affinity:
        reason = _explain_missing_backends(cloud, target, profile)
    return reason


def _explain_missing_backends(
    cloud: _Cloud, target: Configuration, profile: HostProfile
) -> str:
    """Return why hosts cannot have volumes of their own on Ceph, if so."""
    providers = placement.providers(
        cloud.conn, join_worker_traits(profile, target)
    )
    return volume_locality.explain_missing_backends(
        volume_locality.count_backends(cloud.conn),
        [
            item.host
            for name, item in cloud.hosts_up.items()
            if name in providers
        ],
        1,
    )


def _count_copies(variant: Variant) -> int | None:
    """Return the largest number of replicas; None for the default."""
    counts = variant.replication, variant.setup.output_replication
    return max(filter(None, counts), default=None)


def _explain_bare_metal(variant: Variant, options: ConfOptions) -> str:
    """Return why no hosts can have a variant on bare metal, if so."""
    try:
        hosts = baseline_hosts.read(Path(options.sweep.baseline_hosts))
        if copies := _count_copies(variant):
            workers = sum(host.role == 'worker' for host in hosts)
            validation.replication(copies, workers)
    except errors.InputError as exc:
        return str(exc)
    return ''


def _explain_few_hosts(
    cloud: _Cloud,
    variant: Variant,
    spec: ClusterSpec,
    profile: HostProfile,
) -> str:
    """Return why the hosts that are up are too few for a variant, if so."""
    later = variant.setup.later
    providers = placement.providers(
        cloud.conn, join_worker_traits(profile, spec.configuration)
    )
    count = len(cloud.hosts_up.keys() & providers.keys())
    try:
        if spec.controllers == 'separate':
            worker_hosts.check_controllers(
                cloud.conn, cloud.controller_profile, cloud.hosts_up
            )
        nodes = node_counts.count_nodes_on_hosts(spec, profile, count)
    except errors.InputError as exc:
        return str(exc)
    if not profile.traits.get('worker'):
        # Hosts of controllers are never lost.
        count -= spec.controller_count
    if later.lost_hosts and count <= later.lost_hosts:
        return (
            f'{format_noun(count, "host")} can have workers and no '
            f'controller, and {later.lost_hosts + 1} are needed to lose '
            f'{later.lost_hosts}: one remains'
        )
    trait = cloud.controller_profile.traits.get('controller')
    if later.second_cluster and trait:
        controller_hosts = worker_hosts.count_controller_hosts(
            cloud.conn, cloud.controller_profile, cloud.hosts_up
        )
        if controller_hosts < 2:
            return (
                f'{format_noun(controller_hosts, "host")} with the trait '
                f'{trait} can have controllers, and 2 are needed: a second '
                'compute cluster has a controller of its own'
            )
    removed = later.scaled_compute or later.second_cluster or 0
    if removed and nodes.compute_workers <= removed:
        return (
            f'the cluster has {nodes.compute_workers} compute workers, and '
            f'more than {removed} are needed to remove {removed}'
        )
    return ''


def require_testable(study: Study, skipped: dict[str, str]) -> None:
    """Check that one claim at least can be tested.

    :param study: the study.
    :param skipped: reasons by the names of variants that are not possible.
    :raises hvstack.errors.InputError: every claim needs a variant that is
        not possible.
    """
    for claim in study.claims:
        if not {claim.variant, claim.against} & skipped.keys():
            return
    names: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        names.setdefault(reason.removesuffix('.'), []).append(name)
    reasons = '; '.join(
        f'{" and ".join(group)}: {reason}' for reason, group in names.items()
    )
    raise errors.InputError(
        f"Cannot run the study '{study.name}': every claim needs a variant "
        f'that this cloud cannot have ({reasons}). Use a cloud with these '
        'capabilities, or another study.'
    )


def build_arguments(
    started: StartedStudy, steps: list[StudyStep]
) -> dict[str, rallytask.TaskArgument]:
    """Return the arguments of :data:`TASK` for some runs.

    :param started: the study.
    :param steps: runs in order.
    """
    return {
        'sweep': started.id,
        'workloads': [_build_workload(step) for step in steps],
        'compared': sorted(
            {
                variant.target.name
                for variant in started.measured_variants
                if isinstance(variant.target, Configuration)
            }
        ),
    }


def _build_workload(step: StudyStep) -> dict[str, rallytask.TaskArgument]:
    variant = step.variant
    workload: dict[str, rallytask.TaskArgument] = {
        'title': f'{variant.name}, pass {step.pass_number + 1}',
        'sweep': step.sweep,
        'configuration': variant.target.name,
        'first_index': step.pass_number,
        'size': step.step.size_bytes,
    }
    if variant.replication:
        workload['replication'] = variant.replication
    if maps := variant.count_maps(step.step.size_bytes):
        workload['maps'] = maps
    if variant.reduces:
        workload['reduces'] = variant.reduces
    if setup := variant.setup.to_mapping():
        workload['setup'] = setup
    return workload


def run_study(
    started: StartedStudy,
    progress: Progress,
    on_run: Callable[[StudyRecords], None] | None = None,
) -> StudyRecords:
    """Execute the remaining runs of a study, with a Rally task for each run.

    :param started: the study.
    :param progress: receives messages.
    :param on_run: function that is called after each run; None calls nothing.
    :returns: all records of the study.
    :raises hvstack.errors.InputError: the host profile or a tuning profile
        has changed since the start.
    :raises hvstack.errors.RunFailedError: a Rally task created no record.
    """
    host_profiles.check_unchanged(
        started.host, started.host_digest, f"study '{started.id}'"
    )
    store = sweep_store.open_store()
    total = len(started.list_steps())
    while True:
        stored = study_store.load_records(started, store)
        if not stored.pending:
            study_store.finish(started)
            return stored
        tuning_check.check_unchanged(
            itertools.chain.from_iterable(stored.records.values()),
            f"study '{started.id}'",
        )
        step = stored.pending[0]
        progress.say(
            f'next: {step.variant.name}, pass {step.pass_number + 1} of '
            f'{started.study.passes} ({len(stored.pending)} of {total} runs '
            'remain)'
        )
        _say_remaining(started, stored, progress)
        count = _count(stored)
        rallytask.run_task(
            TASK,
            build_arguments(started, [step]),
            started.id,
            progress,
            {
                'hadoop': started.node_settings,
                'cloud': {
                    'host_profile': started.host,
                    'backend': started.backend,
                },
            },
            records_sweep=step.sweep,
        )
        kept_records.import_records(step.sweep, progress.say)
        stored = study_store.load_records(started, store)
        if on_run:
            on_run(stored)
        if _count(stored) == count:
            raise errors.RunFailedError(
                f"Cannot continue the study '{started.id}': Rally created no "
                'run record. Read the log of Rally, and run '
                f"'hvstack study resume {started.id}'."
            )


def _say_remaining(
    started: StartedStudy, stored: StudyRecords, progress: Progress
) -> None:
    """Report the time of the remaining runs if those so far show it."""
    remaining = study_plan.estimate_remaining(started, stored)
    if remaining is None:
        return
    span = forecast.format_span(remaining.lowest, remaining.highest)
    if not remaining.has_setup:
        progress.say(f'about {span} left, and the time for clusters')
        return
    end = forecast.format_end_time(
        remaining.highest, datetime.datetime.now(datetime.UTC)
    )
    progress.say(f'about {span} left, until about {end}')


def _count(stored: StudyRecords) -> int:
    return sum(map(len, stored.records.values()))
