# SPDX-License-Identifier: Apache-2.0
"""Run records, comparability, statistics, percent of bare metal."""
