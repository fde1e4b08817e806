# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of an API that loses requests and answers."""

import socket
import struct
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import requests

#: What can happen to a request. "Before": the service never gets it.
#: "After": the service has done what it asks, and its answer is lost.
FAULTS = (
    '503 before',
    '504 after',
    'reset before',
    'reset after',
    'silence after',
    '401 before',
)
#: Seconds that a silent service keeps a connection open.
_SILENCE = 30.0
#: Headers of a connection, which a proxy does not pass on.
_HOP_BY_HOP = {
    'connection',
    'content-encoding',
    'content-length',
    'host',
    'keep-alive',
    'transfer-encoding',
}


@dataclass
class Proxy:
    """A proxy on a port of its own.

    :param target: URL of the service; only its host and port count.
    """

    target: str
    _method: str = ''
    _part: str = ''
    _fault: str = ''
    #: How many requests got the fault.
    hits: int = 0
    _closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, daemon=True
        ).start()

    @property
    def url(self) -> str:
        """The service's URL, through the proxy."""
        parts = urlsplit(self.target)
        port = self._server.server_address[1]
        return parts._replace(netloc=f'127.0.0.1:{port}').geturl()

    def arm(self, method: str, part: str, fault: str) -> None:
        """Let one request fail.

        :param method: of HTTP.
        :param part: of the URL's path, with a "$" where it has to end there.
        :param fault: one of :data:`FAULTS`.
        """
        assert fault in FAULTS, fault
        self._method, self._part, self._fault = method, part, fault
        self.hits = 0

    def disarm(self) -> None:
        """Let all requests through."""
        self._fault = ''

    def close(self) -> None:
        """End the proxy."""
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def fault_of(self, method: str, path: str) -> str:
        """Return the fault of a request; an empty text is no fault."""
        part = self._part.removesuffix('$')
        is_hit = path.endswith(part) if part != self._part else part in path
        if not self._fault or method != self._method or not is_hit:
            return ''
        fault, self._fault = self._fault, ''
        self.hits += 1
        return fault


class _Handler(BaseHTTPRequestHandler):
    owner: Proxy

    def _handle(self) -> None:
        body = self._body()
        fault = self.owner.fault_of(self.command, urlsplit(self.path).path)
        fault_type, _, moment = fault.partition(' ')
        if moment != 'before':
            parts = urlsplit(self.owner.target)
            answer = requests.request(
                self.command,
                f'{parts.scheme}://{parts.netloc}{self.path}',
                headers={
                    name: value
                    for name, value in self.headers.items()
                    if name.lower() not in _HOP_BY_HOP
                },
                data=body,
                allow_redirects=False,
                timeout=300,
            )
        if not fault:
            self._answer(answer.status_code, answer.content, answer.headers)
        elif fault_type == 'silence':
            self.owner._closed.wait(_SILENCE)
            self.close_connection = True
        elif fault_type == 'reset':
            # Closing a socket that does not linger sends RST.
            self.connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)
            )
            self.connection.close()
            self.close_connection = True
        else:
            self._answer(int(fault_type), b'{"error": "injected"}', {})

    do_DELETE = do_GET = do_HEAD = do_PATCH = do_POST = do_PUT = _handle

    def _body(self) -> bytes:
        if self.headers.get('Transfer-Encoding', '').lower() != 'chunked':
            return self.rfile.read(int(self.headers.get('Content-Length', 0)))
        body = b''
        while size := int(self.rfile.readline().split(b';')[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, content: bytes, headers: object) -> None:
        self.send_response(status)
        for name, value in dict(headers).items():  # type: ignore[call-overload]
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
