# SPDX-License-Identifier: Apache-2.0
"""Options of the group ``[hvstack]`` in tempest.conf."""

from oslo_config import cfg

from hvstack.accept.host_inspection import ACCESS

GROUP = cfg.OptGroup('hvstack', title='Acceptance of virtualized Hadoop')

OPTIONS = (
    cfg.ListOpt(
        'catalogues',
        default=[],
        help='Files with the flavors that were promised. All catalogues '
        'that are published on the cloud: other flavors of their name space '
        'are faults.',
    ),
    cfg.BoolOpt(
        'include_candidates',
        default=False,
        help='Flavors without approval are promised too.',
    ),
    cfg.BoolOpt(
        'public', default=False, help='Flavors were published for everybody.'
    ),
    cfg.StrOpt(
        'image',
        help='Id of an image for servers that only have to start (default: '
        '[compute] image_ref).',
    ),
    cfg.StrOpt('network', help='Id of the network for volumes and stacks.'),
    cfg.DictOpt(
        'volume_backends',
        default={},
        help='Volume types that were promised, each with the '
        'volume_backend_name of its disks: disk-slot-1:slot1,...',
    ),
    cfg.BoolOpt(
        'disk_pinning',
        default=False,
        help='Each disk of these types was promised to one node alone.',
    ),
    cfg.StrOpt(
        'stack',
        help="Name of a cluster that is there, in the test user's project "
        '(with a test accounts file): it is looked at instead of a new one.',
    ),
    cfg.StrOpt('stack_key', help='Its private key.'),
    cfg.StrOpt(
        'stack_request',
        help="File with the body of Heat's request for a cluster, as 'hvstack "
        "accept' writes it: template, files, parameters.",
    ),
    cfg.StrOpt(
        'no_cluster',
        help='Why there is no such file; stands in the report.',
    ),
    cfg.IntOpt(
        'workers_per_host',
        default=1,
        help='I, the workers of that cluster on one host.',
    ),
    cfg.BoolOpt(
        'controllers_beside_workers',
        default=False,
        help='Controllers take slots of hosts that have workers, too.',
    ),
    cfg.StrOpt(
        'configuration',
        help="Full name of the configuration whose worker's flavor is started "
        'where only one is; any promised one if that is not.',
    ),
    cfg.BoolOpt(
        'full_cluster',
        default=False,
        help='That cluster takes every slot of its hosts: one worker more '
        'must be refused.',
    ),
    cfg.BoolOpt(
        'guests',
        default=True,
        help='Servers really start. False where hosts are fake: what needs a '
        'guest that answers is not checked.',
    ),
    cfg.BoolOpt(
        'hadoop',
        default=True,
        help="Hadoop really runs in the stack's servers. False where hosts "
        'are fake, or images have no Hadoop.',
    ),
    cfg.BoolOpt(
        'shared_kernel',
        default=False,
        help="The stack's servers are containers on this machine's kernel.",
    ),
    cfg.IntOpt('replication', default=2, min=1, help='Of that cluster.'),
    cfg.StrOpt(
        'benchmark_size',
        default='20MB',
        help='Data of the small benchmark run.',
    ),
    cfg.IntOpt(
        'stack_timeout', default=900, help='Seconds for a stack to change.'
    ),
    cfg.IntOpt(
        'ready_timeout', default=300, help='Seconds for HDFS and YARN.'
    ),
    cfg.IntOpt('server_timeout', default=300, help='Seconds for a server.'),
    cfg.StrOpt(
        'host_access',
        default='none',
        choices=ACCESS,
        help='How compute hosts can be reached: not at all, they are this '
        'machine, by a command, by ssh as root.',
    ),
    cfg.StrOpt(
        'host_command',
        default='hvstack lab host exec {host} --',
        help='Command that runs a program on the host {host}.',
    ),
    cfg.StrOpt('host_ssh_key', help='Private key for the hosts.'),
    cfg.StrOpt('libvirt_uri', default='qemu:///system', help='Of the hosts.'),
    cfg.StrOpt(
        'power_off_command', help='Command that cuts the power of {host}.'
    ),
    cfg.StrOpt(
        'power_on_command', help='Command that powers {host} on again.'
    ),
)
