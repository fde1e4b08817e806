# SPDX-License-Identifier: Apache-2.0
"""A cloud on loopback whose answers are mutated, by case and path."""

import http.server
import json
import os
import random
from typing import Any


class Handler(http.server.BaseHTTPRequestHandler):
    """Answer each request with something that a cloud might say."""

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer a request of any method."""
        rng = random.Random(self.path.partition('?')[0])
        length = int(self.headers.get('Content-Length') or 0)
        self.rfile.read(length)
        port = self.server.server_address[1]
        case = self.path.split('/')[1]
        base = f'http://127.0.0.1:{port}/{case}'
        status, body = self._answer(rng, base)
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('X-Subject-Token', 'token')
        if status == 302:
            self.send_header('Location', self.path)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_GET

    def _answer(self, rng: random.Random, base: str) -> tuple[int, bytes]:
        if 'auth/tokens' in self.path and rng.random() < 0.7:
            return 201, json.dumps(_token(base)).encode()
        choice = rng.randrange(9)
        if choice == 0:
            return 500, b'{"error": {"message": "\\u001b[31mred"}}'
        if choice == 1:
            return 200, b'<html>login</html>'
        if choice == 2:
            return 200, b'{"flavors": [{"id": 1}], "stacks": 7}'
        if choice == 3:
            return 200, b'[]'
        if choice == 4:
            return 200, b'null'
        if choice == 5:
            return 404, b''
        if choice == 6:
            return 302, b''
        if choice == 7:
            return 403, b'{"forbidden": {"message": "no", "code": 403}}'
        return 200, b'{"versions": [], "servers": [], "flavors": []}'


def _token(base: str) -> dict[str, Any]:
    services = ('compute', 'orchestration', 'placement', 'image', 'network')
    return {
        'token': {
            'user': {'id': 'u', 'name': 'admin', 'domain': {'id': 'd'}},
            'project': {'id': 'p', 'name': 'admin', 'domain': {'id': 'd'}},
            'roles': [{'id': 'r', 'name': 'admin'}],
            'expires_at': '2999-01-01T00:00:00.000000Z',
            'issued_at': '2026-01-01T00:00:00.000000Z',
            'methods': ['password'],
            'catalog': [
                {
                    'type': name,
                    'name': name,
                    'id': name,
                    'endpoints': [
                        {
                            'id': name,
                            'interface': 'public',
                            'region': 'RegionOne',
                            'region_id': 'RegionOne',
                            'url': f'{base}/{name}',
                        }
                    ],
                }
                for name in services
            ],
        }
    }


def start() -> tuple[int, int]:
    """Start the server in a process of its own.

    :returns: its process and its port.
    """
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    port = server.server_address[1]
    pid = os.fork()
    if not pid:
        try:
            server.serve_forever()
        finally:
            os._exit(0)
    server.server_close()
    return pid, port
