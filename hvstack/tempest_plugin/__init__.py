# SPDX-License-Identifier: Apache-2.0
"""Tempest plugin."""
