# SPDX-License-Identifier: Apache-2.0
"""Rally contexts, scenarios, SLAs and charts: thin."""
