# SPDX-License-Identifier: Apache-2.0
"""A lease on a cloud: of all machines, only one process has it at a time.

The lease is a resource provider without inventory in Placement. Its name is
fixed and unique, so that of two processes that create it, the second one gets
409. Its UUID is new each time, so that a process deletes and renews only the
lease that it created. A child provider, which anyone can list, has the holder
in its name.

Placement counts up a provider's generation when its inventories are set, to
none here, and refuses to set them for another generation than the current
one. This compare-and-swap is the renewal, and the first step of a take-over.
A lease has run out when its generation did not change for its duration on the
clock of the process that waits for it. No two clocks are compared. The holder
stops to believe in its lease as long after the beginning of its last renewal.

Metadata of Nova's aggregates would not do, since a second write replaces the
first. Traits and Placement's aggregates would do, but Placement never deletes
an aggregate, and a trait exists for all providers.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import journal, placement
from hvstack.cloud.connection import FAILURES, refused, scope
from hvstack.progress import Progress
from hvstack.results.typed_json import JsonObject

KIND = 'lease'
NAME = 'hvstack-lease'
#: Environment variable with the lease that a child process shares.
VARIABLE = 'HVSTACK_LEASE'
#: Seconds after which a lease that is not renewed has run out.
DURATION = 120.0
#: Seconds between two renewals.
INTERVAL = 20.0

_TRIES, _PAUSE = 5, 0.5
_PROVIDERS = '/resource_providers'
#: One lease per cloud and user of this process.
_LEASES: dict[str, 'Lease'] = {}


def clock() -> float:
    """Return seconds that count on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class _CreatedLease:
    """Data of an entry of the journal: a resource provider."""

    provider: str


@dataclass
class Lease:
    """A lease that this process has, renewed by a thread.

    :param conn: connection of an administrator of Placement.
    :param provider: UUID of the lease's provider.
    :param duration: seconds until it runs out without a renewal.
    :param interval: seconds between two renewals.
    :param generation: of the provider, as Placement counts it.
    :param valid_until: time of :func:`clock` at which it runs out.
    :param is_lost: whether another process has taken it over.
    """

    conn: Connection
    provider: str
    duration: float
    interval: float
    generation: int
    valid_until: float
    is_lost: bool = False
    _released: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to renew it."""
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End its renewal."""
        self._released.set()
        if self._thread is not None:
            self._thread.join()

    def is_valid(self) -> bool:
        """Return whether no other process can have the lease."""
        return not self.is_lost and clock() < self.valid_until

    def renew(self) -> None:
        """Renew it once; a failure is left to the next time.

        Another process may have taken over a lease that has run out, and have
        believed what it saw. It began with another generation, so that this
        one is renewed only with the last known generation.
        """
        if self.is_lost:
            return
        started_at = clock()
        try:
            status, generation = _swap(
                self.conn, self.provider, self.generation
            )
            if status == 409 and not self.is_valid():
                self.is_lost = True
            elif status == 409:
                # The answer to an earlier renewal was lost on its way.
                current = placement.inventories(self.conn, self.provider)
                self.generation = current['resource_provider_generation']
                status, generation = _swap(
                    self.conn, self.provider, self.generation
                )
        except (*FAILURES, errors.CloudError):
            return
        if status == 200:
            self.generation = generation
            self.valid_until = started_at + self.duration
        elif status == 404:
            self.is_lost = True

    def _renew(self) -> None:
        while not self._released.wait(self.interval) and not self.is_lost:
            self.renew()


