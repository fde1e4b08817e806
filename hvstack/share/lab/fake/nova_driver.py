# SPDX-License-Identifier: Apache-2.0
"""A Nova compute driver without guests, but with PCPUs and NUMA cells.

Nova's own fake driver has VCPUs only. Copied into the services' environment
as ``nova.virt.hvstack_fake``, since Nova loads drivers from ``nova.virt``
alone. What the host reports is in ``profile.json`` in its state directory:
``{"cells": [{"shared": [cpu], "dedicated": [cpu], "siblings": [[cpu]],
"memory_mib": 1, "hugepages_2m": 0}], "disk_gb": 1}``.
"""

import json
import pathlib
import uuid

import nova.conf
import os_resource_classes as orc
from nova.objects import fields, network_metadata, numa
from nova.virt import fake

CONF = nova.conf.CONF


class FakeComputeDriver(fake.FakeDriver):
    """A host of the size that its profile names."""

    capabilities = {**fake.FakeDriver.capabilities, 'supports_pcpus': True}

    def __init__(self, virtapi, read_only=False):
        path = pathlib.Path(CONF.state_path) / 'profile.json'
        self._profile = json.loads(path.read_text(encoding='utf-8'))
        cells = self._profile['cells']
        self.vcpus = sum(len(c['shared']) for c in cells)
        self._pcpus = sum(len(c['dedicated']) for c in cells)
        self.memory_mb = sum(c['memory_mib'] for c in cells)
        self.local_gb = self._profile['disk_gb']
        super().__init__(virtapi, read_only)
        self.resources.vcpus = self.vcpus + self._pcpus

    def _topology(self):
        return numa.NUMATopology(
            cells=[
                numa.NUMACell(
                    id=index,
                    cpuset=set(cell['shared']),
                    pcpuset=set(cell['dedicated']),
                    memory=cell['memory_mib'],
                    cpu_usage=0,
                    memory_usage=0,
                    pinned_cpus=set(),
                    siblings=[set(pair) for pair in cell['siblings']],
                    mempages=self._pages(cell),
                    network_metadata=network_metadata.NetworkMetadata(
                        physnets=set(), tunneled=False
                    ),
                    socket=index,
                )
                for index, cell in enumerate(self._profile['cells'])
            ]
        )

    @staticmethod
    def _pages(cell):
        huge = cell.get('hugepages_2m', 0)
        small = (cell['memory_mib'] - 2 * huge) * 256
        return [
            numa.NUMAPagesTopology(size_kb=4, total=small, used=0, reserved=0),
            numa.NUMAPagesTopology(
                size_kb=2048, total=huge, used=0, reserved=0
            ),
        ]

    def get_available_resource(self, nodename):
        status = super().get_available_resource(nodename)
        if status:
            status['numa_topology'] = self._topology()._to_json()
            # Images for virtual machines fit, those for containers do not.
            status['supported_instances'] = [
                (
                    fields.Architecture.X86_64,
                    hypervisor_type,
                    fields.VMMode.HVM,
                )
                for hypervisor_type in (fields.HVType.KVM, fields.HVType.QEMU)
            ]
            # A restart must find the same node.
            status['uuid'] = str(uuid.uuid5(uuid.NAMESPACE_DNS, nodename))
        return status

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        super().update_provider_tree(provider_tree, nodename, allocations)
        inventory = dict(provider_tree.data(nodename).inventory)
        if not self.vcpus:
            inventory.pop(orc.VCPU, None)
        if self._pcpus:
            inventory[orc.PCPU] = {
                'total': self._pcpus,
                'min_unit': 1,
                'max_unit': self._pcpus,
                'step_size': 1,
                'allocation_ratio': 1.0,
                'reserved': 0,
            }
        provider_tree.update_inventory(nodename, inventory)
        if any(
            len(threads) > 1
            for cell in self._profile['cells']
            for threads in cell['siblings']
        ):
            # What hw:cpu_thread_policy=require asks for.
            provider_tree.add_traits(nodename, 'HW_CPU_HYPERTHREADING')
