# SPDX-License-Identifier: Apache-2.0
"""Acceptance tests, by the rights that they need."""