def acquire(
    conn: Connection,
    progress: Progress | None = None,
    *,
    duration: float = DURATION,
    interval: float = INTERVAL,
) -> Lease | None:
    """Acquire the lease on a cloud, and renew it until it is released.

    The lease is in the journal: undoing the entry releases it. If a lease
    exists, this waits until its holder renews it or until it runs out.

    :param conn: connection of an administrator.
    :param progress: where waiting is announced.
    :param duration: seconds until a lease runs out without a renewal.
    :param interval: seconds between two renewals.
    :returns: the lease; None if the process that started this one holds it
        and releases it.
    :raises hvstack.errors.BusyError: another process has the lease.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    lease = _LEASES.get(scope(conn))
    if lease is not None and lease.is_valid():
        return lease
    if _is_inherited(conn):
        return None
    provider = str(uuid.uuid4())
    entry = journal.note(
        KIND, {'name': NAME, 'provider': provider}, scope(conn)
    )
    try:
        lease = _contend(conn, provider, progress, duration, interval)
    except errors.BusyError:
        # Placement never had this provider.
        journal.forget(entry)
        raise
    _LEASES[scope(conn)] = lease
    lease.start()
    return lease


@contextmanager
def held(conn: Connection, progress: Progress | None = None) -> Iterator[None]:
    """Hold the lease on a cloud for a block, and for its child processes.

    Blocks may be nested: the outermost one, or the process that called
    :func:`acquire`, releases the lease.

    :param conn: connection of an administrator.
    :param progress: where waiting is announced.
    :raises hvstack.errors.BusyError: another process has the lease.
    :raises hvstack.errors.CloudError: Placement refused; a lease that could
        not be released stays in the journal.
    """
    current = _LEASES.get(scope(conn))
    if current is not None and current.is_valid():
        yield
        return
    lease = acquire(conn, progress)
    if lease is None:
        yield
        return
    # An enclosing block may have lost its lease.
    outer = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = lease.provider
    try:
        yield
    finally:
        if outer is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = outer
        for entry in journal.own():
            if entry.data.get('provider') == lease.provider:
                undo(conn, entry.data)
                journal.forget(entry)


def is_own(data: JsonObject) -> bool:
    """Return whether this process acquired the lease of an entry.

    :param data: data of the entry in the journal.
    """
    return any(
        lease.provider == data.get('provider') for lease in _LEASES.values()
    )


def check(conn: Connection) -> None:
    """Refuse to continue without the lease that this process acquired.

    :raises hvstack.errors.BusyError: another process may have it by now.
    """
    lease = _LEASES.get(scope(conn))
    if lease is not None and lease.is_valid():
        return
    if lease is not None or (
        os.environ.get(VARIABLE) and not _is_inherited(conn)
    ):
        raise errors.BusyError(
            'Cannot continue to change the cloud: this process could not '
            f'renew its lease ({NAME} in Placement) in time, and another '
            'process may have it. Run the command again.'
        )


def _is_inherited(conn: Connection) -> bool:
    """Return whether the process that started this one has the lease."""
    provider = os.environ.get(VARIABLE)
    if not provider:
        return False
    current = _current(conn)
    return current is not None and current[0] == provider


def undo(conn: Connection, data: JsonObject) -> None:
    """Release a lease that a process of this machine acquired.

    A lease that another process has taken over has another UUID.
    """
    provider = journal.read_data(_CreatedLease, data).provider
    lease = _LEASES.get(scope(conn))
    if lease is not None and lease.provider == provider:
        lease.stop()
        del _LEASES[scope(conn)]
    _delete(conn, provider)


def _contend(
    conn: Connection,
    provider: str,
    progress: Progress | None,
    duration: float,
    interval: float,
) -> Lease:
    """Create the lease, once the one that exists has run out."""
    observed: tuple[str, int] | None = None
    observed_at = 0.0
    while True:
        started_at = clock()
        current = _create(conn, provider)
        if current is None:
            break
        if observed is None:
            observed, observed_at = current, clock()
            if progress is not None:
                progress.say(
                    f'{_holder(conn, current[0])} has the lease on this '
                    f'cloud: waiting up to {duration:.0f} s for its renewal'
                )
        elif current != observed:
            raise errors.BusyError(
                f'Cannot use this cloud: {_holder(conn, current[0])} has the '
                f'lease on it ({NAME} in Placement), and renews it. Wait '
                'until it has finished, or end it.'
            )
        elif clock() - observed_at > duration:
            # Only one process gets past this, and no holder renews after.
            with refused('Cannot acquire the lease in Placement'):
                status, _ = _swap(conn, *observed)
            if status == 200:
                _delete(conn, observed[0])
            observed = None
            continue
        time.sleep(min(2.0, interval / 2))
    _describe(conn, provider)
    return Lease(conn, provider, duration, interval, 0, started_at + duration)


def _create(conn: Connection, provider: str) -> tuple[str, int] | None:
    """Create the lease's provider.

    :returns: None if it was created, else UUID and generation of the lease
        that exists.
    :raises hvstack.errors.CloudError: Placement refused, without a lease
        that exists.
    """
    for _ in range(_TRIES):
        try:
            response = conn.placement.post(
                _PROVIDERS,
                json={'name': NAME, 'uuid': provider},
                raise_exc=False,
            )
        except FAILURES as exc:
            status, reason = 0, ' '.join(str(exc).split())
        else:
            status, reason = response.status_code, response.text[:200]
        if status == 200:
            return None
        # After a failure of the service or the network, it may exist.
        current = _current(conn)
        if current is not None:
            return None if current[0] == provider else current
        if status not in (0, 409) and status < 500:
            break
        # Its holder released it in between, or the service was down.
        time.sleep(_PAUSE)
    raise errors.CloudError(
        f'Cannot create the lease ({NAME} in Placement): {status} {reason}. '
        'Use the role of an administrator, and see the log of Placement.'
    )


def _describe(conn: Connection, provider: str) -> None:
    """Name the holder of a lease for people, by a child provider."""
    holder = f'process {os.getpid()} on {socket.gethostname()}'[:100]
    with refused('Cannot store the holder of the lease in Placement'):
        conn.placement.post(
            _PROVIDERS,
            json={
                'name': f'{NAME} of {holder} ({provider})',
                'uuid': _child(provider),
                'parent_provider_uuid': provider,
            },
            # Such as 409 after an answer that was lost.
            raise_exc=False,
        )


def _child(provider: str) -> str:
    return str(uuid.uuid5(uuid.UUID(provider), 'holder'))


def _current(conn: Connection) -> tuple[str, int] | None:
    """Return UUID and generation of the lease that exists."""
    content = placement.get(conn, f'{_PROVIDERS}?name={NAME}')
    for item in content['resource_providers']:
        return str(item['uuid']), int(item['generation'])
    return None


def _holder(conn: Connection, provider: str) -> str:
    content = placement.get(conn, f'{_PROVIDERS}?in_tree={provider}')
    for item in content['resource_providers']:
        name = str(item['name'])
        if item['uuid'] == _child(provider):
            return name.removeprefix(f'{NAME} of ').partition(' (')[0]
    return 'a process that did not name itself'


def _swap(conn: Connection, provider: str, generation: int) -> tuple[int, int]:
    """Count up the generation of a provider if it is the expected one.

    :returns: the status, and the new generation; 0 after a failure.
    """
    response = conn.placement.put(
        f'{_PROVIDERS}/{provider}/inventories',
        json={
            'resource_provider_generation': generation,
            'inventories': {},
        },
        raise_exc=False,
    )
    if not response.ok:
        return response.status_code, 0
    content = response.json()
    return response.status_code, int(content['resource_provider_generation'])


def _delete(conn: Connection, provider: str) -> None:
    for item in (_child(provider), provider):
        with refused(f'Cannot release the lease ({NAME} in Placement)'):
            response = conn.placement.delete(
                f'{_PROVIDERS}/{item}', raise_exc=False
            )
        if response.status_code not in (204, 404):
            raise errors.CloudError(
                f'Cannot release the lease ({NAME} in Placement): '
                f'{response.status_code} {response.text[:200]}. The next '
                'hvstack command tries again.'
            )
