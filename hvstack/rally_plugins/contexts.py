# SPDX-License-Identifier: Apache-2.0
"""Contexts: flavors, Placement ratios, a cluster, bare metal.

Each prepares only what runs without a valid record still need, and its
clean-up is also done by the journal: Rally skips it on Ctrl-C and SIGKILL.
"""

import abc
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rally.task import context

from hvstack import errors, profiles
from hvstack.cloud import (
    flavors,
    hostmode,
    journal,
    keys,
    ratios,
    stacks,
    undo,
)
from hvstack.cluster import launch
from hvstack.cluster.base import Members
from hvstack.cluster.hosts import BareHosts
from hvstack.cluster.reconfigure import reconfigure
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop.sizing import NodeSizing
from hvstack.model import backends
from hvstack.model.configuration import parse
from hvstack.rally_plugins import session
from hvstack.rally_plugins.session import Session
from hvstack.results import record
from hvstack.results.record import BARE_METAL
from hvstack.sweep import lacks, space, state
from hvstack.tpcxhs import run as tpcxhs


class _Context(context.Context):
    """What these contexts have in common."""

    CONFIG_SCHEMA = session.WORKLOAD_SCHEMA
    #: Kinds of journal entries that the clean-up undoes.
    KINDS: tuple[str, ...] = ()
    #: The first context of a workload.
    FIRST = False

    def setup(self) -> None:
        """Prepare, if any run of the workload is still to be done.

        A cluster that the workload before has left is taken, with other
        settings of Hadoop if need be; one of another kind is deleted.
        """
        here = session.get(self.context)
        here.go_on()
        if here.kept is not None and here.kept[0] != _nodes(self.config):
            _drop(here)
        pending = here.pending(self.config)
        if not pending or here.skipped:
            return
        if self.FIRST:
            here.announce(self.config)
        try:
            if here.kept is None:
                self.prepare(here)
            else:
                self.take(here, here.kept[1] != _hadoop(here, self.config))
        except errors.HVStackError as exc:
            for step in pending:
                here.fail(self.config, step, str(exc))
            raise

    @abc.abstractmethod
    def prepare(self, here: Session) -> None:
        """Do what the context is for."""

    def cleanup(self) -> None:
        """Undo it, unless the next workload is to have the cluster.

        A cluster on which a run failed is left to nobody.
        """
        here = session.get(self.context)
        if (
            self.config.get('keep')
            and here.cluster is not None
            and not here.pending(self.config)
        ):
            if here.kept is None:
                here.kept = _nodes(self.config), _hadoop(here, self.config)
            return
        here.kept = None
        self.undo(here)

    def take(self, here: Session, changed: bool) -> None:
        """Take over what was left.

        :param changed: the workload wants other settings of Hadoop.
        """

    @classmethod
    def undo(cls, here: Session) -> None:
        """Undo what was prepared."""
        found = [one for one in journal.own() if one.kind in cls.KINDS]
        undo.undo(found, here.conns)


@context.configure(name='hvstack_flavors', platform='openstack', order=910)
class Flavors(_Context):
    """Derive and publish the flavors of a configuration."""

    KINDS = (flavors.KIND,)
    FIRST = True

    def prepare(self, here: Session) -> None:
        """Refuse what the backend cannot honour, then publish."""
        compared = self.config.get('baseline')
        if compared:
            here.baselines(self.config)
        wanted = _planned(here, self.config, self.config['configuration'])
        if wanted is None:
            return
        here.plan = wanted
        if compared:
            # Again, as replication is known now: a whole run would else be
            # spent on what does not compare.
            here.baselines(self.config)
        here.known_kills = here.kills()
        here.flavor_ids = launch.publish(
            here.admin, wanted, [str(here.tenant.current_project_id)]
        )

    def take(self, here: Session, changed: bool) -> None:
        """Plan anew: the same nodes, which have their flavors."""
        if changed:
            name = self.config['configuration']
            here.plan = _planned(here, self.config, name) or here.plan

    @classmethod
    def undo(cls, here: Session) -> None:
        """Delete the flavors that were made here."""
        super().undo(here)
        here.plan = None
        here.skipped = ''
        here.finish()


