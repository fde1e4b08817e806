# SPDX-License-Identifier: Apache-2.0
"""Unit tests: nothing of the machine's own is inspected, nor a lab on it."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

# A busy machine makes input slowly, which says nothing about hvstack.
settings.register_profile(
    'hvstack', deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile('hvstack')

# Before any of hvstack's modules reads it: a lab that happens to be here
# must not be what a test passes by. Tests on a lab import some of these.
if not os.environ.get('HVSTACK_LAB'):
    os.environ['HVSTACK_STATE_DIR'] = '/nonexistent/hvstack'
    # Nor may the user's cloud be, and nothing of the user's configuration:
    # a database that it names would get the records of the tests.
    os.environ['HVSTACK_ETC_DIR'] = '/nonexistent/etc'
    for name in list(os.environ):
        if name.startswith('OS_'):
            del os.environ[name]
    # Records are signed: every process of the tests has a key of its own.
    from hvstack import speed
    from hvstack.cluster import lab_groups
    from hvstack.results import signing

    # The weights and counters of a running lab are not those of a test.
    lab_groups.RECORDS_DIR = lab_groups.CONTROL_PLANE = Path('/nonexistent')
    # Deadlines and what follows from them are those of an ordinary server,
    # however slow a lab has found this machine.
    speed.RECORD = Path('/nonexistent/speed.json')
    signing.KEYS = Path(tempfile.mkdtemp(prefix='hvstack-test-keys-'))
    signing.ADMINISTRATOR = signing.KEYS / 'etc'
    atexit.register(shutil.rmtree, signing.KEYS, ignore_errors=True)
