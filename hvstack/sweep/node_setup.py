# SPDX-License-Identifier: Apache-2.0
"""Settings of the nodes and jobs of a workload, besides its configuration."""

from dataclasses import dataclass, fields

from hvstack.cloud.volumes import Volumes
from hvstack.cluster.base import Fact
from hvstack.hadoop.daemon_options import DAEMON_FACT, DaemonOptions
from hvstack.model.vnics import MACVTAP

#: Value of a setting in the arguments of a workload.
SettingValue = bool | int | str | dict[str, str]


@dataclass(frozen=True)
class LaterChanges:
    """Changes of a cluster after each run; None changes nothing.

    :param lost_hosts: number of hosts that are lost at once.
    :param loss_rounds: number of such losses.
    :param scaled_compute: number of compute workers that are removed and added
        again while sorts run.
    :param second_cluster: number of compute workers that become a second
        compute cluster on the same HDFS while both sort.
    """

    lost_hosts: int | None = None
    loss_rounds: int | None = None
    scaled_compute: int | None = None
    second_cluster: int | None = None


@dataclass(frozen=True)
class HadoopSettings:
    """Settings of Hadoop besides those of its tuning profile.

    :param properties: properties that the jobs set, with their values.
    :param daemons: options of the JVMs of daemons.
    """

    properties: tuple[tuple[str, str], ...] = ()
    daemons: DaemonOptions = ()


@dataclass(frozen=True)
class NodeSetup:
    """Settings of the nodes; None uses the default of a setting.

    :param tuning: tuning profile of Hadoop.
    :param os_profile: OS profile.
    :param disks: number of volumes of a worker.
    :param volume_type: volume type.
    :param copies: number of copies that the volume type must have.
    :param osd_groups: number of OSD groups that the volume type must have.
    :param host_affinity: whether the first copy of a volume must be on the
        host of its server.
    :param output_replication: number of replicas of the output of HSSort.
    :param node_groups: whether Hadoop knows which nodes share a host.
    :param deployment: deployment of the HVE paper.
    :param controllers: ``combined`` or ``separate``.
    :param vnic: how hosts connect the network interfaces of guests.
    :param stateless_security_group: whether hosts do not track the
        connections of the nodes.
    :param workload: name of the workload; None for TPCx-HS.
    :param hadoop: settings of Hadoop besides those of its tuning profile.
    :param later: changes of the cluster after each run.
    """

    tuning: str | None = None
    os_profile: str | None = None
    disks: int | None = None
    volume_type: str | None = None
    copies: int | None = None
    osd_groups: int | None = None
    host_affinity: bool | None = None
    output_replication: int | None = None
    node_groups: bool | None = None
    deployment: int | None = None
    controllers: str | None = None
    vnic: str | None = None
    stateless_security_group: bool | None = None
    workload: str | None = None
    hadoop: HadoopSettings = HadoopSettings()
    later: LaterChanges = LaterChanges()

    @property
    def volumes(self) -> Volumes | None:
        """Requested volumes; None for the defaults."""
        counts = self.disks, self.copies, self.osd_groups
        is_default = self.volume_type is None and not self.host_affinity
        if is_default and counts == (None, None, None):
            return None
        return Volumes(
            self.volume_type or Volumes.type,
            *counts,
            host_affinity=bool(self.host_affinity),
        )

    @property
    def facts(self) -> dict[str, Fact]:
        """Facts of a record that only these settings change.

        Deployments 1 and 2 follow from the configuration.
        """
        facts: dict[str, Fact] = {}
        if self.node_groups is False:
            facts['node_groups'] = False
        if self.host_affinity:
            facts['host_affinity'] = True
        if self.deployment is not None and self.deployment > 2:
            facts['deployment'] = self.deployment
        if self.controllers == 'separate':
            facts['controllers'] = self.controllers
        if self.vnic == MACVTAP:
            facts['vnic'] = self.vnic
        if self.hadoop.daemons:
            facts[DAEMON_FACT] = dict(self.hadoop.daemons)
        if self.stateless_security_group:
            facts['stateless_security_group'] = True
        return facts

    def to_mapping(self) -> dict[str, SettingValue]:
        """Return the settings as the argument ``setup`` of a workload."""
        settings = {
            item.name: value
            for part in (self, self.later)
            for item in fields(part)
            if (value := getattr(part, item.name)) not in (None, ())
        }
        del settings['later'], settings['hadoop']
        if self.hadoop.properties:
            settings['hadoop'] = dict(self.hadoop.properties)
        if self.hadoop.daemons:
            settings['daemons'] = dict(self.hadoop.daemons)
        return settings
