# SPDX-License-Identifier: Apache-2.0
"""Phases, data check and metric of a TPCx-HS-derived run."""
