# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor list|diff|publish|retire|export``: flavors on a cloud."""

import argparse
from collections.abc import Sequence
from dataclasses import astuple
from http import HTTPStatus

import yaml
from cliff.command import Command
from cliff.lister import Lister
from openstack.compute.v2.flavor import Flavor as NovaFlavor
from openstack.connection import Connection

from hvstack import errors, host_profiles
from hvstack.cli import arguments
from hvstack.cli.options import add_cloud
from hvstack.cli.report import add_unsigned
from hvstack.cli.tables import Table
from hvstack.cloud import catalogue_publisher, connection, nova_flavors
from hvstack.cloud.catalogue_publisher import FlavorChange, Job
from hvstack.cloud.connection import refused
from hvstack.model import lint
from hvstack.model.catalogue import MIN_PERCENT, Catalogue, CatalogueEntry
from hvstack.progress import Progress
from hvstack.results import evidence, record, record_data, signing
from hvstack.sweep import sweep_store

_COLUMNS = ('Flavor', 'Action', 'Field', 'Before', 'After')


class _Publishing(Lister):
    """Base class of the commands that publish flavors or show the changes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_catalogue(parser)
        parser.add_argument(
            'flavors',
            nargs='*',
            metavar='FLAVOR',
            help='Names of flavors (default: all flavors of the catalogue).',
        )
        add_cloud(parser)
        parser.add_argument(
            '--host',
            metavar='PROFILE',
            help='Host profile of the catalogue: its name, or its YAML file '
            "(default: the value of 'host' in the catalogue).",
        )
        parser.add_argument(
            '--project',
            action='append',
            metavar='NAME',
            help='Name or ID of a project that may use the flavors, '
            'exclusively. Can be repeated (default: access does '
            'not change).',
        )
        parser.add_argument(
            '--public', action='store_true', help='Make the flavors public.'
        )
        parser.add_argument(
            '--include-candidates',
            action='store_true',
            help='Include candidates, which are not approved.',
        )
        arguments.add_records(
            parser, 'the run records that the evidence refers to'
        )
        add_unsigned(parser)
        parser.add_argument(
            '--no-lint',
            action='store_true',
            help='Skip the lint. Nova checks the spelling of extra '
            'specs only.',
        )
        return parser

    def plan(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Connection, list[Job]]:
        """Return the changes that publishing would make.

        :raises hvstack.errors.InputError: the catalogue is not fit to be
            published.
        """
        catalogue, profile = host_profiles.read_catalogue(
            parsed_args.catalogue, parsed_args.host
        )
        if profile.name != catalogue.host:
            raise errors.InputError(
                f'Cannot publish {parsed_args.catalogue} with --host '
                f"{parsed_args.host}: its flavors are those of '"
                f"{catalogue.host}', and this host profile is "
                f"'{profile.name}'. Use the host profile of the catalogue."
            )
        chosen = _chosen(catalogue, parsed_args.flavors)
        if not parsed_args.no_lint:
            for violation in lint.check_catalogue(
                profile, catalogue, host_profiles.load_extra_specs()
            ):
                if violation.level == lint.ERROR:
                    raise errors.InputError(
                        f"{str(violation).removesuffix('.')}. Run 'hvstack "
                        "flavor lint', which shows all errors."
                    )
        _earned(catalogue, chosen, parsed_args)
        conn = connection.connect(parsed_args.os_cloud)
        options = catalogue_publisher.Options(
            public=parsed_args.public,
            projects=_projects(conn, parsed_args.project),
        )
        return conn, catalogue_publisher.plan(conn, catalogue, chosen, options)

    def rows(self, jobs: Sequence[Job]) -> Table:
        """Return a row for each change, or a message that nothing changes."""
        changes: list[FlavorChange] = [
            change for job in jobs for change in job.changes
        ]
        if not changes:
            Progress().say('nothing to change: the cloud is as it should be')
        return _COLUMNS, [astuple(change) for change in changes]


class Diff(_Publishing):
    """Show what 'flavor publish' would change.

    The exit status is 0 if nothing would change, and 1 otherwise.
    """

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Turn a difference into the exit status."""
        self.differs = False
        return int(super().run(parsed_args) or self.differs)

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Compare catalogue and cloud."""
        _, jobs = self.plan(parsed_args)
        self.differs = bool(jobs)
        return self.rows(jobs)


class Publish(_Publishing):
    """Publish the flavors of a catalogue on a cloud.

    Published flavors of the same host profile that the catalogue no longer
    contains are retired: they are deleted, or hidden and kept while a server
    uses them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Show the changes, and change nothing.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Make the changes and show them."""
        conn, jobs = self.plan(parsed_args)
        if not parsed_args.dry_run:
            _apply(conn, jobs)
        return self.rows(jobs)


class List(Lister):
    """List the flavors that hvstack published on a cloud.

    Whether a flavor is in use is unknown to members, who cannot list the
    servers of other projects.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the cloud."""
        parser = super().get_parser(prog_name)
        add_cloud(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Look at Nova."""
        conn = connection.connect(parsed_args.os_cloud)
        labels = ('host', 'role', 'configuration', 'status', 'percent')
        rows = []
        is_allowed = True

        def is_used(flavor: NovaFlavor) -> str:
            nonlocal is_allowed
            if not is_allowed:
                return 'unknown'
            try:
                used = catalogue_publisher.in_use(conn, flavor)
            except errors.CloudError as exc:
                # Members cannot list the servers of other projects.
                if connection.get_status(exc) != HTTPStatus.FORBIDDEN:
                    raise
                is_allowed = False
                return 'unknown'
            return 'yes' if used else 'no'

        for name, flavor in sorted(nova_flavors.list_flavors(conn).items()):
            if catalogue_publisher.is_managed(flavor):
                flavor_labels = catalogue_publisher.labelled(flavor)
                rows.append(
                    (
                        name,
                        *(flavor_labels.get(label, '') for label in labels),
                        'yes' if flavor.is_public else 'no',
                        is_used(flavor),
                    )
                )
        columns = [label.capitalize() for label in labels]
        return ('Name', *columns, 'Public', 'In use'), rows


