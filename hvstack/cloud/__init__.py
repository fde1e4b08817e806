# SPDX-License-Identifier: Apache-2.0
"""Nova flavors, Placement ratios, Heat stacks and the journal."""
