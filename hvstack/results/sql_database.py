# SPDX-License-Identifier: Apache-2.0
"""Database of run records: tables, connections and errors."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy
from sqlalchemy import event, exc, pool

from hvstack import errors, paths

#: Version of the tables.
VERSION = 1
#: Maximum number of seconds to wait for another process that writes.
_LOCK_SECONDS = 60
#: Options of libpq: a server that does not answer is an error, not a hang.
_POSTGRESQL_OPTIONS = {
    'application_name': 'hvstack',
    'connect_timeout': 10,
    'keepalives_idle': 30,
    'keepalives_interval': 10,
    'keepalives_count': 3,
    'tcp_user_timeout': 60_000,
}
#: Number of the lock that a process holds while it writes to PostgreSQL.
#: SQLite has such a lock of its own.
_LOCK_NUMBER = 0x68767374
#: Options of libpq in the query of a URL that must not be shown: passwords of
#: the role and of the client's key.
_SECRET_OPTIONS = ('password', 'sslpassword')
#: Option of a connection that writes.
_WRITES = 'hvstack_writes'

#: Text in the order of its bytes, whatever the locale of a server is.
_TEXT = sqlalchemy.Text().with_variant(
    sqlalchemy.Text(collation='C'), 'postgresql'
)
_METADATA = sqlalchemy.MetaData()
SCHEMA_VERSION = sqlalchemy.Table(
    'hvstack_schema_version',
    _METADATA,
    sqlalchemy.Column('version', sqlalchemy.Integer, nullable=False),
)
#: A record and its index: all columns follow from the document.
RECORDS = sqlalchemy.Table(
    'hvstack_records',
    _METADATA,
    sqlalchemy.Column('id', _TEXT, primary_key=True),
    sqlalchemy.Column('sweep', _TEXT, nullable=False),
    sqlalchemy.Column('configuration', _TEXT, nullable=False),
    sqlalchemy.Column('number', sqlalchemy.BigInteger, nullable=False),
    sqlalchemy.Column('started', _TEXT, nullable=False),
    sqlalchemy.Column('ended', _TEXT, nullable=False),
    sqlalchemy.Column('size_bytes', sqlalchemy.BigInteger, nullable=False),
    sqlalchemy.Column('valid', sqlalchemy.Boolean, nullable=False),
    sqlalchemy.Column('rate', sqlalchemy.Double, nullable=False),
    sqlalchemy.Column('seconds', sqlalchemy.Double, nullable=False),
    sqlalchemy.Column('is_killed', sqlalchemy.Boolean, nullable=False),
    sqlalchemy.Column('system', _TEXT, nullable=False),
    sqlalchemy.Column('signer', _TEXT, nullable=False),
    sqlalchemy.Column('digest', _TEXT, nullable=False),
    sqlalchemy.Column('document', _TEXT, nullable=False),
    sqlalchemy.Index('hvstack_records_by_sweep', 'sweep', 'started'),
    sqlalchemy.Index('hvstack_records_by_start', 'started'),
    sqlalchemy.Index('hvstack_records_by_system', 'system', 'id'),
    sqlalchemy.Index(
        'hvstack_records_by_configuration', 'configuration', 'started'
    ),
)
#: Telemetry and other text files.
FILES = sqlalchemy.Table(
    'hvstack_files',
    _METADATA,
    sqlalchemy.Column('name', _TEXT, primary_key=True),
    sqlalchemy.Column('content', _TEXT, nullable=False),
)

#: What to do by error code of SQLite, and by state of PostgreSQL.
_SQLITE_REMEDIES = {
    sqlite3.SQLITE_FULL: 'Make room on the disk',
    sqlite3.SQLITE_IOERR: 'Check the disk and make room on it',
    sqlite3.SQLITE_READONLY: 'Get the rights to write to the file',
    sqlite3.SQLITE_CANTOPEN: 'Get the rights to open the file',
    sqlite3.SQLITE_BUSY: 'Wait for the other process that writes',
    sqlite3.SQLITE_NOTADB: 'Use a file of SQLite',
    sqlite3.SQLITE_CORRUPT: 'Restore the file from a backup',
}
_POSTGRESQL_REMEDIES = {
    '53100': 'Make room on the disk of the server',
    '42501': 'Get the rights on the database',
    '55P03': 'Wait for the other process that writes',
    '25006': 'Use the primary server, which can write',
}
#: What to do by a text of the error: libpq reports no state for a connection
#: that it could not open.
_CONNECTION_REMEDIES = {
    'password': 'Write the right password to ~/.pgpass',
    'does not exist': 'Create the database or the role',
}
_DEFAULT_REMEDY = 'Check that the server runs and can be reached'


class Database:
    """Database of run records.

    :param text: URL.
    :raises hvstack.errors.InputError: the URL is not valid.
    """

    def __init__(self, text: str) -> None:
        self._url = _parse(text)
        #: URL without passwords.
        self.label = self._url.set(
            query={
                name: value
                for name, value in self._url.query.items()
                if name not in _SECRET_OPTIONS
            }
        ).render_as_string(hide_password=True)
        self._is_checked = False
        is_sqlite = self._url.get_backend_name() == 'sqlite'
        self._file = Path(self._url.database or '') if is_sqlite else None
        # Hours can pass between two uses of a connection.
        self.engine = sqlalchemy.create_engine(
            self._url,
            poolclass=pool.NullPool,
            hide_parameters=True,
            connect_args={'timeout': _LOCK_SECONDS}
            if is_sqlite
            else _POSTGRESQL_OPTIONS,
        )
        if is_sqlite:
            event.listen(self.engine, 'connect', _disable_implicit_begin)
            event.listen(self.engine, 'begin', _begin)

    def require_absolute_path(self) -> None:
        """Refuse a file whose path depends on the working directory.

        :raises hvstack.errors.InputError: the path of the file is relative.
        """
        if self._file and not self._file.is_absolute():
            raise errors.InputError(
                'Cannot use [records] connection of hvstack.conf '
                f'({self.label}): the path is relative, so that each working '
                'directory would have a database of its own. Use four '
                'slashes: sqlite:////PATH/records.sqlite.'
            )

    @contextmanager
    def read(self) -> Iterator[sqlalchemy.Connection | None]:
        """Open a transaction that reads; None if there are no tables yet.

        :raises hvstack.errors.InputError: another release made the tables.
        :raises hvstack.errors.MissingPrerequisiteError: the database cannot
            be used.
        """
        if self._file and not self._file.exists():
            yield None
            return
        with self._explained(), self.engine.connect() as connection:
            if not self._is_checked:
                self._is_checked = self._check(connection)
            yield connection if self._is_checked else None

    @contextmanager
    def write(self) -> Iterator[sqlalchemy.Connection]:
        """Open a transaction that writes, and commit it at the end.

        An exception rolls it back. So does the database if the process or
        the connection ends.

        :raises hvstack.errors.InputError: another release made the tables.
        :raises hvstack.errors.MissingPrerequisiteError: the database cannot
            be used.
        """
        with self._explained():
            if self._file:
                paths.make_directory(self._file.absolute().parent)
            with (
                self.engine.connect().execution_options(
                    **{_WRITES: True}
                ) as connection,
                connection.begin(),
            ):
                self._lock(connection)
                if not self._is_checked:
                    self._create(connection)
                yield connection
            self._is_checked = True

    def _check(self, connection: sqlalchemy.Connection) -> bool:
        """Return whether the tables exist.

        :raises hvstack.errors.InputError: another release made them.
        """
        if not sqlalchemy.inspect(connection).has_table(SCHEMA_VERSION.name):
            return False
        version = connection.scalar(sqlalchemy.select(SCHEMA_VERSION))
        if version == VERSION:
            return True
        remedy = (
            'Update hvstack'
            if isinstance(version, int) and version > VERSION
            else "Export the records with that release ('hvstack record "
            "export'), and import them into a new database"
        )
        raise errors.InputError(
            f'Cannot use the database of run records ({self.label}): another '
            f'release created its tables (version {version}, not {VERSION}). '
            f'{remedy}.'
        )

    def _lock(self, connection: sqlalchemy.Connection) -> None:
        """Let one process write at a time, so that none sees half a change."""
        if self._file:
            return
        connection.execute(
            sqlalchemy.text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
        )
        connection.execute(
            sqlalchemy.select(
                sqlalchemy.func.pg_advisory_xact_lock(_LOCK_NUMBER)
            )
        )

    def _create(self, connection: sqlalchemy.Connection) -> None:
        """Create the tables unless they exist."""
        if not self._check(connection):
            _METADATA.create_all(connection)
            connection.execute(
                sqlalchemy.insert(SCHEMA_VERSION).values(version=VERSION)
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of the database as one line with a remedy."""
        try:
            yield
        except exc.DBAPIError as error:
            raise errors.MissingPrerequisiteError(
                self._explain(error.orig)
            ) from None
        except OSError as error:
            raise errors.MissingPrerequisiteError(
                f'Cannot use the database of run records ({self.label}): '
                f'{error.strerror}. Get the rights on the directory, or make '
                'room.'
            ) from None

    def _explain(self, error: BaseException | None) -> str:
        if self._file:
            code = int(getattr(error, 'sqlite_errorcode', 0)) & 0xFF
            remedy = _SQLITE_REMEDIES.get(code, 'Check the file')
        else:
            state = str(getattr(error, 'sqlstate', ''))
            remedies = [
                remedy
                for needle, remedy in _CONNECTION_REMEDIES.items()
                if needle in str(error)
            ]
            remedy = _POSTGRESQL_REMEDIES.get(
                state, (*remedies, _DEFAULT_REMEDY)[0]
            )
        reason = ' '.join(str(error).split())
        for secret in _list_secrets(self._url):
            reason = reason.replace(secret, '***')
        return (
            f'Cannot use the database of run records ({self.label}): '
            f'{reason.rstrip(".")}. {remedy}, then run the command again.'
        )


