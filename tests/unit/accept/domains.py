# SPDX-License-Identifier: Apache-2.0
"""XML of running domains, as libvirt prints it for guests of Nova."""

#: A guest with two dedicated CPUs in cell 0 and 2 GiB of huge pages.
KVM = """
<domain type='kvm' id='7'>
  <name>instance-0000001a</name>
  <uuid>5c0f3f3e-5b6b-4d51-8b0e-6a0f2f2d7f11</uuid>
  <metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:package version="31.0.0"/>
      <nova:name>hvaccept-0123456789-first-run-worker-0</nova:name>
      <nova:flavor name="hv-vsphere6-worker-i2-dedicated">
        <nova:memory>2048</nova:memory><nova:vcpus>2</nova:vcpus>
      </nova:flavor>
    </nova:instance>
  </metadata>
  <memory unit='KiB'>2097152</memory>
  <currentMemory unit='KiB'>2097152</currentMemory>
  <memoryBacking>
    <hugepages>
      <page size='2048' unit='KiB' nodeset='0'/>
    </hugepages>
    <locked/>
    <allocation mode='immediate'/>
  </memoryBacking>
  <vcpu placement='static'>2</vcpu>
  <cputune>
    <shares>2048</shares>
    <vcpupin vcpu='0' cpuset='2'/>
    <vcpupin vcpu='1' cpuset='22'/>
    <emulatorpin cpuset='2,22'/>
  </cputune>
  <numatune>
    <memory mode='strict' nodeset='0'/>
    <memnode cellid='0' mode='strict' nodeset='0'/>
  </numatune>
  <os>
    <type arch='x86_64' machine='pc-q35-8.2'>hvm</type>
    <boot dev='hd'/>
  </os>
  <cpu mode='host-passthrough' check='none' migratable='on'>
    <topology sockets='1' dies='1' cores='1' threads='2'/>
    <numa>
      <cell id='0' cpus='0-1' memory='2097152' unit='KiB'
            memAccess='shared'/>
    </numa>
  </cpu>
  <clock offset='utc'>
    <timer name='pit' tickpolicy='delay'/>
    <timer name='rtc' tickpolicy='catchup'/>
    <timer name='hpet' present='no'/>
  </clock>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' discard='unmap'/>
      <source file='/var/lib/nova/instances/5c0f3f3e/disk' index='3'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native'/>
      <source dev='/dev/disk/by-path/ip-192.0.2.11:3260-lun-1' index='2'/>
      <target dev='vdb' bus='virtio'/>
    </disk>
    <disk type='file' device='cdrom'>
      <driver name='qemu' type='raw' cache='writeback'/>
      <source file='/var/lib/nova/instances/5c0f3f3e/disk.config' index='1'/>
      <target dev='sda' bus='sata'/>
      <readonly/>
    </disk>
    <controller type='usb' index='0' model='qemu-xhci'/>
    <controller type='sata' index='0'/>
    <controller type='virtio-serial' index='0'/>
    <interface type='bridge'>
      <mac address='fa:16:3e:4b:0d:01'/>
      <source bridge='br-int'/>
      <virtualport type='openvswitch'>
        <parameters interfaceid='7f3e0a0e-59b7-44bb-8fd6-5b2a3d7d9e10'/>
      </virtualport>
      <target dev='tap7f3e0a0e-59'/>
      <model type='virtio'/>
      <mtu size='1500'/>
    </interface>
    <memballoon model='virtio'><stats period='10'/></memballoon>
    <rng model='virtio'>
      <backend model='random'>/dev/urandom</backend>
    </rng>
  </devices>
</domain>
"""
#: A container, as hosts of a lab run it.
LXC = """
<domain type='lxc' id='21431'>
  <name>instance-00000003</name>
  <uuid>0b9c1f52-40dd-4f63-9a39-5a6a4a1c8d02</uuid>
  <memory unit='KiB'>786432</memory>
  <vcpu placement='static'>2</vcpu>
  <cputune><shares>2048</shares></cputune>
  <os>
    <type arch='x86_64'>exe</type>
    <init>/sbin/init</init>
    <cmdline>console=tty0 console=ttyS0 console=ttyAMA0</cmdline>
  </os>
  <devices>
    <emulator>/usr/lib/libvirt/libvirt_lxc</emulator>
    <filesystem type='mount' accessmode='passthrough'>
      <source dir='/var/lib/hvstack/lab/hv-host1/nova/instances/0b9/rootfs'/>
      <target dir='/'/>
    </filesystem>
    <interface type='ethernet'>
      <mac address='fa:16:3e:11:22:33'/>
      <target dev='tap0a1b2c3d-4e'/>
      <guest dev='eth0'/>
    </interface>
    <console type='pty' tty='/dev/pts/3'><source path='/dev/pts/3'/></console>
  </devices>
</domain>
"""
#: The guest with the CPUs of KVM, in Nova's ``/servers/{id}/topology``.
NODES = [
    {
        'memory_mb': 2048,
        'host_node': 0,
        'siblings': [[0, 1]],
        'vcpu_set': [0, 1],
        'cpu_pinning': {'0': 2, '1': 22},
        'pagesize_kb': 2048,
    }
]
SPECS = {
    'hw:cpu_policy': 'dedicated',
    'hw:numa_nodes': '1',
    'hw:mem_page_size': 'large',
    'hw:vif_multiqueue_enabled': 'false',
}