@context.configure(name='hvstack_host_mode', platform='openstack', order=915)
class HostMode(_Context):
    """Have the workers' hosts share their CPUs, or give them out."""

    KINDS = (hostmode.KIND,)

    def prepare(self, here: Session) -> None:
        """Switch them where a command does so and they are otherwise."""
        wanted = _plan(here)
        command = lacks.mode_command(
            profiles.load(here.options.cloud.host_profile), here.options.sweep
        )
        if command:
            hostmode.switch(
                here.admin,
                wanted.providers,
                wanted.configuration.cpu_policy,
                command,
                here.progress,
            )


@context.configure(name='hvstack_ratios', platform='openstack', order=920)
class Ratios(_Context):
    """Set Placement's allocation ratios of the workers' hosts."""

    KINDS = (ratios.KIND,)

    def prepare(self, here: Session) -> None:
        """Set them; what was there before goes into the journal first."""
        wanted = _plan(here)
        here.before = ratios.set_ratios(
            here.admin,
            wanted.providers,
            wanted.ratios,
            shared=wanted.shared,
        )

    @classmethod
    def undo(cls, here: Session) -> None:
        """Put them back, and write down what is there then."""
        super().undo(here)
        if here.plan is None or not here.made:
            return
        after = launch.one_for_all(
            ratios.current(here.admin, here.plan.providers)
        )
        for folder, made in here.made:
            made.seen.setdefault('allocation_ratio', {})['after'] = after
            record.save(made, folder)
        here.made.clear()


@context.configure(name='hvstack_cluster', platform='openstack', order=930)
class Cluster(_Context):
    """Create the configuration's stack and wait until Hadoop is ready."""

    KINDS = (stacks.KIND, keys.KIND)

    def prepare(self, here: Session) -> None:
        """Create the stack, sort a little once."""
        wanted = _plan(here)
        label = wanted.configuration.label.replace('.', '-')
        name = f'hv-{label}-{secrets.token_hex(3)}'
        with here.progress.stage(
            f'{wanted.configuration.label}: stack {name} '
            f'({wanted.workers} workers)'
        ):
            cluster, _ = launch.launch(
                here.admin,
                here.tenant,
                wanted,
                here.flavor_ids,
                name,
                here.options.cloud,
                here.progress,
            )
        here.cluster = cluster
        cluster.placement['allocation_ratio']['before'] = launch.one_for_all(
            here.before
        )
        _warm_up(here, self.config, wanted.configuration.label)

    def take(self, here: Session, changed: bool) -> None:
        """Start Hadoop with other settings, sort a little once."""
        if not changed:
            return
        wanted = _plan(here)
        _reconfigured(
            here,
            self.config,
            wanted.sizing,
            wanted.replication,
            wanted.configuration.label,
        )

    @classmethod
    def undo(cls, here: Session) -> None:
        """Delete the stack and its key pair."""
        if isinstance(here.cluster, StackCluster):
            here.progress.say(f'deleting the stack {here.cluster.name}')
            here.cluster.close()
        here.cluster = None
        super().undo(here)


@context.configure(name='hvstack_baseline', platform='openstack', order=930)
class Baseline(_Context):
    """Take the hosts for bare metal and start Hadoop on them."""

    FIRST = True

    def _last_alone(self, here: Session) -> bool:
        """Skip the runs at the end where there is nothing to compare."""
        if self.config.get('before') or not self.config.get('skip'):
            return False
        if not _alone(here, self.config):
            return False
        here.skipped = 'bare metal: its sweep has no configuration'
        here.progress.say(f'skipped: {here.skipped}')
        return True

    def prepare(self, here: Session) -> None:
        """Take the hosts, sort a little once."""
        before = self.config.get('before')
        if before and _planned(here, self.config, before) is None:
            return
        if self._last_alone(here):
            return
        bare = BareHosts.from_file(
            Path(here.options.sweep.baseline_hosts),
            replication=self.config.get('replication'),
            progress=here.progress,
            **here.profiles(self.config),
        )
        with here.progress.stage('bare metal: prepare the hosts'):
            bare.__enter__()
        here.cluster = bare
        _warm_up(here, self.config, 'bare metal')

    def take(self, here: Session, changed: bool) -> None:
        """Start Hadoop with other settings, sort a little once.

        Nova does not have the hosts now: whether the configuration can exist
        was looked at when they were taken.
        """
        if self._last_alone(here) or not changed:
            return
        assert isinstance(here.cluster, BareHosts)
        copies = self.config.get('replication')
        _reconfigured(
            here,
            self.config,
            here.cluster.sized(here.profiles(self.config)['tuning']),
            copies or min(3, len(here.cluster.workers)),
            'bare metal',
        )

    @classmethod
    def undo(cls, here: Session) -> None:
        """Give the hosts back."""
        bare, here.cluster = here.cluster, None
        if isinstance(bare, BareHosts):
            bare.release()
        here.skipped = ''
        here.made.clear()
        here.finish()


