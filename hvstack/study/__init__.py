# SPDX-License-Identifier: Apache-2.0
"""Studies: experiments of papers, or of users, that end in verdicts."""
