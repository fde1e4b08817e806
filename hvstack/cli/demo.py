# SPDX-License-Identifier: Apache-2.0
"""``hvstack demo``: from nothing to percent of bare metal."""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path

from cliff.command import Command

from hvstack import errors, extras, host_profiles, paths
from hvstack.cli import (
    arguments,
    demo_estimate,
    hadoop_options,
    image,
    parallel_image,
    report,
)
from hvstack.cli.sweep import add_size
from hvstack.cloud import connection
from hvstack.cluster import baseline_hosts
from hvstack.hadoop.sizing import LAB, size_node
from hvstack.lab import clouds_yaml, lifecycle, settings
from hvstack.lab.hosts import sizes
from hvstack.lab.settings import LabSettings
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import derive_flavor
from hvstack.nouns import format_noun
from hvstack.progress import Progress
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import StoredSweeps
from hvstack.sweep import (
    quick_sweeps,
    rallyenv,
    rallytask,
    recovery,
    sweep_store,
)
from hvstack.sweep.sweep_store import Sweep

#: What a first look at one's machine compares, in this order.
CONFIGURATIONS = ('i1', 'i2')
#: Without earlier sweeps, an interval needs several clusters of each
#: configuration.
PASSES = 3
SIZE_BYTES = 400_000_000
_STAGES = ('the lab', 'guest image', 'Rally', 'sweep', 'the answer')
_TRIES = 2
#: Host profile of the workers' hosts in the lab.
_WORKER_HOST = 'lab-worker'


class Demo(Command):
    """Start the lab and measure configurations in percent of bare metal.

    The command prints a table and writes results.json and results.html to the
    current directory. After an interruption, it continues with the remaining
    runs.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_size(parser, SIZE_BYTES)
        parser.add_argument(
            '--passes',
            type=arguments.count,
            default=PASSES,
            help='Number of passes, each with a run of every configuration on '
            f'a new cluster (default: {PASSES}).',
        )
        parser.add_argument(
            '--configurations',
            default=','.join(CONFIGURATIONS),
            metavar='NAME,...',
            help='Configurations to measure (default: '
            f'{",".join(CONFIGURATIONS)}).',
        )
        hadoop_options.add(parser)
        return parser

    @extras.required('lab')
    @extras.required('rally')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Do all of it; the answer goes to standard output."""
        configurations = [
            parse(name.strip())
            for name in parsed_args.configurations.split(',')
        ]
        if parsed_args.passes < 1:
            raise errors.InputError(
                'Cannot run the demo (--passes): it is less than 1. Use 1 or '
                'more.'
            )
        profiles = hadoop_options.chosen(parsed_args, LAB)
        progress = Progress(_STAGES)
        lab_settings = _check_machine(
            *(configurations, profiles['tuning']),
            settings.load() or LabSettings(),
        )
        find_sweep = functools.partial(
            quick_sweeps.resume_or_begin,
            *(configurations, parsed_args.passes, parsed_args.size),
            tuning=profiles['tuning'],
            os_profile=profiles['os_profile'],
            # The lab may have been changed since an interrupted demo.
            hosts=lab_settings.hosts,
        )
        sweep, again = find_sweep(is_saved=False)
        progress.say(
            demo_estimate.estimate_demo(
                sweep, not again, lab_settings
            ).format_line()
        )
        with parallel_image.running(progress) as build:
            with progress.stage('the lab'):
                lifecycle.up(
                    functools.partial(
                        _check_machine, configurations, profiles['tuning']
                    ),
                    Progress(),
                    build.start,
                )
            with progress.stage('guest image'):
                build.finish()
                image.ensure(progress)
        with progress.stage('Rally'):
            rallyenv.ensure_environment(clouds_yaml.ADMIN_CLOUD)
        sweep, again = find_sweep()
        with progress.stage('sweep'):
            _sweep(sweep, again, progress)
        with progress.stage('the answer'):
            records = sweep_store.load_records(sweep.id)
            stored_records = StoredSweeps(sweep_store.open_store())
            page = _answer(records, stored_records)
        took = list(progress.took)
        if build.seconds:
            took.insert(
                1, ('guest image, while the lab started', build.seconds)
            )
        for title, seconds in took:
            progress.say(f'{seconds:6.0f} s  {title}')
        self.app.stdout.write(
            report.render(records, 'table', history_records=stored_records)
        )
        self.app.stdout.write(report.where_the_rest_is(records, page))
        _judge(sweep)


