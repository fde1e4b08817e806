# SPDX-License-Identifier: Apache-2.0
"""Definitions of studies are complete, and errors name file and field."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import conf, errors, host_profiles, share
from hvstack.model.configuration import Configuration
from hvstack.model.target import BareMetal
from hvstack.report import paper_figures
from hvstack.results.stats import Percent
from hvstack.study import (
    claim_results,
    definition,
    paper_numbers,
    study_run,
    verdicts,
)
from hvstack.sweep.node_setup import NodeSetup

CONTENT: dict[str, Any] = {
    'question': 'Does a late start of reduces pay off?',
    'varied': {
        'hadoop.mapreduce.job.reduce.slowstart.completedmaps': [0.05, 1.0]
    },
    'claims': [
        {
            'text': 'A late start is faster.',
            'variant': 1.0,
            'against': 0.05,
            'rule': 'faster',
        }
    ],
}


class DefinitionTest(testtools.TestCase):
    def parse(self, **changes: Any) -> definition.Study:
        content = {
            name: value
            for name, value in {**CONTENT, **changes}.items()
            if value is not None
        }
        return definition.parse_study('mine', content, 'mine.yaml')

    def check_error(self, expected: str, **changes: Any) -> None:
        error = self.assertRaises(errors.InputError, self.parse, **changes)
        self.assertIn(expected, str(error))

    def test_values_of_one_setting(self) -> None:
        study = self.parse()
        self.assertEqual(
            ['0.05', '1.0'], [variant.name for variant in study.variants]
        )
        self.assertEqual(
            {
                'hadoop': {
                    'mapreduce.job.reduce.slowstart.completedmaps': '1.0'
                }
            },
            study.variants[1].setup.to_mapping(),
        )
        self.assertEqual((4, 100_000_000), (study.passes, study.size_bytes))
        self.assertEqual('0.05', study.claims[0].against)

    def test_variants_have_the_base(self) -> None:
        study = self.parse(
            varied=None,
            base={'configuration': 'i2', 'tuning': 'stock'},
            variants={
                'a': None,
                'b': {'configuration': 'bare-metal', 'size_factor': 2.5},
            },
            claims=[{**CONTENT['claims'][0], 'variant': 'a', 'against': 'b'}],
        )
        first, second = study.variants
        self.assertEqual({'tuning': 'stock'}, first.setup.to_mapping())
        self.assertEqual('i2, tuning stock', first.describe())
        self.assertEqual(
            {
                *('tuning', 'hadoop_profile', 'application_masters'),
                *('size_bytes', 'node_groups'),
            },
            claim_results.list_varied_facts(
                replace(first, setup=NodeSetup(node_groups=False)), second
            ),
        )
        self.assertEqual('i2', first.target.label)
        self.assertIsInstance(second.target, BareMetal)
        self.assertEqual(250_000_000, study.get_size(second))

    def test_variants_on_and_off(self) -> None:
        """YAML reads these names as booleans."""
        study = self.parse(
            varied=None,
            **yaml.safe_load(
                'variants: {on: {replication: 1}, off: {replication: 2}}\n'
                'claims:\n'
                '- {text: t, variant: on, against: off, rule: faster}'
            ),
        )
        self.assertEqual(
            ['true', 'false'], [variant.name for variant in study.variants]
        )
        self.assertEqual('false', study.claims[0].against)
        self.check_error(
            "'variants' has a duplicate name",
            varied=None,
            variants={True: {'replication': 1}, 'true': {'replication': 2}},
        )

    def test_errors_name_the_field(self) -> None:
        property_name = 'mapreduce.job.reduce.slowstart.completedmap'
        self.check_error(
            f"mine.yaml: 'varied.hadoop.{property_name}' is not valid: "
            f"Cannot set the property '{property_name}' of Hadoop",
            varied={f'hadoop.{property_name}': [1, 2]},
        )
        self.check_error(
            'Use a text, a number, true or false.',
            varied={'hadoop.mapreduce.map.java.opts': ['-Xmx800m', None]},
        )
        self.check_error(
            "'varied.instances' has 1 variants. Use 2 to 100",
            varied={'instances': [1]},
        )
        self.check_error('has a duplicate', varied={'replication': [1, 1]})
        self.check_error(
            'instances',
            varied={'instances': [1, 2]},
            claims=[{**CONTENT['claims'][0], 'variant': 1, 'against': 2}],
        )
        self.check_error("or 'varied' must exist", varied=None)
        self.check_error("'sise' is unknown", sise='1GB')
        self.check_error("'size' is not valid", size='1 potato')
        self.check_error("'claims' is not a list", claims='all')
        claim = CONTENT['claims'][0]
        self.check_error(
            "'claims.0.variant' is '2.0'. Use one of 0.05, 1.0",
            claims=[{**claim, 'variant': 2.0}],
        )
        self.check_error(
            "'claims.0.against' is the same variant",
            claims=[{**claim, 'against': 1.0}],
        )
        claim_of_paper = {
            **claim,
            'published': {'source': 'Table 2', 'description': '5 VMs'},
        }
        self.check_error(
            "'claims.0.published' is not in the numbers of the paper",
            paper='vsphere6',
            claims=[claim_of_paper],
        )
        self.check_error(
            "'claims.0.published.change' is 'less', and the claim does not",
            paper='vsphere6',
            claims=[
                {
                    **claim,
                    # A row of a table is no change.
                    'published': {
                        **{'source': 'Table 2', 'description': '4 VMs'},
                        'change': 'less',
                    },
                }
            ],
        )
        number = {
            'source': 'section TeraSort',
            'description': 'TeraSort, 4 VMs: less time than native',
        }
        self.check_error(
            "'claims.0.published.change' is 'less time', and the claim does",
            paper='vsphere6',
            claims=[
                {
                    **{'text': 'It spills.', 'variant': 1.0},
                    **{'measure': 'spilled records', 'rule': {'at_least': 2}},
                    'published': {**number, 'change': 'less time'},
                }
            ],
        )
        self.check_error(
            "'claims.0.published.change' is 'times'. Use one of more, less,",
            paper='vsphere6',
            claims=[{**claim, 'published': {**number, 'change': 'times'}}],
        )
        table = {'source': 'Table 2', 'columns': ['TeraSort']}
        self.check_error(
            "'table' is not in the numbers of the paper",
            paper='vsphere6',
            table={**table, 'columns': ['TeraSorts']},
        )
        self.check_error(
            "'variants.a.row' is not in the numbers of the paper",
            paper='vsphere6',
            table=table,
            varied=None,
            variants={'a': {'row': '5 VMs'}, 'b': {'row': '4 VMs'}},
            claims=[{**claim, 'variant': 'a', 'against': 'b'}],
        )
        for rule in ('best', {'at_least': 'x'}, {'at_least': 1, 'within': 2}):
            self.check_error(
                "'claims.0.rule", claims=[{**claim, 'rule': rule}]
            )
        self.check_error("'paper' is missing", covers=['Table 2'], paper=None)

    def test_losses_of_hosts(self) -> None:
        claim = {
            'text': 'No block is missing.',
            'variant': 1.0,
            'measure': 'missing blocks',
            'rule': 'none',
        }
        self.check_error('claims.0.measure', claims=[claim])
        study = self.parse(
            base={'lost_hosts': 2, 'loss_rounds': 10}, claims=[claim]
        )
        self.assertEqual(2, study.variants[0].setup.later.lost_hosts)
        self.check_error(
            'lost_hosts', base={'loss_rounds': 10}, claims=[claim]
        )
        self.check_error(
            'bare metal',
            base={'lost_hosts': 1, 'configuration': 'bare-metal'},
            claims=[claim],
        )

    def test_compute_workers_that_go(self) -> None:
        claim = {
            'text': 'Added workers get tasks.',
            'variant': 1.0,
            'measure': 'tasks on added workers',
            'rule': 'some',
        }
        base = {'configuration': 'i2', 'deployment': 3, 'scaled_compute': 1}
        missing = {**claim, 'measure': 'missing blocks'}
        study = self.parse(base=base, claims=[claim, missing])
        self.assertEqual(1, study.variants[0].setup.later.scaled_compute)
        self.assertEqual(
            "Holds if a run of '1.0' has tasks on added workers.",
            study.claims[0].condition,
        )
        self.check_error(
            "no host or worker of the variant goes. Add 'scaled_compute'",
            base={'lost_hosts': 1},
            claims=[claim],
        )
        for changes in ({'deployment': 2}, {'configuration': 'bare-metal'}):
            self.check_error(
                "scaled_compute' needs compute workers",
                base={**base, **changes},
                claims=[claim],
            )
        self.check_error(
            'does not apply to the workload',
            base={**base, 'workload': 'testdfsio'},
            claims=[claim],
        )

    def test_second_clusters(self) -> None:
        claim = {
            'text': 'A second cluster gets tasks.',
            'variant': 1.0,
            'measure': 'tasks of a second cluster',
            'rule': 'some',
        }
        base = {'configuration': 'i2', 'deployment': 3, 'second_cluster': 1}
        missing = {**claim, 'measure': 'missing blocks'}
        study = self.parse(base=base, claims=[claim, missing])
        self.assertEqual(1, study.variants[0].setup.later.second_cluster)
        for changes, error in (
            ({'deployment': 2}, "second_cluster' needs compute workers"),
            ({'scaled_compute': 1}, "does not go with 'scaled_compute'"),
            ({'workload': 'testdfsio'}, 'does not apply to the workload'),
        ):
            self.check_error(error, base={**base, **changes}, claims=[claim])
        del base['second_cluster']
        for item, error in (
            (claim, "Add 'second_cluster' to the variant"),
            (missing, "'scaled_compute' or 'second_cluster' to the variant"),
        ):
            self.check_error(error, base=base, claims=[item])

    def test_bytes_of_a_phase(self) -> None:
        claim = {
            'text': 'The data is received once.',
            'variant': 1.0,
            'measure': 'received bytes',
            'phase': 'map-shuffle',
            'rule': {'between': [90, 110]},
        }
        study = self.parse(claims=[claim])
        self.assertEqual(
            "Holds if the workers of '1.0' receive 90 to 110 % of the data in "
            'map-shuffle.',
            study.claims[0].condition,
        )
        for changes, expected in (
            ({'phase': 'HSDataCheck'}, "'claims.0.phase' is 'HSDataCheck'"),
            ({'against': 0.05}, "does not apply to 'received bytes'"),
            ({'rule': {'between': [110, 90]}}, 'is not a range'),
            ({'rule': {'between': ['a', 90]}}, 'is not a range'),
            ({'rule': 'faster'}, 'is not a rule. Use one of {at_most: 70}'),
        ):
            self.check_error(expected, claims=[{**claim, **changes}])
        self.check_error(
            "'claims.0.phase'",
            base={'workload': 'testdfsio'},
            claims=[claim],
        )

    def test_file_of_a_user(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'own.yaml'
        text = yaml.safe_dump(CONTENT)
        path.write_text(text, encoding='utf-8')
        self.assertEqual('own', definition.load(str(path)).name)
        # A study of a setting that no paper has takes ten lines.
        self.assertLessEqual(len(text.splitlines()), 12)
        strange = path.with_name('my own.yaml')
        strange.write_text(text, encoding='utf-8')
        error = self.assertRaises(
            errors.InputError, definition.load, str(strange)
        )
        self.assertIn('Rename the file', str(error))
        error = self.assertRaises(
            errors.InputError, definition.load, 'instances'
        )
        self.assertIn('Use one of amd-block-size, amd-c', str(error))


class StudiesTest(testtools.TestCase):
    """Studies of the package."""

    def test_numbers_of_papers_exist(self) -> None:
        """A study is refused without them; this shows that there are some."""
        studies = definition.list_studies()
        claims = [claim for study in studies for claim in study.claims]
        self.assertGreater(sum(c.published is not None for c in claims), 20)
        self.assertGreater(sum(s.table is not None for s in studies), 3)

    def test_rates_of_papers(self) -> None:
        """Each satisfies the rule of its claim, which the paper makes."""
        rates = {}
        for study in definition.list_studies():
            for claim in study.claims:
                number = claim.published
                if number is None or not number.change:
                    continue
                rate = paper_numbers.compute_rate(study.paper, number)
                assert rate is not None
                rates[study.name, claim.variant, number.change] = rate
                percent = Percent(
                    *(rate, rate, rate, 9, 9),
                    *(0.0, 8, rate),
                )
                self.assertEqual(
                    verdicts.HOLDS, claim.rule.judge(percent), claim.text
                )
        for name, variant, change, rate in (
            ('vsphere6-task-counts', '4 VMs', 'less time', 100 / 0.78),
            ('vsphere6-instances', '1 VM', 'more time', 100 / 1.12),
            ('vsphere6-data-size', '30x', 'less', 94),
            ('dell-six-parameters', 'memory 10 % over', 'more', 36),
            ('dell-six-parameters', 'disk pinning', 'percent', 94),
            ('amd-tuning-steps', 'reduce side (3.1.8)', 'factor', 300),
        ):
            self.assertAlmostEqual(rate, rates[name, variant, change])

    def test_each_variant_is_possible_on_the_hosts_of_a_paper(self) -> None:
        options = conf.load()
        for study in definition.list_studies():
            impossible = set.intersection(
                *(
                    set(
                        study_run.find_impossible(
                            *(None, study, host, 'kvm', options)
                        )
                    )
                    for host in host_profiles.list_paths()
                )
            )
            self.assertEqual(set(), impossible, study.name)

    def test_dell_varies_all_six_parameters(self) -> None:
        study = definition.load('dell-six-parameters')
        names = {
            name
            for claim in study.claims
            for name in (claim.variant, claim.against)
        }
        targets = [
            variant.target
            for variant in study.variants
            if variant.name in names
            and isinstance(variant.target, Configuration)
        ]
        for item in fields(Configuration):
            values = {getattr(target, item.name) for target in targets}
            self.assertGreater(len(values), 1, item.name)

    def test_rules_are_those_of_the_sentences(self) -> None:
        """What is not faster may be slower, and the other way round."""
        for name, text, rate in (
            ('amd-copy-phase', 'not faster', 80),
            ('amd-compression', 'not slower', 125),
            (
                'hve-replica-placement',
                'cost 10 % of the throughput at most',
                125,
            ),
            ('vsphere6-testdfsio', 'does not read two replicas slower', 125),
        ):
            (claim,) = [
                claim
                for claim in definition.load(name).claims
                if text in claim.text
            ]
            verdict = claim.rule.judge_interval(rate - 1, rate + 1)
            self.assertEqual(verdicts.HOLDS, verdict, claim.text)
            verdict = claim.rule.judge_interval(
                *(10000 / rate - 1, 10000 / rate + 1)
            )
            self.assertEqual(verdicts.FAILS, verdict, claim.text)

    def test_tables_and_figures_are_covered(self) -> None:
        figures = paper_figures.load_figures()
        printed = {
            (paper, source)
            for paper, source in (
                *((item.paper, item.source) for item in figures.all_tables),
                *((item.paper, item.source) for item in figures.all_figures),
                *(
                    (item.paper, item.source)
                    for item in figures.without_numbers
                ),
            )
            if 'Table' in source or 'Figure' in source
        }
        reasoned = {
            (item.paper, item.source)
            for item in definition.list_uncovered()
            if item.reason
        }
        covered = {
            (study.paper, source)
            for study in definition.list_studies()
            for source in study.covers
        }
        self.assertEqual(set(), printed - covered - reasoned)
        self.assertEqual(set(), covered & reasoned)

    def test_files_belong_to_the_package(self) -> None:
        names = [path.stem for path in share.STUDIES.glob('*.yaml')]
        self.assertIn('vsphere6-instances', names)
        self.assertEqual(
            sorted(names),
            [study.name for study in definition.list_studies()],
        )