class Retire(Lister):
    """Retire published flavors.

    They are deleted, or hidden and kept while a server uses them. The next
    'publish' or 'retire' deletes retired flavors that no server uses any more.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'flavors', nargs='+', metavar='FLAVOR', help='Name of a flavor.'
        )
        add_cloud(parser)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Show the changes, and change nothing.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Retire all of them, or none."""
        conn = connection.connect(parsed_args.os_cloud)
        flavors_by_name = nova_flavors.list_flavors(conn)
        for name in parsed_args.flavors:
            if (
                name not in flavors_by_name
                or not catalogue_publisher.is_managed(flavors_by_name[name])
            ):
                raise errors.InputError(
                    f"Cannot retire flavor '{name}': hvstack did not publish "
                    "it. Use one of 'hvstack flavor list'."
                )
        jobs = [
            catalogue_publisher.retirement(conn, flavors_by_name[name])
            for name in dict.fromkeys(parsed_args.flavors)
        ]
        if not parsed_args.dry_run:
            _apply(conn, jobs)
        changes = [change for job in jobs for change in job.changes]
        return _COLUMNS, [astuple(change) for change in changes]


class Export(Command):
    """Print the published flavors of a host profile as a catalogue.

    All flavors are candidates, because the cloud does not store their
    evidence.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host',
            required=True,
            metavar='PROFILE',
            help='Host profile of the flavors.',
        )
        add_cloud(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Look at Nova and print."""
        conn = connection.connect(parsed_args.os_cloud)
        flavors = []
        for _, flavor in sorted(nova_flavors.list_flavors(conn).items()):
            flavor_labels = catalogue_publisher.labelled(flavor)
            # A catalogue that contains a retired flavor would publish it.
            if (
                catalogue_publisher.is_managed(flavor)
                and flavor_labels['host'] == parsed_args.host
                and flavor_labels.get('status') != catalogue_publisher.RETIRED
            ):
                flavors.append(catalogue_publisher.exported(flavor))
        if not flavors:
            raise errors.InputError(
                'Cannot export flavors: the cloud has no flavor of host '
                f"profile '{parsed_args.host}'. Use one of the profiles of "
                "'hvstack flavor list'."
            )
        data = {
            'host': parsed_args.host,
            'min_percent': MIN_PERCENT,
            'flavors': flavors,
        }
        self.app.stdout.write('# SPDX-License-Identifier: Apache-2.0\n')
        yaml.safe_dump(data, self.app.stdout, sort_keys=False, width=79)


