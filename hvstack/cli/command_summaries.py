# SPDX-License-Identifier: Apache-2.0
"""A line about each command, so that ``hvstack --help`` imports no command.

Most commands import openstacksdk, which takes longer than to print the list.
A unit test compares this module with the classes of the commands.
"""

from collections.abc import Mapping

#: First line of the docstring of the class, by command. The commands
#: ``complete`` and ``help`` are those of cliff.
SUMMARIES: Mapping[str, str] = {
    'accept': (
        'Check on a running cloud that its flavors keep what they promise.'
    ),
    'baseline import': (
        'Import run records of bare metal from another machine.'
    ),
    'baseline list': 'List the runs on bare metal.',
    'baseline release': (
        'Release bare-metal hosts and restore what hvstack changed on them.'
    ),
    'baseline run': (
        'Run the benchmark on bare metal: Hadoop on the hosts, without Nova.'
    ),
    'baseline show': (
        'Show a run on bare metal: phases, system under test, observations.'
    ),
    'cluster burn-in': (
        'Measure all nodes of a cluster, and name those that are slower.'
    ),
    'cluster create': (
        'Create a cluster for a configuration and wait until Hadoop is ready.'
    ),
    'cluster delete': (
        'Delete a cluster with everything that was created for it.'
    ),
    'cluster environment': (
        'Write an environment for heat-templates/hadoop-cluster.yaml.'
    ),
    'cluster list': 'List the clusters that were created on this machine.',
    'cluster scale': (
        'Change the number of workers of a cluster, or replace unhealthy '
        'workers.'
    ),
    'cluster show': (
        'Show the nodes, web interfaces and physical hosts of a cluster.'
    ),
    'cluster size': (
        'Compute the number of workers and controllers on a number of hosts.'
    ),
    'cluster topology': (
        'Show, write or check which nodes share a physical host.'
    ),
    'complete': 'Print the command completion for bash.',
    'demo': (
        'Start the lab and measure configurations in percent of bare metal.'
    ),
    'doctor': 'Check whether a cloud can run a cluster; change nothing.',
    'flavor approve': (
        'Approve flavors that a sweep measured, and write the evidence.'
    ),
    'flavor catalogue': (
        'Print a catalogue of candidates for one host profile, as YAML.'
    ),
    'flavor derive': 'Derive the flavor of one role from a host profile.',
    'flavor diff': "Show what 'flavor publish' would change.",
    'flavor export': (
        'Print the published flavors of a host profile as a catalogue.'
    ),
    'flavor lint': 'Check a catalogue of flavors before it is published.',
    'flavor list': 'List the flavors that hvstack published on a cloud.',
    'flavor publish': 'Publish the flavors of a catalogue on a cloud.',
    'flavor retire': 'Retire published flavors.',
    'help': 'Print the list of the commands, or the help of a command.',
    'host detect': (
        'Print the profile of this machine, or of a host of a cloud, as YAML.'
    ),
    'host list': 'List the host profiles of the search path.',
    'host nova-conf': (
        'Print the settings of compute hosts and schedulers for a host '
        'profile.'
    ),
    'host show': 'Show a host profile with all computed values.',
    'image build': 'Build guest images that are missing or out of date.',
    'image elements': 'Print the path of the elements of diskimage-builder.',
    'image export': (
        'Write Hadoop and the programs of the image for another base image.'
    ),
    'image list': 'List the guest images that were built.',
    'image upload': (
        'Upload the guest image of Hadoop to Glance; build it if necessary.'
    ),
    'key list': 'List the trusted and the revoked keys.',
    'key revoke': 'Revoke a key: its signatures are no longer accepted.',
    'key show': (
        'Print the public key of this machine, so that other machines trust '
        'it.'
    ),
    'key trust': (
        'Trust the key of another machine: this one accepts its signatures.'
    ),
    'lab destroy': 'Remove the lab and its data.',
    'lab doctor': (
        'Check the machine and the lab, and show remedies; change nothing.'
    ),
    'lab down': 'Stop the lab and keep its data.',
    'lab env': (
        'Print the shell variables of the lab: eval "$(hvstack lab env)".'
    ),
    'lab host cap': (
        'Set the caps of the worker hosts to a percentage of their default.'
    ),
    'lab host exec': (
        'Run a program on a host: hvstack lab host exec NAME -- PROGRAM ...'
    ),
    'lab host list': (
        'List the lab hosts with their compute backends and caps.'
    ),
    'lab host off': (
        'Turn off a host: all its processes end at once, without a shutdown.'
    ),
    'lab host on': 'Turn on a host and wait until Nova reports it as up.',
    'lab host prepare': (
        'Remove Nova from a host and boot the guest file system as bare metal.'
    ),
    'lab host release': 'Return a bare-metal host to Nova.',
    'lab host shell': 'Open a shell on a host, under its cap.',
    'lab status': (
        'Show the programs, hosts, compute backends and memory of the lab.'
    ),
    'lab up': 'Start the lab, resume an interrupted start, or change the lab.',
    'record delete': (
        'Delete run records with their telemetry, such as forged records.'
    ),
    'record export': 'Export run records to another directory or database.',
    'record import': 'Import run records from another directory or database.',
    'report': 'Show the percent of bare metal of a sweep with its provenance.',
    'study list': 'List the studies of the package, or the started studies.',
    'study plan': 'Show the runs of a study, their sizes and their duration.',
    'study report': (
        'Judge the claims of a started study from its run records.'
    ),
    'study resume': 'Resume a study; valid runs are never repeated.',
    'study run': 'Run a study and judge its claims.',
    'study show': 'Show the question, the variants and the rules of a study.',
    'sweep list': 'List the sweeps, sorted by start time.',
    'sweep plan': (
        'Show what a sweep measures, what it skips and how long it takes.'
    ),
    'sweep recover': (
        'Undo the changes that hvstack processes left on a cloud and its '
        'hosts.'
    ),
    'sweep resume': 'Resume a sweep; valid runs are never repeated.',
    'sweep run': 'Search a space of configurations for the best one.',
    'sweep show': 'Show the progress of a sweep with a strategy.',
    'sweep trials run': 'Compare two sides several times.',
    'sweep trials show': (
        'Show the percentage of each trial and whether it contains 100 %.'
    ),
    'task list': 'List the Rally tasks of the package.',
    'task path': (
        "Print the path of a Rally task, for 'rally task start PATH'."
    ),
    'task show': (
        'Show the description, the arguments and the path of a Rally task.'
    ),
    'template path': (
        "Print the path of a Heat template, for 'openstack stack create -t'."
    ),
}

#: Extras without which a command does not run, by command.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    'accept': ('tempest',),
    'demo': ('lab', 'rally'),
    'lab destroy': ('lab',),
    'lab doctor': ('lab',),
    'lab down': ('lab',),
    'lab host cap': ('lab',),
    'lab host exec': ('lab',),
    'lab host list': ('lab',),
    'lab host off': ('lab',),
    'lab host on': ('lab',),
    'lab host prepare': ('lab',),
    'lab host release': ('lab',),
    'lab host shell': ('lab',),
    'lab status': ('lab',),
    'lab up': ('lab',),
    'study resume': ('rally',),
    'study run': ('rally',),
    'sweep resume': ('rally',),
    'sweep run': ('rally',),
    'sweep trials run': ('rally',),
}
