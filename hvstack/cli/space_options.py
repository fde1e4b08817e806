# SPDX-License-Identifier: Apache-2.0
"""Options of a search space and a strategy, for commands of sweeps."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from hvstack import conf, errors, host_profiles
from hvstack.cli import arguments
from hvstack.cluster import baseline_hosts
from hvstack.model import compute_backends
from hvstack.model.configuration import Configuration
from hvstack.sweep import search_space
from hvstack.sweep.search_space import CAPABILITIES, Space
from hvstack.sweep.strategies import STRATEGIES, ModelBased

if TYPE_CHECKING:
    from openstack.connection import Connection


def choose_tuning(parsed_args: argparse.Namespace) -> str:
    """Return the name of the tuning profile of a sweep."""
    return str(
        parsed_args.tuning
        or conf.load().hadoop.tuning
        or baseline_hosts.default_tuning(parsed_args.host)
    )


def add_space(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a space and a strategy."""
    parser.add_argument(
        '--host',
        required=True,
        metavar='PROFILE',
        type=host_profiles.absolute,
        help="Host profile of the workers' hosts: its name (lab-worker) "
        'or its YAML file.',
    )
    parser.add_argument(
        '--backend',
        choices=compute_backends.BACKENDS,
        help='Compute backend of these hosts (default: backend of '
        'hvstack.conf, otherwise that of the lab or of the cloud, or kvm).',
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        '--values',
        nargs='+',
        metavar='PARAMETER=V,V',
        help='Parameters to sweep, such as instances=1,2,4 cpu_ratio=1,2.',
    )
    which.add_argument(
        '--space',
        type=arguments.path,
        metavar='FILE',
        help="YAML file with 'values' per parameter, and optionally 'start'.",
    )
    parser.add_argument(
        '--start',
        metavar='NAME',
        help='Start configuration (default: the first values; if the '
        'cloud has a volume type for it, the storage of the Dell '
        'presentation, Ceph with one copy).',
    )
    parser.add_argument(
        '--missing-capability',
        nargs='+',
        default=[],
        choices=tuple(CAPABILITIES),
        help='Capabilities that this cloud does not have.',
    )
    parser.add_argument(
        '--strategy',
        choices=tuple(STRATEGIES),
        default=ModelBased.name,
        help='Strategy that selects the configurations (default: '
        f'{ModelBased.name}).',
    )
    parser.add_argument(
        '--runs',
        type=arguments.count,
        help='Number of runs of each configuration. With model-based, number '
        'of passes that confirm the answer of the search (default: 2, or '
        f'{ModelBased.DEFAULT_RUNS} with model-based).',
    )
    parser.add_argument(
        '--budget',
        metavar='RUNS|HOURSh',
        help='Maximum number of runs of the sweep, such as 40, or of hours, '
        'such as 2.5h, with those of the confirmation. Only with the strategy '
        f'{ModelBased.name}, whose search ends in time (default: sweep_budget '
        'in [benchmark] of hvstack.conf).',
    )


def choose_backend(
    parsed_args: argparse.Namespace, conn: 'Connection | None'
) -> str:
    """Return the compute backend of the hosts of a sweep.

    :param conn: connection of an administrator of the cloud; None without a
        cloud.
    :raises hvstack.errors.HVStackError: the host profile is not valid, or the
        hosts have several backends.
    """
    profile = host_profiles.load(parsed_args.host)
    backend = (
        parsed_args.backend
        or conf.load().cloud.backend
        or baseline_hosts.lab_backend(profile)
    )
    if backend is None and conn is not None:
        # A search without a cloud does not import openstacksdk.
        from hvstack.sweep import capabilities

        backend = capabilities.get_backend(conn, profile, Configuration())
    return str(backend or 'kvm')


def choose_budget(parsed_args: argparse.Namespace) -> str:
    """Return the budget of a sweep; empty without a limit.

    The option of hvstack.conf applies to a search alone.
    """
    if parsed_args.budget is not None:
        return str(parsed_args.budget)
    if parsed_args.strategy != ModelBased.name:
        return ''
    return str(conf.load().benchmark.sweep_budget)


def count_runs(parsed_args: argparse.Namespace) -> int:
    """Return the number of runs of each configuration.

    :raises hvstack.errors.InputError: unknown strategy.
    """
    if parsed_args.runs is not None:
        return int(parsed_args.runs)
    return STRATEGIES[parsed_args.strategy].DEFAULT_RUNS


def chosen_space(
    parsed_args: argparse.Namespace,
    conn: 'Connection | None',
    notify: Callable[[str], object],
) -> tuple[Space, tuple[str, ...]]:
    """Return the space that the options name, with what can exist of it.

    :param conn: an administrator's, of the cloud that is asked what it lacks.
    :param notify: takes a line about what the cloud answered.
    :returns: the space, and what the cloud lacks.
    :raises hvstack.errors.InputError: it is not valid.
    """
    if parsed_args.space is not None:
        if parsed_args.start is not None:
            raise errors.InputError(
                "Cannot use --start with --space. Write 'start' into the file."
            )
        requested_space = search_space.load_space(parsed_args.space)
    else:
        requested_space = search_space.parse_space(
            parsed_args.values, parsed_args.start
        )
    profile = host_profiles.load(parsed_args.host)
    options = conf.load()
    missing = dict.fromkeys(parsed_args.missing_capability, '')
    if conn is not None:
        # A search without a cloud does not import openstacksdk.
        from hvstack.sweep import capabilities

        if (
            not requested_space.is_start_requested
            and 'storage' not in requested_space.values
        ):
            storage, reason = capabilities.choose_storage(
                conn, profile, parsed_args.backend
            )
            if 'ceph' in missing:
                storage, reason = 'local', CAPABILITIES['ceph'].reason
            requested_space = replace(
                requested_space,
                start=replace(requested_space.start, storage=storage),
            )
            notify(
                f'start {requested_space.start.label}, storage {storage}: '
                f'{reason}'
            )
        capabilities.check_backend(
            conn, profile, requested_space.start, parsed_args.backend
        )
        missing_reasons = capabilities.find_missing(
            conn, requested_space, profile, options.sweep
        )
        for name, reason in missing_reasons.items():
            notify(f'this cloud lacks {name}: {reason}')
        missing |= missing_reasons
    area = search_space.explore_space(
        requested_space,
        profile,
        parsed_args.backend,
        missing,
        choose_tuning(parsed_args),
    )
    return area, tuple(missing)