def _parse(text: str) -> sqlalchemy.URL:
    """Return the URL of a database.

    :raises hvstack.errors.InputError: the URL is not valid; the message does
        not contain it, because it may contain a password.
    """
    reason = ''
    try:
        url = sqlalchemy.make_url(text)
    except (exc.ArgumentError, ValueError):
        reason = 'it is not a URL'
    else:
        if url.drivername in ('postgresql', 'postgresql+psycopg'):
            return url.set(drivername='postgresql+psycopg')
        if url.drivername not in ('sqlite', 'sqlite+pysqlite'):
            reason = f"the driver '{url.drivername[:60]}' is not supported"
        elif url.database in (None, '', ':memory:'):
            reason = 'SQLite would not store the records in a file'
        else:
            return url
    raise errors.InputError(
        f'Cannot use the URL of the database of run records: {reason}. Use '
        'sqlite:////PATH/records.sqlite or '
        'postgresql+psycopg://USER@HOST/DATABASE.'
    )


def _list_secrets(url: sqlalchemy.URL) -> list[str]:
    """Return the passwords in a URL, the longest first."""
    query = url.normalized_query
    secrets = {
        str(url.password or ''),
        *(text for name in _SECRET_OPTIONS for text in query.get(name, ())),
    }
    return sorted(filter(None, secrets), key=len, reverse=True)


def _disable_implicit_begin(
    connection: sqlite3.Connection, _record: pool.ConnectionPoolEntry
) -> None:
    """Let SQLAlchemy, not the driver, begin transactions."""
    connection.isolation_level = None


def _begin(connection: sqlalchemy.Connection) -> None:
    """Begin a transaction; one that writes waits for the lock at once.

    A transaction that reads first could not get the lock later if another
    process wrote in between.
    """
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql('BEGIN IMMEDIATE' if writes else 'BEGIN')