def _check_machine(
    configurations: Sequence[Configuration],
    tuning: str,
    lab_settings: LabSettings,
) -> LabSettings:
    """Return the settings of the lab unchanged, before it starts.

    :param configurations: configurations that the demo measures.
    :param tuning: tuning profile of their workers.
    :param lab_settings: settings of the lab.
    :raises hvstack.errors.InputError: the lab has no host for workers, or its
        hosts on this machine are too small for a configuration.
    :raises hvstack.errors.MissingPrerequisiteError: the machine is too small
        for the hosts.
    """
    if lab_settings.hosts < 2:
        raise errors.InputError(
            'Cannot run the demo (lab with 1 host): a cluster needs a host '
            "for its controllers and one for workers. Run 'hvstack lab up "
            "--hosts 2' first."
        )
    worker_host = sizes.profile(sizes.plan(lab_settings)[-1])
    for configuration in configurations:
        try:
            worker = derive_flavor(worker_host, configuration, 'worker')
            size_node(worker.vcpus, worker.ram, tuning=tuning)
        except errors.InputError as exc:
            raise errors.InputError(
                f'Cannot run the demo ({lab_settings.hosts} hosts on a '
                f'machine with {sizes.machine_mib() / 1024:.1f} GiB of '
                'memory): '
                f'{configuration.label}: {str(exc).rstrip(".")}. In the lab, '
                'larger workers need a machine with more memory, fewer hosts '
                "('hvstack lab up --hosts 2') or other --configurations."
            ) from exc
    return lab_settings


def _get_lab_options() -> dict[str, dict[str, str]]:
    """Return the options of the lab by group.

    Those of hvstack.conf can be for another cloud.
    """
    backend = baseline_hosts.lab_backend(host_profiles.load(_WORKER_HOST))
    return {
        'cloud': {
            'host_profile': _WORKER_HOST,
            'controller_profile': 'lab-controller',
            'image': 'hvstack-hadoop',
            'network': 'provider',
            'availability_zone': '',
            'ssh_config': '',
            'host_key_source': 'heat',
            **({'backend': backend} if backend else {}),
        },
        'sweep': {'baseline_hosts': str(baseline_hosts.LAB)},
    }


def _sweep(sweep: Sweep, again: bool, progress: Progress) -> None:
    """Run what is left, twice at most where something failed.

    Whatever way it ends, nothing is left on the cloud.
    """
    pending_steps = sweep_store.list_pending(sweep.id, sweep.list_steps())
    progress.say(
        f'sweep {sweep.id}: '
        + (
            f'continuing, {format_noun(len(pending_steps), "run")} left'
            if again
            else format_noun(len(pending_steps), 'run')
        )
    )
    try:
        for _ in range(_TRIES):
            if not _repeatable(sweep):
                return
            rallytask.run_task(
                'quick.yaml',
                {
                    'sweep': sweep.id,
                    'size_bytes': sweep.size_bytes,
                    'runs': sweep.runs,
                    'configurations': [
                        configuration.label
                        for configuration in sweep.configurations
                    ],
                },
                sweep.id,
                progress,
                {'hadoop': sweep.node_settings, **_get_lab_options()},
            )
    finally:
        conn = connection.connect(clouds_yaml.ADMIN_CLOUD)
        recovery.recover([conn], progress)


def out_of_memory(run_record: RunRecord) -> bool:
    """Tell whether a run failed because the kernel had no memory left."""
    return not run_record.valid and bool(run_record.observations.killed)


def _repeatable(sweep: Sweep) -> bool:
    """Tell whether a run is left that has a chance.

    One that was OOM-killed would be killed again.
    """
    for step in sweep_store.list_pending(sweep.id, sweep.list_steps()):
        _, failed = sweep_store.find_records(sweep.id, step)
        if failed is None or not out_of_memory(failed):
            return True
    return False


def _answer(records: list[RunRecord], stored_records: StoredSweeps) -> Path:
    """Write results.json and results.html into the current directory.

    :param stored_records: records of all sweeps by sweep, for the variance.
    :returns: the page.
    """
    for form in ('json', 'html'):
        path = Path.cwd() / f'results.{form}'
        paths.write_output(
            path, report.render(records, form, history_records=stored_records)
        )
    return Path.cwd() / 'results.html'


def _judge(sweep: Sweep) -> None:
    """Finish a sweep that is complete; else say what is missing.

    Only a configuration that promises more memory than there is may fail,
    and only with the kernel's evidence.

    :raises hvstack.errors.RunFailedError: a run is missing.
    """
    missing = []
    for step in sweep_store.list_pending(sweep.id, sweep.list_steps()):
        _, failed = sweep_store.find_records(sweep.id, step)
        may_fail = (
            isinstance(step.target, Configuration)
            and step.target.ram_ratio > 1
        )
        if failed is None:
            missing.append(f'{step.label} run {step.index + 1}: not run')
        elif not (may_fail and out_of_memory(failed)):
            missing.append(
                f'{step.label} run {step.index + 1}: {failed.reason[:200]}'
            )
    if missing:
        raise errors.RunFailedError(
            f'Cannot complete the demo: {len(missing)} runs are missing '
            f'({"; ".join(missing)}). Run the command again, which keeps the '
            'valid runs.'
        )
    sweep_store.finish_sweep(sweep)
