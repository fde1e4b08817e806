# SPDX-License-Identifier: Apache-2.0
"""Tests that need an administrator's API."""
