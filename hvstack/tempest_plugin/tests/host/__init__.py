# SPDX-License-Identifier: Apache-2.0
"""Tests that look at the compute hosts themselves."""
