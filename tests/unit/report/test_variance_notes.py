# SPDX-License-Identifier: Apache-2.0
"""Notes on the passes of a sweep and on the variance of its intervals."""

import testtools

from hvstack.model.target import BARE_METAL
from hvstack.report.variance_notes import list_notes
from hvstack.results import percentages
from hvstack.results.estimator import ClusterRate, History, Scatter

#: Scatter of each row in a pass.
NOISE = (0.01, -0.02, 0.0, 0.02, -0.01)


class VarianceNotesTest(testtools.TestCase):
    def list_notes(
        self,
        *shifts: float,
        history: Scatter | None = None,
        noise: float = 1.0,
        baseline_sweep: str = 'own',
    ) -> str:
        """Return the notes on a sweep.

        :param shifts: log rate of each pass.
        :param history: residuals of earlier sweeps.
        :param noise: factor of the scatter of bare metal.
        :param baseline_sweep: sweep of the runs on bare metal.
        """
        clusters = [
            ClusterRate(
                row,
                (baseline_sweep if row == BARE_METAL else 'own', number),
                shift
                + (noise if row == BARE_METAL else 1.0)
                * NOISE[(number * step + step) % 5],
            )
            for number, shift in enumerate(shifts)
            for step, row in enumerate((BARE_METAL, 'a', BARE_METAL, 'b'), 1)
        ]
        total = None if history is None else History(history, history)
        return ' '.join(
            list_notes(percentages.correct_rates(clusters, total)[0])
        )

    def test_passes_of_a_machine_that_wanders(self) -> None:
        notes = self.list_notes(0.0, 0.5, -0.3)
        self.assertIn('The 3 passes differ by 40', notes)
        self.assertIn('The machine wandered.', notes)

    def test_passes_that_do_not_differ(self) -> None:
        notes = self.list_notes(0.0, 0.0, 0.0)
        self.assertIn('The 3 passes differ by 0', notes)
        self.assertNotIn('wandered', notes)

    def test_a_single_pass_does_not_differ(self) -> None:
        self.assertEqual('', self.list_notes(0.0))

    def test_rows_without_a_pass_in_common(self) -> None:
        notes = self.list_notes(0.0, 0.0, baseline_sweep='other')
        self.assertIn('Passes are not taken out', notes)
        self.assertIn('between their times is not in the intervals.', notes)
        self.assertNotIn('passes differ', notes)

    def test_sides_that_scatter_differently(self) -> None:
        self.assertNotIn('scatter differently', self.list_notes(*[0.0] * 9))
        notes = self.list_notes(*[0.0] * 9, noise=20.0)
        self.assertIn('configurations scatter differently', notes)

    def test_earlier_sweeps(self) -> None:
        wide, narrow = (
            Scatter(4 * deviation**2, 4) for deviation in (0.03, 0.001)
        )
        notes = self.list_notes(0.0, 0.0, 0.0, history=wide)
        self.assertIn('4 of 11 degrees of freedom come from earlier', notes)
        notes = self.list_notes(0.0, 0.0, 0.0, history=narrow)
        self.assertIn('do not narrow the intervals', notes)
        self.assertNotIn('arlier', self.list_notes(0.0, 0.0, 0.0))

    def test_without_an_interval_there_are_none(self) -> None:
        rates = percentages.fit_rates({'a': [1.0]}, [2.0])
        self.assertEqual([], list_notes(rates))
        self.assertEqual([], list_notes(percentages.fit_rates({}, [])))
