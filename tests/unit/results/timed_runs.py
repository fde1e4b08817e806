# SPDX-License-Identifier: Apache-2.0
"""Records of runs whose time follows from a model of their causes."""

import random
from dataclasses import dataclass, replace
from typing import Any

from hvstack.results import record_data
from hvstack.results.record_data import RunRecord
from tests.unit.results import factory

#: Caps of the two hosts with workers in cores, and both together.
CAP, CORES = 0.65, 1.3
#: CPU seconds that tasks of the jobs use on bare metal.
CPU_SECONDS = {'HSGen': 30.0, 'HSSort': 80.0, 'HSValidate': 15.0}
#: Seconds of a job without a task, and those of a data check.
STARTS, CHECK = 5.0, 2.0
#: Throttled seconds per CPU second where a cap is in force.
THROTTLED = 0.8


@dataclass(frozen=True)
class Model:
    """Causes of the time of a run; factors are those of bare metal times one.

    :param cpu: factor of the CPU time of the tasks.
    :param jvms: CPU time of JVM starts as a part of that of the tasks.
    :param agents: CPU time of agents, likewise.
    :param speed: part of the cap that the tasks get; the remainder is
        throttled.
    :param disk: seconds per job in which tasks wait for a disk.
    :param reads: further seconds of HSGen in which tasks wait for a disk that
        moves few bytes.
    :param waiting: seconds per job in which tasks wait without a counter.
    :param uneven: tasks of the first worker beyond those of an even split, as
        a part of its tasks; with a half, the other worker has none.
    :param timeouts: retransmission timeouts of each worker.
    :param noise: standard deviation of the pace of each quantity of a run.
    """

    cpu: float = 1.0
    jvms: float = 0.05
    agents: float = 0.05
    speed: float = 1.0
    disk: float = 1.0
    reads: float = 0.0
    waiting: float = 2.0
    uneven: float = 0.0
    timeouts: int = 0
    noise: float = 0.02


def timed_run(
    configuration: str,
    index: int,
    model: Model,
    generator: random.Random,
    **arguments: Any,
) -> RunRecord:
    """Return a record of a run in a lab.

    :param configuration: label of the configuration, or ``bare-metal``.
    :param generator: source of the noise.
    :param arguments: further arguments of the factory.
    """

    def vary(value: float) -> float:
        return value * generator.gauss(1, model.noise)

    arguments.setdefault('worker_hosts', 2)
    arguments.setdefault(
        'caps', {f'hv-host{n}': {'cpu': CAP} for n in (1, 2, 3)}
    )
    record = factory.run(configuration, index, 100.0, **arguments)
    phases = factory.stored_phases(record)
    sums: dict[str, dict[str, float]] = {}
    busy = 0.0
    for phase in phases:
        name = phase['name']
        if name not in CPU_SECONDS:
            phase['seconds'] = vary(CHECK)
            continue
        tasks = vary(CPU_SECONDS[name] * model.cpu)
        nodes = tasks + vary(tasks * model.jvms)
        agents = vary(tasks * model.agents)
        disk, waiting = vary(model.disk), vary(model.waiting)
        moved = disk * 1e7
        if name == 'HSGen':
            disk += vary(model.reads)
        busy += disk
        computing = (nodes + agents) / CORES
        running = computing / model.speed + disk + waiting
        starts = vary(STARTS)
        _add_job(phase, running, starts, model.uneven)
        phase['counters'] |= {
            'CPU_MILLISECONDS': round(1000 * tasks),
            'MILLIS_MAPS': round(4000 * running),
        }
        # Three hosts, of which two have workers.
        phase['machine_cpu'] = {
            'seconds': phase['seconds'],
            'hosts': nodes + 1.5 * agents,
        }
        sums[name] = {
            'cpu': nodes,
            'throttled': THROTTLED * nodes
            + (1 + THROTTLED) * CORES * (computing / model.speed - computing),
            'busy': 2 * disk,
            'read': moved,
            'write': moved,
            'rx': running * 1e6,
            'tx': running * 1e6,
        }
    node = {
        'role': 'worker',
        'network': {'retransmission_timeouts': model.timeouts},
        'disks': {'7:0': {'read': 1.0, 'write': 1.0, 'busy': busy}},
    }
    summary = {
        'source': 'cgroup',
        'phases': sums,
        'nodes': {'w0': node, 'w1': node},
    }
    total = sum(phase['seconds'] for phase in phases)
    return record_data.change(
        record,
        {
            'phases': phases,
            'total_seconds': total,
            'rate': record_data.compute_rate(record.size_bytes, total),
            'seen': {
                **record.observations.facts,
                'workers': 2,
                'telemetry': summary,
            },
        },
    )


def _add_job(
    phase: dict[str, Any], running: float, starts: float, uneven: float
) -> None:
    """Add the times of a job whose map tasks run on two workers.

    :param running: seconds in which tasks would run with an even split.
    :param starts: seconds without a task.
    :param uneven: see :class:`Model`.
    """
    walls = (running / (1 - uneven), running * (1 - uneven / (1 - uneven)))
    phase['seconds'] = starts + walls[0]
    phase['job_seconds'] = starts / 2 + walls[0]
    phase['map_shuffle_seconds'] = phase['job_seconds']
    phase['reduce_merge_seconds'] = 0.0
    phase['nodes'] = {
        f'w{n}': {
            'maps': round(8 * wall / sum(walls)) if 0 in walls else 4,
            'map_seconds': 2 * wall,
            'map_wall_seconds': wall,
            'map_bytes': 1e8,
        }
        for n, wall in enumerate(walls)
        if wall
    }


def timed_sweep(
    model: Model,
    seed: int = 0,
    passes: int = 5,
    baseline: Model | None = None,
    configuration: str = 'i1',
    **arguments: Any,
) -> list[RunRecord]:
    """Return a sweep of one configuration, with a cluster in each pass.

    :param model: causes of the time of the configuration.
    :param seed: seed of the noise.
    :param passes: number of passes.
    :param baseline: causes of the time of bare metal; None uses the default.
    :param configuration: label of the configuration.
    :param arguments: facts of the configuration that differ.
    """
    generator = random.Random(seed)
    bare_metal = baseline or replace(Model(), noise=model.noise)
    records = []
    for index in range(passes):
        started = f'2026-11-21T{2 * index:02d}:00:00Z'
        records += [
            timed_run(
                'bare-metal', index, bare_metal, generator, started=started
            ),
            timed_run(
                *(configuration, index, model, generator),
                started=started,
                **arguments,
            ),
        ]
    return records
