# SPDX-License-Identifier: Apache-2.0
"""Arguments of a workload, the same for its contexts and its scenario."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hvstack import errors
from hvstack.cluster.plan import CONTROLLERS
from hvstack.hadoop import (
    daemon_options,
    job_settings,
    os_profiles,
    tuning_profiles,
)
from hvstack.model.configuration import STORAGES, Configuration, parse
from hvstack.model.target import Target, parse_target
from hvstack.model.vnics import VNICS
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.workload_types import TPCX_HS, TYPES
from hvstack.sweep.node_setup import HadoopSettings, LaterChanges, NodeSetup
from hvstack.sweep.search_space import CAPABILITIES

#: Schema of a workload, the same for its contexts and its scenario.
WORKLOAD_SCHEMA: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'sweep': {
            'type': 'string',
            'pattern': r'^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z',
        },
        'configuration': {'type': 'string', 'minLength': 1},
        'first_index': {'type': 'integer', 'minimum': 0},
        'sizes': {
            'type': 'array',
            'minItems': 1,
            'items': {
                'type': 'integer',
                'minimum': RECORD_BYTES,
                'maximum': 10**18,
                'multipleOf': RECORD_BYTES,
            },
        },
        'shape': {
            'type': 'object',
            'properties': {
                'configurations': {
                    'type': 'array',
                    'items': {'type': 'string'},
                },
                'runs': {'type': 'integer', 'minimum': 1},
                'size_bytes': {'type': 'integer', 'minimum': 100},
            },
            'required': ['configurations', 'runs', 'size_bytes'],
            'additionalProperties': False,
        },
        'replication': {'type': 'integer', 'minimum': 1},
        'baseline': {'type': 'string', 'minLength': 1},
        'allow': {'type': 'array', 'items': {'type': 'string'}},
        'kit': {'type': 'string', 'minLength': 1},
        'phase_timeout': {'type': 'integer', 'minimum': 0},
        'skip': {'type': 'boolean'},
        'without': {
            'type': 'array',
            'items': {'enum': sorted(CAPABILITIES)},
        },
        'before': {'type': 'string', 'minLength': 1},
        'storage': {'enum': ['deck']},
        'compared': {'type': 'array', 'items': {'type': 'string'}},
        'maps': {'type': 'integer', 'minimum': 1},
        'reduces': {'type': 'integer', 'minimum': 1},
        'setup': {
            'type': 'object',
            'properties': {
                'tuning': {'enum': tuning_profiles.list_names()},
                'os_profile': {'enum': os_profiles.list_names()},
                'disks': {'type': 'integer', 'minimum': 1, 'maximum': 64},
                'volume_type': {'type': 'string', 'minLength': 1},
                'copies': {'type': 'integer', 'minimum': 1},
                'osd_groups': {'type': 'integer', 'minimum': 1},
                'host_affinity': {'type': 'boolean'},
                'output_replication': {'type': 'integer', 'minimum': 1},
                'node_groups': {'type': 'boolean'},
                'deployment': {'type': 'integer', 'enum': [1, 2, 3, 4]},
                'controllers': {'enum': list(CONTROLLERS)},
                'vnic': {'enum': list(VNICS)},
                'stateless_security_group': {'type': 'boolean'},
                'lost_hosts': {'type': 'integer', 'minimum': 1},
                'loss_rounds': {'type': 'integer', 'minimum': 1},
                'scaled_compute': {'type': 'integer', 'minimum': 1},
                'second_cluster': {'type': 'integer', 'minimum': 1},
                'workload': {'enum': list(TYPES)},
                'hadoop': {
                    'type': 'object',
                    'additionalProperties': {
                        'type': ['string', 'number', 'boolean']
                    },
                },
                'daemons': {
                    'type': 'object',
                    'properties': {
                        role: {'type': 'string'}
                        for role in daemon_options.ROLES
                    },
                    'additionalProperties': False,
                },
            },
            'additionalProperties': False,
        },
    },
    'required': ['sweep', 'configuration', 'sizes'],
    'additionalProperties': False,
}

#: Sweep ID that means "the unfinished sweep of this shape, or a new sweep".
AUTO = 'auto'
#: Sweep ID that means "a new sweep in each Rally process".
NEW = 'new'


@dataclass(frozen=True)
class SweepShape:
    """Shape of a whole sweep.

    :param configurations: configurations in order.
    :param runs: number of runs of each configuration.
    :param size_bytes: size of the data in bytes.
    """

    configurations: tuple[Configuration, ...]
    runs: int
    size_bytes: int


@dataclass(frozen=True)
class RequestedTasks:
    """Numbers of tasks that a workload requests.

    :param compared: configurations whose containers the tasks fill.
    :param maps: number of map tasks of HSGen; None fills the containers.
    :param reduces: number of reduce tasks of HSSort; None fills the
        containers.
    """

    compared: tuple[Configuration, ...] = ()
    maps: int | None = None
    reduces: int | None = None


@dataclass(frozen=True)
class WorkloadArgs:
    """Arguments of a workload.

    :class:`hvstack.rally_plugins.scenario.TPCxHS` describes them.

    :param missing_capabilities: names of capabilities that the cloud does not
        have.
    :param open_storage: targets whose storage the cloud decides.
    """

    sweep: str
    target: Target
    sizes: tuple[int, ...]
    first_index: int = 0
    shape: SweepShape | None = None
    replication: int | None = None
    baseline: str = ''
    allow: tuple[str, ...] = ()
    skip: bool = False
    missing_capabilities: tuple[str, ...] = ()
    before: Configuration | None = None
    open_storage: frozenset[Target] = frozenset()
    kit: Path | None = None
    phase_timeout: int | None = None
    setup: NodeSetup = field(default_factory=NodeSetup)
    tasks: RequestedTasks = field(default_factory=RequestedTasks)

    @property
    def configuration(self) -> Configuration:
        """Configuration of the workload.

        :raises hvstack.errors.InputError: the workload measures bare metal.
        """
        if not isinstance(self.target, Configuration):
            raise errors.InputError(
                'Cannot create a stack for bare metal: it has no flavors. Use '
                "the context 'hvstack_baseline' alone."
            )
        return self.target

    def list_targets(self) -> list[tuple[Target, NodeSetup]]:
        """Return the target of the workload and the targets of its shape.

        The settings of the nodes belong to each of them.
        """
        targets: list[Target] = [self.target]
        if self.shape is not None:
            targets += self.shape.configurations
        return [(target, self.setup) for target in targets]


def parse_args(config: Mapping[str, Any]) -> WorkloadArgs:
    """Return the arguments of a workload.

    :param config: arguments that comply with :data:`WORKLOAD_SCHEMA`; None
        has the meaning of a missing argument.
    :raises hvstack.errors.InputError: the name of a configuration or a
        property of Hadoop is not valid.
    """
    before = config.get('before')
    missing_capabilities = tuple(config.get('without') or ())
    shape = config.get('shape')
    compared = config.get('compared') or (shape or {}).get('configurations')
    open_names = []
    if config.get('storage') and 'ceph' not in missing_capabilities:
        open_names = [
            name
            for name in (config['configuration'], before)
            if name and not set(STORAGES) & set(name.split('-'))
        ]
    return WorkloadArgs(
        sweep=config['sweep'],
        target=parse_target(config['configuration']),
        sizes=tuple(config['sizes']),
        first_index=config.get('first_index') or 0,
        shape=shape
        and SweepShape(
            tuple(map(parse, shape['configurations'])),
            int(shape['runs']),
            int(shape['size_bytes']),
        ),
        replication=config.get('replication'),
        baseline=config.get('baseline') or '',
        allow=tuple(config.get('allow') or ()),
        skip=bool(config.get('skip')),
        missing_capabilities=missing_capabilities,
        before=parse(before) if before else None,
        open_storage=frozenset(map(parse_target, open_names)),
        kit=Path(config['kit']) if config.get('kit') else None,
        phase_timeout=config.get('phase_timeout'),
        setup=_parse_setup(config),
        tasks=RequestedTasks(
            tuple(map(parse, compared or ())),
            config.get('maps'),
            config.get('reduces'),
        ),
    )


def _parse_setup(config: Mapping[str, Any]) -> NodeSetup:
    """Return the settings of the nodes and jobs of a workload.

    :param config: arguments of the workload.
    :raises hvstack.errors.InputError: a property of Hadoop is not valid, or
        TPC's kit, which starts its own jobs, would not set it.
    """
    setup = config.get('setup') or {}
    properties = job_settings.check(setup.get('hadoop') or {})
    name = setup.get('workload') or TPCX_HS.name
    if name != TPCX_HS.name and config.get('kit'):
        raise errors.InputError(
            f"Cannot run the workload '{name}' with TPC's kit: the kit runs "
            "TPCx-HS alone. Omit 'kit' or 'workload'."
        )
    if properties and config.get('kit'):
        raise errors.InputError(
            f"Cannot set {', '.join(properties)} with TPC's kit: the kit "
            "starts its own jobs. Omit 'kit' or 'hadoop', or use a tuning "
            'profile.'
        )
    later_names = {item.name for item in fields(LaterChanges)}
    own, later = (
        {
            key: value
            for key, value in setup.items()
            if (key in later_names) == is_later
            and key not in ('hadoop', 'daemons')
        }
        for is_later in (False, True)
    )
    return NodeSetup(
        **own,
        hadoop=HadoopSettings(
            tuple(sorted(properties.items())),
            daemon_options.check(setup.get('daemons') or {}),
        ),
        later=LaterChanges(**later),
    )