def _chosen(
    catalogue: Catalogue, names: Sequence[str]
) -> list[CatalogueEntry]:
    entries_by_name = {entry.flavor.name: entry for entry in catalogue.entries}
    for name in names:
        if name not in entries_by_name:
            raise errors.InputError(
                f"Cannot publish flavor '{name}': it is not in the catalogue "
                f"of host profile '{catalogue.host}'. Correct the name."
            )
    return [
        entries_by_name[name]
        for name in dict.fromkeys(names or entries_by_name)
    ]


def _earned(
    catalogue: Catalogue,
    chosen: Sequence[CatalogueEntry],
    parsed_args: argparse.Namespace,
) -> None:
    """Refuse candidates, and evidence that does not hold."""
    policy = signing.policy(parsed_args.unsigned)
    store = sweep_store.open_store(parsed_args.records, parsed_args.unsigned)
    for entry in chosen:
        if entry.status == 'approved':
            earned = entry.evidence or {}
            sweeps = {earned.get('sweep'), earned.get('baseline')}
            records: list[record_data.RunRecord] = []
            for name in {str(name) for name in sweeps if name}:
                sweep_records, invalid_records = store.read_sweep(name)
                record.require_usable(invalid_records, [name])
                records += sweep_records
            records.sort(key=lambda item: (item.started, item.index))
            reason = evidence.verify_evidence(entry, records, policy)
            if reason:
                Progress().warn(
                    f"flavor '{entry.flavor.name}': its evidence {reason}"
                )
            low = float((entry.evidence or {}).get('low', 0))
            if low < catalogue.min_percent:
                raise errors.InputError(
                    f'{entry.source_location("evidence")}: Cannot publish '
                    f"flavor '{entry.flavor.name}': it reaches at least "
                    f'{low:g} %, and the catalogue requires '
                    f'{catalogue.min_percent:g} %. Measure it more often.'
                )
        elif not parsed_args.include_candidates:
            raise errors.InputError(
                f'{entry.source_location("status")}: Cannot publish flavor '
                f"'{entry.flavor.name}': it is a candidate. Run 'hvstack "
                "flavor approve', or use --include-candidates."
            )


def _projects(
    conn: Connection, names: Sequence[str] | None
) -> set[str] | None:
    """Return the ids of projects."""
    if names is None:
        return None
    project_ids = set()
    for name in names:
        with refused(f"Cannot find project '{name}'"):
            project = connection.get_identity(conn).find_project(name)
        if project is None:
            raise errors.InputError(
                f"Cannot find project '{name}' (--project): Keystone does "
                "not have this project. Run 'openstack project list'."
            )
        project_ids.add(str(project.id))
    return project_ids


def _apply(conn: Connection, jobs: list[Job]) -> None:
    progress = Progress()
    done = 0

    def tell(_name: str) -> None:
        nonlocal done
        done += 1
        if done % 20 == 0:
            progress.say(f'{done} of {len(jobs)} flavors')

    catalogue_publisher.apply(conn, jobs, tell)
