# SPDX-License-Identifier: Apache-2.0
"""Unit tests: nothing of the machine's own is looked at, nor a lab on it."""

import os

# Before any of hvstack's modules reads it: a lab that happens to be here
# must not be what a test passes by.
os.environ['HVSTACK_STATE_DIR'] = '/nonexistent/hvstack'
