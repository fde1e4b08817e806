# SPDX-License-Identifier: Apache-2.0
"""Report of a sweep as plain data, the content of ``results.json``."""

from dataclasses import asdict

from hvstack.report.provenance import HEADER_FACTS, get_version
from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import Row, to_percent_mapping
from hvstack.results import comparability, quantiles, stats
from hvstack.results.typed_json import JsonObject

FORMAT = 1


def to_mapping(report: SweepReport) -> JsonObject:
    """Return a report as plain data, for ``results.json``."""
    return {
        'format': FORMAT,
        'hvstack': get_version(),
        'sweep': report.sweep,
        'baseline_sweep': report.baseline_sweep,
        'headline': report.headline,
        'notes': report.notes,
        'derived': report.derived,
        'rate_name': report.rate_name,
        'rate_unit': 'TB/h',
        'backends': report.backends,
        'hosts': report.get_fact('hosts'),
        'worker_hosts': report.get_fact('worker_hosts'),
        'scale_model': report.get_fact('scale_model'),
        'size_bytes': report.size_bytes,
        'versions': {name: report.get_fact(name) for name in HEADER_FACTS},
        'environment': report.system_under_test,
        'pooled': asdict(report.pooled),
        'drift': _drift_mapping(report),
        'choice': _choice_mapping(report.choice),
        'given_up': sorted(report.excluded),
        'allowed': report.allowed,
        'not_recorded': comparability.list_unknown_facts(report.records),
        'confidence': quantiles.CONFIDENCE,
        'rows': [_row_mapping(row) for row in report.rows],
        'growth': [
            {
                'size_bytes': [growth.small, growth.large],
                'phases': {
                    phase: {
                        'seconds': list(growth.seconds[phase]),
                        'ratio': growth.ratio(phase),
                        'fixed_seconds': growth.fixed_seconds(phase),
                    }
                    for phase in growth.seconds
                },
            }
            for growth in report.growth
        ],
    }


def _drift_mapping(report: SweepReport) -> JsonObject | None:
    drift = report.drift
    if drift is None:
        return None
    mean, low, high = drift.percent_an_hour
    return {
        'percent_an_hour': mean,
        'low': low,
        'high': high,
        'runs': len(drift.hours),
        'applied': report.corrected_rates.drift is not None,
    }


def _choice_mapping(choice: stats.Choice | None) -> JsonObject | None:
    if choice is None:
        return None
    return {**asdict(choice), 'winner': choice.winner}


def _row_mapping(row: Row) -> JsonObject:
    return {
        'configuration': row.configuration,
        'label': row.label,
        'title': row.title,
        'status': row.status,
        'verdict': row.verdict,
        'runs': len(row.valid),
        'failed_runs': len(row.failed),
        'reasons': row.reasons,
        'seconds': row.seconds,
        'total_seconds': row.total_seconds,
        'rate': row.rate,
        'percent_of_bare_metal': to_percent_mapping(row),
        'seen': dict(row.observed.facts),
        'records': [
            {
                'id': record.id,
                'digest': record.digest,
                'index': record.index,
                'started': record.started,
                'ended': record.ended,
                'valid': record.valid,
                'reason': record.reason,
                'maps': record.maps,
                'reduces': record.reduces,
                'replication': record.replication,
                'phases': record.document['phases'],
                'total_seconds': record.total_seconds,
                'rate': record.rate,
            }
            for record in row.valid + row.failed
        ],
    }
