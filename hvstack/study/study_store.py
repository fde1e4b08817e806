# SPDX-License-Identifier: Apache-2.0
"""State of studies: markers and run records.

A marker contains the content of the study's file as it was when the study
started, so that neither its rules nor its variants change afterwards. Each
variant has a sweep of its own, because records of different settings are not
comparable within a sweep; the index of a run is its pass.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hvstack import errors, host_profiles, jsonfile, paths, textfile
from hvstack.model.strict_mapping import Fields
from hvstack.results import percentages, run_id
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore
from hvstack.study import definition
from hvstack.study.definition import Study
from hvstack.study.variants import Variant
from hvstack.sweep import sweep_store
from hvstack.sweep.run_order import Step

STUDIES_DIR = paths.STATE / 'studies'
SCHEMA = 1
_FIELDS = (
    *('schema', 'id', 'name', 'started', 'finished', 'passes', 'size_bytes'),
    *('host', 'backend', 'tuning', 'os_profile', 'skipped', 'content'),
    *('host_digest', 'cloud'),
)


@dataclass(frozen=True)
class StudyStep:
    """Run of a study.

    :param variant: variant of the run.
    :param sweep: sweep of the variant.
    :param step: target, index and size.
    """

    variant: Variant
    sweep: str
    step: Step

    @property
    def pass_number(self) -> int:
        """Index of the pass, which is the index of the run."""
        return self.step.index


@dataclass(frozen=True)
class StartedStudy:
    """Study that was started.

    :param id: ID of the study; the names of its sweeps begin with it.
    :param study: definition with the number of passes and the size of the
        data of this execution.
    :param started: start time.
    :param host: name of the host profile of the workers.
    :param backend: compute backend of the workers.
    :param skipped: reasons by the names of the variants that this cloud
        cannot have.
    :param finished: whether no run remains.
    :param tuning: tuning profile of the variants that have none of their own;
        empty for that of hvstack.conf, if an older release wrote the marker.
    :param os_profile: OS profile, likewise.
    :param host_digest: digest of the host profile at the start; empty for a
        profile of the lab.
    :param cloud: URL and region of the cloud; empty if it is not known, as
        for a study of Rally alone.
    """

    id: str
    study: Study
    started: str
    host: str
    backend: str
    skipped: Mapping[str, str] = field(default_factory=dict)
    finished: bool = False
    tuning: str = ''
    os_profile: str = ''
    host_digest: str = ''
    cloud: str = ''

    @property
    def node_settings(self) -> dict[str, str]:
        """Names of the profiles of the variants that have none."""
        settings = {'tuning': self.tuning, 'os_profile': self.os_profile}
        return {name: value for name, value in settings.items() if value}

    @property
    def measured_variants(self) -> list[Variant]:
        """Variants that are measured."""
        return [
            variant
            for variant in self.study.variants
            if variant.name not in self.skipped
        ]

    def get_sweep(self, variant: Variant) -> str:
        """Return the name of the sweep of a variant."""
        number = self.study.variants.index(variant) + 1
        return f'{self.id}-v{number}'

    def list_steps(self) -> list[StudyStep]:
        """Return all runs in order.

        The ID determines the order within a pass, so that neither a drift of
        the machine nor the neighbors in the order affect a variant more than
        another one.
        """
        return [
            StudyStep(
                variant,
                self.get_sweep(variant),
                Step(
                    variant.target,
                    pass_number,
                    self.study.get_size(variant),
                ),
            )
            for pass_number in range(self.study.passes)
            for variant in sorted(
                self.measured_variants,
                key=lambda item: self._compute_order(item, pass_number),
            )
        ]

    def _compute_order(self, variant: Variant, pass_number: int) -> bytes:
        text = f'{self.id}:{pass_number}:{variant.name}'
        return hashlib.sha256(text.encode()).digest()


def create(
    study: Study,
    host: str,
    backend: str,
    skipped: Mapping[str, str],
    *,
    tuning: str = '',
    os_profile: str = '',
    cloud: str = '',
) -> StartedStudy:
    """Start a study and write its marker.

    :param study: definition with its number of passes and size.
    :param host: name of the host profile of the workers.
    :param backend: compute backend of the workers.
    :param skipped: reasons by the names of variants that are not possible.
    :param tuning: tuning profile of the variants that have none; empty for
        that of hvstack.conf at the time of a run.
    :param os_profile: OS profile, likewise.
    :param cloud: URL and region of the cloud; empty if it is not known.
    """
    prefix = f'study-{study.name[:20]}'
    started = StartedStudy(
        id=sweep_store.create_id(prefix),
        study=study,
        started=sweep_store.format_now(),
        host=host,
        backend=backend,
        skipped=dict(skipped),
        tuning=tuning,
        os_profile=os_profile,
        host_digest=host_profiles.read_digest(host),
        cloud=cloud,
    )
    _save(started)
    return started


def finish(started: StartedStudy) -> None:
    """Mark a study as finished."""
    _save(replace(started, finished=True))


def _save(started: StartedStudy) -> None:
    study = started.study
    content = {
        'schema': SCHEMA,
        'id': started.id,
        'name': study.name,
        'started': started.started,
        'finished': started.finished,
        'passes': study.passes,
        'size_bytes': study.size_bytes,
        'host': started.host,
        'backend': started.backend,
        **started.node_settings,
        **({'host_digest': digest} if (digest := started.host_digest) else {}),
        **({'cloud': started.cloud} if started.cloud else {}),
        'skipped': dict(started.skipped),
        'content': study.content,
    }
    paths.make_directory(STUDIES_DIR)
    paths.write_whole(
        STUDIES_DIR / f'{started.id}.json',
        json.dumps(content, indent=1) + '\n',
    )


def load(study_id: str) -> StartedStudy:
    """Return a started study.

    :param study_id: ID of the study.
    :raises hvstack.errors.InputError: the study does not exist, or its marker
        is not valid.
    """
    path = STUDIES_DIR / f'{study_id}.json'
    if not run_id.is_sweep(study_id) or not textfile.is_regular(path):
        raise errors.InputError(
            f"Cannot find the study '{textfile.printable(study_id[:60])}' "
            f"({STUDIES_DIR}): no study has this ID. Use an ID that 'hvstack "
            "study list --started' prints."
        )
    return _read(path)


def list_started() -> tuple[list[StartedStudy], list[str]]:
    """Return all started studies, the oldest first.

    :returns: the studies, and reasons for markers that cannot be read.
    """
    studies, reasons = [], []
    for path in sorted(STUDIES_DIR.glob('[!.]*.json')):
        try:
            studies.append(_read(path))
        except errors.InputError as exc:
            reasons.append(str(exc))
    return sorted(studies, key=lambda item: (item.started, item.id)), reasons


def _read(path: Path) -> StartedStudy:
    document = jsonfile.load(path)
    source_location = document.source_location()
    fields = Fields(document.data, source_location, _FIELDS)
    fields.integer('schema', SCHEMA, SCHEMA)
    if fields.text('id') != path.stem:
        raise fields.error('id', "is not the file's name. Restore the file")
    skipped = fields.text_mapping('skipped')
    if skipped is None:
        raise fields.error('skipped', 'is not valid. Restore the file')
    study = definition.parse_study(
        fields.text('name'),
        fields.raw('content'),
        document.source_location('content'),
    )
    return StartedStudy(
        id=path.stem,
        study=replace(
            study,
            passes=fields.integer('passes', 1, definition.MAX_PASSES),
            size_bytes=fields.integer('size_bytes', 1, sweep_store.MAX_BYTES),
        ),
        started=fields.text('started'),
        host=fields.text('host'),
        backend=fields.text('backend'),
        skipped=skipped,
        finished=fields.flag('finished', False),
        tuning=fields.optional_text('tuning'),
        os_profile=fields.optional_text('os_profile'),
        host_digest=fields.optional_text('host_digest'),
        cloud=fields.optional_text('cloud'),
    )


@dataclass(frozen=True)
class StudyRecords:
    """Records of a study.

    :param records: records by the names of the variants.
    :param failed: variants with a run that failed for good, and the reasons.
    :param pending: remaining runs in order.
    """

    records: dict[str, list[RunRecord]]
    failed: dict[str, str]
    pending: list[StudyStep]


def load_records(started: StartedStudy, store: RunStore) -> StudyRecords:
    """Return the records of a study and its remaining runs.

    A variant with a run that failed for good is not measured again.

    :param started: the study.
    :param store: store of the run records.
    :raises hvstack.errors.InputError: a record is not usable.
    """
    records: dict[str, list[RunRecord]] = {}
    failed: dict[str, str] = {}
    settled: set[tuple[str, int]] = set()
    for variant in started.measured_variants:
        size = started.study.get_size(variant)
        all_runs = [
            run
            for run in store.load_records(started.get_sweep(variant))
            if run.configuration == variant.target.name
        ]
        records[variant.name] = all_runs
        for run in percentages.list_settled(all_runs, size):
            settled.add((variant.name, run.index))
            if not run.valid:
                failed.setdefault(variant.name, run.reason)
    pending = [
        step
        for step in started.list_steps()
        if step.variant.name not in failed
        and (step.variant.name, step.pass_number) not in settled
    ]
    return StudyRecords(records, failed, pending)
