# SPDX-License-Identifier: Apache-2.0
"""Unit tests: nothing of the machine's own is looked at, nor a lab on it."""

import os

# Before any of hvstack's modules reads it: a lab that happens to be here
# must not be what a test passes by. Tests on a lab import some of these.
if not os.environ.get('HVSTACK_LAB'):
    os.environ['HVSTACK_STATE_DIR'] = '/nonexistent/hvstack'
