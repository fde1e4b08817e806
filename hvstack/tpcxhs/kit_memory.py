# SPDX-License-Identifier: Apache-2.0
"""Memory for the jobs of TPC's kit, whose parameters have none for it."""

from hvstack.cluster.base import Cluster
from hvstack.hadoop import site_files, tuning_profiles
from hvstack.tpcxhs import job_memory
from hvstack.tpcxhs.workload import MIB, Workload

#: Configuration of Hadoop on the controller, and its copy for the kit.
_CONF_DIR = '/etc/hadoop'
_SITE_FILE = 'mapred-site.xml'


def prepare(
    cluster: Cluster, workload: Workload, directory: str
) -> dict[str, str]:
    """Give the largest job of the kit its memory, as the other runs have it.

    :param cluster: cluster that executes the runs.
    :param workload: workload of the runs.
    :param directory: directory on the controller for a configuration of
        Hadoop with this memory.
    :returns: environment variables of the kit; empty for small jobs.
    :raises hvstack.errors.CommandError: a service or the controller does not
        answer.
    """
    tuning = tuning_profiles.load(cluster.tuning)
    splits = workload.count_splits(tuning.max_block_mib * MIB)
    variables = {}
    if client_mib := job_memory.client_mib(splits, tuning.sampled_keys):
        variables['HADOOP_CLIENT_OPTS'] = f'-Xmx{client_mib}m'
    options = job_memory.master_options(
        cluster.manager, splits + workload.reduces, cluster.processors
    )
    if options:
        node = cluster.gateway
        node.run(f'rm -rf {directory} && cp -r {_CONF_DIR} {directory}')
        site = node.run(f'cat {_CONF_DIR}/{_SITE_FILE}').stdout
        # Of two values of a property, the last one counts.
        begin, end, rest = site.rpartition('</configuration>')
        rows = ''
        for option in options:
            name, _, value = option.removeprefix('-D').partition('=')
            rows += site_files.render_property(name, value)
        node.put(f'{begin}{rows}{end}{rest}', f'{directory}/{_SITE_FILE}')
        variables['HADOOP_CONF_DIR'] = directory
    return variables
