# SPDX-License-Identifier: Apache-2.0
"""Options of the group ``[hvstack]`` in tempest.conf."""

from oslo_config import cfg

from hvstack.accept.host_inspection import ACCESS

GROUP = cfg.OptGroup('hvstack', title='Acceptance of virtualized Hadoop')

OPTIONS = (
    cfg.ListOpt(
        'catalogues',
        default=[],
        help='Catalogue files with the expected flavors. List all '
        'catalogues that are published on the cloud: other flavors '
        'of their name space are errors.',
    ),
    cfg.BoolOpt(
        'include_candidates',
        default=False,
        help='Expect flavors without approval as well.',
    ),
    cfg.BoolOpt(
        'public', default=False, help='Expect flavors that are public.'
    ),
    cfg.StrOpt(
        'image',
        help='ID of an image for servers that only have to start '
        '(default: [compute] image_ref).',
    ),
    cfg.StrOpt('network', help='ID of the network for volumes and stacks.'),
    cfg.StrOpt(
        'availability_zone',
        help='Availability zone of Nova for all servers. By default, they '
        'are in any zone.',
    ),
    cfg.StrOpt(
        'volume_zone',
        help='Availability zone of Cinder for all volumes. By default, they '
        'are in any zone.',
    ),
    cfg.DictOpt(
        'volume_backends',
        default={},
        help='Expected volume types, each with the volume_backend_name '
        'of its disks: disk-slot-1:slot1,...',
    ),
    cfg.BoolOpt(
        'disk_pinning',
        default=False,
        help='Expect that each disk of these volume types belongs to '
        'one node only.',
    ),
    cfg.StrOpt(
        'stack',
        help='Name of an existing cluster in the project of the test '
        'user (with a file of test accounts). The tests check it '
        'instead of a new cluster.',
    ),
    cfg.StrOpt('stack_key', help='Private key of the existing cluster.'),
    cfg.StrOpt(
        'ssh_config',
        help='Configuration file of ssh for connections to the nodes of '
        'clusters. By default, none is read.',
    ),
    cfg.StrOpt(
        'stack_request',
        help='File with the body of the request to Heat for a cluster, '
        "which 'hvstack accept' writes: template, files, "
        'parameters.',
    ),
    cfg.StrOpt(
        'no_cluster',
        help='Reason why this file does not exist, for the report.',
    ),
    cfg.IntOpt(
        'workers_per_host',
        default=1,
        help='Number of instances (I): workers of this cluster on one host. '
        'An existing cluster has its own number.',
    ),
    cfg.BoolOpt(
        'controllers_beside_workers',
        default=False,
        help='Controllers use slots of hosts with workers.',
    ),
    cfg.StrOpt(
        'configuration',
        help='Full name of the configuration whose worker flavor is '
        'started by tests that start one server. The default is '
        'any expected flavor.',
    ),
    cfg.BoolOpt(
        'full_cluster',
        default=False,
        help='This cluster uses every slot of its hosts, so an '
        'additional worker must be rejected.',
    ),
    cfg.BoolOpt(
        'guests',
        default=True,
        help='Servers run guests. False if hosts are fake: tests that '
        'need a guest do not run.',
    ),
    cfg.BoolOpt(
        'hadoop',
        default=True,
        help='Hadoop runs in the servers of the stack. False if hosts '
        'are fake, or images have no Hadoop.',
    ),
    cfg.BoolOpt(
        'shared_kernel',
        default=False,
        help='Servers of the stack are containers on the kernel of this '
        'machine.',
    ),
    cfg.IntOpt(
        'replication',
        default=2,
        min=1,
        help='Number of HDFS replicas of this cluster. An existing cluster '
        'has its own number.',
    ),
    cfg.StrOpt(
        'benchmark_size',
        default='20MB',
        help='Size of the data of the small benchmark run in bytes.',
    ),
    cfg.IntOpt(
        'stack_timeout',
        default=900,
        help='Maximum time for a change of a stack in seconds.',
    ),
    cfg.IntOpt(
        'ready_timeout',
        default=300,
        help='Maximum time for HDFS and YARN in seconds.',
    ),
    cfg.IntOpt(
        'server_timeout',
        default=300,
        help='Maximum time for a server in seconds.',
    ),
    cfg.StrOpt(
        'host_access',
        default='none',
        choices=ACCESS,
        help='Access to compute hosts: none, local (tests run on the '
        'host), command, or ssh as root.',
    ),
    cfg.StrOpt(
        'host_command',
        default='hvstack lab host exec {host} --',
        help='Command that runs a program on the host {host}.',
    ),
    cfg.StrOpt('host_ssh_key', help='Private key of root on the hosts.'),
    cfg.StrOpt(
        'host_ssh_config',
        help='Configuration file of ssh for the hosts, for example with a '
        'ProxyJump.',
    ),
    cfg.StrOpt(
        'libvirt_uri',
        default='qemu:///system',
        help='URI of libvirt on the hosts.',
    ),
    cfg.StrOpt(
        'power_off_command', help='Command that turns off the power of {host}.'
    ),
    cfg.StrOpt(
        'power_on_command', help='Command that turns on the power of {host}.'
    ),
)