def _nodes(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what workloads on one cluster must have in common."""
    setup = dict(config.get('setup') or {})
    setup.pop('tuning', None)
    if config['configuration'] == BARE_METAL:
        # It has no volumes.
        setup = {k: v for k, v in setup.items() if k == 'os_profile'}
    return config['configuration'], *sorted(setup.items())


def _hadoop(here: Session, config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a cluster can be given anew."""
    return config.get('replication'), here.profiles(config)['tuning']


def _reconfigured(
    here: Session,
    config: Mapping[str, Any],
    sized: NodeSizing,
    replication: int,
    label: str,
) -> None:
    assert isinstance(here.cluster, Members)
    tuning = here.profiles(config)['tuning']
    with here.progress.stage(f'{label}: Hadoop with tuning {tuning}'):
        reconfigure(
            here.cluster, sized, replication=replication, tuning=tuning
        )
    here.kept = _nodes(config), _hadoop(here, config)
    _warm_up(here, config, label)


def _drop(here: Session) -> None:
    """Undo a cluster that was left and that nobody takes."""
    here.kept = None
    if isinstance(here.cluster, BareHosts):
        kinds: tuple[type[_Context], ...] = (Baseline,)
    else:
        kinds = (Cluster, Ratios, HostMode, Flavors)
    for kind in kinds:
        kind.undo(here)


def _plan(here: Session) -> Any:
    if here.plan is None:
        raise errors.InputError(
            "the context 'hvstack_flavors' must stand beside hvstack_ratios "
            'and hvstack_cluster: it plans the cluster'
        )
    return here.plan


def _alone(here: Session, config: Mapping[str, Any]) -> bool:
    """Tell whether bare metal has no configuration to stand beside."""
    found = state.records(here.sweep_id(config))
    return all(one.kind == 'baseline' for one in found)


def _planned(
    here: Session, config: Mapping[str, Any], name: str
) -> launch.Plan | None:
    """Plan a configuration; None if it is to be skipped, with the reason.

    :raises hvstack.errors.InputError: it cannot exist, and the workload does
        not say that it may be skipped.
    """
    configuration = parse(here.named(config, name))
    settings = here.profiles(config)
    try:
        space.refuse_lacking(configuration, config.get('without', ()))
        lacks.refuse(here.admin, configuration, here.options)
        return launch.plan(
            here.admin,
            configuration,
            here.options.cloud,
            config.get('replication'),
            asked=session.volumes(config),
            tuning=settings['tuning'],
            os_profile=settings['os_profile'],
        )
    except errors.InputError as exc:
        if not config.get('skip'):
            raise
        here.skipped = f'{configuration.label}: {exc}'
        here.progress.say(f'skipped: {here.skipped}')
        return None


def _warm_up(here: Session, config: Mapping[str, Any], label: str) -> None:
    assert here.cluster is not None
    if here.plan is not None and backends.emulates(here.plan.backend):
        here.progress.say(f'{label}: no warm-up, its CPUs are emulated')
        return
    work = here.workload(tpcxhs.WARM_UP_BYTES, config)
    with here.progress.stage(f'{label}: warm-up'):
        tpcxhs.warm_up(here.cluster, work)
