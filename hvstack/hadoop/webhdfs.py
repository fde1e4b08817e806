# SPDX-License-Identifier: Apache-2.0
"""HDFS operations over its REST interface, which need no client JVM.

Hadoop 3.4, "WebHDFS REST API". The interface is enabled by default. Requests
are sent from the controller, as the user of the daemons.
"""

import json
import shlex
from typing import Any
from urllib.parse import quote

from hvstack import errors
from hvstack.hadoop.daemon_http import PORTS, Runner

_SECONDS = 60


def delete_path(controller: Runner, path: str) -> None:
    """Delete a file or a directory with its content, without the trash.

    A missing path is not an error.

    :param controller: controller that runs the NameNode.
    :param path: path in HDFS.
    :raises hvstack.errors.CommandError: HDFS cannot delete the path.
    """
    answer = _request_json(controller, 'DELETE', path, 'DELETE&recursive=true')
    if 'boolean' not in answer:
        raise _error('DELETE', path, answer)


def list_names(controller: Runner, directory: str) -> list[str]:
    """Return the names in a directory; an empty list for a missing directory.

    :param controller: controller that runs the NameNode.
    :param directory: path in HDFS.
    :raises hvstack.errors.CommandError: HDFS cannot list the directory.
    """
    answer = _request_json(controller, 'GET', directory, 'LISTSTATUS')
    failure = answer.get('RemoteException') or {}
    if failure.get('exception') == 'FileNotFoundException':
        return []
    try:
        statuses = answer['FileStatuses']['FileStatus']
        return [str(status['pathSuffix']) for status in statuses]
    except (KeyError, TypeError) as exc:
        raise _error('LISTSTATUS', directory, answer) from exc


def read_text(controller: Runner, path: str) -> str:
    """Return the content of a file.

    :param controller: controller that runs the NameNode.
    :param path: path in HDFS.
    :raises hvstack.errors.CommandError: HDFS cannot read the file.
    """
    return _request(controller, 'GET', path, 'OPEN', '--fail')


def _request_json(
    controller: Runner, method: str, path: str, operation: str
) -> dict[str, Any]:
    output = _request(controller, method, path, operation)
    try:
        answer = json.loads(output)
    except ValueError as exc:
        raise _error(operation, path, output) from exc
    if not isinstance(answer, dict):
        raise _error(operation, path, output)
    return answer


def _request(
    controller: Runner, method: str, path: str, operation: str, *options: str
) -> str:
    url = (
        f'http://{controller.address}:{PORTS["namenode"]}/webhdfs/v1'
        f'{quote(path)}?op={operation}&user.name=root'
    )
    # The NameNode redirects to a DataNode with the content of the file.
    args = [
        *('curl', '-sS', '--noproxy', '*', '-L', '-X', method),
        *('-m', str(_SECONDS), *options, url),
    ]
    return controller.run(shlex.join(args), timeout=90).stdout


def _error(operation: str, path: str, answer: object) -> errors.CommandError:
    return errors.CommandError(
        ['webhdfs', operation, path], 0, str(answer)[:300]
    )
