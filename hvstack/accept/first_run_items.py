# SPDX-License-Identifier: Apache-2.0
"""Items of the checklist for the first run on physical hosts with KVM.

The page doc/source/operator/kvm-first-run.md contains the same items, which a
unit test compares.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class FirstRunItem:
    """Item of the checklist.

    :param id: short name of the item.
    :param subject: property that is checked.
    :param reading: source of the observed value on the cloud.
    :param expected: expected value.
    :param remedy: what to do if the item does not hold.
    :param source: documentation of the expected value.
    """

    id: str
    subject: str
    reading: str
    expected: str
    remedy: str
    source: str


_HOST_ITEMS = (
    FirstRunItem(
        'host-physical',
        'physical host',
        "the flag 'hypervisor' in /proc/cpuinfo of each host",
        'The CPUs of the host do not have the flag.',
        'Use physical hosts: KVM in a virtual machine is nested, and its '
        'speed is not that of the hardware.',
        'Linux, arch/x86/include/asm/cpufeatures.h',
    ),
    FirstRunItem(
        'host-kvm',
        'KVM of the host',
        '/dev/kvm and /sys/module of each host',
        'The device exists, and kvm_intel or kvm_amd is loaded.',
        'Enable VT-x or AMD-V in the firmware, and load kvm_intel or kvm_amd '
        'at boot.',
        'Nova, "KVM"',
    ),
    FirstRunItem(
        'host-nova-conf',
        'options of nova-compute',
        'the files that the running nova-compute reads on each host',
        'virt_type is kvm, which is its default, and both allocation ratios '
        'are unset.',
        'Set virt_type = kvm in [libvirt] of nova.conf, remove '
        'cpu_allocation_ratio and ram_allocation_ratio, and restart '
        'nova-compute.',
        'Nova, "Configuration options", [libvirt]',
    ),
    FirstRunItem(
        'host-cpu-set',
        'dedicated CPUs of the host',
        'cpu_dedicated_set and cpu_shared_set of the running nova-compute, '
        'and the online and isolated CPUs in /sys/devices/system/cpu',
        'cpu_dedicated_set is the set of the host profile, is online and is '
        'not in cpu_shared_set. Isolated CPUs do not exist, or are the same '
        'set.',
        "Set the lines of 'hvstack host nova-conf PROFILE --cpu-policy "
        "dedicated' in nova.conf, correct isolcpus, and restart "
        'nova-compute.',
        'Nova, "CPU topologies"',
    ),
    FirstRunItem(
        'host-huge-pages',
        'huge pages of each NUMA cell',
        'nr_hugepages of each NUMA node in /sys/devices/system/node, before '
        'the cluster',
        'Each cell has at least the number of pages that the host profile '
        'requires, and the pages that its guests do not use are free.',
        "Set the kernel parameters of 'hvstack host nova-conf PROFILE "
        "--cpu-policy dedicated --file kernel', and restart the host. End "
        'other programs that use huge pages.',
        'Nova, "Huge pages"; Linux, hugetlbpage',
    ),
    FirstRunItem(
        'host-huge-pages-used',
        'huge pages that the guests use',
        'nr_hugepages and free_hugepages of each NUMA node while the cluster '
        'runs, and the memory of all guests in the XML of libvirt',
        'The number of used pages of each cell is at least the memory of the '
        'guests there.',
        'Check that libvirt has a mounted hugetlbfs, and restart libvirtd and '
        'nova-compute after a change of the huge pages.',
        'Linux, hugetlbpage; libvirt, "Domain XML format", memoryBacking',
    ),
    FirstRunItem(
        'host-ovs-datapath',
        'data path of Open vSwitch',
        'datapath_type of all bridges in the database of Open vSwitch on '
        'each host',
        'It is system, the data path of the kernel.',
        'Set datapath_type of the bridges and '
        'external_ids:ovn-bridge-datapath-type to system, or take the huge '
        'pages and CPUs of the data path netdev (DPDK) into account in the '
        'host profile.',
        'Open vSwitch, ovs-vswitchd.conf.db(5)',
    ),
    FirstRunItem(
        'host-volumes',
        'pinned disks of the workers',
        'the hosts of servers in Nova, and the hosts and pools of their '
        'volumes in Cinder',
        'Each volume is on the host of its server, and each pool has volumes '
        'of one server only.',
        'Enable InstanceLocalityFilter, give cinder-scheduler an account in '
        "[nova] of cinder.conf, and name backend hosts as Nova does ('hvstack "
        "host nova-conf PROFILE --disk-pinning').",
        'Cinder, "InstanceLocalityFilter"',
    ),
)

_IMAGE_ITEMS = (
    FirstRunItem(
        'image-rng',
        'source of entropy of the guests',
        'hw_rng_model of the image in Glance, and the device rng in the XML '
        'of each guest',
        'Both have the model virtio.',
        "Upload the image with 'hvstack image upload', or set hw_rng_model of "
        'the image to virtio.',
        'Glance, "Useful image properties"; Nova, "hw_rng:allowed"',
    ),
    FirstRunItem(
        'image-multiqueue',
        'multiqueue of the network interfaces',
        'hw_vif_multiqueue_enabled of the image in Glance, and '
        'hw:vif_multiqueue_enabled of the flavor of each server',
        'The image does not enable it, and the flavor disables it.',
        'Remove hw_vif_multiqueue_enabled from the image, and publish the '
        'flavors again.',
        'vsphere6, "Best Practices"; Glance, "Useful image properties"',
    ),
    FirstRunItem(
        'image-disk-bus',
        'bus of the disks',
        'hw_disk_bus and hw_scsi_model of the image in Glance, and the '
        'targets of the disks in the XML of each guest',
        'It is virtio, or scsi with virtio-scsi.',
        'Remove hw_disk_bus from the image, or set it to virtio, or to scsi '
        'with hw_scsi_model=virtio-scsi.',
        'Glance, "Useful image properties"',
    ),
    FirstRunItem(
        'image-os-distro',
        'operating system of the guests',
        'os_distro of the image in Glance, and ID in /etc/os-release of each '
        'guest',
        'Both name the same distribution.',
        'Set os_distro of the image to the distribution of its guests.',
        'SCS standard scs-0102; os-release(5)',
    ),
)

_DOMAIN_ITEMS = (
    FirstRunItem(
        'domain-type',
        'type of the domain',
        'the attribute type of domain in the XML of each guest',
        'It is kvm, not qemu.',
        'Set virt_type = kvm in [libvirt] of nova.conf, restart nova-compute, '
        'and create the servers again.',
        'libvirt, "Domain XML format"',
    ),
    FirstRunItem(
        'domain-machine',
        'machine type',
        'os/type in the XML of each guest',
        'It is a versioned machine type of q35, i440fx or virt, and all '
        'guests have the same.',
        'Set hw_machine_type in [libvirt] of nova.conf on all hosts, or of '
        'the image, and create the servers again.',
        'Nova, "hw_machine_type"',
    ),
    FirstRunItem(
        'domain-cpu',
        'CPU mode and model',
        'cpu in the XML of each guest, and cpu_mode and cpu_models of the '
        'running nova-compute',
        'It is host-passthrough, or a named model of a real CPU, as cpu_mode '
        'says, and all guests have the same.',
        'Set cpu_mode = host-passthrough in [libvirt] of nova.conf on all '
        'hosts, restart nova-compute, and create the servers again.',
        'Nova, "CPU models"',
    ),
    FirstRunItem(
        'domain-huge-pages',
        'huge pages of the guests',
        'memoryBacking in the XML of each guest, and hw:mem_page_size of its '
        'flavor',
        'The size of the pages is that of the flavor.',
        'Check the huge pages of the host (host-huge-pages), and that '
        'NUMATopologyFilter is enabled.',
        'Nova, "Huge pages"',
    ),
    FirstRunItem(
        'domain-vcpupin',
        'pinned vCPUs',
        'vcpupin in the XML of each guest, /servers/{id}/topology of Nova, '
        'and the allowed CPUs of the threads in /proc',
        'Each vCPU has one CPU of its own, which Nova reports, in '
        'cpu_dedicated_set.',
        'Restart nova-compute and libvirtd, delete the servers that were '
        'created with other CPU sets, and create them again.',
        'Nova, "CPU topologies"',
    ),
    FirstRunItem(
        'domain-own-cpus',
        'CPUs of different guests',
        'vcpupin in the XML of all guests of each host, of all projects',
        'No two guests have a dedicated CPU in common.',
        'Delete guests without dedicated CPUs from the host: a host has '
        'either dedicated or shared CPUs.',
        'Nova, "CPU topologies"',
    ),
    FirstRunItem(
        'domain-emulatorpin',
        'emulator threads',
        'emulatorpin in the XML of each guest, and the allowed CPUs of the '
        'threads in /proc',
        'Emulator threads use CPUs of their own guest or of cpu_shared_set, '
        'and no dedicated CPU of another guest.',
        'Publish the flavors again: hw:emulator_threads_policy must be share.',
        'Nova, "CPU topologies", emulator threads',
    ),
    FirstRunItem(
        'domain-numatune',
        'NUMA cells of the guests',
        'memnode in the XML of each guest, /servers/{id}/topology of Nova and '
        "the cells in 'virsh capabilities'",
        'The guest has the number of cells of its flavor, with the mode '
        'strict, and its CPUs are those of its cells.',
        'Correct the cells in the host profile, for example with '
        "'hvstack host detect', and publish the flavors again.",
        'Nova, "CPU topologies"; libvirt, "Domain XML format", numatune',
    ),
    FirstRunItem(
        'domain-iothreads',
        'IOThreads',
        'iothreads and iothreadpin in the XML of each guest',
        'IOThreads do not exist, or use CPUs of their own guest or of '
        'cpu_shared_set.',
        'Remove the IOThreads, or pin them to CPUs of the guest.',
        'libvirt, "Domain XML format", iothreads',
    ),
    FirstRunItem(
        'domain-interfaces',
        'network interfaces',
        'the interfaces in the XML of each guest',
        'Each has the model virtio and one queue.',
        'Set hw_vif_model of the image to virtio, and remove '
        'hw_vif_multiqueue_enabled from the image.',
        'libvirt, "Domain XML format", interface; vsphere6, "Best Practices"',
    ),
    FirstRunItem(
        'domain-disk-cache',
        'cache mode of the disks',
        'the attributes cache and io of the disks in the XML of each guest',
        'The cache mode is none, and io of block devices is native. Network '
        'disks of Ceph may have writeback, and io of files is not specified.',
        'Remove disk_cachemodes from [libvirt] of nova.conf, put '
        'instances_path on a file system with direct I/O, and create the '
        'servers again.',
        'Nova, "Configuration options", disk_cachemodes; Ceph, "Block Devices '
        'and OpenStack"',
    ),
)

_GUEST_ITEMS = (
    FirstRunItem(
        'cluster-ready',
        'small cluster',
        'Heat, HDFS and YARN',
        'The stack is complete, and all workers are in HDFS and YARN.',
        "Run 'hvstack doctor' with the same --configuration, and correct what "
        'it names.',
        'hvstack, "Clusters and sweeps"',
    ),
    FirstRunItem(
        'guest-cpu-model',
        'CPU model in the guests',
        "'model name' in /proc/cpuinfo of each guest and of its host",
        'With host-passthrough it is that of the host, otherwise that of a '
        'real CPU.',
        'Set cpu_mode = host-passthrough in [libvirt] of nova.conf on all '
        'hosts, restart nova-compute, and create the servers again.',
        'Nova, "CPU models"',
    ),
    FirstRunItem(
        'guest-thp',
        'transparent huge pages in the guests',
        '/sys/kernel/mm/transparent_hugepage/enabled of each guest',
        'It is the value of the OS profile.',
        'Use an image whose kernel has transparent huge pages, and check '
        '/etc/hvstack/os-profile.state of the node.',
        'hvstack, "Hadoop\'s settings"; Linux, "Transparent Hugepage Support"',
    ),
    FirstRunItem(
        'guest-clocksource',
        'clock source in the guests',
        'current_clocksource in /sys/devices/system/clocksource of each guest',
        'It is kvm-clock or tsc.',
        'Remove the parameter clocksource from the kernel of the image, and '
        'check that the domain has the type kvm (domain-type).',
        'Linux, "Timekeeping Virtualization for X86-Based Architectures"',
    ),
    FirstRunItem(
        'guest-sort',
        'small run of the benchmark',
        'a TPCx-HS-derived run of 1 MB with its data checks',
        'The output is sorted and valid. The time of the run is not a result.',
        "Check the logs of the jobs with 'yarn logs', and the other items.",
        'hvstack, "The benchmark"',
    ),
    FirstRunItem(
        'cluster-deleted',
        'deletion of the cluster',
        'Heat, and the journal of hvstack',
        'The stack does not exist any more, and the journal has no flavor '
        'and no key pair of the cluster.',
        'Run the next hvstack command with this cloud, which deletes the '
        'resources, and check the message.',
        'hvstack, "Clusters and sweeps"',
    ),
)

#: Items in the order of the report.
ITEMS: tuple[FirstRunItem, ...] = (
    *_HOST_ITEMS,
    *_IMAGE_ITEMS,
    *_DOMAIN_ITEMS,
    *_GUEST_ITEMS,
)
